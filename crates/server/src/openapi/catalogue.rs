//! The catalogue of events as schemas: every kind, what it is about, who publishes and reads it, and
//! what its `data` holds (spec 03).

use serde_json::{Map, Value, json};
use teamlamp_wire::event::{CATALOGUE, Kind, Publisher, Reader};

/// A custom kind: of a member's script, or of an app.
const CUSTOM: &str = "^custom\\.[a-z0-9_-]{1,64}\\.[a-z0-9_.-]{1,64}$";
/// A custom kind of a member's script.
const CLI: &str = "^custom\\.cli\\.[a-z0-9_.-]{1,64}$";

/// Adds the kinds to the schemas of the wire, and refers to them wherever an event has one.
pub(super) fn describe(schemas: &mut Map<String, Value>) {
    let names: Vec<&str> = CATALOGUE.iter().map(|row| row.name).collect();
    let kinds = json!({
        "description": "A kind of event: one of the list, or a custom one.",
        "anyOf": [{ "enum": names }, { "type": "string", "pattern": CUSTOM }],
    });
    schemas.insert("EventKind".into(), kinds);
    for row in CATALOGUE.iter().filter(|row| !row.data.is_empty()) {
        schemas.insert(format!("Data.{}", row.name), data(row));
    }
    let told: Vec<&str> =
        CATALOGUE.iter().filter(|row| row.publisher == Publisher::Machine).map(|row| row.name).collect();
    let published = json!({
        "description": "A kind that a machine may publish of its sessions, or a member's script.",
        "anyOf": [{ "enum": told }, { "type": "string", "pattern": CLI }],
    });
    schemas.insert("PublishedKind".into(), published);
    for (holder, kinds) in [("Event", "EventKind"), ("PublishEvent", "PublishedKind")] {
        if let Some(kind) = schemas.get_mut(holder).and_then(|schema| schema.pointer_mut("/properties/kind"))
        {
            *kind = json!({ "$ref": format!("#/components/schemas/{kinds}") });
        }
    }
    if let Some(Value::Object(event)) = schemas.get_mut("Event") {
        event.insert("allOf".into(), CATALOGUE.iter().map(shape).collect());
    }
}

/// What follows from an event's kind.
fn shape(row: &Kind) -> Value {
    let mut properties = json!({ "resource": { "properties": { "kind": { "const": row.resource } } } });
    if !row.data.is_empty() {
        properties["data"] = json!({ "$ref": format!("#/components/schemas/Data.{}", row.name) });
    }
    json!({ "if": { "properties": { "kind": { "const": row.name } } }, "then": { "properties": properties } })
}

fn data(row: &Kind) -> Value {
    let publisher = match row.publisher {
        Publisher::Server => "the server alone",
        Publisher::Machine => "machines, of their own sessions",
        Publisher::Member => "members who are not viewers",
        Publisher::App => "apps",
    };
    let readers = match row.reader {
        Reader::Member => "every member",
        Reader::Custodian => "the machine's custodian and admins",
    };
    let description = format!(
        "`data` of `{}`, which is about a `{}`; published by {publisher}, read by {readers}.",
        row.name, row.resource
    );
    let fields: Map<String, Value> = row
        .data
        .iter()
        .map(|(name, kind, always)| {
            // A moment that nobody knows is null where it is there at all.
            let may_be_null = *kind == "integer" && !always;
            let kind = if may_be_null { json!([kind, "null"]) } else { json!(kind) };
            ((*name).to_owned(), json!({ "type": kind }))
        })
        .collect();
    let always: Vec<&str> =
        row.data.iter().filter(|(_, _, always)| *always).map(|(name, _, _)| *name).collect();
    json!({ "description": description, "type": "object", "properties": fields, "required": always })
}
