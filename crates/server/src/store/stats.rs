//! What is stored, in numbers: for `teamlamp server stats` and `/metrics`. Reads alone.

use super::{copy, upkeep};
use crate::error::ApiError;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use std::path::Path;
use teamlamp_wire::Millis;

/// What a database holds.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// The schema that it has.
    pub schema: i64,
    /// The bytes of its file.
    pub database_bytes: u64,
    /// The bytes of its pages that nothing uses.
    pub free_bytes: u64,
    /// The bytes of its log.
    pub log_bytes: u64,
    /// When the oldest event was written.
    pub oldest_event_at: Option<Millis>,
    /// When a backup was last made with `teamlamp server backup`.
    pub last_backup_at: Option<Millis>,
    /// Rows of each table, by name.
    pub tables: Vec<Table>,
    /// Each team.
    pub teams: Vec<Team>,
    /// Rows that maintenance is to remove, or to walk, by its step; those with none are left out. At most
    /// [`upkeep::COUNTED`] are counted.
    pub backlog: Vec<Table>,
}

/// How many rows something has.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The count.
    pub rows: i64,
}

/// What a team has.
#[derive(Debug, Serialize)]
pub struct Team {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Active members.
    pub members: i64,
    /// Enrolled machines.
    pub machines: i64,
    /// Sessions.
    pub sessions: i64,
    /// Events that are stored.
    pub events: i64,
    /// For how many days they are kept.
    pub retention_days: i64,
}

/// Counts what a database holds, whether a server runs on it or not. It reads whole tables: for a person
/// who asks, never for a request.
///
/// # Errors
/// A file that can't be read, or that is no database.
pub fn of(database: &Path, now_ms: Millis) -> Result<Stats, ApiError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(database, flags)?;
    db.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA query_only = ON; BEGIN")?;
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    let page = number("PRAGMA page_size")?;
    let schema = number("PRAGMA user_version")?;
    let free = number("PRAGMA freelist_count")?;
    // A column of the first release and of every later one.
    let oldest_event_at = db.query_row(
        "SELECT min((SELECT written_at FROM events e WHERE e.team_id = t.id ORDER BY sequence LIMIT 1)) FROM teams t",
        [],
        |row| row.get(0),
    )?;
    Ok(Stats {
        schema,
        database_bytes: std::fs::metadata(database).map_or(0, |file| file.len()),
        free_bytes: u64::try_from(page * free).unwrap_or_default(),
        log_bytes: copy::log_bytes(database),
        oldest_event_at,
        last_backup_at: None,
        tables: tables(&db)?,
        teams: teams(&db)?,
        backlog: upkeep::backlog(&db, now_ms)?
            .into_iter()
            .filter(|(_, rows)| *rows > 0)
            .map(|(name, rows)| Table { name: name.to_owned(), rows })
            .collect(),
    })
}

fn tables(db: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut names = db.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    names
        .into_iter()
        .map(|name| {
            let rows = db.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| row.get(0))?;
            Ok(Table { name, rows })
        })
        .collect()
}

fn teams(db: &Connection) -> rusqlite::Result<Vec<Team>> {
    let mut teams = db.prepare(
        "SELECT t.id, t.name, t.retention_days,
           (SELECT count(*) FROM memberships m WHERE m.team_id = t.id AND m.active = 1),
           (SELECT count(*) FROM machines m WHERE m.team_id = t.id AND m.enrollment = 'active'),
           (SELECT count(*) FROM sessions s WHERE s.team_id = t.id),
           (SELECT count(*) FROM events e WHERE e.team_id = t.id)
         FROM teams t ORDER BY t.name, t.id",
    )?;
    let rows = teams.query_map([], |row| {
        Ok(Team {
            id: row.get(0)?,
            name: row.get(1)?,
            retention_days: row.get(2)?,
            members: row.get(3)?,
            machines: row.get(4)?,
            sessions: row.get(5)?,
            events: row.get(6)?,
        })
    })?;
    rows.collect()
}
