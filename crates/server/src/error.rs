//! Refusals and faults: a code for programs, a sentence for people, a detail for the log.

use crate::store::Fault;
use serde_json::{Value, json};
use teamlamp_wire::envelope::{ErrorBody, ErrorCode};
use teamlamp_wire::id::TeamId;

/// Why a request is not done: a [`Refusal`], boxed so that results stay small.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {}", .0.body.message, .0.detail.as_deref().unwrap_or("refused"))]
pub struct ApiError(Box<Refusal>);

/// What is said of a request that is not done. `detail` goes to the log under the request id and never to
/// the caller.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What the caller is told.
    pub body: ErrorBody,
    /// The status, where it is not the code's own (405, 415).
    pub status: u16,
    /// For the log alone.
    pub detail: Option<String>,
    /// `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u64>,
    /// `Allow`, of a 405.
    pub allow: Option<String>,
    /// The team whose admins read of the refusal, where the path names none.
    pub team: Option<TeamId>,
    /// Where the store itself fails: how.
    pub fault: Option<Fault>,
}

impl ApiError {
    /// A refusal with its code's own status.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Refusal {
            body: ErrorBody { code, message: message.into(), retryable: None, details: None },
            status: code.status(),
            detail: None,
            retry_after_seconds: None,
            allow: None,
            team: None,
            fault: None,
        }))
    }
    /// What is said.
    pub fn into_refusal(self) -> Refusal {
        *self.0
    }
    /// 400.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }
    /// 401: missing, malformed, unknown, revoked and expired credentials are all alike.
    pub fn unauthenticated() -> Self {
        Self::new(
            ErrorCode::AuthenticationRequired,
            "The credential is missing or no longer valid: sign in again.",
        )
    }
    /// 403.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Forbidden, message)
    }
    /// 404: not there, or not visible.
    pub fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("There is no such {what} here, or it is not yours to see."))
    }
    /// 409.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Conflict, message)
    }
    /// 410.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Gone, message)
    }
    /// 409: `If-Match` names another revision.
    pub fn revision_mismatch(current: i64) -> Self {
        Self::new(ErrorCode::RevisionMismatch, "Someone changed this meanwhile: read it again and repeat.")
            .with_details(json!({ "revision": current }))
    }
    /// 429 with how long to wait.
    pub fn rate_limited(message: impl Into<String>, retry_after_seconds: u64, mut details: Value) -> Self {
        details["retry_after_seconds"] = json!(retry_after_seconds);
        let mut error = Self::new(ErrorCode::RateLimited, message).with_details(details);
        error.retry_after_seconds = Some(retry_after_seconds);
        error
    }
    /// 500: the cause is for the log.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        let mut error = Self::new(
            ErrorCode::Internal,
            "The server failed: its log says why, under the request id of this answer.",
        );
        error.detail = Some(cause.to_string());
        error
    }
    /// 503: the same request may succeed later.
    pub fn unavailable(message: impl Into<String>, cause: impl std::fmt::Display) -> Self {
        let mut error = Self::new(ErrorCode::Unavailable, message);
        error.body.retryable = Some(true);
        error.detail = Some(cause.to_string());
        error
    }
    /// A refusal that concerns this team, which the path does not name.
    pub fn of_team(mut self, team: &TeamId) -> Self {
        self.team = Some(team.clone());
        self
    }
    /// Facts about the refusal.
    pub fn with_details(mut self, details: Value) -> Self {
        self.body.details = Some(details);
        self
    }
    /// Another status than the code's own.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

impl std::ops::Deref for ApiError {
    type Target = Refusal;
    fn deref(&self) -> &Refusal {
        &self.0
    }
}

impl std::ops::DerefMut for ApiError {
    fn deref_mut(&mut self) -> &mut Refusal {
        &mut self.0
    }
}

impl From<rusqlite::Error> for ApiError {
    fn from(error: rusqlite::Error) -> Self {
        match Fault::of(&error) {
            Some(fault) => fault.refusal(error),
            None => Self::internal(error),
        }
    }
}

impl From<serde_json::Error> for ApiError {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error)
    }
}
