//! The one writer: takes all writes that wait, runs them as one transaction, each in its own savepoint,
//! and answers after the one commit. A failing one rolls back alone; one that loses the transaction (a full
//! disk does) takes those before it with it, and none behind it.

use super::Run;
use super::fault::{Fault, Faults};
use super::wal::Wal;
use super::written::Written;
use crate::error::ApiError;
use crate::hub::Hub;
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use teamlamp_clock::Clock;
use teamlamp_wire::Millis;
use teamlamp_wire::id::{CredentialId, MachineId, TeamId};
use teamlamp_wire::link::ClosingReason;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

const BATCH: usize = 256;
/// How many changes after a lost transaction have one of their own each.
const ALONE: usize = 64;

/// What others are woken for after the commit. A wake-up may be lost or doubled without harm: who is
/// woken reads the tables.
#[derive(Debug, Default)]
pub struct Effects {
    /// Teams with new events.
    pub events: BTreeSet<TeamId>,
    /// Teams in which what someone may do has changed.
    pub access: BTreeSet<TeamId>,
    /// Whether what is known of who asks may have changed: tokens, ends, revocations, machines' names.
    pub callers: bool,
    /// Credentials that ended.
    pub credentials: BTreeSet<CredentialId>,
    /// Teams with new presence transitions, or with a moment at which time will make one.
    pub presence: BTreeSet<TeamId>,
    /// Whether a 'mine' has a moment at which it ends by itself.
    pub attention: bool,
    /// Links that are to be closed, and why.
    pub close_links: BTreeMap<MachineId, ClosingReason>,
    /// Machines that have something new to be told over their link.
    pub tell_links: BTreeSet<MachineId>,
    /// How many events were written.
    pub appended: u64,
}

impl Effects {
    fn merge(&mut self, other: Self) {
        self.events.extend(other.events);
        self.access.extend(other.access);
        self.callers |= other.callers;
        self.credentials.extend(other.credentials);
        self.presence.extend(other.presence);
        self.attention |= other.attention;
        self.close_links.extend(other.close_links);
        self.tell_links.extend(other.tell_links);
        self.appended += other.appended;
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
    /// Where the work met a fault of the store: tells it, and says which.
    fn meet(&mut self, faults: &Faults) -> Option<Fault>;
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

    fn meet(&mut self, faults: &Faults) -> Option<Fault> {
        let Some(Err(own)) = &mut self.result else { return None };
        own.fault?;
        *own = faults.met(own.clone(), true);
        own.fault
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

/// What the writer works with.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) wal: Wal,
    /// How many changes are still to have a transaction of their own.
    pub(super) alone: usize,
    pub(super) run: Run,
    pub(super) clock: Clock,
    pub(super) hub: Hub,
    pub(super) written: Arc<Written>,
    pub(super) faults: Arc<Faults>,
}

/// Leaves one whole file behind.
fn close(connection: &Connection) {
    if let Err(fault) = connection.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);") {
        tracing::warn!(%fault, "the database was closed without its last copy of the log");
    }
}

pub(super) async fn run(writer: Writer, mut waiting: mpsc::Receiver<Box<dyn Job>>, end: CancellationToken) {
    let (run, mut kept) = (writer.run, Some(writer));
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            count = waiting.recv_many(&mut batch, BATCH) => if count == 0 { break },
            () = end.cancelled() => {
                // What was sent before the end is still written; nothing new is taken.
                waiting.close();
                if waiting.recv_many(&mut batch, BATCH).await == 0 { break }
            }
        }
        let Some(mut writer) = kept.take() else { return };
        let work = move || {
            // Whatever goes wrong with one batch ends there: without its writer the server is none.
            let whole = catch_unwind(AssertUnwindSafe(|| writer.batch(batch.into())));
            if whole.is_err() {
                tracing::error!("a batch of changes panicked: the writer goes on");
                writer.roll_back();
            }
            if writer.wal.tend(&writer.connection) {
                writer.written.checkpoints.add(1);
            }
            writer
        };
        let done = match run {
            Run::Inline => Ok(work()),
            #[expect(clippy::disallowed_methods, reason = "one transaction, awaited here")]
            Run::Blocking => tokio::task::spawn_blocking(work).await,
        };
        match done {
            Ok(writer) => kept = Some(writer),
            Err(fault) => {
                tracing::error!(%fault, "the store's writer failed for good");
                return;
            }
        }
    }
    if let Some(writer) = kept {
        close(&writer.connection);
    }
}

