//! What a call sends: method, path, body and how it may be tried. No secret leaves in a body that has no
//! business with one.

use crate::path::Path;
use crate::redact;
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use teamlamp_wire::limits::IDEMPOTENCY_WAIT_MS;

/// How long a reading call may take, and the head of a stream may take to come.
pub(crate) const READ_MS: i64 = 20_000;
/// A change may wait on the server for an equal one before it (spec 01), and then still be answered.
pub(crate) const CHANGE_MS: i64 = IDEMPOTENCY_WAIT_MS + 10_000;

/// What a call sends. It never prints itself: a body may hold an invitation's code.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: Path,
    pub(crate) body: Bytes,
    pub(crate) if_match: Option<i64>,
    pub(crate) limit_ms: i64,
    pub(crate) repeatable: bool,
}

impl Call {
    pub(crate) fn get(path: Path) -> Self {
        let (body, limit_ms) = (Bytes::new(), READ_MS);
        Self { method: Method::GET, path, body, if_match: None, limit_ms, repeatable: true }
    }

    fn changing(method: Method, path: Path, body: Bytes) -> Self {
        Self { method, path, body, if_match: None, limit_ms: CHANGE_MS, repeatable: false }
    }

    pub(crate) fn post(path: Path, body: &impl Serialize) -> Self {
        let body = outgoing(path.as_str(), body);
        Self::changing(Method::POST, path, body)
    }

    pub(crate) fn post_nothing(path: Path) -> Self {
        Self::changing(Method::POST, path, Bytes::new())
    }

    pub(crate) fn patch(path: Path, body: &impl Serialize) -> Self {
        let body = outgoing(path.as_str(), body);
        Self::changing(Method::PATCH, path, body)
    }

    pub(crate) fn delete(path: Path) -> Self {
        Self::changing(Method::DELETE, path, Bytes::new())
    }

    /// Only where the resource still has this revision.
    pub(crate) fn if_match(self, revision: i64) -> Self {
        Self { if_match: Some(revision), ..self }
    }

    /// Within this time rather than the usual.
    pub(crate) fn within_ms(self, limit_ms: i64) -> Self {
        Self { limit_ms, ..self }
    }

    /// A change that may be sent again by itself: its key, or its nature, makes it once.
    pub(crate) fn repeatable(self) -> Self {
        Self { repeatable: true, ..self }
    }

    pub(crate) fn bare_path(&self) -> &str {
        self.path.as_str().split('?').next().unwrap_or_default()
    }
}

/// A body as it leaves this machine: without what looks like a secret, unless the route carries one.
fn outgoing(path: &str, body: &impl Serialize) -> Bytes {
    // Every body is a type of `teamlamp-wire`, whose maps have text keys: it can be written.
    let mut value = serde_json::to_value(body).unwrap_or_default();
    let count = if redact::is_exempt(path) { 0 } else { redact::value(&mut value) };
    if count > 0 {
        tracing::warn!(
            count,
            path = path.split('?').next(),
            "took what looks like a secret out of a request"
        );
    }
    value.to_string().into()
}
