//! `GET …/audit`: the team's changes of access and their refusals, for its admins; as JSON lines for
//! whoever exports them (spec 05).

use crate::access::guard;
use crate::app::App;
use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::audit;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use teamlamp_wire::account::{AuditRow, Role};
use teamlamp_wire::id::TeamId;
use teamlamp_wire::limits::PAGE_MAX;

const LINES: &str = "application/x-ndjson";

async fn page(
    app: &App,
    caller: &crate::access::Caller,
    team: &TeamId,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<(i64, AuditRow)>, ApiError> {
    let (caller, team, now) = (caller.clone(), team.clone(), app.clock.now_ms());
    let read = app.store.read(move |db| {
        guard::credential_at(db, &caller, now)?;
        guard::person(db, &caller, &team, Role::Admin)?;
        Ok(audit::page(db, &team, before, limit)?)
    });
    read.await
}

/// Handles `audit.list`: newest first.
///
/// # Errors
/// 400, 403, 404.
pub async fn list(call: Call) -> Result<Reply, ApiError> {
    let asked = call.page()?;
    let (caller, team) = (call.caller()?.clone(), call.team());
    let accept = call.parts.headers.get(http::header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    if accept.split(',').any(|kind| kind.split(';').next().is_some_and(|k| k.trim() == LINES)) {
        let first = page(&call.app, &caller, &team, None, PAGE_MAX).await?;
        return Ok(Reply::Raw(lines(call.app.clone(), caller, team, first)));
    }
    let before = match asked.after_pair() {
        None => None,
        Some((number, _)) => {
            Some(number.parse().map_err(|_| ApiError::invalid("`cursor` is none that this list gave."))?)
        }
    };
    let mut rows = page(&call.app, &caller, &team, before, asked.limit + 1).await?;
    let next = call.next_cursor(&asked, &mut rows, |(number, row)| [number.to_string(), row.id.0.clone()])?;
    call.list(rows.into_iter().map(|(_, row)| row).collect(), next)
}

/// All of it, a page at a time, so that nothing is held for a slow reader; authority is looked at again
/// with each page.
fn lines(app: App, caller: crate::access::Caller, team: TeamId, first: Vec<(i64, AuditRow)>) -> Response {
    let pages = stream::unfold(Some((app, caller, team, Some(first), None)), |state| async move {
        let (app, caller, team, ready, before) = state?;
        let rows = match ready {
            Some(rows) => rows,
            None => match page(&app, &caller, &team, before, PAGE_MAX).await {
                Ok(rows) => rows,
                Err(refusal) => {
                    return Some((Err(std::io::Error::other(refusal.into_refusal().body.message)), None));
                }
            },
        };
        let (last, _) = rows.last()?;
        let next = (rows.len() == PAGE_MAX).then_some((app, caller, team, None, Some(*last)));
        let text = rows.iter().filter_map(|(_, row)| serde_json::to_string(row).ok());
        let text: String = text.flat_map(|line| [line, "\n".into()]).collect();
        Some((Ok(Bytes::from(text)), next))
    });
    let mut response = Response::new(Body::from_stream(pages));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
    response
}
