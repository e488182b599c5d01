//! The document that the server serves, against what it answers.

use crate::world::{Answer, World};
use serde_json::{Value, json};

/// The document, and what it says of an operation.
struct Document(Value);

impl Document {
    async fn of(world: &World) -> Self {
        Self(world.get("/v1/openapi.json").send().await.body)
    }
    fn operation(&self, id: &str) -> &Value {
        let paths = self.0["paths"].as_object().unwrap().values();
        let mut operations = paths.flat_map(|path| path.as_object().unwrap().values());
        operations.find(|operation| operation["operationId"] == id).unwrap()
    }
    /// What is wrong with a value of a schema of the document.
    fn faults(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut whole = json!({ "components": self.0["components"] });
        whole.as_object_mut().unwrap().extend(schema.as_object().unwrap().clone());
        let validator = jsonschema::draft202012::new(&whole).unwrap();
        validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
    }
    /// An answer is one that the document names.
    #[track_caller]
    fn allows(&self, id: &str, answer: &Answer) {
        let operation = self.operation(id);
        let named = &operation["responses"][answer.status.to_string()];
        assert!(named.is_object(), "{id} answers {}", answer.status);
        let kind = answer.header("content-type").split(';').next().unwrap();
        let schema = &named["content"][kind]["schema"];
        assert!(schema.is_object(), "{id} answers {kind}");
        let lines = kind == "application/x-ndjson";
        let values: Vec<Value> = match lines {
            true => answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            false => vec![answer.body.clone()],
        };
        assert!(!values.is_empty());
        for value in values {
            assert_eq!(self.faults(schema, &value), Vec::<String>::new(), "{id}: {value}");
        }
        let tagged = named["headers"]["ETag"].is_object();
        assert_eq!(tagged, !answer.header("etag").is_empty(), "{id}: ETag");
    }
}

#[tokio::test]
async fn every_operation_is_listed_once_and_here() {
    let world = World::new().await;
    let document = Document::of(&world).await;
    let mut listed: Vec<String> = Vec::new();
    for (path, operations) in document.0["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            listed.push(format!("{id} {} {path}", method.to_uppercase()));
        }
    }
    listed.sort();
    let expected = [
        "audit.list GET /v1/teams/{team}/audit",
        "capabilities.read GET /v1/capabilities",
        "credentials.rotate POST /v1/credentials/rotate",
        "credentials.sign_out DELETE /v1/credentials/current",
        "events.history GET /v1/teams/{team}/events/history",
        "events.publish POST /v1/teams/{team}/events",
        "events.read GET /v1/teams/{team}/events/{event}",
        "events.stream GET /v1/teams/{team}/events",
        "health.alive GET /healthz",
        "health.ready GET /readyz",
        "invitations.accept POST /v1/invitations/accept",
        "invitations.create POST /v1/teams/{team}/invitations",
        "invitations.list GET /v1/teams/{team}/invitations",
        "invitations.preview POST /v1/invitations/preview",
        "invitations.revoke DELETE /v1/teams/{team}/invitations/{invitation}",
        "machines.configuration GET /v1/teams/{team}/machines/{machine}/configuration",
        "machines.enroll POST /v1/teams/{team}/machines",
        "machines.events GET /v1/teams/{team}/machines/events",
        "machines.heartbeat POST /v1/teams/{team}/machines/{machine}/heartbeat",
        "machines.link GET /v1/teams/{team}/machines/{machine}/link",
        "machines.list GET /v1/teams/{team}/machines",
        "machines.notes.send POST /v1/teams/{team}/machines/{machine}/notes",
        "machines.read GET /v1/teams/{team}/machines/{machine}",
        "machines.rename PATCH /v1/teams/{team}/machines/{machine}",
        "machines.revoke DELETE /v1/teams/{team}/machines/{machine}",
        "machines.roots GET /v1/teams/{team}/machines/{machine}/roots",
        "me.read GET /v1/me",
        "members.change PATCH /v1/teams/{team}/members/{principal}",
        "members.list GET /v1/teams/{team}/members",
        "members.read GET /v1/teams/{team}/members/{principal}",
        "members.remove DELETE /v1/teams/{team}/members/{principal}",
        "metrics.read GET /metrics",
        "openapi.read GET /v1/openapi.json",
        "sessions.attention.claim POST /v1/teams/{team}/sessions/{session}/attention",
        "sessions.attention.release DELETE /v1/teams/{team}/sessions/{session}/attention",
        "sessions.follow GET /v1/teams/{team}/sessions/{session}/follow",
        "sessions.list GET /v1/teams/{team}/sessions",
        "sessions.read GET /v1/teams/{team}/sessions/{session}",
        "sessions.register POST /v1/teams/{team}/sessions",
        "teams.change PATCH /v1/teams/{team}",
        "teams.create POST /v1/teams",
        "teams.read GET /v1/teams/{team}",
    ];
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn what_the_server_answers_is_what_the_document_says() {
    let world = World::new().await;
    let owner = world.owner().await;
    let document = Document::of(&world).await;
    let team = format!("/v1/teams/{}", owner.team);
    let of = |rest: &str| format!("{team}/{rest}");
    let key = crate::world::fresh("key");
    for status in [201, 200] {
        let enrolled = world.enroll_with(&owner, "one", &key).await;
        assert_eq!(enrolled.status, status);
        document.allows("machines.enroll", &enrolled);
    }
    let machine = world.enroll(&owner, "two").await;
    let beat = json!({
        "incarnation_id": "r", "sequence": 1, "roots": [],
        "bindings": [{ "id": "b", "machine_id": machine.id, "incarnation_id": "r", "harness": "codex", "native_session_id": "n" }],
        "activity": [{ "harness": "codex", "native_id": "n", "turn": "working", "since": 5 }],
    });
    let path = of(&format!("machines/{}/heartbeat", machine.id));
    document.allows("machines.heartbeat", &world.post(path, beat).by(&machine.token).send().await);
    let sessions = json!({ "sessions": [{ "harness": "codex", "native_id": "n" }] });
    let registered = world.post(of("sessions"), sessions).by(&machine.token).send().await;
    document.allows("sessions.register", &registered);
    let invited = world.post(of("invitations"), json!({ "role": "member" })).by(&owner.token).send().await;
    document.allows("invitations.create", &invited);
    let code = json!({ "code": invited.data()["code"] });
    document.allows("invitations.preview", &world.post("/v1/invitations/preview", code).send().await);
    let accept = json!({ "code": invited.data()["code"], "name": "Mia" });
    document.allows("invitations.accept", &world.post("/v1/invitations/accept", accept).send().await);
    let events = json!({ "events": [{ "kind": "custom.cli.x", "data": { "n": 1 } }] });
    let published = world.post(of("events"), events).by(&owner.token).send().await;
    document.allows("events.publish", &published);
    let event = of(&format!("events/{}", published.data()["events"][0]["id"].as_str().unwrap()));
    let session = of(&format!("sessions/{}", registered.data()["sessions"][0]["id"].as_str().unwrap()));
    for (id, path) in [
        ("capabilities.read", "/v1/capabilities".to_owned()),
        ("me.read", "/v1/me".into()),
        ("teams.read", team.clone()),
        ("members.list", of("members")),
        ("members.read", of(&format!("members/{}", owner.id))),
        ("invitations.list", of("invitations")),
        ("audit.list", of("audit")),
        ("machines.list", of("machines")),
        ("machines.read", of(&format!("machines/{}", machine.id))),
        ("machines.roots", of(&format!("machines/{}/roots", machine.id))),
        ("sessions.list", of("sessions")),
        ("sessions.read", session),
        ("events.history", of("events/history")),
        ("events.read", event),
        ("events.stream", of("events")),
    ] {
        let ask = world.get(path).by(&owner.token).header("accept", "application/json");
        document.allows(id, &ask.send().await);
    }
    let lines = world.get(of("audit")).by(&owner.token).header("accept", "application/x-ndjson");
    document.allows("audit.list", &lines.send().await);
    let refusal = world.get("/v1/nothing").by(&owner.token).send().await;
    let schema = json!({ "$ref": "#/components/schemas/ErrorEnvelope" });
    assert_eq!(document.faults(&schema, &refusal.body), Vec::<String>::new());
}

