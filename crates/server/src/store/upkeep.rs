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

/// Whether the front of a table that expires from its front is over.
pub const IDEMPOTENCY_DUE: &str =
    "SELECT 1 FROM (SELECT expires_at FROM idempotency ORDER BY number LIMIT 500) WHERE expires_at <= ?1";
/// Whether any credential ended long enough ago.
pub const CREDENTIALS_DUE: &str = "SELECT 1 FROM credentials WHERE expires_at <= ?1 - 86400000";
/// Whether any invitation ended by time long enough ago.
pub const EXPIRED_INVITATIONS_DUE: &str = "SELECT 1 FROM invitations WHERE expires_at <= ?1 - 2592000000";
/// Whether any invitation ended by use or by hand long enough ago.
pub const ENDED_INVITATIONS_DUE: &str =
    "SELECT 1 FROM invitations WHERE ended_at IS NOT NULL AND ended_at <= ?1 - 2592000000";
/// Whether the front of the notes is over.
pub const NOTES_DUE: &str =
    "SELECT 1 FROM (SELECT at FROM machine_notes ORDER BY id LIMIT 500) WHERE at <= ?1 - 604800000";
/// Whether the front of the audit is over.
pub const AUDIT_DUE: &str =
    "SELECT 1 FROM (SELECT at FROM audit ORDER BY number LIMIT 500) WHERE at <= ?1 - 31536000000";
/// Whether a walk of old rows is not done.
pub const BACKFILL_DUE: &str = "SELECT 1 FROM maintain_backfill WHERE done = 0 AND ?1 > 0";

/// Whether a step has anything to do now, by its question: one row, read through the step's own key.
pub fn is_due(db: &Connection, question: &str, now: Millis) -> Result<bool, ApiError> {
    Ok(db.prepare_cached(question)?.exists([now])?)
}

/// Lets SQLite look whether its statistics of the tables are still true; it reads a bounded sample.
pub fn optimize(tx: &Tx<'_>) -> Result<(), ApiError> {
    tx.execute_batch("PRAGMA optimize(0x10002)")?;
    Ok(())
}

const TEAMS_WITH_OLD_EVENTS: &str = "SELECT t.id FROM teams t
    WHERE (SELECT e.written_at FROM events e
           WHERE e.team_id = t.id AND e.sequence > t.pruned_through ORDER BY e.sequence LIMIT 1)
          <= ?1 - t.retention_days * 86400000
       OR t.deleted_through < t.pruned_through
    ORDER BY t.id";

const TEAMS_WITH_OLD_TRANSITIONS: &str = "SELECT t.id FROM teams t
    WHERE (SELECT e.at FROM machine_presence_events e
           WHERE e.team_id = t.id AND e.sequence > t.presence_pruned_through ORDER BY e.sequence LIMIT 1) <= ?1
    ORDER BY t.id";

fn teams(db: &Connection, sql: &str, cutoff: Millis) -> Result<Vec<TeamId>, ApiError> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([cutoff], |row| Ok(TeamId(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Teams whose oldest event is older than they keep it.
pub fn teams_with_old_events(db: &Connection, now: Millis) -> Result<Vec<TeamId>, ApiError> {
    teams(db, TEAMS_WITH_OLD_EVENTS, now)
}

/// Teams whose oldest transition is of a week ago.
pub fn teams_with_old_transitions(db: &Connection, now: Millis) -> Result<Vec<TeamId>, ApiError> {
    teams(db, TEAMS_WITH_OLD_TRANSITIONS, now - PRESENCE_EVENTS_KEPT_MS)
}

/// How many rows of a kind [`backlog`] counts at most.
pub const COUNTED: i64 = 10_000;

/// How much each step has to do now, by its name: for a person who asks, since it counts.
pub fn backlog(db: &Connection, now: Millis) -> Result<Vec<(&'static str, i64)>, ApiError> {
    let counted = |from: &str, cutoff: Millis| -> rusqlite::Result<i64> {
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {from} LIMIT {COUNTED})");
        db.query_row(&sql, [cutoff], |row| row.get(0))
    };
    let mut backlog = vec![
        ("idempotency", counted("idempotency WHERE expires_at <= ?1", now)?),
        ("credentials", counted("credentials WHERE expires_at <= ?1", now - CREDENTIAL_KEPT_MS)?),
        ("expired_invitations", counted("invitations WHERE expires_at <= ?1", now - INVITATION_KEPT_MS)?),
        ("ended_invitations", counted("invitations WHERE ended_at <= ?1", now - INVITATION_KEPT_MS)?),
        ("notes", counted("machine_notes WHERE at <= ?1", now - notes::KEPT_MS)?),
        ("audit", counted("audit WHERE at <= ?1", now - AUDIT_KEPT_MS)?),
        (
            "events",
            counted(
                "events e JOIN teams t ON t.id = e.team_id WHERE e.sequence > t.deleted_through
                   AND e.written_at <= ?1 - t.retention_days * 86400000",
                now,
            )?,
        ),
        (
            "presence_events",
            counted("machine_presence_events WHERE at <= ?1", now - PRESENCE_EVENTS_KEPT_MS)?,
        ),
    ];
    // A database of the first release has no walks yet.
    let walks = "SELECT 1 FROM sqlite_schema WHERE name = 'maintain_backfill'";
    if db.query_row(walks, [], |_| Ok(())).optional()?.is_some() {
        backlog.push(("backfill", counted("maintain_backfill WHERE done = 0 AND ?1 > 0", now)?));
    }
    Ok(backlog)
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
