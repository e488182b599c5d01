//! What keeps the store from writing or reading: told from SQLite's codes and, where those say only that
//! input or output failed, from the disk itself. What is wrong now is kept until a write works again.

use crate::error::ApiError;
use rusqlite::ErrorCode as Sqlite;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is wrong with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no room.
    DiskFull,
    /// The file, or its file system, can't be written.
    ReadOnly,
    /// A page of the database is not what was written.
    Corrupt,
    /// Another program holds the database's lock.
    Locked,
    /// The disk fails in another way.
    Io,
}

impl Fault {
    /// Every fault there is.
    pub const ALL: [Self; 5] = [Self::DiskFull, Self::ReadOnly, Self::Corrupt, Self::Locked, Self::Io];

    /// Its word in `details.reason` and in `/metrics`.
    pub fn word(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::ReadOnly => "read_only",
            Self::Corrupt => "corrupt",
            Self::Locked => "locked",
            Self::Io => "io",
        }
    }

    /// What SQLite's error means; `None` where it is no fault of the store.
    pub fn of(error: &rusqlite::Error) -> Option<Self> {
        match error.sqlite_error_code()? {
            Sqlite::DiskFull => Some(Self::DiskFull),
            Sqlite::ReadOnly => Some(Self::ReadOnly),
            Sqlite::DatabaseCorrupt | Sqlite::NotADatabase => Some(Self::Corrupt),
            Sqlite::DatabaseBusy | Sqlite::DatabaseLocked => Some(Self::Locked),
            Sqlite::SystemIoFailure | Sqlite::CannotOpen => Some(Self::Io),
            _ => None,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::DiskFull => "The server's disk is full: its owner must make room. Reading goes on.",
            Self::ReadOnly => {
                "The server's database is read-only: its owner must mend that. Reading goes on."
            }
            Self::Corrupt => "The server's database is damaged: its owner must restore a backup.",
            Self::Locked => "The server's database is locked by another program: try again.",
            Self::Io => "The server can't reach its database: its owner must look at the disk.",
        }
    }

    /// The refusal of what could not be done, with the reason.
    pub fn refusal(self, cause: impl std::fmt::Display) -> ApiError {
        let mut refusal = ApiError::unavailable(self.sentence(), cause);
        refusal.body.details = Some(json!({ "reason": self.word() }));
        refusal.fault = Some(self);
        refusal
    }
}

/// What a failure of input or output comes from, as far as the disk says. No file is opened: closing one
/// of the database would drop the locks that SQLite holds on it.
fn probe(database: &Path) -> Fault {
    #[cfg(unix)]
    {
        use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
        use rustix::io::Errno;
        if let Ok(disk) = statvfs(database) {
            if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
                return Fault::ReadOnly;
            }
            if disk.f_bavail == 0 {
                return Fault::DiskFull;
            }
        }
        let denied = |path: &Path| {
            matches!(access(path, Access::WRITE_OK), Err(Errno::ACCESS | Errno::PERM | Errno::ROFS))
        };
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        if denied(database) || denied(Path::new(&log)) {
            return Fault::ReadOnly;
        }
    }
    #[cfg(not(unix))]
    let _ = database;
    Fault::Io
}

/// Whether the disk has no room at all: a change that fits into what the log holds already still works.
fn has_no_room(database: &Path) -> bool {
    #[cfg(unix)]
    return rustix::fs::statvfs(database).is_ok_and(|disk| disk.f_bavail == 0);
    #[cfg(not(unix))]
    {
        let _ = database;
        false
    }
}

/// The faults of a store that runs.
#[derive(Debug)]
pub struct Faults {
    database: PathBuf,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    writing: Option<Fault>,
    /// A damaged page stays damaged though other pages can be written.
    corrupt: bool,
}

impl Faults {
    pub(super) fn of(database: &Path) -> Self {
        Self { database: database.to_owned(), now: Mutex::default() }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong, as far as the last use of the store says.
    pub fn current(&self) -> Option<Fault> {
        let now = self.now();
        if now.corrupt { Some(Fault::Corrupt) } else { now.writing }
    }

    /// Whether a damaged page was met.
    pub fn is_corrupt(&self) -> bool {
        self.now().corrupt
    }

    /// The whole database was read and is sound.
    pub(super) fn is_sound(&self) {
        self.now().corrupt = false;
    }

    /// A transaction was committed. A full disk is full until there is room, whatever still fits.
    pub(super) fn wrote(&self) {
        let mut now = self.now();
        if now.writing == Some(Fault::DiskFull) && has_no_room(&self.database) {
            return;
        }
        if now.writing.take().is_some() {
            tracing::info!("the store can be written again");
        }
    }

    /// A read or write failed: the refusal, with its reason as exactly as can be told.
    pub(super) fn met(&self, refusal: ApiError, writing: bool) -> ApiError {
        let Some(fault) = refusal.fault else { return refusal };
        let (fault, refusal) = match fault {
            Fault::Io => {
                let found = probe(&self.database);
                (found, found.refusal(refusal.detail.as_deref().unwrap_or("input or output failed")))
            }
            fault => (fault, refusal),
        };
        let mut now = self.now();
        let before = (now.writing, now.corrupt);
        if fault == Fault::Corrupt {
            now.corrupt = true;
        } else if writing {
            now.writing = Some(fault);
        }
        if (now.writing, now.corrupt) != before {
            tracing::error!(reason = fault.word(), detail = refusal.detail.as_deref(), "the store fails");
        }
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_page_stays_said_until_all_of_it_was_read() {
        let faults = Faults::of(Path::new("/nowhere/teamlamp.db"));
        faults.met(Fault::DiskFull.refusal("x"), true);
        assert_eq!(faults.current(), Some(Fault::DiskFull));
        faults.met(Fault::Corrupt.refusal("x"), false);
        faults.wrote();
        assert_eq!(faults.current(), Some(Fault::Corrupt));
        faults.is_sound();
        assert_eq!(faults.current(), None);
    }

    #[test]
    fn a_reader_that_fails_says_nothing_of_writing() {
        let faults = Faults::of(Path::new("/nowhere/teamlamp.db"));
        faults.met(Fault::Locked.refusal("x"), false);
        assert_eq!(faults.current(), None);
    }
}
