//! `GET …/sessions` and `GET …/sessions/{id}`: newest first, in an order that nothing changes. The table
//! is walked in windows of bounded size, like the history: a search for what is nowhere answers with fewer
//! items and says from where to go on.

use crate::access::guard;
use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::sessions::{self as rows, Listed, Wanted};
use teamlamp_wire::session::Turn;

/// How many sessions one read looks through, and how many reads one request makes.
const WINDOW: usize = 1_000;
const WINDOWS: usize = 10;

/// Handles `sessions.list`.
///
/// # Errors
/// 400 for a query that can't be read, 404.
pub async fn list(call: Call) -> Result<Reply, ApiError> {
    let (page, wanted) = (call.page()?, wanted(&call)?);
    let mut before = match page.after_pair() {
        None => None,
        Some((at, id)) => {
            let at = at.parse().map_err(|_| ApiError::invalid("`cursor` is none that this list gave."))?;
            Some((at, id.to_owned()))
        }
    };
    let (team, caller) = (call.team(), call.caller()?.clone());
    let mut items = Vec::new();
    for _ in 0..WINDOWS {
        let most = page.limit + 1 - items.len();
        let (team, caller, wanted) = (team.clone(), caller.clone(), wanted.clone());
        let window = call
            .read(move |db| {
                guard::member(db, &caller, &team)?;
                let before = before.as_ref().map(|(at, id)| (*at, id.as_str()));
                rows::window(db, &team, &wanted, before, (WINDOW, most))
            })
            .await?;
        items.extend(window.found);
        if items.len() > page.limit || window.last.is_none() {
            let key = |item: &Listed| [item.created_at.to_string(), item.session.id.0.clone()];
            return call.listed(&page, items, key);
        }
        before = window.last;
    }
    let next = before.map(|(at, id)| call.cursor_after(&[at.to_string(), id])).transpose()?;
    call.list(items, next)
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
    let revision = session.session.revision;
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
