//! `GET /v1/openapi.json`: OpenAPI 3.1 made from the route table and the schemas of the wire types, so
//! that document and server can't differ.

mod catalogue;
mod parameters;
mod ranges;

use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::router::{Gives, Needs, ROUTES, Route};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use teamlamp_wire::envelope::{Context, ErrorEnvelope};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

/// Handles `openapi.read`.
///
/// # Errors
/// None.
pub async fn read(_call: Call) -> Result<Reply, ApiError> {
    Ok(Reply::Json { status: 200, body: DOCUMENT.clone(), etag: None })
}

/// The whole document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let context = generator.subschema_for::<Context>().to_value();
    let error = generator.subschema_for::<ErrorEnvelope>().to_value();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let operation = operation(route, &mut generator, &context);
        paths.entry(route.path).or_default().insert(route.method.as_str().to_lowercase(), operation);
    }
    let mut schemas = generator.take_definitions(true);
    catalogue::describe(&mut schemas);
    ranges::describe(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Teamlamp, teams.v1",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Who of a team is up, which agents run, which of them wait for a person.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "responses": { "Refusal": {
                "description": "A refusal: a code for programs, a sentence for people.",
                "headers": {
                    "X-Request-ID": header("Under this the server's log names the request."),
                    "Retry-After": header("Seconds to wait: with 429."),
                },
                "content": { "application/json": { "schema": error } },
            } },
        },
    })
}

fn header(says: &str) -> Value {
    json!({ "description": says, "schema": { "type": "string" } })
}

fn operation(route: &Route, generator: &mut SchemaGenerator, context: &Value) -> Value {
    let mut operation = json!({
        "operationId": route.operation,
        "tags": [route.operation.split('.').next().unwrap_or_default()],
        "parameters": parameters::of(route),
        "responses": responses(route, generator, context),
        "security": match route.needs {
            Needs::Credential => json!([{ "bearer": [] }]),
            Needs::Optional => json!([{}, { "bearer": [] }]),
            Needs::Nothing | Needs::Probe => json!([]),
        },
    });
    if let Some(takes) = route.takes {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": takes(generator).to_value() } },
        });
    }
    operation
}

fn responses(route: &Route, generator: &mut SchemaGenerator, context: &Value) -> Value {
    let success = success(route, generator, context);
    let refusal = json!({ "$ref": "#/components/responses/Refusal" });
    let mut responses: Map<String, Value> =
        refusals(route).into_iter().map(|status| (status.to_string(), refusal.clone())).collect();
    for status in [Some(route.status), route.or_status].into_iter().flatten() {
        responses.insert(status.to_string(), success.clone());
    }
    Value::Object(responses)
}

/// The statuses of a route's refusals (spec 01): those that any request may meet, and those of its own.
fn refusals(route: &Route) -> Vec<u16> {
    let mut statuses = vec![400, 413, 500, 503];
    if route.needs == Needs::Probe {
        return statuses;
    }
    // 403: a web page of an origin that the owner does not list.
    statuses.extend([403, 421, 429]);
    if matches!(route.needs, Needs::Credential | Needs::Optional) {
        statuses.extend([401, 404]);
    }
    if route.method != http::Method::GET {
        // Two requests with one key, or a state that does not allow it; and a body that is no JSON.
        statuses.extend([409, 415]);
    }
    if route.path.contains("invitation") && route.method != http::Method::GET {
        // A code or an invitation that nobody knows, or that has ended.
        statuses.extend([404, 410]);
    }
    if route.operation == "metrics.read" {
        // Without the setting's token it is not there for other computers; with it, theirs must be that one.
        statuses.extend([401, 404]);
    }
    statuses
}

fn success(route: &Route, generator: &mut SchemaGenerator, context: &Value) -> Value {
    let envelope = |rest: Value| {
        let mut properties = json!({ "version": { "const": 1 }, "context": context });
        let mut required = vec![json!("version"), json!("context")];
        if let (Some(all), Value::Object(rest)) = (properties.as_object_mut(), rest) {
            required.extend(rest.keys().map(|name| json!(name)));
            all.extend(rest);
        }
        json!({ "type": "object", "properties": properties, "required": required })
    };
    let (kind, schema) = match route.gives {
        Gives::Nothing => return json!({ "description": "Done." }),
        Gives::Upgrade => return json!({ "description": "The connection is a WebSocket from here on." }),
        Gives::Text => ("text/plain", json!({ "type": "string" })),
        Gives::Bare(of) => ("application/json", of(generator).to_value()),
        Gives::One(of) => ("application/json", envelope(json!({ "data": of(generator).to_value() }))),
        Gives::List(of) => {
            let items = json!({ "type": "array", "items": of(generator).to_value() });
            let next = json!({ "type": ["string", "null"] });
            ("application/json", envelope(json!({ "items": items, "next_cursor": next })))
        }
        Gives::Stream(of) => ("text/event-stream", message(of(generator).to_value())),
    };
    let mut success = json!({ "description": "Success.", "content": { kind: { "schema": schema } } });
    if let Some((kind, of)) = route.or_as {
        success["content"][kind] = json!({ "schema": of(generator).to_value() });
    }
    if route.tagged {
        let tag =
            json!({ "description": "The revision, quoted: for `If-Match`.", "schema": { "type": "string" } });
        success["headers"] = json!({ "ETag": tag });
    }
    success
}

/// One message of a stream, as the HTML standard has read it: `data` is the frame.
fn message(frame: Value) -> Value {
    let data = json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": frame });
    let id = json!({ "type": "string", "description": "From where to go on: for `Last-Event-ID`." });
    json!({ "type": "object", "properties": { "data": data, "id": id }, "required": ["data"] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_document_and_every_reference_leads_somewhere() {
        let document = document();
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            assert_eq!(operation["operationId"], route.operation);
        }
        let text = document.to_string();
        let mut references = text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next());
        assert!(references.clone().count() > 10);
        assert!(references.all(|place| document.pointer(place).is_some()), "a reference leads nowhere");
    }
}
