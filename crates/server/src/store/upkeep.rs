//! What maintenance removes. Each function does one bounded batch and says whether more is left; it reads
//! through a key or from the front of a table, so that it costs what it removes (spec 08).

use super::{Tx, notes};
use crate::error::ApiError;
use rusqlite::{Connection, OptionalExtension, Params, params};
use teamlamp_wire::Millis;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::limits::{INVITATION_KEPT_MS, PRESENCE_EVENTS_KEPT_MS};

const BATCH: i64 = 500;
/// How many events of a team one run looks at.
const WINDOW: i64 = 1_000;
const DAY_MS: Millis = 86_400_000;
/// How long an expired credential is kept, so that whoever still holds a link is told the right reason.
const CREDENTIAL_KEPT_MS: Millis = DAY_MS;
/// How long the audit is kept.
const AUDIT_KEPT_MS: Millis = 365 * DAY_MS;

fn delete(tx: &Tx<'_>, sql: &str, params: impl Params) -> Result<bool, ApiError> {
    let removed = tx.prepare_cached(sql)?.execute(params)?;
    Ok(i64::try_from(removed).unwrap_or(i64::MAX) >= BATCH)
}

/// Answers of idempotency keys whose day is over: they expire in the order in which they were written.
pub fn idempotency(tx: &Tx<'_>) -> Result<bool, ApiError> {
    delete(
        tx,
        "DELETE FROM idempotency WHERE expires_at <= ?1
           AND number IN (SELECT number FROM idempotency ORDER BY number LIMIT ?2)",
        params![tx.now_ms, BATCH],
    )
}

/// Credentials that ended.
pub fn credentials(tx: &Tx<'_>) -> Result<bool, ApiError> {
    delete(
        tx,
        "DELETE FROM credentials WHERE id IN (
           SELECT id FROM credentials WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        params![tx.now_ms - CREDENTIAL_KEPT_MS, BATCH],
    )
}

/// Invitations, 30 days after their end by time.
pub fn expired_invitations(tx: &Tx<'_>) -> Result<bool, ApiError> {
    delete(
        tx,
        "DELETE FROM invitations WHERE id IN (
           SELECT id FROM invitations WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        params![tx.now_ms - INVITATION_KEPT_MS, BATCH],
    )
}

/// Invitations, 30 days after their end by use or by hand.
pub fn ended_invitations(tx: &Tx<'_>) -> Result<bool, ApiError> {
    delete(
        tx,
        "DELETE FROM invitations WHERE id IN (
           SELECT id FROM invitations WHERE ended_at IS NOT NULL AND ended_at <= ?1 ORDER BY ended_at LIMIT ?2)",
        params![tx.now_ms - INVITATION_KEPT_MS, BATCH],
    )
}

/// Notes of a week ago: their ids begin with their moment.
pub fn old_notes(tx: &Tx<'_>) -> Result<bool, ApiError> {
    delete(
        tx,
        "DELETE FROM machine_notes WHERE at <= ?1
           AND id IN (SELECT id FROM machine_notes ORDER BY id LIMIT ?2)",
        params![tx.now_ms - notes::KEPT_MS, BATCH],
    )
}

/// Rows of the audit of a year ago.
pub fn audit(tx: &Tx<'_>) -> Result<bool, ApiError> {
    delete(
        tx,
        "DELETE FROM audit WHERE at <= ?1 AND number IN (SELECT number FROM audit ORDER BY number LIMIT ?2)",
        params![tx.now_ms - AUDIT_KEPT_MS, BATCH],
    )
}

/// Every team.
pub fn teams(db: &Connection) -> Result<Vec<TeamId>, ApiError> {
    let mut statement = db.prepare_cached("SELECT id FROM teams ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok(TeamId(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A team's transitions of a week ago, from their front.
pub fn presence_events(tx: &Tx<'_>, team: &TeamId) -> Result<bool, ApiError> {
    let pruned: i64 = tx
        .prepare_cached("SELECT presence_pruned_through FROM teams WHERE id = ?1")?
        .query_row([team.as_str()], |row| row.get(0))?;
    let cutoff = tx.now_ms - PRESENCE_EVENTS_KEPT_MS;
    let old: Option<(i64, i64)> = tx
        .prepare_cached(
            "SELECT max(sequence), count(*) FROM (
               SELECT sequence, at FROM machine_presence_events
               WHERE team_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3) WHERE at <= ?4",
        )?
        .query_row(params![team.as_str(), pruned, BATCH, cutoff], |row| {
            Ok(row.get::<_, Option<i64>>(0)?.zip(row.get(1)?))
        })?;
    let Some((through, count)) = old else { return Ok(false) };
    tx.prepare_cached("DELETE FROM machine_presence_events WHERE team_id = ?1 AND sequence <= ?2")?
        .execute(params![team.as_str(), through])?;
    tx.prepare_cached("UPDATE teams SET presence_pruned_through = ?2 WHERE id = ?1")?
        .execute(params![team.as_str(), through])?;
    Ok(count >= BATCH)
}

/// A team's events that are older than it keeps them, but for each resource's current one. Two marks
/// walk forward: what a cursor may not be below, and how far the deletes went.
pub fn events(tx: &Tx<'_>, team: &TeamId) -> Result<bool, ApiError> {
    let (days, pruned, deleted): (i64, i64, i64) = tx
        .prepare_cached("SELECT retention_days, pruned_through, deleted_through FROM teams WHERE id = ?1")?
        .query_row([team.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let old = old_through(tx, team, pruned, tx.now_ms - days * DAY_MS)?;
    let delete_through = old.min(deleted + WINDOW);
    if (old, delete_through) == (pruned, deleted) {
        return Ok(false);
    }
    tx.prepare_cached(
        "DELETE FROM events WHERE team_id = ?1 AND sequence > ?2 AND sequence <= ?3
           AND NOT EXISTS (SELECT 1 FROM event_resources r
                           WHERE r.team_id = ?1 AND r.sequence = events.sequence)",
    )?
    .execute(params![team.as_str(), deleted, delete_through])?;
    tx.prepare_cached("UPDATE teams SET pruned_through = ?2, deleted_through = ?3 WHERE id = ?1")?
        .execute(params![team.as_str(), old, delete_through])?;
    // The floor holds for who reads now as well.
    tx.after_commit(|effects| {
        effects.events.insert(team.clone());
    });
    Ok(delete_through < old || old >= pruned + WINDOW)
}

/// How far a team's events are old, at most a window further than the mark.
fn old_through(tx: &Tx<'_>, team: &TeamId, mark: i64, cutoff: Millis) -> Result<i64, ApiError> {
    let young: Option<i64> = tx
        .prepare_cached(
            "SELECT sequence FROM events WHERE team_id = ?1 AND sequence > ?2 AND sequence <= ?2 + ?3
               AND written_at > ?4 ORDER BY sequence LIMIT 1",
        )?
        .query_row(params![team.as_str(), mark, WINDOW, cutoff], |row| row.get(0))
        .optional()?;
    if let Some(young) = young {
        return Ok(young - 1);
    }
    let last: i64 = tx
        .prepare_cached("SELECT last_sequence FROM teams WHERE id = ?1")?
        .query_row([team.as_str()], |row| row.get(0))?;
    Ok(last.min(mark + WINDOW))
}
