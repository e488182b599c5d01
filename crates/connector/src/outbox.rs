//! Turn changes that happened while the team could not hear of them: an SQLite file in the home, bounded,
//! the oldest turns folded first. It keeps and orders them; when they are sent is the loop's business.
//!
//! It also remembers which live sessions the team was told of, so that a restart tells only differences.

mod rows;

use crate::home::Home;
use crate::privacy::{AllShown, Native, Sharing};
use crate::recorder::{Change, What};
pub use rows::{Kind, Row};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use teamlamp_clock::Chance;
use teamlamp_wire::Millis;
use teamlamp_wire::id::EventId;
use teamlamp_wire::limits::OUTBOX_LIMITS;
use teamlamp_wire::session::{Session, Turn};

const FILE: &str = "outbox.db";
const VERSION: i64 = 1;
/// Rows that are folded or dropped at once where there is no room.
const ROOM: i64 = 500;

const SCHEMA: &str = "
CREATE TABLE rows (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  context TEXT NOT NULL,
  harness TEXT NOT NULL,
  native_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  row TEXT NOT NULL
) STRICT;
CREATE INDEX rows_by_context ON rows (context, number);
CREATE INDEX rows_by_session ON rows (context, harness, native_id, number);
CREATE TABLE told (
  context TEXT NOT NULL PRIMARY KEY,
  sessions TEXT NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;
";

/// Why the outbox can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OutboxFault {
    /// The system or the file refuses.
    #[error("The outbox {path} can't be used ({cause}): mend its owner, and that its disk has room.")]
    Broken {
        /// Which.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        cause: rusqlite::Error,
    },
    /// A later version wrote it.
    #[error("The outbox {path} was written by a later version of Teamlamp: update this one.")]
    Newer {
        /// Which.
        path: PathBuf,
    },
    /// A damaged one can't be put aside.
    #[error("The outbox {path} is damaged and can't be put aside ({cause}): remove it.")]
    Aside {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        cause: std::io::Error,
    },
}

/// The outbox of a home. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Outbox {
    db: Arc<Mutex<Connection>>,
    path: PathBuf,
    /// Rows and bytes.
    limits: (i64, i64),
}

impl Outbox {
    /// Opens a home's outbox, or makes it. A damaged one is put aside (what it held is lost) rather than
    /// in the way of reporting.
    pub fn open(home: &Home, now: Millis) -> Result<Self, OutboxFault> {
        let path = home.path(FILE);
        match Self::open_file(&path) {
            Err(OutboxFault::Broken { cause, .. }) if is_damage(&cause) => {
                let aside = home.path(&format!("{FILE}.broken-{now}"));
                tracing::error!(%cause, kept = %aside.display(), "the outbox was damaged and is put aside; what it held is not told");
                std::fs::rename(&path, &aside)
                    .map_err(|cause| OutboxFault::Aside { path: path.clone(), cause })?;
                Self::open_file(&path)
            }
            opened => opened,
        }
    }

    fn open_file(path: &std::path::Path) -> Result<Self, OutboxFault> {
        let broken = |cause| OutboxFault::Broken { path: path.to_owned(), cause };
        if let Err(cause) = crate::home::private_file_kept(path) {
            return Err(broken(rusqlite::Error::ToSqlConversionFailure(cause.into())));
        }
        let db = Connection::open(path).map_err(broken)?;
        let version = prepare(&db).map_err(broken)?;
        if version > VERSION {
            return Err(OutboxFault::Newer { path: path.to_owned() });
        }
        Ok(Self { db: Arc::new(Mutex::new(db)), path: path.to_owned(), limits: limits() })
    }

    /// Keeps changes of a context, in their order.
    pub fn keep(
        &self,
        context: &str,
        changes: &[Change],
        now: Millis,
        chance: &Chance,
    ) -> Result<(), OutboxFault> {
        self.with(|db| {
            let change = db.unchecked_transaction()?;
            for kept in changes {
                let row = Row::of(kept, EventId::new(now, chance.bits()));
                let text = serde_json::to_string(&row).map_err(invalid)?;
                let Native { harness, native_id } = &kept.native;
                let bytes = text.len() + context.len() + harness.len() + native_id.len();
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                change.prepare_cached(
                    "INSERT INTO rows (context, harness, native_id, kind, bytes, row) VALUES (?, ?, ?, ?, ?, ?)",
                )?
                .execute(params![context, harness, native_id, row.kind.as_str(), bytes, text])?;
            }
            self.make_room(&change)?;
            change.commit()
        })
    }

    /// The first rows of a context with their numbers.
    pub fn first(&self, context: &str, limit: i64) -> Result<Vec<(i64, Row)>, OutboxFault> {
        self.with(|db| {
            let mut read =
                db.prepare_cached("SELECT number, row FROM rows WHERE context = ? ORDER BY number LIMIT ?")?;
            let rows =
                read.query_map(params![context, limit], |r| Ok((r.get(0)?, r.get::<_, String>(1)?)))?;
            let rows = rows.collect::<Result<Vec<(i64, String)>, _>>()?;
            let mut readable = Vec::with_capacity(rows.len());
            for (number, text) in rows {
                match serde_json::from_str(&text) {
                    Ok(row) => readable.push((number, row)),
                    // It must not hide those behind it, and no later version will read it either.
                    Err(fault) => {
                        tracing::error!(context, number, %fault, "a row of the outbox can't be read and is dropped");
                        db.execute("DELETE FROM rows WHERE number = ?", [number])?;
                    }
                }
            }
            Ok(readable)
        })
    }

