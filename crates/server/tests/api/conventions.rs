//! Envelopes, headers, bodies, lists and the order of the checks.

use crate::world::{World, fresh};
use serde_json::{Value, json};

#[tokio::test]
async fn capabilities_need_no_credential_and_name_every_route() {
    let world = World::new().await;
    let answer = world.get("/v1/capabilities").send().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["protocol"], "teams.v1");
    assert_eq!(answer.body["auth_modes"], json!(["bearer"]));
    assert_eq!(answer.body["server_id"], world.server.server_id().as_str());
    let document = world.get("/v1/openapi.json").send().await;
    let mut operations: Vec<&str> = Vec::new();
    for path in document.body["paths"].as_object().unwrap().values() {
        operations.extend(path.as_object().unwrap().values().map(|o| o["operationId"].as_str().unwrap()));
    }
    let mut told: Vec<&str> =
        answer.body["operations"].as_array().unwrap().iter().map(|o| o.as_str().unwrap()).collect();
    operations.sort_unstable();
    told.sort_unstable();
    assert_eq!(operations, told);
    assert!(told.contains(&"machines.enroll"));
}

#[tokio::test]
async fn every_answer_has_its_envelope_and_headers() {
    let world = World::new().await;
    let owner = world.owner().await;
    let team = format!("/v1/teams/{}", owner.team);
    let answer = world.get(&team).by(&owner.token).send().await;
    assert_eq!(answer.header("content-type"), "application/json; charset=utf-8");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(answer.header("x-request-id").starts_with("req_"));
    assert_eq!(answer.header("etag"), format!("\"{}\"", answer.data()["revision"]));
    assert_eq!(
        answer.body["context"],
        json!({"server_id": world.server.server_id(), "team_id": owner.team, "principal_id": owner.id})
    );
    assert_eq!(answer.body["version"], 1);
    let list = world.get(format!("{team}/members")).by(&owner.token).send().await;
    assert_eq!(list.body["next_cursor"], Value::Null);
    let me = world.get("/v1/me").by(&owner.token).send().await;
    assert_eq!(me.body["context"]["team_id"], Value::Null);
    let refusal = world.get("/v1/me").send().await;
    assert_eq!(refusal.header("content-type"), "application/json; charset=utf-8");
    assert!(refusal.header("x-request-id").starts_with("req_"));
}

#[tokio::test]
async fn health_answers_any_host_and_everything_else_only_known_ones() {
    let world = World::with(|config| config.hosts = vec!["lamp.example".into()]).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.get(path).header("host", "evil.example").send().await.status, 200, "{path}");
    }
    for path in ["/v1/capabilities", "/v1/me", "/nothing"] {
        let answer = world.get(path).header("host", "evil.example").send().await;
        assert!(answer.refused(421, "misdirected").contains("`hosts`"));
    }
    assert_eq!(world.get("/v1/capabilities").header("host", "lamp.example:99").send().await.status, 200);
    let own = world.server.local_addr().unwrap().to_string();
    assert_eq!(world.get("/v1/capabilities").header("host", &own).send().await.status, 200);
}

#[tokio::test]
async fn the_size_of_a_body_is_looked_at_before_anything_else() {
    let world = World::new().await;
    let big = vec![b' '; (1 << 20) + 1];
    for (path, host) in [("/v1/teams", "localhost"), ("/v1/teams", "evil.example"), ("/nowhere", "localhost")]
    {
        let answer = world.ask("POST", path).header("host", host).bytes(big.clone()).send().await;
        assert!(answer.refused(413, "too_large").contains("1 MiB"), "{path}");
        assert_eq!(answer.header("connection"), "close");
    }
    // Exactly 1 MiB is read.
    let owner = world.owner().await;
    let mut body = br#"{"name":"B"}"#.to_vec();
    body.resize(1 << 20, b' ');
    let ask = world.ask("POST", "/v1/teams").by(&owner.token).header("content-type", "application/json");
    assert_eq!(ask.bytes(body).send().await.status, 201);
}

