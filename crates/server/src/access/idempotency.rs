//! Requests that are sent again: the answer of a success is kept in the transaction of its change, and
//! given again instead of doing the change twice (spec 01).

use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::Tx;
use crate::store::idempotency::{self, Record, Scope};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use subtle::ConstantTimeEq;
use teamlamp_clock::{Clock, ms};
use teamlamp_wire::id::CredentialId;
use teamlamp_wire::json::canonical;
use teamlamp_wire::limits::{IDEMPOTENCY_KEY_CHARS, IDEMPOTENCY_WAIT_MS};
use tokio::sync::watch;

/// The fields that hold secrets, wherever they stand in an answer.
const SECRETS: &[&str] = &["token", "code", "link", "secret"];

/// The idempotency key of a request, checked.
///
/// # Errors
/// 400 for one that is empty, too long, repeated or not visible ASCII.
pub fn key(headers: &http::HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(teamlamp_wire::HEADER_IDEMPOTENCY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| {
        (1..=IDEMPOTENCY_KEY_CHARS).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic())
    });
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        _ => {
            Err(ApiError::invalid("Idempotency-Key must be one value of 1 to 128 visible ASCII characters."))
        }
    }
}

/// A request with an idempotency key: where its answer is kept and what makes it the same request.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// Where its answer is kept.
    pub scope: Scope,
    digest: [u8; 32],
}

/// What a call's key stands for; `None` where it has none.
pub fn of(call: &Call) -> Option<Keyed> {
    let key = call.idempotency_key.clone()?;
    let principal = call.caller.as_ref().map(|c| c.principal_id.0.clone()).unwrap_or_default();
    let scope = Scope { team: call.param("team").into(), principal, route: call.route.operation.into(), key };
    // Length-prefixed parts, so that no two requests have the same bytes.
    let body = serde_json::from_slice::<Value>(&call.body)
        .map_or_else(|_| call.body.to_vec(), |v| canonical(&v).into_bytes());
    // 'The credential of the request' is another one with each credential of the same person.
    let own = call.caller.as_ref().filter(|_| call.route.path.starts_with("/v1/credentials/"));
    let own = own.map_or("", |caller| caller.credential_id.as_str());
    let if_match = call.parts.headers.get(http::header::IF_MATCH).map_or(&b""[..], |v| v.as_bytes());
    let mut request = Vec::new();
    for part in [
        call.parts.method.as_str().as_bytes(),
        call.parts.uri.path().as_bytes(),
        call.parts.uri.query().unwrap_or_default().as_bytes(),
        if_match,
        own.as_bytes(),
        &body,
    ] {
        request.extend_from_slice(&(part.len() as u64).to_be_bytes());
        request.extend_from_slice(part);
    }
    Some(Keyed { scope, digest: call.app.keys.request_digest(&request) })
}

/// The answer that the same request already had.
///
/// # Errors
/// 409 where the key belongs to another request.
pub fn earlier(tx: &Tx<'_>, keyed: &Keyed) -> Result<Option<Record>, ApiError> {
    let Some(record) = idempotency::find(tx, &keyed.scope, tx.now_ms)? else { return Ok(None) };
    if !bool::from(record.digest.ct_eq(&keyed.digest)) {
        return Err(ApiError::new(
            teamlamp_wire::envelope::ErrorCode::IdempotencyConflict,
            "This Idempotency-Key belongs to another request: use a new key for a new request.",
        ));
    }
    Ok(Some(record))
}

/// A stored answer as a reply.
pub fn again(record: Record) -> Reply {
    if record.body.is_empty() {
        return Reply::Empty;
    }
    Reply::Json { status: record.status, body: record.body, etag: record.etag }
}

/// Keeps the answer of a success, without its secrets.
///
/// # Errors
/// A store that can't be written.
pub fn keep(
    tx: &Tx<'_>,
    keyed: &Keyed,
    reply: &Reply,
    credential: Option<&CredentialId>,
) -> Result<(), ApiError> {
    let (status, body, etag) = match reply {
        Reply::Json { status, body, etag } if *status < 400 => (*status, redacted(body)?, *etag),
        Reply::Empty => (204, String::new(), None),
        Reply::Json { .. } | Reply::Raw(_) => return Ok(()),
    };
    let record = Record { digest: keyed.digest, status, body, etag, credential: credential.cloned() };
    Ok(idempotency::keep(tx, &keyed.scope, &record)?)
}

