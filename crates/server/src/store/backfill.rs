//! Walks of old rows, for tables that a migration made and that writes have filled since: bounded batches,
//! each in the transaction that also notes how far it came, so that a kill in between costs one batch at most.

use super::Tx;
use crate::error::ApiError;
use rusqlite::{Connection, OptionalExtension, params};

/// How many rows one batch walks.
pub const BATCH: i64 = 500;
/// The walk that fills `event_lookup`.
pub const EVENT_LOOKUP: &str = "event_lookup";

/// The key of the last row that was walked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    key: String,
    rowid: i64,
}

/// Walks at most [`BATCH`] rows after a place; where it came to, `None` where nothing was left.
type Batch = fn(&Tx<'_>, &Place) -> Result<Option<Place>, ApiError>;

/// Every walk there is. A name that the database has not waits for its migration.
const WALKS: &[(&str, Batch)] = &[(EVENT_LOOKUP, event_lookup)];

/// Whether a walk is done: until then its table lacks old rows, and who would read it reads as before.
///
/// # Errors
/// What the store says.
pub fn is_done(db: &Connection, name: &str) -> Result<bool, ApiError> {
    let done = db
        .prepare_cached("SELECT done FROM maintain_backfill WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(done.unwrap_or(false))
}

/// Walks one batch of the first walk that is not done; whether anything is left.
///
/// # Errors
/// What the store says.
pub fn step(tx: &Tx<'_>) -> Result<bool, ApiError> {
    let next = tx
        .prepare_cached(
            "SELECT name, after_key, after_rowid FROM maintain_backfill WHERE done = 0 ORDER BY name LIMIT 1",
        )?
        .query_row([], |row| Ok((row.get::<_, String>(0)?, Place { key: row.get(1)?, rowid: row.get(2)? })))
        .optional()?;
    let Some((name, place)) = next else { return Ok(false) };
    let Some((_, batch)) = WALKS.iter().find(|(known, _)| *known == name) else { return Ok(false) };
    match batch(tx, &place)? {
        Some(place) => {
            tx.prepare_cached(
                "UPDATE maintain_backfill SET after_key = ?2, after_rowid = ?3 WHERE name = ?1",
            )?
            .execute(params![name, place.key, place.rowid])?;
        }
        None => {
            tx.prepare_cached("UPDATE maintain_backfill SET done = 1 WHERE name = ?1")?.execute([&name])?;
        }
    }
    Ok(true)
}

/// Old events, by team and sequence.
fn event_lookup(tx: &Tx<'_>, after: &Place) -> Result<Option<Place>, ApiError> {
    let mut page = tx.prepare_cached(
        "SELECT team_id, sequence, machine_id, CASE WHEN resource_kind = 'session' THEN resource_id END, actor_id
         FROM events WHERE (team_id, sequence) > (?1, ?2) ORDER BY team_id, sequence LIMIT ?3",
    )?;
    let mut put = tx.prepare_cached("INSERT OR IGNORE INTO event_lookup VALUES (?1, ?2, ?3, ?4)")?;
    let mut rows = page.query(params![after.key, after.rowid, BATCH])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let (team, sequence): (String, i64) = (row.get(0)?, row.get(1)?);
        for (about, column) in [(1, 2), (2, 3), (3, 4)] {
            if let Some(id) = row.get::<_, Option<String>>(column)? {
                put.execute(params![team, about, id, sequence])?;
            }
        }
        last = Some(Place { key: team, rowid: sequence });
    }
    Ok(last)
}
