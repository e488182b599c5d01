//! `GET /v1/openapi.json`: OpenAPI 3.1 made from the route table and the schemas of the wire types, so
//! that document and server can't differ.

mod catalogue;

use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::router::{Gives, Needs, ROUTES, Route};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use teamlamp_wire::envelope::{Context, ErrorEnvelope};
use teamlamp_wire::{HEADER_CALLER, HEADER_IDEMPOTENCY, HEADER_MACHINE};

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
                "content": { "application/json": { "schema": error } },
            } },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator, context: &Value) -> Value {
    let mut operation = json!({
        "operationId": route.operation,
        "tags": [route.operation.split('.').next().unwrap_or_default()],
        "parameters": parameters(route),
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
    let mut responses = json!({ "default": { "$ref": "#/components/responses/Refusal" } });
    for status in [Some(route.status), route.or_status].into_iter().flatten() {
        responses[status.to_string()] = success.clone();
    }
    responses
}

fn parameters(route: &Route) -> Vec<Value> {
    let text = |name: &str, place: &str, required: bool| json!({ "name": name, "in": place, "required": required, "schema": { "type": "string" } });
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path.map(|name| text(name, "path", true)).collect();
    parameters.extend(route.query.iter().map(|name| text(name, "query", false)));
    if route.revised {
        parameters.push(text("If-Match", "header", true));
    }
    if route.needs != Needs::Probe {
        parameters.extend([HEADER_CALLER, HEADER_MACHINE].map(|name| text(name, "header", false)));
        if route.method != http::Method::GET {
            parameters.push(text(HEADER_IDEMPOTENCY, "header", false));
        }
    }
    parameters
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
        Gives::Stream(of) => ("text/event-stream", of(generator).to_value()),
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
