//! The database: one writer that commits in groups, and a pool of readers. SQL lives here and
//! nowhere else, one file for each domain; this file is only how transactions run.

pub mod attention;
pub mod audit;
pub mod backfill;
pub mod copy;
pub mod credentials;
pub mod events;
mod fault;
pub mod heartbeats;
pub mod history;
pub mod idempotency;
pub mod invitations;
pub mod machines;
pub mod members;
pub mod meta;
mod migrate;
pub mod notes;
#[cfg(test)]
mod plans;
pub mod presence;
pub mod sessions;
pub mod stats;
pub mod streams;
pub mod teams;
pub mod upkeep;
mod wal;
mod writer;
mod written;

pub use fault::{Fault, Faults};
pub use migrate::OpenError;
pub use writer::{Effects, Tx};
pub use written::Written;

use crate::error::ApiError;
use crate::hub::Hub;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_clock::{Clock, Tasks};
use tokio::sync::{Semaphore, mpsc, oneshot};

const READERS: usize = 6;
const WAITING_WRITES: usize = 4096;

/// Where transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// On the blocking pool: production.
    Blocking,
    /// On the calling task: the simulation, whose paused time would jump past work on another thread.
    Inline,
}

/// The one database of a server.
#[derive(Clone, Debug)]
pub struct Store {
    run: Run,
    path: PathBuf,
    writes: mpsc::Sender<Box<dyn writer::Job>>,
    written: Arc<Written>,
    faults: Arc<Faults>,
    readers: Arc<Mutex<Vec<Connection>>>,
    places: Arc<Semaphore>,
}

impl Store {
    /// Opens (or makes) the database at `path`, brings its schema up to date and starts the writer.
    ///
    /// # Errors
    /// A folder that can't be written, a newer or damaged database, one that another server holds.
    pub fn open(path: &Path, run: Run, clock: Clock, hub: Hub, tasks: &Tasks) -> Result<Self, OpenError> {
        let mut connection = migrate::open(path, clock.now_ms())?;
        let wal = wal::Wal::of(&mut connection).map_err(|error| migrate::explain(path, &error))?;
        let (writes, waiting) = mpsc::channel(WAITING_WRITES);
        let (written, faults) = (Arc::new(Written::default()), Arc::new(Faults::of(path)));
        let writer = writer::Writer {
            connection,
            wal,
            alone: 0,
            run,
            clock,
            hub,
            written: written.clone(),
            faults: faults.clone(),
        };
        tasks.spawn_to_end("store writer", writer::run(writer, waiting, tasks.token().clone()));
        Ok(Self {
            run,
            path: path.to_owned(),
            writes,
            written,
            faults,
            readers: Arc::default(),
            places: Arc::new(Semaphore::new(READERS)),
        })
    }

    /// Runs `change` in a transaction of its own and answers after it is on disk. What it returns as an
    /// error rolls all of it back.
    ///
    /// A change that finds the disk full may take the transaction with it, and then those that were run
    /// in it before: they are answered `unavailable`, since nothing of them stands. Those behind it are run
    /// in another, and for a while each change has a transaction of its own: so what has no room does not
    /// keep the deletes away that would make some.
    ///
    /// # Errors
    /// What `change` returns; `unavailable` where the commit fails or the server ends.
    pub async fn write<T, F>(&self, change: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let ended = || ApiError::unavailable("The server is shutting down: try again.", "the writer ended");
        self.writes.send(Box::new(writer::Typed::new(change, reply))).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }

    /// Runs `query` on one snapshot of the database. It must be short: a long read holds the WAL.
    ///
    /// # Errors
    /// What `query` returns; a database that can't be opened.
    pub async fn read<T, F>(&self, query: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ApiError> + Send + 'static,
    {
        let place = self.places.clone().acquire_owned().await.map_err(ApiError::internal)?;
        let (readers, path) = (self.readers.clone(), self.path.clone());
        let work = move || {
            // Held as long as it runs, also where nobody waits for it any more.
            let _place = place;
            let idle = readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = idle.map_or_else(|| open_reader(&path), Ok)?;
            connection.execute_batch("BEGIN")?;
            let result = query(&connection);
            // A connection whose transaction can't be ended is dropped rather than kept.
            if connection.execute_batch("ROLLBACK").is_ok() {
                readers.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            result
        };
        self.blocking(work).await?.map_err(|fault| self.faults.met(fault, false))
    }

    /// Runs work that blocks where this store's transactions run.
    async fn blocking<T, F>(&self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match self.run {
            Run::Inline => Ok(work()),
            #[expect(clippy::disallowed_methods, reason = "one reading, awaited here")]
            Run::Blocking => tokio::task::spawn_blocking(work).await.map_err(ApiError::internal),
        }
    }

    /// Copies what the log holds into the database, on a connection of its own; readers and the writer go
    /// on meanwhile. A log that a reader kept from being used again, and that so grew over its bound, is
    /// cut off.
    ///
    /// # Errors
    /// What the store says.
    pub async fn checkpoint(&self) -> Result<(), ApiError> {
        let path = self.path.clone();
        self.blocking(move || copy::checkpoint(&path)).await?.map_err(|fault| self.faults.met(fault, false))
    }

    /// Where a damaged page was met: reads the whole database, to find out whether that is still so.
    /// Whether it is.
    ///
    /// # Errors
    /// What the store says.
    pub async fn look_for_damage(&self) -> Result<bool, ApiError> {
        if !self.faults.is_corrupt() {
            return Ok(false);
        }
        let path = self.path.clone();
        if self.blocking(move || copy::is_sound(&path)).await?? {
            self.faults.is_sound();
        }
        Ok(self.faults.is_corrupt())
    }

    /// What keeps the store from working, as far as its last use says.
    pub fn fault(&self) -> Option<Fault> {
        self.faults.current()
    }

    /// What the writer did, in numbers.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// How many changes wait for the writer.
    pub fn waiting(&self) -> usize {
        self.writes.max_capacity() - self.writes.capacity()
    }

    /// The bytes of the write-ahead log.
    pub fn log_bytes(&self) -> u64 {
        copy::log_bytes(&self.path)
    }

    /// How many transactions were committed: fewer than changes, since those that wait are committed
    /// together.
    pub fn commits(&self) -> u64 {
        self.written.commits.get()
    }

    /// How many rows were inserted, changed or deleted since the start: what a benchmark counts.
    pub fn rows_written(&self) -> u64 {
        self.written.rows.get()
    }

    /// How often the write-ahead log was copied into the database since the start.
    pub fn checkpoints(&self) -> u64 {
        self.written.checkpoints.get()
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn open_reader(path: &Path) -> Result<Connection, ApiError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection
        .execute_batch("PRAGMA busy_timeout = 5000; PRAGMA query_only = ON; PRAGMA cache_size = -8192;")?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}
