//! Rows of published events: writing, pages in order, current events.

use super::Tx;
use crate::error::ApiError;
use crate::events::append::NewEvent;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::LazyLock;
use teamlamp_wire::event::{CATALOGUE, Event, KindOf, Publisher, Reader, kind_of};
use teamlamp_wire::id::{EventId, MachineId, PrincipalId, SessionId, SourceId, TeamId};

/// How many ids beside its own an event may have: a publisher's tries, not a heap.
const ALIASES: i64 = 16;

/// The next place in a team's order.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// The event's sequence.
    pub sequence: i64,
    /// How far retention has deleted.
    pub deleted_through: i64,
}

/// Where a team's events stand, and the epoch of what anyone may do: of one snapshot with what is read
/// beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last sequence; of a team without events `pruned_through`.
    pub last: i64,
    /// What a cursor may not be below.
    pub pruned_through: i64,
    /// Rises with every change of what anyone may do.
    pub auth_epoch: i64,
}

/// An event as it is stored, with its JSON ready to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its place.
    pub sequence: i64,
    /// Its kind.
    pub kind: String,
    /// The source that published it.
    pub source_id: Option<String>,
    /// Where only one person and the admins may read it: who.
    pub only_for: Option<PrincipalId>,
    /// The event, in the shape of the wire.
    pub json: String,
}

impl Stored {
    /// The event as a value.
    pub fn event(&self) -> Result<Event, ApiError> {
        Ok(serde_json::from_str(&self.json)?)
    }
}

/// Where a resource stands in the order of a snapshot; the default stands before all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceKey {
    /// The source, empty where there is none.
    pub source: String,
    /// The resource's kind.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// A resource's current event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// Where it stands.
    pub key: ResourceKey,
    /// Its sequence.
    pub sequence: i64,
    /// Its kind.
    pub event_kind: String,
}

/// Takes the team's next sequence; `None` where there is no such team.
pub fn next_sequence(tx: &Tx<'_>, team: &TeamId) -> Result<Option<Next>, ApiError> {
    let next = tx
        .prepare_cached(
            "UPDATE teams SET last_sequence = last_sequence + 1 WHERE id = ?1
             RETURNING last_sequence, deleted_through",
        )?
        .query_row([team.as_str()], |row| Ok(Next { sequence: row.get(0)?, deleted_through: row.get(1)? }))
        .optional()?;
    Ok(next)
}

/// Writes an event in its place.
pub fn insert(
    tx: &Tx<'_>,
    team: &TeamId,
    sequence: i64,
    id: &EventId,
    event: &NewEvent,
) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO events (team_id, sequence, id, at, kind, resource_kind, resource_id, source_id, publisher,
           machine_id, actor, actor_id, data, written_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        team.as_str(),
        sequence,
        id.as_str(),
        event.at.unwrap_or(tx.now_ms),
        event.kind,
        event.resource_kind,
        event.resource_id,
        event.source_id.as_ref().map(SourceId::as_str),
        event.publisher,
        event.machine_id.as_ref().map(MachineId::as_str),
        serde_json::to_string(&event.actor)?,
        event.actor.principal_id.as_ref().map(PrincipalId::as_str),
        serde_json::to_string(&event.data)?,
        tx.now_ms,
    ])?;
    Ok(())
}

fn source(event: &NewEvent) -> &str {
    event.source_id.as_ref().map_or("", SourceId::as_str)
}

/// The sequence of the current event of an event's resource.
pub fn current_sequence(conn: &Connection, team: &TeamId, event: &NewEvent) -> Result<Option<i64>, ApiError> {
    current_of(conn, team, source(event), &event.resource_kind, &event.resource_id)
}

/// The sequence of a resource's current event.
fn current_of(
    conn: &Connection,
    team: &TeamId,
    source: &str,
    kind: &str,
    id: &str,
) -> Result<Option<i64>, ApiError> {
    let sequence = conn
        .prepare_cached(
            "SELECT sequence FROM event_resources
             WHERE team_id = ?1 AND source_id = ?2 AND resource_kind = ?3 AND resource_id = ?4",
        )?
        .query_row([team.as_str(), source, kind, id], |row| row.get(0))
        .optional()?;
    Ok(sequence)
}