impl Writer {
    /// All that waited, in as few transactions as can be.
    fn batch(&mut self, mut batch: VecDeque<Box<dyn Job>>) {
        while !batch.is_empty() {
            self.transaction(&mut batch);
        }
    }

    /// One transaction of jobs from the front, and the answers. A job that loses it is its last: those
    /// behind it were not run, and stay.
    fn transaction(&mut self, batch: &mut VecDeque<Box<dyn Job>>) {
        let (rows_before, begun) = (self.connection.total_changes(), self.clock.monotonic());
        let mut jobs = Vec::with_capacity(batch.len());
        let done = match control(&self.connection, "BEGIN IMMEDIATE") {
            Ok(()) => {
                let done = self.commit(batch, &mut jobs);
                self.alone = if done.is_err() { ALONE } else { self.alone.saturating_sub(jobs.len()) };
                done
            }
            // Each would wait in vain for as long as this one did.
            Err(fault) => {
                jobs.extend(batch.drain(..));
                Err(fault)
            }
        };
        let result = match done {
            Ok(effects) => {
                self.faults.wrote();
                let rows = self.connection.total_changes() - rows_before;
                self.written.committed(jobs.len(), rows, effects.appended, begun.elapsed());
                // Woken before it is answered: who did the change finds its effects begun.
                self.hub.wake(effects);
                Ok(())
            }
            Err(fault) => {
                self.roll_back();
                self.written.failures.add(1);
                Err(self.faults.met(fault, true))
            }
        };
        for job in jobs {
            job.finish(result.clone());
        }
    }

    /// Runs jobs, each of which is then in `jobs`, until one loses the transaction, and commits.
    fn commit(
        &self,
        batch: &mut VecDeque<Box<dyn Job>>,
        jobs: &mut Vec<Box<dyn Job>>,
    ) -> Result<Effects, ApiError> {
        let (now_ms, most) = (self.clock.now_ms(), if self.alone > 0 { 1 } else { BATCH });
        let mut effects = Effects::default();
        while jobs.len() < most
            && let Some(mut job) = batch.pop_front()
        {
            let ran = self.one(job.as_mut(), now_ms);
            jobs.push(job);
            effects.merge(ran?);
        }
        control(&self.connection, "COMMIT")?;
        Ok(effects)
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    /// Runs one job in its savepoint; an error here is the whole transaction's.
    fn one(&self, job: &mut dyn Job, now_ms: Millis) -> Result<Effects, ApiError> {
        let connection = &self.connection;
        control(connection, "SAVEPOINT change")?;
        let tx = Tx { connection, now_ms, effects: RefCell::default() };
        if job.run(&tx) {
            control(connection, "RELEASE change")?;
            return Ok(tx.effects.into_inner());
        }
        let fault = job.meet(&self.faults);
        // A full disk may already have rolled the whole transaction back, savepoints and all.
        if connection.is_autocommit() {
            let cause = "the transaction was rolled back";
            let told = || ApiError::unavailable("The server could not write: try again.", cause);
            return Err(fault.map_or_else(told, |fault| fault.refusal(cause)));
        }
        control(connection, "ROLLBACK TO change")?;
        control(connection, "RELEASE change")?;
        Ok(Effects::default())
    }
}

/// Runs a statement that only moves the transaction.
fn control(connection: &Connection, sql: &str) -> Result<(), ApiError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
