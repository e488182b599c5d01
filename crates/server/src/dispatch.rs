//! One request from the socket to its answer: the checks that every route shares, in their order (spec
//! 01), then the route's handler, then one line in the log.

use crate::access::proxies::{self, is_trusted};
use crate::access::{auth, idempotency, origins};
use crate::answer;
use crate::app::App;
use crate::error::ApiError;
use crate::request::{Call, Reply, query};
use crate::router::{self, Needs, Route};
use crate::serve::{Connected, Place};
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;
use http::request::Parts;
use http::{Method, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use teamlamp_wire::id::{MachineId, RequestId, is_machine_header};
use teamlamp_wire::limits::{BODY_BYTES, CALLER_CHARS};

/// The longest that a request takes until its answer begins. One second more than what a handler waits
/// for of its own accord (an equal request: 30 s), so that its own words win.
const REQUEST: Duration = Duration::from_secs(31);

/// The longest that a body takes to arrive.
const BODY: Duration = Duration::from_secs(30);
/// How much of a refused request's body is thrown away, and for how long.
const REFUSED_BYTES: usize = 8 << 20;
const REFUSED: Duration = Duration::from_secs(2);

/// Where a connection came from and to.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The other side's address.
    pub remote: IpAddr,
    /// This side's, where there is a socket.
    pub local: Option<IpAddr>,
}

/// What the log says of a request besides its answer.
#[derive(Debug, Default)]
struct Seen {
    operation: Option<&'static str>,
    caller: Option<String>,
    credential: Option<String>,
}

/// Answers one request.
pub async fn answer(app: App, mut peer: Peer, mut request: Request<Incoming>) -> Response {
    let proxy = peer.remote;
    peer.remote = proxies::client(proxy, request.headers(), &app.config.trusted_proxies);
    let listed = app.origins.listed(request.headers());
    let begun = app.clock.monotonic();
    let request_id = RequestId::new(app.clock.now_ms(), app.chance.bits());
    let mut seen = Seen::default();
    let method = request.method().clone();
    // Whatever goes wrong in one request ends there.
    let client = client_place(&app, proxy, peer.remote);
    let held = client.as_ref().ok().cloned().flatten();
    if let Some(client) = &held {
        request.extensions_mut().get_or_insert_with(Place::default).client = Some(client.clone());
    }
    let work = async {
        client?;
        steps(&app, peer, request, &request_id, &mut seen).await
    };
    let work = AssertUnwindSafe(work).catch_unwind();
    let result = match app.clock.within(REQUEST, work).await {
        Some(Ok(result)) => result,
        Some(Err(_)) => Err(ApiError::internal("the request panicked")),
        None => Err(ApiError::unavailable(
            "The server took too long; what was asked may still be done: ask again with the same key.",
            "the request's time ran out",
        )),
    };
    let (status, detail) = match &result {
        Ok(reply) => (reply.status(), None),
        Err(refusal) => (refusal.status, refusal.detail.clone()),
    };
    let took = begun.elapsed();
    app.metrics.request(seen.operation, status, took);
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let Seen { operation, caller, credential } = seen;
    let address = peer.remote;
    if let Some(detail) = detail {
        tracing::error!(%request_id, %address, operation, caller, credential, status, took_ms, detail, "request failed");
    } else {
        tracing::info!(%request_id, %address, %method, operation, caller, credential, status, took_ms, "request");
    }
    let mut response = answer::respond(result, &request_id);
    app.origins.mark(&mut response, listed);
    if let Some(client) = held {
        response.extensions_mut().insert(Place { connection: None, client: Some(client) });
    }
    response
}

/// The place of a client for whom a trusted proxy asks; nobody else's, since their connection has one.
///
/// # Errors
/// 429 where the client has as many requests open as it may.
fn client_place(app: &App, proxy: IpAddr, client: IpAddr) -> Result<Option<Arc<Connected>>, ApiError> {
    let trusted = &app.config.trusted_proxies;
    if !is_trusted(proxy, trusted) || is_trusted(client, trusted) {
        return Ok(None);
    }
    let place = app.clients.take(client, app.config.connections, app.config.connections_per_address);
    let crowded = || {
        let sentence = "Too many requests at once from this address: wait until some of them have ended.";
        ApiError::rate_limited(sentence, 1, serde_json::json!({}))
    };
    place.map(|place| Some(Arc::new(place))).ok_or_else(crowded)
}

async fn steps(
    app: &App,
    peer: Peer,
    request: Request<Incoming>,
    request_id: &RequestId,
    seen: &mut Seen,
) -> Result<Reply, ApiError> {
    let (parts, body) = request.into_parts();
    let mut body = Some(body);
    let expects_word = parts.headers.contains_key(http::header::EXPECT);
    let result = after_size(app, peer, parts, &mut body, request_id, seen).await;
    // What was refused unread is taken off the wire: closing over it would reset the connection, and its
    // sender would never see why. Who asked first whether to send it has not.
    if let Some(rest) = body.filter(|_| result.is_err() && !expects_word) {
        app.clock.within(REFUSED, thrown_away(rest)).await;
    }
    result
}

