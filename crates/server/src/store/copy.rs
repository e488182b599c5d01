//! Whole-database work on connections of its own, beside the writer and the readers or where no server runs:
//! checkpoints, looking for damage, copies out and back.

use super::migrate;
use crate::error::ApiError;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;

/// The bound of the log's file; SQLite cuts it off to this where it begins again.
pub(super) const LOG_BYTES: u64 = 64 << 20;
/// How long a copy waits for a lock that another program holds.
const PATIENCE: &str = "PRAGMA busy_timeout = 5000";

/// A small private file of the data folder, which a copy carries.
#[derive(Clone, PartialEq, Eq)]
pub struct Carried {
    /// Its name in the folder.
    pub name: String,
    /// What it holds: keys.
    pub bytes: Vec<u8>,
}

/// What a file holds is a secret.
impl std::fmt::Debug for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carried").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a copy says of itself.
#[derive(Debug)]
pub struct Copied {
    /// Its schema.
    pub schema: i64,
    /// When it was made; `None` of a database that is no backup of ours (one from before a migration).
    pub made_at: Option<Millis>,
    /// The files that it carries.
    pub files: Vec<Carried>,
}

/// The bytes of a database's log.
pub fn log_bytes(database: &Path) -> u64 {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(PathBuf::from(log)).map_or(0, |file| file.len())
}

fn open(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.execute_batch(PATIENCE)?;
    Ok(connection)
}

/// Copies the log into the database as far as readers let it, and cuts it off where it is over its bound.
pub(super) fn checkpoint(database: &Path) -> Result<(), ApiError> {
    let connection = open(database)?;
    let done = |mode: &str| {
        connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok(row.get::<_, i64>(1)? == row.get::<_, i64>(2)?)
        })
    };
    if done("PASSIVE")? && log_bytes(database) > LOG_BYTES {
        // Waits for who writes; the writer waits for it in turn, no longer than an fsync takes.
        done("TRUNCATE")?;
    }
    Ok(())
}

/// Whether no page of a database is damaged.
pub(super) fn is_sound(database: &Path) -> Result<bool, ApiError> {
    let looked = open(database).and_then(|db| {
        db.query_row("PRAGMA quick_check(1)", [], |row| Ok(row.get_ref(0)?.as_str().is_ok_and(|t| t == "ok")))
    });
    match looked {
        Err(error) if super::Fault::of(&error) == Some(super::Fault::Corrupt) => Ok(false),
        looked => Ok(looked?),
    }
}

/// What `integrity_check` and `foreign_key_check` say of a database; empty where it is sound.
///
/// # Errors
/// What SQLite says of a file that it can't read.
pub fn complaints(database: &Path) -> rusqlite::Result<Vec<String>> {
    match looked_through(database) {
        // Too damaged to be looked through.
        Err(error) if super::Fault::of(&error) == Some(super::Fault::Corrupt) => Ok(vec![error.to_string()]),
        looked => looked,
    }
}

fn looked_through(database: &Path) -> rusqlite::Result<Vec<String>> {
    let connection = open(database)?;
    let mut check = connection.prepare("PRAGMA integrity_check(20)")?;
    let said: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut complaints: Vec<String> = said.into_iter().filter(|line| line != "ok").collect();
    let mut orphans = connection.prepare("PRAGMA foreign_key_check")?;
    let orphans = orphans.query_map([], |row| row.get::<_, String>(0))?.take(20);
    for table in orphans {
        complaints.push(format!("a row of {} names one that is gone", table?));
    }
    Ok(complaints)
}

/// What a server does at its end, for a database that none holds: what SQLite learned of the tables is kept,
/// and the log is copied in.
///
/// # Errors
/// What SQLite says.
pub fn tidy(database: &Path) -> rusqlite::Result<()> {
    open(database)?.execute_batch("PRAGMA optimize(0x10002); PRAGMA wal_checkpoint(TRUNCATE)")
}

/// Copies a database, whether a server runs on it or not, as of one moment, into the new file `to`, with
/// the files that belong to it.
///
/// # Errors
/// What SQLite says.
pub fn copy_out(from: &Path, to: &Path, files: &[Carried], now_ms: Millis) -> rusqlite::Result<()> {
    let source = open(from)?;
    let mut target = Connection::open(to)?;
    {
        // In one step: it reads one snapshot, so that who writes meanwhile makes it begin again never.
        let copy = Backup::new(&source, &mut target)?;
        while !matches!(copy.step(-1)?, StepResult::Done) {}
    }
    // One file without a log; the last commit is on disk when the connection is closed.
    target.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    target.execute_batch(
        "PRAGMA synchronous = FULL;
         BEGIN IMMEDIATE;
         CREATE TABLE backup_about (made_at INTEGER NOT NULL) STRICT;
         CREATE TABLE backup_files (name TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;",
    )?;
    target.execute("INSERT INTO backup_about VALUES (?1)", [now_ms])?;
    for file in files {
        target.execute("INSERT INTO backup_files VALUES (?1, ?2)", params![file.name, file.bytes])?;
    }
    target.execute_batch("COMMIT")?;
    target.close().map_err(|(_, error)| error)
}

/// Reads what a copy says of itself.
///
/// # Errors
/// [`super::OpenError`] for a file that is no database of ours, a damaged or a newer one.
pub fn read(copy: &Path) -> Result<Copied, super::OpenError> {
    let fault = |error: rusqlite::Error| migrate::explain(copy, &error);
    // Asked by its bytes, so that no log of another database beside it can be taken for its own.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(copy, flags).map_err(fault)?;
    let schema = migrate::refuse_strange(&connection, copy, migrate::newest())?;
    if schema == 0 {
        let cause = "it is empty".to_owned();
        return Err(super::OpenError::Damaged { path: copy.to_owned(), cause });
    }
    let sound: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(fault)?;
    if sound != "ok" {
        return Err(super::OpenError::Damaged { path: copy.to_owned(), cause: sound });
    }
    let read = || -> rusqlite::Result<Copied> {
        let is_backup = "SELECT 1 FROM sqlite_schema WHERE name = 'backup_files'";
        if connection.query_row(is_backup, [], |_| Ok(())).optional()?.is_none() {
            return Ok(Copied { schema, made_at: None, files: Vec::new() });
        }
        let made_at =
            connection.query_row("SELECT made_at FROM backup_about", [], |row| row.get(0)).optional()?;
        let mut files = connection.prepare("SELECT name, bytes FROM backup_files ORDER BY name")?;
        let files = files.query_map([], |row| Ok(Carried { name: row.get(0)?, bytes: row.get(1)? }))?;
        Ok(Copied { schema, made_at, files: files.collect::<Result<_, _>>()? })
    };
    read().map_err(fault)
}

/// Makes a copied file a database to serve: without what it carried, and with a history of its own, so that
/// cursors of the one that it was copied from do not fit it.
///
/// # Errors
/// What SQLite says.
pub fn begin_history(database: &Path, history_id: &str) -> rusqlite::Result<()> {
    let connection = open(database)?;
    connection.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
         BEGIN IMMEDIATE;
         DROP TABLE IF EXISTS backup_about; DROP TABLE IF EXISTS backup_files;",
    )?;
    connection.execute(
        "INSERT INTO meta (name, value) VALUES ('history_id', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1",
        [history_id],
    )?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)
}
