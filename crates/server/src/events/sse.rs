//! Server-sent events as bytes, and the response that carries them.

use super::outlet::Outlet;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use teamlamp_wire::limits::STREAM_PADDING_BYTES;

/// One message; `json` holds no line end, since it is serialized JSON.
pub fn message(id: Option<&str>, json: &str) -> Bytes {
    let mut text = String::with_capacity(json.len() + id.map_or(0, str::len) + 16);
    if let Some(id) = id {
        text.push_str("id: ");
        text.push_str(id);
        text.push('\n');
    }
    text.push_str("data: ");
    text.push_str(json);
    text.push_str("\n\n");
    text.into()
}

/// What every stream begins with: padding, so that a proxy that buffers is found out early, and how soon
/// a browser dials again.
pub fn opening() -> Bytes {
    format!(":{}\nretry: 1000\n\n", " ".repeat(STREAM_PADDING_BYTES)).into()
}

/// What tells an idle reader that the stream lives.
pub fn comment() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// The response of a stream.
pub fn response(outlet: Outlet) -> Response {
    let mut response = Response::new(Body::new(outlet));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_begins_with_two_kibibytes_and_the_retry() {
        let text = String::from_utf8(opening().to_vec()).unwrap();
        assert!(text.starts_with(':') && text.find('\n').unwrap() >= 2048);
        assert!(text.ends_with("\nretry: 1000\n\n"));
        assert_eq!(message(Some("c"), "{}"), "id: c\ndata: {}\n\n");
        assert_eq!(message(None, "{}"), "data: {}\n\n");
    }
}
