//! Opening the database: checks, the ordered migrations, a copy before each, a newer one refused.

use crate::folder::{make_private, private_file};
use rusqlite::{Connection, OptionalExtension};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Every migration, in order; never edited, only added to. Each is constant in cost: what old rows need
/// is walked by maintenance.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_initial.sql"),
    include_str!("../../migrations/0002_attention.sql"),
    include_str!("../../migrations/0003_event_aliases.sql"),
    include_str!("../../migrations/0004_upkeep.sql"),
];

/// How many copies from before migrations are kept.
const COPIES_KEPT: usize = 2;

/// Why a database can't be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder or file can't be made or written.
    #[error("the database {path} can't be opened for writing: {cause}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// Another server has it open.
    #[error("the database {path} is in use by another server: stop that one, or name another --data")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a newer program.
    #[error(
        "the database {path} was written by a newer Teamlamp (schema {found}, this program knows {known}): update this program"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that this program knows.
        known: i64,
    },
    /// It is no database, or a damaged one.
    #[error("the file {path} is not a sound database ({cause}): restore a backup, or name another --data")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
}

pub(super) fn open(path: &Path, now_ms: i64) -> Result<Connection, OpenError> {
    let fault = |error: rusqlite::Error| explain(path, &error);
    let connection = Connection::open(path).map_err(fault)?;
    connection.set_prepared_statement_cache_capacity(256);
    connection.execute_batch("PRAGMA busy_timeout = 5000").map_err(fault)?;
    // A database that is not ours to serve is not touched: the log's mode is written into it.
    refuse_strange(&connection, path, known(MIGRATIONS))?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA cache_size = -32768;",
        )
        .map_err(fault)?;
    migrate(&connection, path, MIGRATIONS, now_ms)?;
    Ok(connection)
}

fn known(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

fn version(connection: &Connection, path: &Path) -> Result<i64, OpenError> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(|error| explain(path, &error))
}

/// Refuses a newer database and another program's; the schema.
pub(super) fn refuse_strange(connection: &Connection, path: &Path, known: i64) -> Result<i64, OpenError> {
    let found = version(connection, path)?;
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    let table: Option<String> = connection
        .query_row("SELECT name FROM sqlite_schema LIMIT 1", [], |row| row.get(0))
        .optional()
        .map_err(|error| explain(path, &error))?;
    if found == 0 && table.is_some() {
        let cause = "it belongs to another program".to_owned();
        return Err(OpenError::Damaged { path: path.to_owned(), cause });
    }
    Ok(found)
}

/// The newest schema that this program knows.
pub(super) fn newest() -> i64 {
    known(MIGRATIONS)
}

fn migrate(connection: &Connection, path: &Path, migrations: &[&str], now_ms: i64) -> Result<(), OpenError> {
    let found = version(connection, path)?;
    if found > 0 && found < known(migrations) {
        keep_copy(connection, path, found, now_ms).map_err(|error| explain(path, &error))?;
    }
    for (number, sql) in (1..).zip(migrations).skip(usize::try_from(found).unwrap_or(0)) {
        let step = format!("BEGIN IMMEDIATE; {sql}; PRAGMA user_version = {number}; COMMIT;");
        connection.execute_batch(&step).map_err(|error| {
            let _ = connection.execute_batch("ROLLBACK");
            explain(path, &error)
        })?;
    }
    Ok(())
}

/// A copy of the database as it was, beside it; the last two stay.
fn keep_copy(connection: &Connection, path: &Path, from: i64, now_ms: i64) -> Result<(), rusqlite::Error> {
    let copy = path.with_file_name(format!("before-migration-{from}-{now_ms}.db"));
    let half = copy.with_extension("half");
    // SQLite would make the file with the mode of any other: this one holds what the database holds.
    let made = private_file().write(true).truncate(true).open(&half).and_then(|_| make_private(&half, 0o600));
    made.map_err(|error| cannot_keep(&error))?;
    connection.execute("VACUUM INTO ?1", [half.to_string_lossy()])?;
    // Whole and on disk, or not there: a copy that was cut off must not push out one that was not.
    let kept =
        File::open(&half).and_then(|file| file.sync_all()).and_then(|()| std::fs::rename(&half, &copy));
    kept.map_err(|error| cannot_keep(&error))?;
    let Some(folder) = path.parent().and_then(|p| std::fs::read_dir(p).ok()) else { return Ok(()) };
    let mut copies: Vec<PathBuf> = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|end| end == "db"))
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("before-migration-")))
        .collect();
    copies.sort_by_key(|p| p.metadata().and_then(|m| m.modified()).ok());
    for old in copies.iter().rev().skip(COPIES_KEPT) {
        if let Err(error) = std::fs::remove_file(old) {
            tracing::warn!(path = %old.display(), %error, "an old copy could not be removed");
        }
    }
    Ok(())
}

fn cannot_keep(error: &std::io::Error) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
    rusqlite::Error::SqliteFailure(code, Some(format!("no copy can be kept before the migration: {error}")))
}

pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode as Sqlite;
    let (path, cause) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(Sqlite::DatabaseBusy | Sqlite::DatabaseLocked) => OpenError::InUse { path },
        Some(Sqlite::NotADatabase | Sqlite::DatabaseCorrupt) => OpenError::Damaged { path, cause },
        _ => OpenError::Unwritable { path, cause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_database_has_the_newest_schema_and_opens_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("teamlamp.db");
        drop(open(&path, 1).unwrap());
        let again = open(&path, 2).unwrap();
        let version: i64 = again.query_row("PRAGMA user_version", [], |r| r.get(0)).unwrap();
        assert_eq!(version, MIGRATIONS.len() as i64);
        let mode: String = again.query_row("PRAGMA journal_mode", [], |r| r.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn a_newer_a_foreign_and_a_damaged_database_are_refused_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let newer = folder.path().join("newer.db");
        Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 999").unwrap();
        assert!(matches!(open(&newer, 1), Err(OpenError::Newer { found: 999, .. })));
        let foreign = folder.path().join("foreign.db");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
        assert!(matches!(open(&foreign, 1), Err(OpenError::Damaged { .. })));
        let damaged = folder.path().join("damaged.db");
        std::fs::write(&damaged, "not a database at all, but long enough to be read as one".repeat(40))
            .unwrap();
        assert!(matches!(open(&damaged, 1), Err(OpenError::Damaged { .. })));
        let nowhere = folder.path().join("no/such/folder.db");
        assert!(matches!(open(&nowhere, 1), Err(OpenError::Unwritable { .. })));
    }

    #[test]
    fn a_migration_keeps_two_copies_and_a_failing_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("teamlamp.db");
        let connection = open(&path, 1).unwrap();
        let mut steps: Vec<String> = MIGRATIONS.iter().map(|s| (*s).to_owned()).collect();
        for number in 0..4 {
            steps.push(format!("CREATE TABLE later_{number} (a INTEGER) STRICT"));
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            migrate(&connection, &path, &steps, 10 + number).unwrap();
        }
        let copies = || {
            let names = std::fs::read_dir(folder.path()).unwrap();
            names.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("before-")).count()
        };
        assert_eq!(copies(), 2);
        let mut broken: Vec<&str> = steps.iter().map(String::as_str).collect();
        broken.push("CREATE TABLE half (a); CREATE TABLE half (a)");
        assert!(migrate(&connection, &path, &broken, 99).is_err());
        let half: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'half'", [], |r| r.get(0))
            .unwrap();
        assert_eq!(half, 0);
    }
}