/// The newest event that told what a session does: its sequence, id and kind. Its current event may tell
/// of people's attention instead.
pub fn told_of(
    conn: &Connection,
    team: &TeamId,
    source: &SourceId,
    session: &SessionId,
) -> Result<Option<(i64, EventId, String)>, ApiError> {
    let told = conn
        .prepare_cached(
            "SELECT e.sequence, e.id, e.kind FROM event_resources r
             JOIN events e ON e.team_id = r.team_id AND e.sequence = coalesce(r.told_sequence, r.sequence)
             WHERE r.team_id = ?1 AND r.source_id = ?2 AND r.resource_kind = 'session' AND r.resource_id = ?3",
        )?
        .query_row([team.as_str(), source.as_str(), session.as_str()], |row| {
            Ok((row.get(0)?, EventId(row.get(1)?), row.get::<_, String>(2)?))
        })
        .optional()?;
    Ok(told.filter(|(_, _, kind)| tells(kind)))
}

/// Whether events of a kind tell what a session does: those that its machine may publish.
fn tells(kind: &str) -> bool {
    matches!(kind_of(kind), Some(KindOf::Listed(row)) if row.publisher == Publisher::Machine)
}

/// Makes an event the current one of its resource.
pub fn make_current(tx: &Tx<'_>, team: &TeamId, event: &NewEvent, sequence: i64) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO event_resources (team_id, source_id, resource_kind, resource_id, sequence, told_sequence)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET sequence = excluded.sequence,
           told_sequence = coalesce(excluded.told_sequence, told_sequence,
             CASE resource_kind WHEN 'session' THEN sequence END)",
    )?
    .execute(params![
        team.as_str(),
        source(event),
        event.resource_kind,
        event.resource_id,
        sequence,
        tells(&event.kind).then_some(sequence),
    ])?;
    Ok(())
}

/// Deletes one event.
pub fn delete_one(tx: &Tx<'_>, team: &TeamId, sequence: i64) -> Result<(), ApiError> {
    tx.prepare_cached("DELETE FROM events WHERE team_id = ?1 AND sequence = ?2")?
        .execute(params![team.as_str(), sequence])?;
    Ok(())
}

/// Where a team's events stand; `None` where there is no such team.
pub fn head(conn: &Connection, team: &TeamId) -> Result<Option<Head>, ApiError> {
    let head = conn
        .prepare_cached("SELECT last_sequence, pruned_through, auth_epoch FROM teams WHERE id = ?1")?
        .query_row([team.as_str()], |row| {
            Ok(Head { last: row.get(0)?, pruned_through: row.get(1)?, auth_epoch: row.get(2)? })
        })
        .optional()?;
    Ok(head)
}

/// How many events of `(after, through]` are still there.
pub fn kept_between(conn: &Connection, team: &TeamId, after: i64, through: i64) -> Result<i64, ApiError> {
    let count = conn
        .prepare_cached(
            "SELECT count(*) FROM events WHERE team_id = ?1 AND sequence > ?2 AND sequence <= ?3",
        )?
        .query_row(params![team.as_str(), after, through], |row| row.get(0))?;
    Ok(count)
}

/// The columns of an event; the fourth says for whom alone one is whose kind the catalogue keeps for the
/// machine's custodian and admins (a machine's custodian never changes).
pub(super) static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    let kept = CATALOGUE.iter().filter(|row| row.reader == Reader::Custodian);
    let kept: Vec<String> = kept.map(|row| format!("'{}'", row.name)).collect();
    format!(
        "e.sequence, e.kind, e.source_id,
         CASE WHEN e.kind IN ({})
              THEN (SELECT m.custodian_id FROM machines m WHERE m.id = e.machine_id) END,
         e.id, e.at, e.resource_kind, e.resource_id, e.actor, e.data",
        kept.join(", ")
    )
});

