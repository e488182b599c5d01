//! Sessions as the team knows them: what they do, registering, lists. Their content is not kept here.

pub mod attention;
pub mod follow;
pub mod followed;
pub mod list;
pub mod register;
pub mod turns;

use crate::error::ApiError;
use crate::events::append::{NewEvent, append};
use crate::store::Tx;
use crate::store::sessions::{self as rows, Described, Known};
use serde_json::{Map, Value, json};
use teamlamp_clock::Chance;
use teamlamp_wire::event::Actor;
use teamlamp_wire::id::SessionId;
use turns::{Happened, Report, State, next};

/// The longest root id and model name.
const DESCRIBED_CHARS: usize = 128;

/// Brings a session to what a report says of it, and writes the events that tell of it.
///
/// # Errors
/// What the store says.
pub fn apply(
    tx: &Tx<'_>,
    chance: &Chance,
    actor: &Actor,
    id: &SessionId,
    report: &Report,
) -> Result<(), ApiError> {
    let Some(known) = rows::known(tx, id)? else { return Ok(()) };
    let (state, happened) = next(&known.state, report, tx.now_ms);
    if state == known.state {
        return Ok(());
    }
    rows::set_state(tx, id, &state)?;
    for what in happened {
        append(tx, chance, &known.team_id, event(actor, &known, &state, &what))?;
    }
    Ok(())
}

/// The event that tells what happened to a session.
pub fn event(actor: &Actor, known: &Known, state: &State, what: &Happened) -> NewEvent {
    let mut data = json!({ "harness": known.harness, "machine_id": known.machine_id });
    if let Some(root) = &known.root {
        data["root"] = json!(root);
    }
    let kind = match what {
        Happened::Started => {
            data["turn"] = json!(state.turn);
            data["since"] = json!(state.since);
            "session.started"
        }
        Happened::Turned { from } => {
            data["from"] = json!(from);
            data["to"] = json!(state.turn);
            data["since"] = json!(state.since);
            "session.turn"
        }
        Happened::Ended { ended } => {
            data["reason"] = json!(if *ended { "ended" } else { "reporter_left" });
            "session.ended"
        }
    };
    NewEvent::new(actor.clone(), kind, "session", known.id.as_str(), without_nulls(data))
        .of_machine(&known.machine_id)
        .of_source(&known.source_id)
}

/// What is not known is left out.
fn without_nulls(data: Value) -> Value {
    match data {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// What a binding's descriptor says of its session; what does not fit is not read.
pub fn described(descriptor: &Map<String, Value>) -> Described<'_> {
    let text = |name: &str| {
        let text = descriptor.get(name).and_then(Value::as_str);
        text.filter(|text| (1..=DESCRIBED_CHARS).contains(&text.chars().count()))
    };
    Described {
        root_id: text("root_id"),
        model: text("model"),
        started_at: descriptor.get("started_at").and_then(Value::as_i64),
        confirmed: descriptor.get("confirmed").and_then(Value::as_bool),
    }
}
