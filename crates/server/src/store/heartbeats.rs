//! Rows of a machine's reports: what it last said, its runs, roots, bindings and activity.

use super::{Tx, machines};
use crate::error::ApiError;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use teamlamp_wire::Millis;
use teamlamp_wire::heartbeat::{Activity, Binding, Heartbeat, Root, Unbound};
use teamlamp_wire::id::{MachineId, SessionId, SourceId, TeamId};
use teamlamp_wire::limits::INCARNATIONS_KEPT;
use teamlamp_wire::machine::Machine;

/// SHA-256 of each part of a report, by which an unchanged part is known without looking at its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// Of the roots.
    pub roots: Option<[u8; 32]>,
    /// Of the bindings; `None` also where something else changed what they decide.
    pub bindings: Option<[u8; 32]>,
    /// Of the last activity that was reported.
    pub activity: Option<[u8; 32]>,
}

/// What is stored of a machine before a report is received.
#[derive(Clone, Debug)]
pub struct Head {
    /// The machine.
    pub machine: Machine,
    /// The sequence of its last report.
    pub sequence: i64,
    /// Whether it is linked.
    pub linked: bool,
    /// Its source, where that is active.
    pub source: Option<SourceId>,
    /// What the last report said.
    pub hashes: Hashes,
}

/// Reads what is stored of a machine.
pub fn head(db: &Connection, team: &TeamId, machine: &MachineId) -> Result<Option<Head>, ApiError> {
    let sql = format!(
        "SELECT {}, m.sequence, coalesce(p.linked, 0), s.id, h.roots_hash, h.bindings_hash, h.activity_hash
         FROM machines m
         LEFT JOIN machine_presence p ON p.machine_id = m.id
         LEFT JOIN sources s ON s.machine_id = m.id AND s.state = 'active'
         LEFT JOIN machine_heartbeat_state h ON h.machine_id = m.id
         WHERE m.id = ?1 AND m.team_id = ?2",
        machines::COLUMNS
    );
    let head = db
        .prepare_cached(&sql)?
        .query_row([machine.as_str(), team.as_str()], |row| {
            Ok(Head {
                machine: machines::machine(row)?,
                sequence: row.get(12)?,
                linked: row.get(13)?,
                source: row.get::<_, Option<String>>(14)?.map(SourceId),
                hashes: Hashes { roots: row.get(15)?, bindings: row.get(16)?, activity: row.get(17)? },
            })
        })
        .optional()?;
    Ok(head)
}

/// A machine's source, where that is active.
pub fn source(db: &Connection, machine: &MachineId) -> Result<Option<SourceId>, ApiError> {
    let id = db
        .prepare_cached("SELECT id FROM sources WHERE machine_id = ?1 AND state = 'active'")?
        .query_row([machine.as_str()], |row| row.get(0))
        .optional()?;
    Ok(id.map(SourceId))
}

/// Notes that something of a source came.
pub fn received(tx: &Tx<'_>, source: &SourceId) -> Result<(), ApiError> {
    tx.prepare_cached("UPDATE sources SET last_received_at = ?2 WHERE id = ?1")?
        .execute(params![source.as_str(), tx.now_ms])?;
    Ok(())
}

/// Whether another run of the machine took this one's place.
pub fn is_superseded(db: &Connection, machine: &MachineId, incarnation: &str) -> Result<bool, ApiError> {
    Ok(db
        .prepare_cached("SELECT 1 FROM machine_incarnations WHERE machine_id = ?1 AND incarnation_id = ?2")?
        .exists([machine.as_str(), incarnation])?)
}

/// Notes that a replaced run came back; whether it is the first time.
pub fn note_return(tx: &Tx<'_>, machine: &MachineId, incarnation: &str) -> Result<bool, ApiError> {
    let changed = tx
        .prepare_cached(
            "UPDATE machine_incarnations SET returned_at = ?3
             WHERE machine_id = ?1 AND incarnation_id = ?2 AND returned_at IS NULL",
        )?
        .execute(params![machine.as_str(), incarnation, tx.now_ms])?;
    Ok(changed > 0)
}

/// Notes that a run was replaced, and forgets all but the newest 16. The newest is the last one to be
/// noted, also within a millisecond and after the clock was set back.
pub fn supersede(tx: &Tx<'_>, machine: &MachineId, incarnation: &str) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO machine_incarnations (machine_id, incarnation_id, replaced_at)
         SELECT ?1, ?2, max(?3, coalesce(max(replaced_at) + 1, 0))
         FROM machine_incarnations WHERE machine_id = ?1
         ON CONFLICT DO UPDATE SET replaced_at = excluded.replaced_at",
    )?
    .execute(params![machine.as_str(), incarnation, tx.now_ms])?;
    let kept = i64::try_from(INCARNATIONS_KEPT).unwrap_or(i64::MAX);
    tx.prepare_cached(
        "DELETE FROM machine_incarnations WHERE machine_id = ?1 AND incarnation_id IN (
           SELECT incarnation_id FROM machine_incarnations WHERE machine_id = ?1
           ORDER BY replaced_at DESC, incarnation_id LIMIT -1 OFFSET ?2)",
    )?
    .execute(params![machine.as_str(), kept])?;
    Ok(())
}