    /// Forgets all contexts but these.
    pub fn keep_only(&self, contexts: &BTreeSet<String>) -> Result<(), OutboxFault> {
        let known = self.with(|db| {
            db.prepare("SELECT context FROM rows UNION SELECT context FROM told")?
                .query_map([], |r| r.get(0))?
                .collect::<Result<Vec<String>, _>>()
        })?;
        known.iter().filter(|known| !contexts.contains(*known)).try_for_each(|gone| self.forget(gone))
    }

    /// How many rows wait for a context.
    pub fn waiting(&self, context: &str) -> Result<i64, OutboxFault> {
        self.with(|db| db.query_row("SELECT count(*) FROM rows WHERE context = ?", [context], |r| r.get(0)))
    }

    /// Rows are told, or need no telling.
    pub fn done(&self, numbers: &[i64]) -> Result<(), OutboxFault> {
        self.with(|db| {
            let change = db.unchecked_transaction()?;
            for number in numbers {
                change.prepare_cached("DELETE FROM rows WHERE number = ?")?.execute([number])?;
            }
            change.commit()
        })
    }

    /// The live sessions of which a context's team was last told.
    pub fn told(&self, context: &str) -> Result<AllShown, OutboxFault> {
        self.with(|db| {
            let text: Option<String> = db
                .query_row("SELECT sessions FROM told WHERE context = ?", [context], |r| r.get(0))
                .optional()?;
            // A shape of another version is nothing that can be relied on: then nothing was told.
            Ok(text.map(|text| rows::told_from(&text)).unwrap_or_default())
        })
    }

    /// Remembers the live sessions of which a context's team was told.
    pub fn remember(&self, context: &str, told: &AllShown) -> Result<(), OutboxFault> {
        self.with(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO told (context, sessions) VALUES (?, ?)")?
                .execute(params![context, rows::told_text(told)])
                .map(|_| ())
        })
    }

    /// Forgets a context.
    pub fn forget(&self, context: &str) -> Result<(), OutboxFault> {
        self.with(|db| {
            db.execute("DELETE FROM rows WHERE context = ?", [context])?;
            db.execute("DELETE FROM told WHERE context = ?", [context]).map(|_| ())
        })
    }

    /// Puts everything on the disk.
    pub fn flush(&self) -> Result<(), OutboxFault> {
        self.with(|db| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
    }

    fn make_room(&self, db: &Connection) -> rusqlite::Result<()> {
        loop {
            let (rows, bytes): (i64, i64) =
                db.query_row("SELECT count(*), coalesce(sum(bytes), 0) FROM rows", [], |r| {
                    Ok((r.get(0)?, r.get(1)?))
                })?;
            if rows <= self.limits.0 && bytes <= self.limits.1 {
                return Ok(());
            }
            let folded = rows::fold(db, ROOM)?;
            let dropped = if folded > 0 { 0 } else { rows::drop_oldest(db, ROOM)? };
            tracing::warn!(folded, dropped, "the outbox is full: its oldest rows give way");
            if folded + dropped == 0 {
                return Ok(());
            }
        }
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, OutboxFault> {
        work(&self.lock()).map_err(|cause| OutboxFault::Broken { path: self.path.clone(), cause })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn limits() -> (i64, i64) {
    let (rows, bytes) = OUTBOX_LIMITS;
    (i64::try_from(rows).unwrap_or(i64::MAX), i64::try_from(bytes).unwrap_or(i64::MAX))
}

fn invalid(cause: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(cause.into())
}

fn is_damage(cause: &rusqlite::Error) -> bool {
    matches!(cause.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

fn prepare(db: &Connection) -> rusqlite::Result<i64> {
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    // A power cut may take the last rows; a crash of this program takes none.
    db.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304;")?;
    let version = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if version == 0 {
        db.execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;"))?;
        return Ok(VERSION);
    }
    Ok(version)
}

/// Which rows still need telling, given what the team's server has of the sessions: a report may have
/// arrived whose answer was lost, and what it said is not said again. Hidden roots leave nothing.
pub fn settle(rows: Vec<(i64, Row)>, known: &[Session], sharing: &Sharing) -> (Vec<(i64, Row)>, Vec<i64>) {
    let known: BTreeMap<(&str, &str), &Session> =
        known.iter().map(|s| ((s.harness.as_str(), s.native_id.as_str()), s)).collect();
    let mut needless = Vec::new();
    let mut needed = Vec::new();
    for (number, row) in rows {
        let heard = known.get(&(row.harness.as_str(), row.native_id.as_str())).is_some_and(|session| {
            session.turn_since.is_some_and(|since| since >= row.at)
                // An end that was told can be told from a turn of the same moment only by its word.
                && (row.kind != Kind::Ended || session.turn == Turn::Ended)
        });
        if heard || sharing.hides(&row.root()) {
            needless.push(number);
        } else {
            needed.push((number, row));
        }
    }
    (needed, needless)
}

impl From<&What> for Kind {
    fn from(what: &What) -> Self {
        match what {
            What::Started { .. } => Self::Started,
            What::Turned { .. } => Self::Turned,
            What::Ended => Self::Ended,
        }
    }
}

#[cfg(test)]
mod tests;
