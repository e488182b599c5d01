//! The one writer: takes all writes that wait, runs them as one transaction, each in its own savepoint,
//! and answers after the one commit. A failing one rolls back alone.

use super::Run;
use crate::error::ApiError;
use crate::hub::Hub;
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use teamlamp_clock::Clock;
use teamlamp_wire::Millis;
use teamlamp_wire::id::{CredentialId, MachineId, TeamId};
use teamlamp_wire::link::ClosingReason;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

const BATCH: usize = 256;

/// What others are woken for after the commit. A wake-up may be lost or doubled without harm: who is
/// woken reads the tables.
#[derive(Debug, Default)]
pub struct Effects {
    /// Teams with new events.
    pub events: BTreeSet<TeamId>,
    /// Teams in which what someone may do has changed.
    pub access: BTreeSet<TeamId>,
    /// Credentials that ended.
    pub credentials: BTreeSet<CredentialId>,
    /// Teams with new presence transitions, or with a moment at which time will make one.
    pub presence: BTreeSet<TeamId>,
    /// Links that are to be closed, and why.
    pub close_links: BTreeMap<MachineId, ClosingReason>,
    /// Machines that have something new to be told over their link.
    pub tell_links: BTreeSet<MachineId>,
}

impl Effects {
    fn merge(&mut self, other: Self) {
        self.events.extend(other.events);
        self.access.extend(other.access);
        self.credentials.extend(other.credentials);
        self.presence.extend(other.presence);
        self.close_links.extend(other.close_links);
        self.tell_links.extend(other.tell_links);
    }
}

/// One change's transaction. It derefs to the connection, for SQL.
#[derive(Debug)]
pub struct Tx<'a> {
    connection: &'a Connection,
    /// The server's time at this transaction.
    pub now_ms: Millis,
    effects: RefCell<Effects>,
}

impl Tx<'_> {
    /// Notes what to wake after the commit.
    pub fn after_commit(&self, note: impl FnOnce(&mut Effects)) {
        note(&mut self.effects.borrow_mut());
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection
    }
}

pub(super) trait Job: Send {
    /// Does the work; false where it must be rolled back.
    fn run(&mut self, tx: &Tx<'_>) -> bool;
    /// Answers: with the work's own result, or with why the commit failed.
    fn finish(self: Box<Self>, commit: Result<(), ApiError>);
}

pub(super) struct Typed<T, F> {
    change: Option<F>,
    result: Option<Result<T, ApiError>>,
    reply: oneshot::Sender<Result<T, ApiError>>,
}

impl<T, F> Typed<T, F> {
    pub(super) fn new(change: F, reply: oneshot::Sender<Result<T, ApiError>>) -> Self {
        Self { change: Some(change), result: None, reply }
    }
}

impl<T, F> Job for Typed<T, F>
where
    T: Send,
    F: FnOnce(&Tx<'_>) -> Result<T, ApiError> + Send,
{
    fn run(&mut self, tx: &Tx<'_>) -> bool {
        let Some(change) = self.change.take() else { return false };
        // One change that panics must not take the others of its batch, or the writer, with it.
        let result = catch_unwind(AssertUnwindSafe(|| change(tx)))
            .unwrap_or_else(|_| Err(ApiError::internal("a change panicked")));
        let ok = result.is_ok();
        self.result = Some(result);
        ok
    }

    fn finish(self: Box<Self>, commit: Result<(), ApiError>) {
        let result = match (self.result, commit) {
            (Some(Err(own)), _) => Err(own),
            (_, Err(commit)) => Err(commit),
            (Some(ok), Ok(())) => ok,
            (None, Ok(())) => Err(ApiError::internal("a change did not run")),
        };
        // Whoever asked may have gone: the change stands all the same.
        let _ = self.reply.send(result);
    }
}

pub(super) async fn run(
    connection: Connection,
    run: Run,
    clock: Clock,
    hub: Hub,
    mut waiting: mpsc::Receiver<Box<dyn Job>>,
    end: CancellationToken,
) {
    let mut connection = Some(connection);
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            count = waiting.recv_many(&mut batch, BATCH) => if count == 0 { return },
            () = end.cancelled() => {
                // What was sent before the end is still written; nothing new is taken.
                waiting.close();
                if waiting.recv_many(&mut batch, BATCH).await == 0 { return }
            }
        }
        let Some(taken) = connection.take() else { return };
        let now_ms = clock.now_ms();
        let done = match run {
            Run::Inline => Ok(commit(taken, batch, now_ms)),
            Run::Blocking => tokio::task::spawn_blocking(move || commit(taken, batch, now_ms)).await,
        };
        match done {
            Ok(done) => {
                connection = Some(done.connection);
                hub.wake(done.effects);
                for (job, result) in done.jobs {
                    job.finish(result);
                }
            }
            Err(fault) => {
                tracing::error!(%fault, "the store's writer failed for good");
                return;
            }
        }
    }
}

struct Done {
    connection: Connection,
    effects: Effects,
    jobs: Vec<(Box<dyn Job>, Result<(), ApiError>)>,
}

fn commit(connection: Connection, batch: Vec<Box<dyn Job>>, now_ms: Millis) -> Done {
    let mut effects = Effects::default();
    let mut jobs = Vec::with_capacity(batch.len());
    let outcome = (|| -> Result<(), ApiError> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(())
    })();
    let mut failed = outcome.err();
    for mut job in batch {
        if failed.is_none() {
            match one(&connection, job.as_mut(), now_ms) {
                Ok(own) => effects.merge(own),
                Err(fault) => failed = Some(fault),
            }
        }
        jobs.push(job);
    }
    if failed.is_none() {
        failed = connection.execute_batch("COMMIT").err().map(ApiError::from);
    }
    if failed.is_some() {
        effects = Effects::default();
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
    }
    let result = failed.map_or(Ok(()), Err);
    Done { connection, effects, jobs: jobs.into_iter().map(|job| (job, result.clone())).collect() }
}

/// Runs one job in its savepoint; an error here is the whole batch's.
fn one(connection: &Connection, job: &mut dyn Job, now_ms: Millis) -> Result<Effects, ApiError> {
    connection.execute_batch("SAVEPOINT change")?;
    let tx = Tx { connection, now_ms, effects: RefCell::default() };
    if job.run(&tx) {
        connection.execute_batch("RELEASE change")?;
        return Ok(tx.effects.into_inner());
    }
    // A full disk may already have rolled the whole transaction back, savepoints and all.
    if connection.is_autocommit() {
        return Err(ApiError::unavailable("The server could not write: try again.", "the transaction was rolled back"));
    }
    connection.execute_batch("ROLLBACK TO change; RELEASE change")?;
    Ok(Effects::default())
}
