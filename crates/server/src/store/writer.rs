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
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teamlamp_clock::Clock;
use teamlamp_wire::Millis;
use teamlamp_wire::id::{CredentialId, MachineId, TeamId};
use teamlamp_wire::link::ClosingReason;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

const BATCH: usize = 256;
/// How much the write-ahead log grows before it is copied into the database.
const WAL_STEP: u64 = 4 << 20;

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

/// What the writer did since its start.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) commits: AtomicU64,
    pub(super) rows: AtomicU64,
}

/// What the writer works with.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) wal: Wal,
    pub(super) run: Run,
    pub(super) clock: Clock,
    pub(super) hub: Hub,
    pub(super) written: Arc<Written>,
}

/// The write-ahead log: copied into the database between batches, once it has grown enough, so that no
/// request waits for that and none is unlucky.
pub(super) struct Wal {
    path: PathBuf,
    /// The size at which it is copied next.
    next: u64,
}

impl Wal {
    pub(super) fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self { path: path.into(), next: WAL_STEP }
    }

    /// Copies the log where it has grown. A reader that still needs it leaves some of it; then it is
    /// tried again when it has grown once more.
    fn tend(&mut self, connection: &Connection) {
        let size = std::fs::metadata(&self.path).map_or(0, |m| m.len());
        if size < self.next {
            return;
        }
        let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        // Once all of it is copied it is written from its beginning again: its size stays.
        self.next = match copied {
            Ok((pages, done)) if pages == done => size.max(WAL_STEP),
            _ => size + WAL_STEP,
        };
    }
}

/// Leaves one whole file behind.
fn close(connection: Connection) {
    if let Err(fault) = connection.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);") {
        tracing::warn!(%fault, "the database was closed without its last copy of the log");
    }
}

pub(super) async fn run(writer: Writer, mut waiting: mpsc::Receiver<Box<dyn Job>>, end: CancellationToken) {
    let Writer { connection, wal, run, clock, hub, written } = writer;
    let mut kept = Some((connection, wal));
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
        let Some((connection, mut wal)) = kept.take() else { return };
        let now_ms = clock.now_ms();
        let answer = {
            let (hub, written) = (hub.clone(), written.clone());
            move |done: Done| {
                if done.committed {
                    written.commits.fetch_add(1, Ordering::Relaxed);
                    written.rows.fetch_add(done.rows, Ordering::Relaxed);
                }
                // Woken before it is answered: who did the change finds its effects begun.
                hub.wake(done.effects);
                for (job, result) in done.jobs {
                    job.finish(result);
                }
            }
        };
        let work = move || {
            answer(commit(&connection, batch, now_ms));
            wal.tend(&connection);
            (connection, wal)
        };
        let done = match run {
            Run::Inline => Ok(work()),
            #[expect(clippy::disallowed_methods, reason = "one transaction, awaited here")]
            Run::Blocking => tokio::task::spawn_blocking(work).await,
        };
        match done {
            Ok(done) => kept = Some(done),
            Err(fault) => {
                tracing::error!(%fault, "the store's writer failed for good");
                return;
            }
        }
    }
    if let Some((connection, _)) = kept {
        close(connection);
    }
}

struct Done {
    committed: bool,
    rows: u64,
    effects: Effects,
    jobs: Vec<(Box<dyn Job>, Result<(), ApiError>)>,
}

fn commit(connection: &Connection, batch: Vec<Box<dyn Job>>, now_ms: Millis) -> Done {
    let mut effects = Effects::default();
    let rows_before = connection.total_changes();
    let mut jobs = Vec::with_capacity(batch.len());
    let mut failed = control(connection, "BEGIN IMMEDIATE").err();
    for mut job in batch {
        if failed.is_none() {
            match one(connection, job.as_mut(), now_ms) {
                Ok(own) => effects.merge(own),
                Err(fault) => failed = Some(fault),
            }
        }
        jobs.push(job);
    }
    if failed.is_none() {
        failed = control(connection, "COMMIT").err();
    }
    if failed.is_some() {
        effects = Effects::default();
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
    }
    let committed = failed.is_none();
    let result = failed.map_or(Ok(()), Err);
    let rows = connection.total_changes() - rows_before;
    Done { committed, rows, effects, jobs: jobs.into_iter().map(|job| (job, result.clone())).collect() }
}

/// Runs a statement that only moves the transaction.
fn control(connection: &Connection, sql: &str) -> Result<(), ApiError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Runs one job in its savepoint; an error here is the whole batch's.
fn one(connection: &Connection, job: &mut dyn Job, now_ms: Millis) -> Result<Effects, ApiError> {
    control(connection, "SAVEPOINT change")?;
    let tx = Tx { connection, now_ms, effects: RefCell::default() };
    if job.run(&tx) {
        control(connection, "RELEASE change")?;
        return Ok(tx.effects.into_inner());
    }
    // A full disk may already have rolled the whole transaction back, savepoints and all.
    if connection.is_autocommit() {
        return Err(ApiError::unavailable(
            "The server could not write: try again.",
            "the transaction was rolled back",
        ));
    }
    control(connection, "ROLLBACK TO change")?;
    control(connection, "RELEASE change")?;
    Ok(Effects::default())
}
