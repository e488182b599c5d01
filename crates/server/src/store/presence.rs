//! Rows of presence: who is linked, the last committed presence of each machine, and its transitions.

use super::Tx;
use crate::error::ApiError;
use rusqlite::{Connection as Db, OptionalExtension, Row, params};
use teamlamp_wire::Millis;
use teamlamp_wire::id::{MachineId, TeamId};
use teamlamp_wire::machine::{Away, AwayReason, Connection};
use teamlamp_wire::presence::{PresenceItem, Transition};

/// What the store knows of a machine's presence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which.
    pub machine_id: MachineId,
    /// Its team.
    pub team_id: TeamId,
    /// Its name.
    pub name: String,
    /// Whether it is enrolled.
    pub active: bool,
    /// When it was last heard from.
    pub last_seen_at: Option<Millis>,
    /// What it announced when it went.
    pub away: Option<Away>,
    /// Whether it is linked.
    pub linked: bool,
    /// Its presence at the last committed transition.
    pub connection: Connection,
}

const KNOWN: &str =
    "SELECT m.id, m.team_id, m.name, m.enrollment, m.last_seen_at, m.away_reason, m.away_since,
    coalesce(p.linked, 0), coalesce(p.connection, 'offline')
    FROM machines m LEFT JOIN machine_presence p ON p.machine_id = m.id";

/// What a row's two columns say of a machine that went.
pub fn away(reason: Option<&str>, since: Option<Millis>) -> Option<Away> {
    Some(Away { reason: AwayReason::parse(reason?)?, since: since? })
}

/// The presence of a stored word.
pub fn connection_of(word: &str) -> Connection {
    Connection::parse(word).unwrap_or(Connection::Offline)
}

fn known_row(row: &Row<'_>) -> rusqlite::Result<Known> {
    let reason: Option<String> = row.get(5)?;
    Ok(Known {
        machine_id: MachineId(row.get(0)?),
        team_id: TeamId(row.get(1)?),
        name: row.get(2)?,
        active: row.get_ref(3)?.as_str()? == "active",
        last_seen_at: row.get(4)?,
        away: away(reason.as_deref(), row.get(6)?),
        linked: row.get(7)?,
        connection: connection_of(row.get_ref(8)?.as_str()?),
    })
}

/// What is known of one machine.
pub fn known(db: &Db, machine: &MachineId) -> Result<Option<Known>, ApiError> {
    let known = db
        .prepare_cached(&format!("{KNOWN} WHERE m.id = ?1"))?
        .query_row([machine.as_str()], known_row)
        .optional()?;
    Ok(known)
}

/// Those whose presence time alone may change: what it costs does not grow with the machines that are gone.
pub fn up(db: &Db) -> Result<Vec<Known>, ApiError> {
    let mut statement = db.prepare_cached(
        "SELECT m.id, m.team_id, m.name, m.enrollment, m.last_seen_at, m.away_reason, m.away_since,
           p.linked, p.connection
         FROM machine_presence p INDEXED BY machine_presence_up
         CROSS JOIN machines m ON m.id = p.machine_id
         WHERE p.connection <> 'offline' OR p.linked = 1 ORDER BY p.machine_id",
    )?;
    let rows = statement.query_map([], known_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Writes what a machine's presence now is.
pub fn record(tx: &Tx<'_>, known: &Known, linked: bool, connection: Connection) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO machine_presence (machine_id, team_id, linked, connection, changed_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET linked = excluded.linked, connection = excluded.connection,
           changed_at = excluded.changed_at",
    )?
    .execute(params![
        known.machine_id.as_str(),
        known.team_id.as_str(),
        linked,
        connection.as_str(),
        tx.now_ms
    ])?;
    Ok(())
}

/// Writes a transition as the team's next.
pub fn record_transition(
    tx: &Tx<'_>,
    known: &Known,
    linked: bool,
    connection: Connection,
) -> Result<(), ApiError> {
    let sequence: i64 = tx
        .prepare_cached(
            "UPDATE teams SET presence_sequence = presence_sequence + 1 WHERE id = ?1
             RETURNING presence_sequence",
        )?
        .query_row([known.team_id.as_str()], |row| row.get(0))?;
    tx.prepare_cached(
        "INSERT INTO machine_presence_events
           (team_id, sequence, at, machine_id, from_connection, to_connection, linked)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        known.team_id.as_str(),
        sequence,
        tx.now_ms,
        known.machine_id.as_str(),
        known.connection.as_str(),
        connection.as_str(),
        linked,
    ])?;
    Ok(())
}

/// Where a team's transitions stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last sequence.
    pub last: i64,
    /// What a reader may not be below.
    pub pruned_through: i64,
    /// Rises with every change of what anyone may do.
    pub auth_epoch: i64,
}

/// Where a team's transitions stand; `None` where there is no such team.
pub fn head(db: &Db, team: &TeamId) -> Result<Option<Head>, ApiError> {
    let head = db
        .prepare_cached(
            "SELECT presence_sequence, presence_pruned_through, auth_epoch FROM teams WHERE id = ?1",
        )?
        .query_row([team.as_str()], |row| {
            Ok(Head { last: row.get(0)?, pruned_through: row.get(1)?, auth_epoch: row.get(2)? })
        })
        .optional()?;
    Ok(head)
}

/// The presence of a team's active machines, by name, then id.
pub fn snapshot(db: &Db, team: &TeamId) -> Result<Vec<PresenceItem>, ApiError> {
    let sql = format!("{KNOWN} WHERE m.team_id = ?1 AND m.enrollment = 'active' ORDER BY m.name, m.id");
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map([team.as_str()], |row| {
        let Known { machine_id: id, name, connection, away, last_seen_at, .. } = known_row(row)?;
        Ok(PresenceItem { id, name, connection, away, last_seen_at })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Transitions after a sequence in order, at most `limit`.
pub fn after(db: &Db, team: &TeamId, after: i64, limit: usize) -> Result<Vec<Transition>, ApiError> {
    let mut statement = db.prepare_cached(
        "SELECT sequence, at, machine_id, from_connection, to_connection, linked
         FROM machine_presence_events WHERE team_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![team.as_str(), after, limit], |row| {
        Ok(Transition {
            sequence: row.get(0)?,
            at: row.get(1)?,
            machine_id: MachineId(row.get(2)?),
            from: connection_of(row.get_ref(3)?.as_str()?),
            to: connection_of(row.get_ref(4)?.as_str()?),
            linked: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Writes what a machine announces when it goes.
pub fn set_away(tx: &Tx<'_>, machine: &MachineId, reason: AwayReason) -> Result<(), ApiError> {
    tx.prepare_cached(
        "UPDATE machines SET away_reason = ?2, away_since = ?3, revision = revision + 1 WHERE id = ?1",
    )?
    .execute(params![machine.as_str(), reason.as_str(), tx.now_ms])?;
    Ok(())
}

/// Writes what a hello tells: the machine is back, and how far its clock is from the server's.
pub fn greet(tx: &Tx<'_>, machine: &MachineId, clock_offset_ms: i64) -> Result<(), ApiError> {
    tx.prepare_cached(
        "UPDATE machines SET clock_offset_ms = ?2, away_reason = NULL, away_since = NULL,
           revision = revision + (away_reason IS NOT NULL)
         WHERE id = ?1",
    )?
    .execute(params![machine.as_str(), clock_offset_ms])?;
    Ok(())
}
