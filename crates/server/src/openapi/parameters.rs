//! The parameters of a route as schemas: what may stand in its path, its query and its headers (spec 01).

use crate::router::{Needs, Route};
use serde_json::{Value, json};
use teamlamp_wire::event::CATALOGUE;
use teamlamp_wire::limits::{IDEMPOTENCY_KEY_CHARS, LONG_POLL_SECONDS, PAGE_MAX};
use teamlamp_wire::{HEADER_CALLER, HEADER_IDEMPOTENCY, HEADER_MACHINE};

/// Every parameter of a route.
pub(super) fn of(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let id = |name| parameter(name, "path", true, json!({ "type": "string", "minLength": 1 }), None);
    let mut parameters: Vec<Value> = in_path.map(id).collect();
    parameters.extend(route.query.iter().map(|name| in_query(route, name)));
    if route.revised {
        let says = "The revision that was seen, as `ETag` or `revision` told it.";
        let revision = json!({ "type": "string", "pattern": "^(?:\"[0-9]{1,18}\"|[0-9]{1,18})$" });
        parameters.push(parameter("If-Match", "header", true, revision, Some(says)));
    }
    if route.needs != Needs::Probe {
        let text = json!({ "type": "string" });
        let says = "The program and its call site; tallied, never trusted.";
        parameters.push(parameter(HEADER_CALLER, "header", false, text.clone(), Some(says)));
        let says = "The enrolled machine that this install is; what is none is ignored.";
        parameters.push(parameter(HEADER_MACHINE, "header", false, text, Some(says)));
        if route.method != http::Method::GET {
            let says = "The same request with the same key is done once.";
            let key = json!({ "type": "string", "pattern": format!("^[!-~]{{1,{IDEMPOTENCY_KEY_CHARS}}}$") });
            parameters.push(parameter(HEADER_IDEMPOTENCY, "header", false, key, Some(says)));
        }
    }
    parameters
}

fn parameter(name: &str, place: &str, required: bool, schema: Value, says: Option<&str>) -> Value {
    let mut parameter = json!({ "name": name, "in": place, "required": required, "schema": schema });
    if let Some(says) = says {
        parameter["description"] = json!(says);
    }
    parameter
}

fn in_query(route: &Route, name: &str) -> Value {
    let text = json!({ "type": "string" });
    let sequence = |least: u8| json!({ "type": "integer", "minimum": least, "maximum": i64::MAX });
    let (schema, says) = match name {
        "limit" => {
            (json!({ "type": "integer", "minimum": 1, "maximum": PAGE_MAX }), "How many items at most.")
        }
        "cursor" => (text, "`next_cursor` of the page before; nothing else is one."),
        "before" => (sequence(1), "Events below this sequence: `next_cursor` of the page before."),
        "after" if route.operation == "machines.events" => {
            (sequence(0), "The sequence of the last transition that was seen.")
        }
        "after" => (text, "The cursor of the last frame that was seen; nothing else is one."),
        "wait" => (
            json!({ "type": "integer", "minimum": 0, "maximum": LONG_POLL_SECONDS }),
            "Seconds; only with `Accept: application/json`.",
        ),
        "kinds" => {
            (json!({ "type": "string", "pattern": kinds() }), "Kinds of events, with commas between them.")
        }
        "live" => (json!({ "type": "boolean" }), "Whether it has a binding and its machine is not offline."),
        "turn" => {
            let turns = ["working", "waiting_approval", "waiting_input", "idle", "ended", "unknown"];
            (json!({ "enum": turns, "type": "string" }), "What the session does.")
        }
        "source" => (text, "Only what this source published."),
        "machine" => (text, "Only of this machine."),
        "session" => (text, "Only of this session."),
        "actor" => (text, "Only by this principal."),
        "harness" => (text, "Only of this program."),
        "root" => (text, "Only in the root of this name."),
        _ => (text, "Only what contains this, without regard to case."),
    };
    parameter(name, "query", false, schema, Some(says))
}

/// A list of kinds: each one of the catalogue, or custom, which may end in `*`.
fn kinds() -> String {
    let listed: Vec<String> = CATALOGUE.iter().map(|row| row.name.replace('.', "\\.")).collect();
    let custom = "custom\\.[a-z0-9_-]{1,64}\\.(?:[a-z0-9_.-]{1,64}|[a-z0-9_.-]{0,63}\\*)";
    let one = format!("(?:{}|{custom})", listed.join("|"));
    format!("^{one}(?:,{one})*$")
}