/// Writes the machine's own row of a report; its new revision and host key.
pub fn record(tx: &Tx<'_>, machine: &MachineId, beat: &Heartbeat) -> Result<(i64, Option<String>), ApiError> {
    let sequence = i64::try_from(beat.sequence).unwrap_or(i64::MAX);
    Ok(tx
        .prepare_cached(
            "UPDATE machines SET incarnation_id = ?2, sequence = ?3, last_seen_at = ?4,
               host_key_id = coalesce(?5, host_key_id), revision = revision + 1,
               away_reason = NULL, away_since = NULL
             WHERE id = ?1 RETURNING revision, host_key_id",
        )?
        .query_row(
            params![machine.as_str(), beat.incarnation_id, sequence, tx.now_ms, beat.host_key_id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?)
}

/// Writes what a report said and when.
pub fn set_hashes(tx: &Tx<'_>, machine: &MachineId, hashes: &Hashes) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO machine_heartbeat_state (machine_id, roots_hash, bindings_hash, activity_hash, reported_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET roots_hash = excluded.roots_hash, bindings_hash = excluded.bindings_hash,
           activity_hash = excluded.activity_hash, reported_at = excluded.reported_at",
    )?
    .execute(params![machine.as_str(), hashes.roots, hashes.bindings, hashes.activity, tx.now_ms])?;
    Ok(())
}

/// Lets the next report look at every binding, since what they decide was changed beside them.
pub fn forget_bindings(tx: &Tx<'_>, machine: &MachineId) -> Result<(), ApiError> {
    tx.prepare_cached("UPDATE machine_heartbeat_state SET bindings_hash = NULL WHERE machine_id = ?1")?
        .execute([machine.as_str()])?;
    Ok(())
}

/// Writes the roots of a report, what is the same left untouched; the ids of those that it has no more.
pub fn put_roots(tx: &Tx<'_>, machine: &MachineId, roots: &[Root]) -> Result<Vec<String>, ApiError> {
    let mut stored: BTreeMap<String, (String, String)> = tx
        .prepare_cached("SELECT id, name, harnesses FROM machine_roots WHERE machine_id = ?1")?
        .query_map([machine.as_str()], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?
        .collect::<Result<_, _>>()?;
    for root in roots {
        let now = (root.name.clone(), serde_json::to_string(&root.harnesses)?);
        if stored.remove(&root.id).as_ref() != Some(&now) {
            tx.prepare_cached(
                "INSERT INTO machine_roots (machine_id, id, name, harnesses) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET name = excluded.name, harnesses = excluded.harnesses",
            )?
            .execute(params![machine.as_str(), root.id, now.0, now.1])?;
        }
    }
    Ok(stored.into_keys().collect())
}

/// Deletes roots.
pub fn delete_roots(tx: &Tx<'_>, machine: &MachineId, ids: &[String]) -> Result<(), ApiError> {
    for id in ids {
        tx.prepare_cached("DELETE FROM machine_roots WHERE machine_id = ?1 AND id = ?2")?
            .execute([machine.as_str(), id])?;
    }
    Ok(())
}

/// A binding as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBinding {
    /// The run that reported it.
    pub incarnation_id: String,
    /// The program.
    pub harness: String,
    /// Its own id of the session.
    pub native_id: String,
    /// Everything else, as JSON.
    pub descriptor: String,
    /// The session, where it is registered.
    pub session: Option<SessionId>,
}

impl StoredBinding {
    /// Whether a report says the same.
    pub fn is(&self, binding: &Binding, descriptor: &str) -> bool {
        self.incarnation_id == binding.incarnation_id
            && self.harness == binding.harness
            && self.native_id == binding.native_session_id
            && self.descriptor == descriptor
    }
}

/// The stored bindings of a machine by id.
pub fn bindings(db: &Connection, machine: &MachineId) -> Result<BTreeMap<String, StoredBinding>, ApiError> {
    let mut statement = db.prepare_cached(
        "SELECT id, incarnation_id, harness, native_id, descriptor, session_id
         FROM machine_bindings WHERE machine_id = ?1",
    )?;
    let rows = statement.query_map([machine.as_str()], |row| {
        let binding = StoredBinding {
            incarnation_id: row.get(1)?,
            harness: row.get(2)?,
            native_id: row.get(3)?,
            descriptor: row.get(4)?,
            session: row.get::<_, Option<String>>(5)?.map(SessionId),
        };
        Ok((row.get(0)?, binding))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Writes a binding.
pub fn put_binding(
    tx: &Tx<'_>,
    machine: &MachineId,
    binding: &Binding,
    descriptor: &str,
    session: Option<&SessionId>,
) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT OR REPLACE INTO machine_bindings
           (machine_id, id, incarnation_id, harness, native_id, descriptor, session_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        machine.as_str(),
        binding.id,
        binding.incarnation_id,
        binding.harness,
        binding.native_session_id,
        descriptor,
        session.map(SessionId::as_str),
    ])?;
    Ok(())
}

/// Deletes a binding.
pub fn delete_binding(tx: &Tx<'_>, machine: &MachineId, id: &str) -> Result<(), ApiError> {
    tx.prepare_cached("DELETE FROM machine_bindings WHERE machine_id = ?1 AND id = ?2")?
        .execute([machine.as_str(), id])?;
    Ok(())
}

/// Whether a binding names a session.
pub fn is_bound(db: &Connection, session: &SessionId) -> Result<bool, ApiError> {
    Ok(db
        .prepare_cached("SELECT 1 FROM machine_bindings WHERE session_id = ?1")?
        .exists([session.as_str()])?)
}

/// The bindings that name no session, by id: read through an index of those alone, since each report asks.
pub fn unbound(db: &Connection, machine: &MachineId) -> Result<Vec<Unbound>, ApiError> {
    let mut statement = db.prepare_cached(
        "SELECT id, harness, native_id FROM machine_bindings INDEXED BY machine_bindings_unbound
         WHERE machine_id = ?1 AND session_id IS NULL ORDER BY id",
    )?;
    let rows = statement.query_map([machine.as_str()], |row| {
        let (id, harness, native_session_id) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Unbound { id, harness, native_session_id, reason: "no_session".into() })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Stores the bindings of a native session against its session; their descriptors.
pub fn bind(
    tx: &Tx<'_>,
    machine: &MachineId,
    harness: &str,
    native_id: &str,
    session: &SessionId,
) -> Result<Vec<Map<String, Value>>, ApiError> {
    let mut statement = tx.prepare_cached(
        "UPDATE machine_bindings SET session_id = ?4
         WHERE machine_id = ?1 AND harness = ?2 AND native_id = ?3 RETURNING descriptor",
    )?;
    let rows = statement.query_map([machine.as_str(), harness, native_id, session.as_str()], |row| {
        Ok(serde_json::from_str(row.get_ref(0)?.as_str()?).unwrap_or_default())
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The stored activity of a machine by (harness, native id): turn and since when.
pub type StoredActivity = BTreeMap<(String, String), (String, Option<Millis>)>;

/// Reads the stored activity of a machine.
pub fn activity(db: &Connection, machine: &MachineId) -> Result<StoredActivity, ApiError> {
    let mut statement = db.prepare_cached(
        "SELECT harness, native_id, turn, since FROM machine_activity WHERE machine_id = ?1",
    )?;
    let rows = statement
        .query_map([machine.as_str()], |row| Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Writes what one native session does.
pub fn put_activity(
    tx: &Tx<'_>,
    machine: &MachineId,
    item: &Activity,
    session: Option<&SessionId>,
) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO machine_activity (machine_id, harness, native_id, turn, since, session_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET turn = excluded.turn, since = excluded.since,
           session_id = excluded.session_id",
    )?
    .execute(params![
        machine.as_str(),
        item.harness,
        item.native_id,
        item.turn,
        item.since,
        session.map(SessionId::as_str),
    ])?;
    Ok(())
}

/// Deletes what one native session did.
pub fn delete_activity(
    tx: &Tx<'_>,
    machine: &MachineId,
    harness: &str,
    native_id: &str,
) -> Result<(), ApiError> {
    tx.prepare_cached(
        "DELETE FROM machine_activity WHERE machine_id = ?1 AND harness = ?2 AND native_id = ?3",
    )?
    .execute([machine.as_str(), harness, native_id])?;
    Ok(())
}

/// Stores a native session's activity against its session; what it says.
pub fn resolve_activity(
    tx: &Tx<'_>,
    machine: &MachineId,
    harness: &str,
    native_id: &str,
    session: &SessionId,
) -> Result<Option<(String, Option<Millis>)>, ApiError> {
    Ok(tx
        .prepare_cached(
            "UPDATE machine_activity SET session_id = ?4
             WHERE machine_id = ?1 AND harness = ?2 AND native_id = ?3 RETURNING turn, since",
        )?
        .query_row([machine.as_str(), harness, native_id, session.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?)
}
