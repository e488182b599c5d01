//! The audit in the database: every change of access, every refusal of one.

use super::Tx;
use rusqlite::{Connection, params};
use teamlamp_wire::account::AuditRow;
use teamlamp_wire::id::{AuditId, PrincipalId, TeamId};

/// Refusals of one actor in a team within a minute that are told apart by their target; more are folded
/// into one row without a target.
const TOLD_APART: i64 = 30;
const MINUTE_MS: i64 = 60_000;

/// What was done or refused.
#[derive(Clone, Debug)]
pub struct Act<'a> {
    /// A fresh id for the row.
    pub id: &'a AuditId,
    /// The team; none for what concerns no team.
    pub team: Option<&'a TeamId>,
    /// Who.
    pub actor: Option<&'a PrincipalId>,
    /// The route's operation.
    pub operation: &'a str,
    /// On what.
    pub target: Option<&'a str>,
    /// The revision that it made.
    pub revision: Option<i64>,
    /// The request's id.
    pub request_id: &'a str,
}

/// Writes a change of access.
pub fn allowed(tx: &Tx<'_>, act: &Act<'_>) -> rusqlite::Result<()> {
    insert(tx, act, act.target, "allowed")
}

/// Writes a refusal; one that repeats itself within a minute is counted.
pub fn denied(tx: &Tx<'_>, act: &Act<'_>) -> rusqlite::Result<()> {
    let since = tx.now_ms - MINUTE_MS;
    if counted(tx, act, act.target, since)? {
        return Ok(());
    }
    let (team, actor) = (act.team.map(TeamId::as_str), act.actor.map(PrincipalId::as_str));
    let recent: i64 = tx
        .prepare_cached(
            "SELECT count(*) FROM audit
             WHERE team_id IS ?1 AND actor IS ?2 AND outcome = 'denied' AND at > ?3",
        )?
        .query_row(params![team, actor, since], |row| row.get(0))?;
    if recent < TOLD_APART {
        return insert(tx, act, act.target, "denied");
    }
    if counted(tx, act, None, since)? { Ok(()) } else { insert(tx, act, None, "denied") }
}

/// Counts a refusal to the row of the same one within the minute before; the row keeps the time of the first.
fn counted(tx: &Tx<'_>, act: &Act<'_>, target: Option<&str>, since: i64) -> rusqlite::Result<bool> {
    let (team, actor) = (act.team.map(TeamId::as_str), act.actor.map(PrincipalId::as_str));
    let folded = tx
        .prepare_cached(
            "UPDATE audit SET count = count + 1, request_id = ?6
             WHERE number = (SELECT number FROM audit
               WHERE team_id IS ?1 AND actor IS ?2 AND outcome = 'denied' AND at > ?3
                 AND operation = ?4 AND target_id IS ?5 ORDER BY number DESC LIMIT 1)",
        )?
        .execute(params![team, actor, since, act.operation, target, act.request_id])?;
    Ok(folded > 0)
}

fn insert(tx: &Tx<'_>, act: &Act<'_>, target: Option<&str>, outcome: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO audit (id, team_id, at, actor, operation, target_id, outcome, revision, request_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        act.id.as_str(),
        act.team.map(TeamId::as_str),
        tx.now_ms,
        act.actor.map(PrincipalId::as_str),
        act.operation,
        target,
        outcome,
        act.revision,
        act.request_id,
    ])?;
    Ok(())
}

/// A page of a team's audit, newest first, before a row's number; each with its number.
pub fn page(
    db: &Connection,
    team: &TeamId,
    before: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Vec<(i64, AuditRow)>> {
    db.prepare_cached(
        "SELECT number, id, at, actor, operation, target_id, outcome, revision, request_id, count
         FROM audit WHERE team_id = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3",
    )?
    .query_map(
        params![team.as_str(), before.unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| {
            let audited = AuditRow {
                id: AuditId(row.get(1)?),
                at: row.get(2)?,
                actor: row.get::<_, Option<String>>(3)?.map(PrincipalId),
                operation: row.get(4)?,
                target_id: row.get(5)?,
                outcome: row.get(6)?,
                revision: row.get(7)?,
                request_id: row.get(8)?,
                count: row.get(9)?,
            };
            Ok((row.get(0)?, audited))
        },
    )?
    .collect()
}
