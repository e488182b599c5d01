//! Writing an event in the transaction of the change that it tells of (spec 03).

use crate::error::ApiError;
use crate::store::{Tx, events as rows};
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
    /// It tells of something that newer facts have overtaken, or that not every reader may see: it is
    /// kept in the history, and its resource's current event stays.
    pub overtaken: bool,
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
            overtaken: false,
        }
    }
    /// The machine that it concerns.
    pub fn of_machine(mut self, machine: &MachineId) -> Self {
        self.machine_id = Some(machine.clone());
        self
    }
    /// The source that it comes from.
    pub fn of_source(mut self, source: &SourceId) -> Self {
        self.source_id = Some(source.clone());
        self
    }
}

/// The server as an actor.
pub fn system() -> Actor {
    Actor { principal_id: None, kind: ActorKind::System, name: "Teamlamp".into(), on_behalf_of: Vec::new() }
}

/// Writes an event as the team's next and makes it its resource's current one.
///
/// # Errors
/// 404 where there is no such team; what the store says.
pub fn append(
    tx: &Tx<'_>,
    chance: &Chance,
    team: &TeamId,
    event: NewEvent,
) -> Result<(EventId, i64), ApiError> {
    let next = rows::next_sequence(tx, team)?.ok_or_else(|| ApiError::not_found("team"))?;
    let id = event.id.clone().unwrap_or_else(|| EventId::new(tx.now_ms, chance.bits()));
    rows::insert(tx, team, next.sequence, &id, &event)?;
    let before = rows::current_sequence(tx, team, &event)?;
    if before.is_none() || !event.overtaken {
        rows::make_current(tx, team, &event, next.sequence)?;
        // The walk of retention is past the replaced event, and kept it only as the current one.
        if let Some(before) = before.filter(|before| *before <= next.deleted_through) {
            rows::delete_one(tx, team, before)?;
        }
    }
    tx.after_commit(|effects| {
        effects.events.insert(team.clone());
        effects.appended += 1;
    });
    Ok((id, next.sequence))
}