/// Does `act`, unless the same request was answered before: then that answer, and nothing is done.
///
/// # Errors
/// What `act` returns; 409 where the key belongs to another request.
pub fn once(
    tx: &Tx<'_>,
    call: &Call,
    act: impl FnOnce(&Tx<'_>) -> Result<Reply, ApiError>,
) -> Result<Reply, ApiError> {
    let Some(keyed) = &call.keyed else { return act(tx) };
    if let Some(record) = earlier(tx, keyed)? {
        return Ok(again(record));
    }
    let reply = act(tx)?;
    keep(tx, keyed, &reply, None)?;
    Ok(reply)
}

/// A body with null for each secret and `"redacted":true` beside it.
fn redacted(body: &str) -> Result<String, ApiError> {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(map) => {
                let mut found = false;
                for (name, inner) in map.iter_mut() {
                    if SECRETS.contains(&name.as_str()) && inner.is_string() {
                        *inner = Value::Null;
                        found = true;
                    } else {
                        walk(inner);
                    }
                }
                if found {
                    map.insert("redacted".into(), Value::Bool(true));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(body)?;
    walk(&mut value);
    Ok(value.to_string())
}

/// The requests with a key that are under way: the second of two equal ones waits for the first.
#[derive(Clone, Debug, Default)]
pub struct Flights(Arc<Mutex<BTreeMap<Scope, watch::Sender<()>>>>);

/// A place among the [`Flights`], given back when it is dropped.
#[derive(Debug)]
pub struct Flight {
    flights: Flights,
    scope: Scope,
}

impl Drop for Flight {
    fn drop(&mut self) {
        // Whoever waits sees its sender go.
        self.flights.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.scope);
    }
}

impl Flights {
    /// How many requests with a key are under way.
    pub fn under_way(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until no other request flies under this scope.
    ///
    /// # Errors
    /// 409, retryable, after 30 s.
    pub async fn enter(&self, scope: &Scope, clock: &Clock) -> Result<Flight, ApiError> {
        let turn = async {
            loop {
                let mut other = {
                    let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                    match flights.get(scope) {
                        Some(first) => first.subscribe(),
                        None => {
                            flights.insert(scope.clone(), watch::channel(()).0);
                            return Flight { flights: self.clone(), scope: scope.clone() };
                        }
                    }
                };
                let _ = other.changed().await;
            }
        };
        clock.within(ms(IDEMPOTENCY_WAIT_MS), turn).await.ok_or_else(|| {
            let mut busy = ApiError::conflict("The same request is still under way: ask again in a moment.");
            busy.body.retryable = Some(true);
            busy
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    #[test]
    fn secrets_become_null_wherever_they_stand() {
        let body = r#"{"version":1,"data":{"credential":{"token":"t","kind":"user"},"list":[{"code":"c","link":"l"}],"code":null}}"#;
        let kept: Value = serde_json::from_str(&redacted(body).unwrap()).unwrap();
        assert_eq!(kept["data"]["credential"]["token"], Value::Null);
        assert_eq!(kept["data"]["credential"]["redacted"], true);
        assert_eq!(kept["data"]["list"][0]["redacted"], true);
        assert_eq!(kept["data"].get("redacted"), None);
        assert!(!redacted(body).unwrap().contains("\"t\""));
    }

    #[test]
    fn keys_are_checked() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(
                    teamlamp_wire::HEADER_IDEMPOTENCY,
                    HeaderValue::from_bytes(value.as_bytes()).unwrap(),
                );
            }
            key(&headers)
        };
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["k-1"]).unwrap().as_deref(), Some("k-1"));
        assert!(read(&[&"k".repeat(128)]).is_ok());
        for bad in [vec![""], vec!["a b"], vec!["é"], vec!["a", "b"]] {
            assert_eq!(read(&bad).unwrap_err().status, 400, "{bad:?}");
        }
        assert!(read(&[&"k".repeat(129)]).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_of_two_equal_requests_waits_30_seconds_at_most() {
        let (flights, clock) = (Flights::default(), Clock::starting_at(0));
        let scope = Scope { team: "t".into(), principal: "p".into(), route: "r".into(), key: "k".into() };
        let first = flights.enter(&scope, &clock).await.unwrap();
        let refusal = flights.enter(&scope, &clock).await.unwrap_err();
        assert_eq!((refusal.status, refusal.body.retryable), (409, Some(true)));
        assert_eq!(clock.now_ms(), IDEMPOTENCY_WAIT_MS);
        let (second, ()) = tokio::join!(flights.enter(&scope, &clock), async { drop(first) });
        drop(second.unwrap());
        assert!(flights.0.lock().unwrap().is_empty());
    }
}