#[tokio::test]
async fn the_document_knows_every_kind_of_event_and_its_data() {
    let world = World::new().await;
    let document = Document::of(&world).await;
    let event = |kind: &str, resource: &str, data: Value| {
        json!({ "id": "evt_1", "org": "team_1", "at": 1, "kind": kind, "data": data,
                "actor": { "principal_id": null, "kind": "system", "name": "s" },
                "resource": { "kind": resource, "id": "1" } })
    };
    let faults = |kind: &str, resource: &str, data: Value| {
        let schema = json!({ "$ref": "#/components/schemas/Event" });
        document.faults(&schema, &event(kind, resource, data))
    };
    for row in teamlamp_wire::event::CATALOGUE {
        let sample = |kind: &str| match kind {
            "string" => json!("x"),
            "integer" => json!(1),
            "boolean" => json!(true),
            _ => json!({}),
        };
        let whole: serde_json::Map<_, _> =
            row.data.iter().map(|(name, kind, _)| ((*name).to_owned(), sample(kind))).collect();
        assert_eq!(faults(row.name, row.resource, json!(whole)), Vec::<String>::new(), "{}", row.name);
        assert!(
            !faults(row.name, "thing", json!(whole)).is_empty(),
            "{} is about a {}",
            row.name,
            row.resource
        );
        for (name, _, always) in row.data {
            let mut less = whole.clone();
            less.remove(*name);
            assert_eq!(
                faults(row.name, row.resource, json!(less)).is_empty(),
                !always,
                "{} {name}",
                row.name
            );
            less.insert((*name).to_owned(), json!([]));
            assert!(!faults(row.name, row.resource, json!(less)).is_empty(), "{} {name}", row.name);
        }
    }
    assert!(faults("custom.cli.deploy", "thing", json!({ "any": 1 })).is_empty());
    assert!(!faults("session.sang", "session", json!({})).is_empty());
    assert!(!faults("custom.cli.Deploy", "thing", json!({})).is_empty());
    let publish = json!({ "$ref": "#/components/schemas/PublishEvent" });
    assert!(!document.faults(&publish, &json!({ "kind": "session.sang" })).is_empty());
    assert!(document.faults(&publish, &json!({ "kind": "custom.cli.deploy" })).is_empty());
}
