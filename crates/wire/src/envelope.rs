//! The envelopes of results, lists and errors, and the error codes (spec 01).

use crate::VERSION;
use crate::id::{PrincipalId, ServerId, TeamId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a result was made; what does not apply is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Context {
    /// The server that answered.
    pub server_id: Option<ServerId>,
    /// The team of the route.
    pub team_id: Option<TeamId>,
    /// Who asked.
    pub principal_id: Option<PrincipalId>,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct One<T> {
    /// Always 1.
    pub version: u32,
    /// Where it was made.
    pub context: Context,
    /// The result.
    pub data: T,
}

/// A page of a list; the order is total and ends in the id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct List<T> {
    /// Always 1.
    pub version: u32,
    /// Where it was made.
    pub context: Context,
    /// The page's items.
    pub items: Vec<T>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
}

impl<T> One<T> {
    /// Wraps a result.
    pub fn new(context: Context, data: T) -> Self {
        Self { version: VERSION, context, data }
    }
}

impl<T> List<T> {
    /// Wraps a page.
    pub fn new(context: Context, items: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { version: VERSION, context, items, next_cursor }
    }
}

/// What a program may match on; the sentence beside it is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ErrorCode {
    /// 400 (405 and 415 too): the request can't be read as one of this protocol.
    InvalidRequest,
    /// 401: missing, malformed, unknown, revoked or expired credential, all alike.
    AuthenticationRequired,
    /// 403: visible, but not allowed.
    Forbidden,
    /// 404: not there, or not visible to this credential.
    NotFound,
    /// 409: the state does not allow it.
    Conflict,
    /// 409: `If-Match` names another revision.
    RevisionMismatch,
    /// 409: the idempotency key belongs to another request.
    IdempotencyConflict,
    /// 410: it was there and has ended.
    Gone,
    /// 413: a body over its limit.
    TooLarge,
    /// 421: the `Host` is none that this server answers to.
    Misdirected,
    /// 429: over a limit; `details.retry_after_seconds`.
    RateLimited,
    /// 500: the cause is in the log under the request id.
    Internal,
    /// 503: try again.
    Unavailable,
    /// A code that this program does not know yet.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// The code's HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::AuthenticationRequired => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Conflict | Self::RevisionMismatch | Self::IdempotencyConflict => 409,
            Self::Gone => 410,
            Self::TooLarge => 413,
            Self::Misdirected => 421,
            Self::RateLimited => 429,
            Self::Internal | Self::Unknown => 500,
            Self::Unavailable => 503,
        }
    }
}

/// The body of every refusal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorEnvelope {
    /// The refusal.
    pub error: ErrorBody,
}

/// A refusal: a code for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// What a program matches on.
    pub code: ErrorCode,
    /// One plain sentence that says what to do.
    pub message: String,
    /// Present and true where the same request may succeed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub retryable: Option<bool>,
    /// Facts about the refusal, by code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub details: Option<Value>,
}
