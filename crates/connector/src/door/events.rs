//! The door's event stream: the frames of the one upstream stream as SSE, in the server's own form.

use crate::stream::{Events, Told};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;
use std::convert::Infallible;
use teamlamp_client::{Ending, Followed};
use teamlamp_clock::{Clock, ms};
use teamlamp_wire::frame::Frame;
use teamlamp_wire::limits::STREAM_COMMENT_MS;
use tokio_util::sync::CancellationToken;

/// Said at once, so that a reader knows that it is heard.
const OPENING: &str = ": the local door\nretry: 1000\n\n";
const COMMENT: &str = ":\n\n";

enum Phase {
    Opening,
    Frames,
    Over,
}

/// The stream of one reader; it ends with its reader, or when the door closes.
pub(super) fn answer(reader: Events, clock: Clock, closing: CancellationToken) -> Response {
    let start = (reader, Phase::Opening);
    let body = stream::unfold(start, move |(mut reader, phase)| {
        let (clock, closing) = (clock.clone(), closing.clone());
        async move {
            let (text, phase) = match phase {
                Phase::Over => return None,
                Phase::Opening => (OPENING.to_owned(), Phase::Frames),
                Phase::Frames => tokio::select! {
                    biased;
                    () = closing.cancelled() => return None,
                    told = reader.next() => match told {
                        Some(told) => message(told),
                        None => return None,
                    },
                    () = clock.sleep(ms(STREAM_COMMENT_MS)) => (COMMENT.to_owned(), Phase::Frames),
                },
            };
            Some((Ok::<_, Infallible>(Bytes::from(text)), (reader, phase)))
        }
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store, no-transform")];
    (headers, Body::from_stream(body)).into_response()
}

/// One SSE message, and whether another may follow.
fn message(told: Told) -> (String, Phase) {
    let frame = match told.what {
        Followed::Frame { frame, .. } => frame,
        Followed::Gap { reason, pruned_through, events_missed } => {
            let known = [("pruned_through", pruned_through), ("events_missed", events_missed)];
            let known: serde_json::Map<String, Value> = known
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.into())))
                .collect();
            let details = (!known.is_empty()).then_some(Value::Object(known));
            Frame::ResyncRequired { reason, cursor: None, details, terminal: true }
        }
        Followed::Ended { why } => {
            let reason = match why {
                Ending::AccessRevoked(reason) => reason,
                Ending::Refused(_) => "authentication_required".to_owned(),
            };
            Frame::AccessRevoked { reason, terminal: true }
        }
        // The status shows these; a reader of the door has its own connection.
        Followed::Connected { .. } | Followed::Dropped { .. } => return (COMMENT.to_owned(), Phase::Frames),
    };
    let phase = if frame.is_terminal() { Phase::Over } else { Phase::Frames };
    // A frame has text keys and plain values: it can be written.
    let mut value = serde_json::to_value(&frame).unwrap_or_default();
    if let (Some(age), Value::Object(fields)) = (told.age_ms, &mut value) {
        fields.insert("age_ms".into(), age.into());
    }
    let id = frame.cursor().map(|cursor| format!("id: {cursor}\n")).unwrap_or_default();
    (format!("{id}data: {value}\n\n"), phase)
}
