//! The local door: what other programs of this person on this computer ask the connector, over a socket
//! in the home. It serves what the connector has; what it has not, a reader asks the server itself.

mod events;
mod listener;

use crate::connector::{Action, Connector};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use teamlamp_clock::Tasks;
use teamlamp_wire::local::PauseRequest;
use tokio_util::sync::CancellationToken;

/// No request of the door is larger.
const BODY_BYTES: usize = 64 << 10;
/// No pause is longer: ten years.
const PAUSE_SECONDS: i64 = 10 * 365 * 86_400;

/// Opens the door of a connector; it closes with `tasks`.
pub(crate) fn open(connector: &Connector, tasks: &Tasks) -> io::Result<()> {
    let install = connector.install();
    let listener = listener::PrivateListener::bind(&install.home, install.clock.clone())?;
    let closing = tasks.token().clone();
    let router = routes(connector.clone(), closing.clone());
    tasks.spawn_to_end("local door", async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(closing.cancelled_owned()).await;
        if let Err(fault) = served {
            tracing::error!(%fault, "the local door closed");
        }
    });
    Ok(())
}

#[derive(Clone, Debug)]
struct Door {
    connector: Connector,
    closing: CancellationToken,
}

fn routes(connector: Connector, closing: CancellationToken) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/events", get(follow))
        .route("/v1/machines", get(machines))
        .route("/v1/pause", post(pause))
        .route("/v1/connect-now", post(connect_now))
        .fallback(|| async {
            refused(StatusCode::NOT_FOUND, "not_found", "The local door has nothing there.")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(Door { connector, closing })
}

/// A refusal in the protocol's shape.
fn refused(status: StatusCode, code: &str, message: &str) -> Response {
    (status, Json(json!({"error": {"code": code, "message": message}}))).into_response()
}

/// The door has not what is asked for, the server may.
fn unsupported(message: &str) -> Response {
    refused(StatusCode::NOT_FOUND, "unsupported", message)
}

type Asked = Query<BTreeMap<String, String>>;

async fn status(State(door): State<Door>) -> Response {
    Json(&*door.connector.status()).into_response()
}

async fn follow(State(door): State<Door>, headers: HeaderMap, Query(mut asked): Asked) -> Response {
    let context = match context(&door, asked.remove("context")) {
        Ok(context) => context,
        Err(why) => return unsupported(&why),
    };
    let after = asked.remove("after");
    if let Some(filter) = asked.keys().next() {
        let filter = teamlamp_wire::text::visible(&filter.chars().take(40).collect::<String>());
        return unsupported(&format!("The local door has no `{filter}`: ask the server itself."));
    }
    let resumed = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    match door.connector.events(&context, resumed.or(after).as_deref()) {
        Ok(reader) => events::answer(reader, door.connector.install().clock.clone(), door.closing),
        Err(fault) => unsupported(&fault.to_string()),
    }
}

async fn machines(State(door): State<Door>, Query(mut asked): Asked) -> Response {
    let context = match context(&door, asked.remove("context")) {
        Ok(context) => context,
        Err(why) => return unsupported(&why),
    };
    if !asked.is_empty() {
        return unsupported("The local door lists machines by context alone: ask the server itself.");
    }
    let Some((client, context)) = door.connector.client(&context) else {
        return refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "The connector is not signed in there now.",
        );
    };
    match client.at("door").machines(&context.team_id).await {
        Ok(items) => Json(json!({"items": items})).into_response(),
        Err(fault) => refused(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &fault.sentence()),
    }
}

/// The context that is asked for, or the only one.
fn context(door: &Door, asked: Option<String>) -> Result<String, String> {
    let contexts = door.connector.contexts();
    crate::contexts::choose(&contexts, asked.as_deref()).map(|c| c.id.clone())
}

async fn pause(State(door): State<Door>, body: Bytes) -> Response {
    let request: PauseRequest = match teamlamp_wire::json::read(&body) {
        Ok(request) => request,
        Err(why) => return refused(StatusCode::BAD_REQUEST, "invalid_request", &why),
    };
    let action = match request {
        PauseRequest { paused: true, for_seconds: None } => Action::Pause { for_ms: None },
        PauseRequest { paused: true, for_seconds: Some(seconds @ 1..=PAUSE_SECONDS) } => {
            Action::Pause { for_ms: Some(seconds * 1_000) }
        }
        PauseRequest { paused: false, for_seconds: None } => Action::Resume,
        PauseRequest { .. } => {
            let message = "for_seconds must be at least 1, and goes only with a pause.";
            return refused(StatusCode::BAD_REQUEST, "invalid_request", message);
        }
    };
    match door.connector.act(action).await {
        Ok(()) => Json(&*door.connector.status()).into_response(),
        Err(fault) => refused(StatusCode::INTERNAL_SERVER_ERROR, "internal", &fault.to_string()),
    }
}

async fn connect_now(State(door): State<Door>) -> Response {
    match door.connector.act(Action::ConnectNow).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(fault) => refused(StatusCode::INTERNAL_SERVER_ERROR, "internal", &fault.to_string()),
    }
}

#[cfg(test)]
mod tests;
