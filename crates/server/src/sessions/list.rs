//! `GET …/sessions` and `GET …/sessions/{id}`: newest first, in an order that nothing changes.

use crate::access::guard;
use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::sessions::{self as rows, Wanted};
use teamlamp_wire::session::Turn;

/// Handles `sessions.list`.
///
/// # Errors
/// 400 for a query that can't be read, 404.
pub async fn list(call: Call) -> Result<Reply, ApiError> {
    let (page, wanted) = (call.page()?, wanted(&call)?);
    let before = match page.after_pair() {
        None => None,
        Some((at, id)) => {
            let at = at.parse().map_err(|_| ApiError::invalid("`cursor` is none that this list gave."))?;
            Some((at, id.to_owned()))
        }
    };
    let (team, caller, limit) = (call.team(), call.caller()?.clone(), page.limit);
    let found = call
        .read(move |db| {
            guard::member(db, &caller, &team)?;
            rows::list(db, &team, &wanted, before.as_ref().map(|(at, id)| (*at, id.as_str())), limit + 1)
        })
        .await?;
    call.listed(&page, found, |item| [item.created_at.to_string(), item.session.id.0.clone()])
}

/// Handles `sessions.read`.
///
/// # Errors
/// 404.
pub async fn read(call: Call) -> Result<Reply, ApiError> {
    let (team, caller, id) = (call.team(), call.caller()?.clone(), call.param("session").to_owned());
    let session = call
        .read(move |db| {
            guard::member(db, &caller, &team)?;
            rows::one(db, &team, &id)?.ok_or_else(|| ApiError::not_found("session"))
        })
        .await?;
    let revision = session.revision;
    call.revised(session, revision)
}

fn wanted(call: &Call) -> Result<Wanted, ApiError> {
    let of = |name: &str| call.query.get(name).cloned();
    let live = match call.query.get("live").map(String::as_str) {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err(ApiError::invalid("`live` must be true or false.")),
    };
    let turn = of("turn");
    if turn.as_deref().is_some_and(|t| t != "unknown" && Turn::parse(t) == Turn::Unknown) {
        return Err(ApiError::invalid(
            "`turn` must be working, waiting_approval, waiting_input, idle, ended or unknown.",
        ));
    }
    let text = of("text").map(|text| text.to_lowercase());
    Ok(Wanted { machine: of("machine"), harness: of("harness"), turn, root: of("root"), text, live })
}
