//! The scripted server's answers.

use super::{Scripted, State};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use teamlamp_client::{Request, Response, TransportFault};
use teamlamp_wire::event::Publish;
use teamlamp_wire::heartbeat::Heartbeat;
use teamlamp_wire::session::RegisterSessions;

fn response(status: u16, media: &'static str, body: Bytes) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(media));
    Response {
        status: StatusCode::from_u16(status).unwrap(),
        headers,
        body: stream::iter([Ok::<_, TransportFault>(body)]).boxed(),
    }
}

fn refusal(status: u16, code: &str, reason: Option<&str>) -> Response {
    let body = json!({"error": {"code": code, "message": "Scripted.", "details": {"reason": reason}}});
    response(status, "application/json", body.to_string().into())
}

fn one(status: u16, data: Value) -> Response {
    let context = json!({"server_id": "srv_1", "team_id": "team_1", "principal_id": "prin_1"});
    let body = json!({"version": 1, "context": context, "data": data});
    response(status, "application/json", body.to_string().into())
}

fn list(items: Value) -> Response {
    let context = json!({"server_id": "srv_1", "team_id": "team_1", "principal_id": "prin_1"});
    let body = json!({"version": 1, "context": context, "items": items, "next_cursor": null});
    response(200, "application/json", body.to_string().into())
}

fn machine(state: &State) -> Value {
    json!({
        "id": "mach_1", "name": "laptop", "custodian_id": "prin_1",
        "enrollment": if state.revoked { "revoked" } else { "active" }, "connection": "online",
        "last_seen_at": null, "incarnation_id": state.incarnation, "host_key_id": null, "revision": 1, "away": null,
    })
}

fn source() -> Value {
    json!({
        "id": "src_1", "name": "laptop connector", "kind": "connector", "state": "active", "machine_id": "mach_1",
        "custodian_id": "prin_1", "default_visibility": "restricted", "revision": 1, "last_received_at": null,
        "decoder": null,
    })
}

fn bearer(request: &Request) -> Option<String> {
    let value = request.headers.get("authorization")?.to_str().ok()?;
    Some(value.strip_prefix("Bearer ")?.to_owned())
}

/// The refusal of a credential that may not do this.
pub(super) fn unauthorized(server: &Scripted, request: &Request, by_machine: bool) -> Option<Response> {
    let state = server.state();
    let token = bearer(request);
    let known = token.is_some() && (token == state.machine_token || !by_machine && token == state.user_token);
    (!known).then(|| refusal(401, "authentication_required", None))
}

/// What travelled as a token: unlike anything else, so that a test can look for it.
pub(crate) fn token(number: usize) -> String {
    format!("cred_{number}.scripted-secret-{number}")
}

fn fresh_token(state: &mut State) -> String {
    state.tokens_made += 1;
    token(state.tokens_made)
}

/// The refusal that a test wants for a call.
fn told_to_refuse(server: &Scripted, call: &str) -> Option<Response> {
    let (status, code, after) = *server.state().refuse.get(call)?;
    let mut refused = refusal(status, code, None);
    refused.headers.extend(after.map(|after| (RETRY_AFTER, HeaderValue::from_static(after))));
    Some(refused)
}

pub(super) fn answer(server: &Scripted, request: &Request) -> Result<Response, TransportFault> {
    let (path, query) = request.path_and_query.split_once('?').unwrap_or((&request.path_and_query, ""));
    let parts: Vec<_> = path.split('/').skip(2).collect();
    let last = if parts.len() == 4 && parts[2] == "machines" { "machine" } else { parts[parts.len() - 1] };
    let method = &request.method;
    let call = if *method == Method::GET { format!("get {last}") } else { last.to_owned() };
    server.state().calls.push(call.clone());
    if let Some(refused) = told_to_refuse(server, &call) {
        return Ok(refused);
    }
    let anonymous = matches!(last, "capabilities" | "preview" | "accept");
    let by_machine = matches!(last, "heartbeat" | "configuration");
    if !anonymous && let Some(refused) = unauthorized(server, request, by_machine) {
        return Ok(refused);
    }
    let body = &request.body;
    Ok(match (method, last) {
        (&Method::GET, "capabilities") => response(
            200,
            "application/json",
            json!({"version": 1, "server_id": "srv_1", "protocol": "teams.v1", "operations": [],
                   "auth_modes": ["bearer"], "name": "Office", "lan": false})
            .to_string()
            .into(),
        ),
        (_, "accept") => return accept(server, request),
        (_, "preview") => one(
            200,
            json!({"team": {"id": "team_1", "name": "Acme"}, "server": {"id": "srv_1", "name": "Office"},
                   "inviter": {"name": "Ada"}, "role": "member", "expires_at": 5}),
        ),
        (&Method::POST, "machines") => enroll(server),
        (&Method::GET, "machines") => list(json!([machine(&server.state())])),
        (&Method::GET, "machine") => one(200, machine(&server.state())),
        (&Method::DELETE, "machine") => {
            server.state().revoked = true;
            response(204, "application/json", Bytes::new())
        }
        (&Method::DELETE, "current") => response(204, "application/json", Bytes::new()),
        (_, "heartbeat") => return heartbeat(server, body),
        (_, "configuration") => one(
            200,
            json!({"machine": machine(&server.state()), "source": source(), "sync_rules": server.state().sync_rules, "auth_epoch": 1,
                   "intervals": {"heartbeat_ms": 15000, "report_min_ms": 1000, "link_ping_ms": 15000}}),
        ),
        (_, "rotate") => {
            let mut state = server.state();
            if let Some((status, code)) = state.refuse_rotate {
                return Ok(refusal(status, code, None));
            }
            let token = fresh_token(&mut state);
            state.machine_token = Some(token.clone());
            state.expires_at = server.clock.now_ms() + 30 * 86_400_000;
            one(
                200,
                json!({"credential": {"token": token, "kind": "machine", "expires_at": state.expires_at}}),
            )
        }
        (_, "me") => one(
            200,
            json!({"principal": {"id": "prin_1", "name": "Ada", "kind": "person"}, "memberships": [],
                   "credential": {"id": "cred_1", "kind": "user", "expires_at": 1}}),
        ),
        (&Method::POST, "sessions") => register(server, body),
        (&Method::GET, "sessions") => list(serde_json::to_value(&server.state().sessions).unwrap()),
        (&Method::POST, "events") => publish(server, body),
        (&Method::GET, "events") => events(server, request, query),
        other => panic!("nothing is scripted for {other:?}"),
    })
}