#[tokio::test]
async fn a_refusal_reaches_who_is_still_sending() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = World::new().await;
    for (length, status) in [(1_000_000, "401"), (6_000_000, "413")] {
        let mut socket = tokio::net::TcpStream::connect(world.server.local_addr().unwrap()).await.unwrap();
        let head = format!(
            "POST /v1/teams HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&vec![b' '; length]).await.unwrap();
        let mut answer = vec![0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"));
    }
    // Who asks first whether to send is answered at once.
    let mut socket = tokio::net::TcpStream::connect(world.server.local_addr().unwrap()).await.unwrap();
    let head = "POST /v1/teams HTTP/1.1\r\nhost: localhost\r\ncontent-length: 6000000\r\n\
                expect: 100-continue\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
}

#[tokio::test]
async fn a_body_without_a_length_is_counted_as_it_comes() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = World::new().await;
    let owner = world.owner().await;
    let mut socket = tokio::net::TcpStream::connect(world.server.local_addr().unwrap()).await.unwrap();
    let head = format!(
        "POST /v1/teams HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        owner.token
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, " ".repeat(1 << 16));
    for _ in 0..20 {
        if socket.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = vec![0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
}

#[tokio::test]
async fn paths_methods_and_content_types_are_refused_with_their_status() {
    let world = World::new().await;
    let owner = world.owner().await;
    let ask = |method: &str, path: &str| world.ask(method, path).by(&owner.token);
    ask("GET", "/v1/nothing").send().await.refused(404, "not_found");
    let answer = ask("PUT", "/v1/teams").send().await;
    answer.refused(405, "invalid_request");
    assert_eq!(answer.header("allow"), "POST");
    let answer = ask("POST", &format!("/v1/teams/{}", owner.team)).send().await;
    assert_eq!(answer.header("allow"), "GET, PATCH");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"] {
        let answer =
            ask("POST", "/v1/teams").header("content-type", kind).bytes("{\"name\":\"x\"}").send().await;
        assert!(answer.refused(415, "invalid_request").contains("application/json"), "{kind}");
    }
    ask("POST", "/v1/teams").bytes("{\"name\":\"x\"}").send().await.refused(415, "invalid_request");
    // Where no body is taken, an empty object is still JSON.
    for kind in ["text/plain", "application/json"] {
        let rotate = ask("POST", "/v1/credentials/rotate").header("content-type", kind).bytes("{}");
        assert_eq!(rotate.send().await.status, if kind == "text/plain" { 415 } else { 200 });
    }
}

#[tokio::test]
async fn bodies_are_read_strictly_and_the_fault_is_named() {
    let world = World::new().await;
    let owner = world.owner().await;
    let nested = format!("{{\"name\":{}1{}}}", "[".repeat(64), "]".repeat(64));
    for (body, named) in [
        ("{\"name\":\"x\",\"colour\":1}", "`colour`"),
        ("{\"name\":\"x\",\"name\":\"y\"}", "twice"),
        ("{}", "`name`"),
        ("{\"name\":7}", "string"),
        (&nested, "64"),
        ("nonsense", "JSON"),
        ("", "JSON"),
        ("{\"name\":\"x\"} trailing", "JSON"),
        ("{\"name\":\"\u{202e}\"}", "text-direction"),
        ("{\"name\":\"  \"}", "empty"),
    ] {
        let ask = world.ask("POST", "/v1/teams").by(&owner.token).header("content-type", "application/json");
        let answer = ask.bytes(body).send().await;
        let message = answer.refused(400, "invalid_request");
        assert!(message.contains(named), "{body}: {message}");
    }
    let long = json!({ "name": "x".repeat(65) });
    world.post("/v1/teams", long).by(&owner.token).send().await.refused(400, "invalid_request");
    let ask = world.ask("POST", "/v1/teams").by(&owner.token).header("content-type", "application/json");
    ask.bytes(b"{\"name\":\"\xff\"}".to_vec()).send().await.refused(400, "invalid_request");
    // A route without a body takes none, or an empty one.
    let stray = world.post("/v1/credentials/rotate", json!({ "days": 3 })).by(&owner.token).send().await;
    assert!(stray.refused(400, "invalid_request").contains("`days`"));
    assert_eq!(world.post("/v1/credentials/rotate", json!({})).by(&owner.token).send().await.status, 200);
}

#[tokio::test]
async fn a_list_is_no_object() {
    let world = World::new().await;
    let owner = world.owner().await;
    let machine = world.enroll(&owner, "one").await;
    let team = format!("/v1/teams/{}", owner.team);
    let beat = |name: &str, value: serde_json::Value| {
        let mut body = json!({ "incarnation_id": "r", "sequence": 1, "bindings": [], "roots": [] });
        body[name] = json!([value]);
        body
    };
    let heartbeat = format!("{team}/machines/{}/heartbeat", machine.id);
    let (sessions, events) = (format!("{team}/sessions"), format!("{team}/events"));
    let cases = [
        ("POST", "/v1/teams", &owner.token, json!(["Beta"])),
        ("POST", "/v1/credentials/rotate", &owner.token, json!([])),
        ("POST", "/v1/invitations/preview", &owner.token, json!(["7K3QF-9XW2M"])),
        ("POST", "/v1/invitations/accept", &owner.token, json!(["7K3QF-9XW2M", "Ada", null])),
        ("PATCH", &team, &owner.token, json!(["Beta", null])),
        ("PATCH", &team, &owner.token, json!({ "settings": [true, 7, 15] })),
        ("POST", &format!("{team}/invitations"), &owner.token, json!(["member", null, null, null])),
        ("POST", &format!("{team}/machines"), &owner.token, json!(["two", "0123456789abcdef"])),
        ("POST", &sessions, &machine.token, json!([[]])),
        ("POST", &sessions, &machine.token, json!({ "sessions": [["codex", "n", null, null, null, null]] })),
        ("POST", &events, &owner.token, json!([[]])),
        ("POST", &events, &owner.token, json!({ "events": [[null, "custom.cli.x", null, {}, null]] })),
        (
            "POST",
            &events,
            &owner.token,
            json!({ "events": [{ "kind": "custom.cli.x", "resource": ["thing", "1"] }] }),
        ),
        ("POST", &heartbeat, &machine.token, json!(["r", 1, [], [], null, null])),
        ("POST", &heartbeat, &machine.token, beat("roots", json!(["root-1", machine.id, "acme", []]))),
        ("POST", &heartbeat, &machine.token, beat("bindings", json!(["b", machine.id, "r", "codex", "n"]))),
        ("POST", &heartbeat, &machine.token, beat("activity", json!(["codex", "n", "idle", null]))),
    ];
    for (method, path, token, body) in cases {
        let answer = world.ask(method, path).by(token).if_match(1).json(&body).send().await;
        assert!(
            answer.refused(400, "invalid_request").contains("sequence"),
            "{path} {body}: {}",
            answer.text
        );
    }
    assert_eq!(
        world.get("/v1/me").by(&owner.token).send().await.data()["memberships"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn queries_and_pages_are_checked() {
    let world = World::new().await;
    let owner = world.owner().await;
    for name in ["Ada", "Bob", "Cy"] {
        world.join(&owner, "member", name).await;
    }
    let members = format!("/v1/teams/{}/members", owner.team);
    let get = |query: &str| world.get(format!("{members}{query}")).by(&owner.token).send();
    for (query, named) in [
        ("?colour=red", "`colour`"),
        ("?limit=0", "1 to 200"),
        ("?limit=201", "1 to 200"),
        ("?limit=+5", "1 to 200"),
        ("?limit=x", "1 to 200"),
        ("?limit=1&limit=2", "twice"),
        ("?cursor=nonsense", "cursor"),
        ("?cursor=", "cursor"),
        ("?limit=%ff", "UTF-8"),
    ] {
        let answer = get(query).await;
        let message = answer.refused(400, "invalid_request");
        assert!(message.contains(named), "{query}: {message}");
    }
    world.get("/v1/me?x=1").by(&owner.token).send().await.refused(400, "invalid_request");
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = get(&format!("?limit=2{cursor}")).await;
        assert!(answer.items().len() <= 2);
        names.extend(answer.items().iter().map(|m| m["principal"]["name"].as_str().unwrap().to_owned()));
        match answer.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["Ada", "Bob", "Cy", "Olga"]);
    // A cursor of one list is none of another.
    let first = get("?limit=1").await;
    let foreign =
        format!("/v1/teams/{}/machines?cursor={}", owner.team, first.body["next_cursor"].as_str().unwrap());
    world.get(foreign).by(&owner.token).send().await.refused(400, "invalid_request");
}

#[tokio::test]
async fn if_match_wants_exactly_one_revision() {
    let world = World::new().await;
    let owner = world.owner().await;
    let path = format!("/v1/teams/{}", owner.team);
    let patch = || world.ask("PATCH", &path).by(&owner.token).json(&json!({ "name": "Beta" }));
    patch().send().await.refused(400, "invalid_request");
    let twice = patch().header("if-match", "1").header("if-match", "1").send().await;
    twice.refused(400, "invalid_request");
    for bad in ["*", "W/\"1\"", "\"1\", \"2\"", "1,2", "\"x\"", "", "-1", "\"1", "1\""] {
        patch().header("if-match", bad).send().await.refused(400, "invalid_request");
    }
    let answer = patch().header("if-match", "99").send().await;
    answer.refused(409, "revision_mismatch");
    assert_eq!(answer.body["error"]["details"]["revision"], 1);
    let bare = patch().header("if-match", "1").send().await;
    assert_eq!((bare.status, bare.header("etag")), (200, "\"2\""));
    assert_eq!(patch().if_match(2).send().await.status, 200, "nothing changes, so nothing rises");
    assert_eq!(world.revision(&owner, &path).await, 2);
}

#[tokio::test]
async fn the_checks_come_in_their_order() {
    let world = World::new().await;
    let owner = world.owner().await;
    let key = fresh("key");
    // Credential before method, content type, query and body.
    world.ask("POST", "/v1/teams?x=1").bytes("nonsense").send().await.refused(401, "authentication_required");
    // Method before query.
    let answer = world.ask("DELETE", "/v1/teams?x=1").by(&owner.token).send().await;
    answer.refused(405, "invalid_request");
    // Query before content type, content type before body.
    let ask = world.ask("POST", "/v1/teams?x=1").by(&owner.token).bytes("nonsense");
    assert!(ask.send().await.refused(400, "invalid_request").contains("`x`"));
    let ask = world.ask("POST", "/v1/teams").by(&owner.token).bytes("nonsense");
    ask.send().await.refused(415, "invalid_request");
    // The body before what it asks for.
    let ask = world.post("/v1/teams/team_0/machines", json!({ "name": "" , "enrollment_key": key }));
    ask.by(&owner.token).send().await.refused(400, "invalid_request");
}

#[tokio::test]
async fn a_method_that_a_path_does_not_know_is_told_which_it_does() {
    let world = World::new().await;
    let owner = world.owner().await;
    for method in ["HEAD", "OPTIONS", "PUT", "TRACE"] {
        let answer = world.ask(method, format!("/v1/teams/{}", owner.team)).by(&owner.token).send().await;
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, PATCH"), "{method}");
    }
}

#[tokio::test]
async fn of_two_content_types_none_is_believed() {
    let world = World::new().await;
    let owner = world.owner().await;
    let ask = world.ask("POST", "/v1/teams").by(&owner.token).header("content-type", "application/json");
    let answer = ask.header("content-type", "text/plain").bytes(r#"{"name":"B"}"#).send().await;
    assert_eq!(answer.status, 415, "{}", answer.text);
}
