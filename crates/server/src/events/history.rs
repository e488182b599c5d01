//! `GET …/events/history` and `GET …/events/{id}`: what happened, newest first. The table is walked back
//! in windows of bounded size, so that a search for what is nowhere does not read a whole history at once:
//! it answers with fewer items and says from where to go on.

use crate::error::ApiError;
use crate::events::authority::Authority;
use crate::request::{Call, Reply};
use crate::store::events::{self as rows, Stored};
use crate::store::history::{Wanted, look};
use serde_json::Value;
use teamlamp_wire::event::{KindFilter, Sequenced};
use teamlamp_wire::id::SourceId;

/// How many bounded looks one request makes.
const LOOKS: usize = 10;

/// Handles `events.history`.
///
/// # Errors
/// 400 for a query that can't be read, 404.
pub async fn list(call: Call) -> Result<Reply, ApiError> {
    let page = call.page()?;
    let (kinds, wanted) = (kinds(&call)?, wanted(&call));
    let text = call.query.get("text").map(|text| text.to_lowercase()).filter(|text| !text.is_empty());
    let (team, caller) = (call.team(), call.caller()?.clone());
    let (now, credentials) = (call.app.clock.now_ms(), call.app.hub.credentials_ended());
    let (authority, last) = {
        let team = team.clone();
        call.read(move |conn| {
            let authority = Authority::read(conn, &caller, &team, now, credentials)?;
            let last = rows::head(conn, &team)?.map_or(0, |head| head.last);
            Ok((authority, last))
        })
        .await?
    };
    let mut before = before(&call)?.unwrap_or(i64::MAX).min(last + 1);
    let mut items: Vec<Sequenced> = Vec::new();
    for _ in 0..LOOKS {
        let (team, wanted) = (team.clone(), wanted.clone());
        let found = call.read(move |conn| look(conn, &team, &wanted, before)).await?;
        for stored in found.events {
            if !kinds.admits(&stored.kind) || !authority.may_read(&stored) {
                continue;
            }
            let item = sequenced(&stored)?;
            if text.as_ref().is_some_and(|text| !mentions(&item, text)) {
                continue;
            }
            if items.len() == page.limit {
                let next = items.last().map(|item| item.sequence.to_string());
                return call.list(items, next);
            }
            items.push(item);
        }
        before = found.from;
        if before <= 1 {
            return call.list(items, None);
        }
    }
    call.list(items, Some(before.to_string()))
}

/// Handles `events.read`.
///
/// # Errors
/// 404.
pub async fn read(call: Call) -> Result<Reply, ApiError> {
    let (team, caller, id) = (call.team(), call.caller()?.clone(), call.param("event").to_owned());
    let (now, credentials) = (call.app.clock.now_ms(), call.app.hub.credentials_ended());
    let found = call
        .read(move |conn| {
            let authority = Authority::read(conn, &caller, &team, now, credentials)?;
            let stored = rows::by_id(conn, &team, &id)?.filter(|stored| authority.may_read(stored));
            sequenced(&stored.ok_or_else(|| ApiError::not_found("event"))?)
        })
        .await?;
    call.one(found)
}

fn sequenced(stored: &Stored) -> Result<Sequenced, ApiError> {
    let source_id = stored.source_id.clone().map(SourceId);
    Ok(Sequenced { sequence: stored.sequence, event: stored.event()?, source_id })
}

fn kinds(call: &Call) -> Result<KindFilter, ApiError> {
    match call.query.get("kinds") {
        Some(list) => KindFilter::parse(list).map_err(ApiError::invalid),
        None => Ok(KindFilter::default()),
    }
}

fn wanted(call: &Call) -> Wanted {
    let of = |name: &str| call.query.get(name).cloned();
    Wanted { machine: of("machine").map(Into::into), session: of("session"), actor: of("actor") }
}

fn before(call: &Call) -> Result<Option<i64>, ApiError> {
    let Some(text) = call.query.get("before") else { return Ok(None) };
    let number = text.parse().ok().filter(|n| *n > 0 && text.bytes().all(|b| b.is_ascii_digit()));
    number.map(Some).ok_or_else(|| ApiError::invalid("`before` must be the sequence of an event."))
}

/// Whether an event's names, titles or string values hold a text, which is in lower case.
fn mentions(found: &Sequenced, text: &str) -> bool {
    fn in_value(value: &Value, text: &str) -> bool {
        match value {
            Value::String(s) => s.to_lowercase().contains(text),
            Value::Array(items) => items.iter().any(|item| in_value(item, text)),
            Value::Object(map) => map.values().any(|item| in_value(item, text)),
            _ => false,
        }
    }
    found.event.actor.name.to_lowercase().contains(text)
        || found.event.data.values().any(|value| in_value(value, text))
}