/// The event's JSON is put together from its parts: actor and data are stored as JSON already.
pub(super) fn stored(team: &TeamId, row: &Row<'_>) -> rusqlite::Result<Stored> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let text = |column: usize| row.get_ref(column).and_then(|value| value.as_str().map_err(Into::into));
    let json = format!(
        r#"{{"id":{},"org":{},"at":{},"actor":{},"kind":{},"resource":{{"kind":{},"id":{}}},"data":{}}}"#,
        quoted(text(4)?),
        quoted(team.as_str()),
        row.get::<_, i64>(5)?,
        text(8)?,
        quoted(text(1)?),
        quoted(text(6)?),
        quoted(text(7)?),
        text(9)?,
    );
    Ok(Stored {
        sequence: row.get(0)?,
        kind: row.get(1)?,
        source_id: row.get(2)?,
        only_for: row.get::<_, Option<String>>(3)?.map(PrincipalId),
        json,
    })
}

/// Events of `(after, through]` in order, at most `limit`.
pub fn page(
    conn: &Connection,
    team: &TeamId,
    after: i64,
    through: i64,
    limit: usize,
) -> Result<Vec<Stored>, ApiError> {
    let sql = format!(
        "SELECT {} FROM events e WHERE e.team_id = ?1 AND e.sequence > ?2 AND e.sequence <= ?3
         ORDER BY e.sequence LIMIT ?4",
        *COLUMNS
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![team.as_str(), after, through, limit], |row| stored(team, row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The event of a sequence.
pub fn at(conn: &Connection, team: &TeamId, sequence: i64) -> Result<Option<Stored>, ApiError> {
    Ok(page(conn, team, sequence - 1, sequence, 1)?.pop())
}

/// The event of an id, or the one that had told what was published under it.
pub fn by_id(conn: &Connection, team: &TeamId, id: &str) -> Result<Option<Stored>, ApiError> {
    match published(conn, team, &EventId(id.to_owned()))? {
        Some((sequence, _)) => at(conn, team, sequence),
        None => Ok(None),
    }
}

/// Sequence and publisher of the event of an id, also of an id under which something was published that
/// another event had told already.
pub fn published(
    conn: &Connection,
    team: &TeamId,
    id: &EventId,
) -> Result<Option<(i64, Option<String>)>, ApiError> {
    let row = conn
        .prepare_cached(
            "SELECT sequence, publisher FROM events WHERE team_id = ?1 AND id = ?2
             UNION ALL SELECT sequence, publisher FROM event_aliases WHERE team_id = ?1 AND id = ?2",
        )?
        .query_row([team.as_str(), id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(row)
}

/// Remembers that what was published under an id had been told by an event already, for as long as that
/// is kept; not for more than a few ids of one event.
pub fn add_alias(
    tx: &Tx<'_>,
    team: &TeamId,
    id: &EventId,
    publisher: &str,
    sequence: i64,
) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO event_aliases (team_id, id, publisher, sequence)
         SELECT ?1, ?2, ?3, ?4 WHERE
           (SELECT count(*) FROM event_aliases WHERE team_id = ?1 AND sequence = ?4) < ?5",
    )?
    .execute(params![team.as_str(), id.as_str(), publisher, sequence, ALIASES])?;
    Ok(())
}

/// Current events in the order of a snapshot, of one source or all, after a place, at most `limit`.
pub fn current(
    conn: &Connection,
    team: &TeamId,
    source: Option<&str>,
    after: Option<&ResourceKey>,
    limit: usize,
) -> Result<Vec<Current>, ApiError> {
    let mut statement = conn.prepare_cached(
        "SELECT r.source_id, r.resource_kind, r.resource_id, r.sequence, e.kind
         FROM event_resources r JOIN events e ON e.team_id = r.team_id AND e.sequence = r.sequence
         WHERE r.team_id = ?1 AND (?2 IS NULL OR r.source_id = ?2)
           AND (r.source_id, r.resource_kind, r.resource_id) > (?3, ?4, ?5)
         ORDER BY r.source_id, r.resource_kind, r.resource_id LIMIT ?6",
    )?;
    let (s, k, i) = after.map_or(("", "", ""), |a| (&a.source, &a.kind, &a.id));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![team.as_str(), source, s, k, i, limit], |row| {
        Ok(Current {
            key: ResourceKey { source: row.get(0)?, kind: row.get(1)?, id: row.get(2)? },
            sequence: row.get(3)?,
            event_kind: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
