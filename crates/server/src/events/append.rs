//! Writing an event in the transaction of the change that it tells of (spec 03).

use crate::error::ApiError;
use crate::store::Tx;
use rusqlite::{OptionalExtension, params};
use serde_json::{Map, Value};
use teamlamp_clock::Chance;
use teamlamp_wire::Millis;
use teamlamp_wire::event::{Actor, ActorKind};
use teamlamp_wire::id::{EventId, MachineId, SourceId, TeamId};

/// An event that is about to be written.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Chosen by its publisher; else made here.
    pub id: Option<EventId>,
    /// When it happened; else now.
    pub at: Option<Millis>,
    /// Who made it happen.
    pub actor: Actor,
    /// What happened.
    pub kind: String,
    /// The kind of what it happened to.
    pub resource_kind: String,
    /// What it happened to.
    pub resource_id: String,
    /// The source that published it.
    pub source_id: Option<SourceId>,
    /// Whose repetition of the id is the same event.
    pub publisher: Option<String>,
    /// The machine that it concerns, for the filter of the history.
    pub machine_id: Option<MachineId>,
    /// More of it.
    pub data: Map<String, Value>,
}

impl NewEvent {
    /// An event of the server itself.
    pub fn new(actor: Actor, kind: &str, resource_kind: &str, resource_id: &str, data: Value) -> Self {
        let data = if let Value::Object(map) = data { map } else { Map::new() };
        Self {
            id: None,
            at: None,
            actor,
            kind: kind.into(),
            resource_kind: resource_kind.into(),
            resource_id: resource_id.into(),
            source_id: None,
            publisher: None,
            machine_id: None,
            data,
        }
    }
    /// The machine that it concerns.
    pub fn of_machine(mut self, machine: &MachineId) -> Self {
        self.machine_id = Some(machine.clone());
        self
    }
}

/// The server as an actor.
pub fn system() -> Actor {
    Actor { principal_id: None, kind: ActorKind::System, name: "Teamlamp".into(), on_behalf_of: Vec::new() }
}

/// Writes an event as the team's next and makes it its resource's current one.
pub fn append(tx: &Tx<'_>, chance: &Chance, team: &TeamId, event: NewEvent) -> Result<(EventId, i64), ApiError> {
    let sequence: i64 = tx
        .prepare_cached("UPDATE teams SET last_sequence = last_sequence + 1 WHERE id = ?1 RETURNING last_sequence")?
        .query_row([team.as_str()], |row| row.get(0))
        .optional()?
        .ok_or_else(|| ApiError::not_found("team"))?;
    let id = event.id.unwrap_or_else(|| EventId::new(tx.now_ms, chance.bits()));
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
        event.actor.principal_id.as_ref().map(|p| p.as_str()),
        serde_json::to_string(&event.data)?,
        tx.now_ms,
    ])?;
    tx.prepare_cached(
        "INSERT INTO event_resources (team_id, source_id, resource_kind, resource_id, sequence)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET sequence = excluded.sequence",
    )?
    .execute(params![
        team.as_str(),
        event.source_id.as_ref().map_or("", |s| s.as_str()),
        event.resource_kind,
        event.resource_id,
        sequence,
    ])?;
    tx.after_commit(|effects| {
        effects.events.insert(team.clone());
    });
    Ok((id, sequence))
}