fn accept(server: &Scripted, request: &Request) -> Result<Response, TransportFault> {
    let mut state = server.state();
    state.keys.push(request.headers["idempotency-key"].to_str().unwrap().to_owned());
    let token = fresh_token(&mut state);
    state.user_token = Some(token.clone());
    if state.lose_acceptances > 0 {
        state.lose_acceptances -= 1;
        drop(state);
        return Err(server.unreachable());
    }
    let role = state.role.unwrap_or("member");
    Ok(one(
        201,
        json!({"principal": {"id": "prin_1", "name": "Ada", "kind": "person"}, "team": {"id": "team_1", "name": "Acme"},
               "membership": {"role": role, "active": true},
               "credential": {"token": token, "kind": "user", "expires_at": 1}}),
    ))
}

fn enroll(server: &Scripted) -> Response {
    let mut state = server.state();
    if let Some((status, code)) = state.refuse_enroll {
        return refusal(status, code, None);
    }
    let token = fresh_token(&mut state);
    state.machine_token = Some(token.clone());
    state.revoked = false;
    let credential = json!({"token": token, "kind": "machine", "expires_at": state.expires_at});
    one(201, json!({"machine": machine(&state), "source": source(), "credential": credential}))
}

fn heartbeat(server: &Scripted, body: &[u8]) -> Result<Response, TransportFault> {
    let beat: Heartbeat = serde_json::from_slice(body).unwrap();
    assert_eq!(beat.check_fields().and_then(|()| beat.check_contents(&"mach_1".into())), Ok(()));
    let mut state = server.state();
    if let Some((status, code, reason)) = state.refuse_heartbeats.pop_front() {
        return Ok(refusal(status, code, reason));
    }
    state.incarnation = Some(beat.incarnation_id.clone());
    state.beats.push(beat);
    if state.lose_answers > 0 {
        state.lose_answers -= 1;
        drop(state);
        return Err(server.unreachable());
    }
    let mut answer = machine(&state);
    answer["watched"] = json!([]);
    answer["unbound_bindings"] = serde_json::to_value(state.unbound.pop_front().unwrap_or_default()).unwrap();
    Ok(one(200, answer))
}

fn register(server: &Scripted, body: &[u8]) -> Response {
    let asked: RegisterSessions = serde_json::from_slice(body).unwrap();
    let made: Vec<_> = asked
        .sessions
        .into_iter()
        .map(|s| {
            let id = format!("sess_{}", s.native_id);
            let made = json!({"id": id, "harness": s.harness, "native_id": s.native_id, "revision": 1});
            server.state().registered.insert(s.native_id.clone(), s);
            made
        })
        .collect();
    one(200, json!({"sessions": made}))
}

fn publish(server: &Scripted, body: &[u8]) -> Response {
    let asked: Publish = serde_json::from_slice(body).unwrap();
    let made: Vec<_> = asked.events.iter().map(|e| json!({"id": e.id, "sequence": 1})).collect();
    server.state().published.extend(asked.events);
    one(201, json!({"events": made}))
}

fn events(server: &Scripted, request: &Request, query: &str) -> Response {
    if request.headers.get("accept").is_some_and(|accept| accept == "application/json") {
        let begin = json!([{"type": "snapshot_begin"}, {"type": "snapshot_end", "cursor": "c0"}]);
        let frames = if query.contains("after=") { json!([]) } else { begin };
        return response(
            200,
            "application/json",
            json!({"frames": frames, "cursor": "c0"}).to_string().into(),
        );
    }
    if server.state().held_back {
        return Response {
            body: stream::pending().boxed(),
            ..response(200, "text/event-stream", Bytes::new())
        };
    }
    let mut first = ":\n\n".to_owned();
    if !query.contains("after=") {
        first += "data: {\"type\":\"snapshot_begin\"}\n\nid: c0\ndata: {\"type\":\"snapshot_end\",\"cursor\":\"c0\"}\n\n";
    }
    let receiver = server.stream.subscribe();
    let live = stream::unfold(receiver, |mut receiver| async move {
        // A real server's comments keep an idle stream alive.
        match tokio::time::timeout(std::time::Duration::from_secs(15), receiver.recv()).await {
            Err(_) => Some((Ok(Bytes::from(":\n\n")), receiver)),
            Ok(Ok(Some(text))) => Some((Ok(Bytes::from(text)), receiver)),
            Ok(_) => None,
        }
    });
    let body = stream::iter([Ok(Bytes::from(first))]).chain(live).boxed();
    Response { body, ..response(200, "text/event-stream", Bytes::new()) }
}
