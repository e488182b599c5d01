//! What the fields of a request may hold: the lengths and ranges of the wire's limits, said in the schemas
//! (spec 01 to 03). What depends on the store, or on another field, stands in the protocol's page alone.

use serde_json::{Map, Value, json};
use teamlamp_wire::limits::{
    ATTENTION_MINUTES, BINDINGS_MAX, INVITATION_NOTE_CHARS, NAME_CHARS, NOTE_CHARS, PUBLISH_MAX,
    RETENTION_DAYS, ROOTS_MAX, SEQUENCE_MAX,
};

/// White space that is cut off at both ends of a name.
const SPACE: &str = "\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
/// What may stand nowhere in a name: control characters, and those that turn text around.
const BANNED: &str =
    "\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff";
/// An install's random key, or the id of a host key.
const KEY: &str = "^[A-Za-z0-9_-]{16,128}$";

/// Writes the limits into the schemas of what is sent.
pub(super) fn describe(schemas: &mut Map<String, Value>) {
    for (holder, field, limits) in table() {
        let place = format!("/properties/{field}");
        let schema = schemas.get_mut(holder).and_then(|holder| holder.pointer_mut(&place));
        if let (Some(Value::Object(schema)), Value::Object(limits)) = (schema, limits) {
            schema.extend(limits);
        }
    }
}

fn table() -> Vec<(&'static str, &'static str, Value)> {
    let name = || name(NAME_CHARS);
    let range = |least: i64, most: i64| json!({ "minimum": least, "maximum": most });
    let days = range(RETENTION_DAYS.1.into(), RETENTION_DAYS.2.into());
    let minutes = range(ATTENTION_MINUTES.1.into(), ATTENTION_MINUTES.2.into());
    let mut rows = vec![
        ("CreateTeam", "name", name()),
        ("ChangeTeam", "name", name()),
        ("AcceptInvitation", "name", name()),
        ("AcceptInvitation", "team_name", name()),
        ("Enroll", "name", name()),
        ("RenameMachine", "name", name()),
        ("ChangeTeamSettings", "retention_days", days),
        ("ChangeTeamSettings", "attention_minutes", minutes),
        ("CreateInvitation", "expires_in_seconds", range(60, 604_800)),
        ("CreateInvitation", "max_uses", range(1, 100)),
        ("CreateInvitation", "note", self::name(INVITATION_NOTE_CHARS)),
        ("Enroll", "enrollment_key", json!({ "pattern": KEY })),
        ("SendNote", "text", note()),
        ("RegisterSessions", "sessions", json!({ "maxItems": PUBLISH_MAX })),
        ("Publish", "events", json!({ "minItems": 1, "maxItems": PUBLISH_MAX })),
        ("PublishEvent", "id", json!({ "type": ["string", "null"], "pattern": "^evt_[A-Za-z0-9_-]{1,64}$" })),
        ("Heartbeat", "incarnation_id", chars(128)),
        ("Heartbeat", "sequence", json!({ "minimum": 1, "maximum": SEQUENCE_MAX })),
        ("Heartbeat", "bindings", json!({ "maxItems": BINDINGS_MAX })),
        ("Heartbeat", "roots", json!({ "maxItems": ROOTS_MAX })),
        ("Heartbeat", "activity", json!({ "maxItems": BINDINGS_MAX })),
        ("Heartbeat", "host_key_id", json!({ "pattern": KEY })),
        (
            "Root",
            "harnesses",
            json!({ "maxItems": 32, "items": { "type": "string", "minLength": 1, "maxLength": 64 } }),
        ),
    ];
    let lengths = [
        ("RegisterSession", "harness", 64),
        ("RegisterSession", "native_id", 256),
        ("RegisterSession", "root_id", 128),
        ("RegisterSession", "title", 512),
        ("RegisterSession", "model", 128),
        ("Root", "id", 128),
        ("Root", "name", 128),
        ("Binding", "id", 128),
        ("Binding", "incarnation_id", 128),
        ("Binding", "harness", 64),
        ("Binding", "native_session_id", 256),
        ("Activity", "harness", 64),
        ("Activity", "native_id", 256),
        ("Activity", "turn", 32),
    ];
    rows.extend(lengths.map(|(holder, field, most)| (holder, field, chars(most))));
    rows
}

fn chars(most: usize) -> Value {
    json!({ "minLength": 1, "maxLength": most })
}

/// Text that counts from the first to the last character that is no white space.
fn note() -> Value {
    let rest = NOTE_CHARS - 2;
    json!({ "pattern": format!("^[{SPACE}]*[^{SPACE}](?:[\\s\\S]{{0,{rest}}}[^{SPACE}])?[{SPACE}]*$") })
}

/// A name, which counts as a note does.
fn name(most: usize) -> Value {
    let (end, rest) = (format!("[^{SPACE}{BANNED}]"), most - 2);
    json!({ "pattern": format!("^[{SPACE}]*{end}(?:[^{BANNED}]{{0,{rest}}}{end})?[{SPACE}]*$") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_names_a_field_of_the_wire() {
        let document = crate::openapi::document();
        for (holder, field, limits) in table() {
            let place = format!("/components/schemas/{holder}/properties/{field}");
            let schema = document.pointer(&place).unwrap_or_else(|| panic!("{place} is nowhere"));
            for (name, value) in limits.as_object().unwrap() {
                assert_eq!(&schema[name], value, "{place}");
            }
        }
    }
}
