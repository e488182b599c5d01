//! What an answer is: a success, a refusal with its reason, or nothing of this protocol (spec 01).

use crate::error::{ClientError, Garbled, Refusal};
use crate::retry;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use teamlamp_wire::envelope::{ErrorBody, ErrorCode, ErrorEnvelope};

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Whether the body is said to be of a media type, whatever its parameters.
pub(crate) fn has_type(headers: &HeaderMap, media: &str) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    said.split(';').next().is_some_and(|t| t.trim().eq_ignore_ascii_case(media))
}

/// What an answer without success is.
pub(crate) fn refusal(peer: String, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ClientError {
    let number = status.as_u16();
    if status.is_redirection() {
        // A redirect is never followed: a token would travel to whoever is named (spec 01).
        let message = format!("{peer} sent this request elsewhere, which is not followed: give its address.");
        return refused(number, headers, plain(ErrorCode::InvalidRequest, message));
    }
    if !has_type(headers, "application/json")
        && (has_type(headers, "text/html") || body.trim_ascii_start().starts_with(b"<"))
    {
        return Garbled::Html { peer, status: number }.into();
    }
    match serde_json::from_slice::<ErrorEnvelope>(body) {
        Ok(envelope) if !status.is_success() => refused(number, headers, envelope.error),
        _ if number == 429 => {
            let message = format!("{peer} is asked too often: wait a little.");
            refused(number, headers, plain(ErrorCode::RateLimited, message))
        }
        _ if status.is_server_error() => {
            let message = format!("{peer} can't answer now (status {number}): try again.");
            refused(number, headers, plain(ErrorCode::Unavailable, message))
        }
        _ => {
            let detail = format!("{} bytes that are no answer", body.len());
            Garbled::NotOurs { peer, status: number, detail }.into()
        }
    }
}

fn plain(code: ErrorCode, message: String) -> ErrorBody {
    ErrorBody { code, message, retryable: None, details: None }
}

fn refused(status: u16, headers: &HeaderMap, body: ErrorBody) -> ClientError {
    let retry_after = retry::retry_after(status, headers, body.details.as_ref());
    if status == 429 {
        let spent = retry::spent(body.details.as_ref());
        let seconds = retry_after.unwrap_or_default().as_secs();
        tracing::warn!("refused for load, next try in {seconds} s{spent}");
    }
    ClientError::Refused(Refusal { status, body, retry_after })
}
