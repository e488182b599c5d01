//! Answers on their way out: replies and refusals with the headers that every answer has.

use crate::error::ApiError;
use crate::request::Reply;
use crate::router::Found;
use axum::body::Body;
use axum::response::Response;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use teamlamp_wire::envelope::{ErrorCode, ErrorEnvelope};
use teamlamp_wire::id::RequestId;

const NO_PAGE: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// 413; the connection closes, since what is left of the body is not worth reading.
pub(crate) fn too_large(limit: usize) -> ApiError {
    let limit =
        if limit.is_multiple_of(1 << 20) { format!("{} MiB", limit >> 20) } else { format!("{limit} bytes") };
    ApiError::new(ErrorCode::TooLarge, format!("The body is too large: at most {limit} are read here."))
}

/// 405 with the methods that the path knows.
pub(crate) fn method_not_allowed(found: &Found) -> ApiError {
    let allow = found.methods();
    let mut refusal = ApiError::invalid(format!("This path knows {allow} only.")).with_status(405);
    refusal.allow = Some(allow);
    refusal
}

/// 415.
pub(crate) fn unsupported_media_type() -> ApiError {
    ApiError::invalid("Send the body as `Content-Type: application/json`, in UTF-8.").with_status(415)
}

/// The response of a result, with the request's id.
pub(crate) fn respond(result: Result<Reply, ApiError>, request_id: &RequestId) -> Response {
    let mut response = match result {
        Ok(Reply::Json { status, body, etag }) => json(status, body, etag),
        Ok(Reply::Empty) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Ok(Reply::Raw(response)) => response,
        Err(refusal) => refused(refusal),
    };
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // Nothing here is a page: a browser that is led to an answer shows it as what it is, and runs nothing.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, NO_PAGE);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(id) = HeaderValue::from_str(request_id.as_str()) {
        headers.insert(teamlamp_wire::HEADER_REQUEST_ID, id);
    }
    response
}

fn json(status: u16, body: String, etag: Option<i64>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    if let Some(tag) = etag.and_then(|revision| HeaderValue::from_str(&format!("\"{revision}\"")).ok()) {
        headers.insert(ETAG, tag);
    }
    response
}

fn refused(refusal: ApiError) -> Response {
    let refusal = refusal.into_refusal();
    let code = refusal.body.code;
    let body = serde_json::to_string(&ErrorEnvelope { error: refusal.body }).unwrap_or_default();
    let mut response = json(refusal.status, body, None);
    let headers = response.headers_mut();
    if let Some(seconds) = refusal.retry_after_seconds {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(allow) = refusal.allow.and_then(|allow| HeaderValue::from_str(&allow).ok()) {
        headers.insert(ALLOW, allow);
    }
    match code {
        ErrorCode::TooLarge => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        ErrorCode::AuthenticationRequired => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}