/// The steps from the body's size on. The body is taken by whoever reads it.
async fn after_size(
    app: &App,
    peer: Peer,
    parts: Parts,
    body: &mut Option<Incoming>,
    request_id: &RequestId,
    seen: &mut Seen,
) -> Result<Reply, ApiError> {
    let found = router::find(parts.uri.path());
    let route = found.as_ref().and_then(|found| found.route(&parts.method));
    seen.operation = route.map(|route| route.operation);
    seen.caller = caller_name(&parts);
    let limit = route.map_or(BODY_BYTES, |route| route.body_bytes);
    if body.as_ref().is_some_and(|body| body.size_hint().lower() > limit as u64) {
        return Err(answer::too_large(limit));
    }
    if route.is_none_or(|route| route.needs != Needs::Probe) {
        app.hosts.check(&parts, peer.local)?;
        app.origins.check(&parts)?;
        if let Some(response) = origins::preflight(&parts, found.as_ref()) {
            return Ok(Reply::Raw(response));
        }
        return checked(app, peer, (parts, body), found, request_id, seen).await;
    }
    let route = route.ok_or_else(|| ApiError::not_found("page"))?;
    let body = taken(app, body, limit).await?;
    let call = Call {
        app: app.clone(),
        route,
        caller: None,
        params: BTreeMap::new(),
        query: query(&parts, route)?,
        parts,
        body,
        request_id: request_id.clone(),
        peer: peer.remote,
        machine_header: None,
        idempotency_key: None,
        keyed: None,
    };
    (route.handler)(call).await
}

/// The steps behind the host's: credential, limits, method, query, headers, body.
async fn checked(
    app: &App,
    peer: Peer,
    (parts, body): (Parts, &mut Option<Incoming>),
    found: Option<router::Found>,
    request_id: &RequestId,
    seen: &mut Seen,
) -> Result<Reply, ApiError> {
    let caller = match auth::find(app, &parts.headers).await {
        Err(fault) if is_heartbeat(&found, &parts.method) => {
            // A store that can't say whose report came hears nobody: that is no silence of anyone's.
            app.trust.begin_again(&app.clock);
            return Err(fault);
        }
        found => found?,
    };
    seen.credential = caller.as_ref().map(|c| c.credential_id.0.clone());
    let now = app.clock.monotonic();
    match &caller {
        Some(caller) => {
            let route = found.as_ref().map_or("(unknown)", |found| found.path);
            let route = format!("{} {route}", method_name(&parts.method));
            app.limits.spend(&caller.credential_id, seen.caller.as_deref(), &route, now)?;
        }
        None => app.limits.spend_anonymous(peer.remote, now)?,
    }
    let found = found.ok_or_else(|| ApiError::not_found("page"))?;
    let route = found.route(&parts.method).ok_or_else(|| answer::method_not_allowed(&found))?;
    let needed = match route.needs {
        Needs::Credential => true,
        Needs::Optional => parts.headers.contains_key(http::header::AUTHORIZATION),
        Needs::Nothing | Needs::Probe => false,
    };
    if needed && caller.is_none() {
        return Err(ApiError::unauthenticated());
    }
    let query = query(&parts, route)?;
    let idempotency_key = if parts.method == Method::GET { None } else { idempotency::key(&parts.headers)? };
    let has_body = body.as_ref().is_some_and(|body| !body.is_end_stream());
    if has_body && route.method != Method::GET && !is_json(&parts) {
        return Err(answer::unsupported_media_type());
    }
    let body = taken(app, body, route.body_bytes).await?;
    refuse_stray_body(route, &body)?;
    let call = Call {
        app: app.clone(),
        route,
        caller,
        params: found.params,
        query,
        machine_header: machine_header(&parts),
        parts,
        body,
        request_id: request_id.clone(),
        peer: peer.remote,
        idempotency_key,
        keyed: None,
    };
    (route.handler)(call).await
}

fn is_heartbeat(found: &Option<router::Found>, method: &Method) -> bool {
    let route = found.as_ref().and_then(|found| found.route(method));
    route.is_some_and(|route| route.operation == "machines.heartbeat")
}

async fn taken(app: &App, body: &mut Option<Incoming>, limit: usize) -> Result<Bytes, ApiError> {
    match body.take() {
        Some(body) => whole(app, body, limit).await,
        None => Ok(Bytes::new()),
    }
}

async fn thrown_away(mut body: Incoming) {
    let mut left = REFUSED_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(less) => left = less,
            None => return,
        }
    }
}

/// The whole body, or 413 as soon as it is over its limit.
async fn whole(app: &App, body: Incoming, limit: usize) -> Result<Bytes, ApiError> {
    match app.clock.within(BODY, Limited::new(body, limit).collect()).await {
        Some(Ok(collected)) => Ok(collected.to_bytes()),
        Some(Err(fault)) if fault.is::<LengthLimitError>() => Err(answer::too_large(limit)),
        Some(Err(_)) => Err(ApiError::invalid("The body broke off before its end: send it again.")),
        None => Err(ApiError::invalid("The body took longer than 30 s to arrive: send it again.")),
    }
}

/// A route that takes no body takes `{}` too, and names any field of another.
fn refuse_stray_body(route: &Route, body: &[u8]) -> Result<(), ApiError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoFields {}
    if route.takes.is_some() || body.is_empty() || route.method == Method::GET {
        return Ok(());
    }
    teamlamp_wire::json::read::<NoFields>(body).map(|NoFields {}| ()).map_err(ApiError::invalid)
}

fn is_json(parts: &Parts) -> bool {
    let mut values = parts.headers.get_all(http::header::CONTENT_TYPE).iter();
    let value = values.next().and_then(|value| value.to_str().ok()).filter(|_| values.next().is_none());
    let mut pieces = value.unwrap_or("").split(';').map(str::trim);
    pieces.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
        && pieces.all(|piece| match piece.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            _ => true,
        })
}

/// The program and call site that a request names: printable ASCII, at most 120 characters, the site
/// (the last word) whole up to 60 of them.
fn caller_name(parts: &Parts) -> Option<String> {
    let raw = parts.headers.get(teamlamp_wire::HEADER_CALLER)?.as_bytes();
    let text: String =
        raw.iter().filter(|b| (0x20..0x7f).contains(*b)).map(|b| char::from(*b)).take(4096).collect();
    let text = text.trim();
    let (longest, longest_site) = CALLER_CHARS;
    if text.is_empty() {
        return None;
    }
    if text.len() <= longest {
        return Some(text.to_owned());
    }
    let Some((program, site)) = text.rsplit_once(' ').filter(|(_, site)| site.len() <= longest_site) else {
        return text.get(..longest).map(str::to_owned);
    };
    let room = longest - site.len() - 1;
    Some(format!("{} {site}", program.get(..room).unwrap_or(program).trim_end()))
}

/// Methods that the table does not know are told apart by nobody: a name is not a place for any text.
fn method_name(method: &Method) -> &str {
    match *method {
        Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => method.as_str(),
        _ => "(other)",
    }
}

fn machine_header(parts: &Parts) -> Option<MachineId> {
    let value = parts.headers.get(teamlamp_wire::HEADER_MACHINE)?.to_str().ok()?;
    is_machine_header(value).then(|| value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(name: &str, value: &str) -> Parts {
        http::Request::builder().header(name, value).body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_caller_keeps_its_call_site_whole() {
        let name = |value: &str| caller_name(&parts(teamlamp_wire::HEADER_CALLER, value));
        assert_eq!(name("teamlamp/0.1 heartbeat").as_deref(), Some("teamlamp/0.1 heartbeat"));
        let long = name(&format!("{} src/heartbeat.rs:12", "p".repeat(300))).unwrap();
        assert_eq!(long.len(), 120);
        assert!(long.ends_with("p src/heartbeat.rs:12"));
        assert_eq!(name(&"x".repeat(300)).unwrap().len(), 120);
        assert_eq!(name(&format!("p {}", "s".repeat(200))).unwrap().len(), 120);
        assert_eq!(name("  "), None);
        assert_eq!(name("a\tb").as_deref(), Some("ab"));
    }

    proptest::proptest! {
        #[test]
        fn no_header_or_query_of_a_request_panics(bytes in proptest::collection::vec(32u8..=255, 0..300)) {
            // DEL can stand in no header.
            let bytes: Vec<u8> = bytes.into_iter().filter(|b| *b != 127).collect();
            let value = http::HeaderValue::from_bytes(&bytes).unwrap();
            let mut request = http::Request::new(());
            for name in ["authorization", "host", "content-type", teamlamp_wire::HEADER_CALLER, "if-match"] {
                request.headers_mut().insert(name, value.clone());
            }
            if let Ok(uri) = format!("/?{}", String::from_utf8_lossy(&bytes)).parse() {
                *request.uri_mut() = uri;
            }
            let parts = request.into_parts().0;
            let _ = (caller_name(&parts), is_json(&parts), machine_header(&parts));
            let _ = query(&parts, &router::ROUTES[0]);
            let _ = crate::access::hosts::Hosts::new("http://localhost", &[]).check(&parts, None);
            assert!(caller_name(&parts).is_none_or(|name| name.len() <= 120));
        }
    }

    #[test]
    fn only_json_in_utf8_is_json() {
        let json = |value: &str| is_json(&parts("content-type", value));
        for good in
            ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""]
        {
            assert!(json(good), "{good}");
        }
        for bad in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", ""]
        {
            assert!(!json(bad), "{bad}");
        }
    }
}
