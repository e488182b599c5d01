//! The seam between the protocol and whatever carries it: the network ([`crate::Http`]), the local
//! door's socket (the same), or a simulated network. It leaves out retries, time limits, envelopes and
//! the WebSocket's frames, which [`crate::Client`] does once for all of them.

use crate::error::TransportFault;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{HeaderMap, Method, StatusCode};
use std::fmt;
use tokio::io::{AsyncRead, AsyncWrite};

/// Carries requests to one server. Dropping a future gives its request up; how long one may take is the
/// client's business.
pub trait Transport: Send + Sync + fmt::Debug {
    /// Where requests go, as a person would call it: an origin or a socket's path.
    fn peer(&self) -> &str;

    /// Sends a request and waits for the head of its answer; the body comes as it comes.
    ///
    /// # Errors
    /// Where no answer came. Every status is an answer; redirects are not followed.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportFault>>;

    /// Sends a request that asks for another protocol on the same connection (HTTP/1.1 `Upgrade`).
    ///
    /// # Errors
    /// Where no answer came.
    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, TransportFault>>;

    /// Forgets connections that wait for another request, so that the next one dials afresh: after sleep
    /// they may be dead without anyone having noticed.
    fn forget_idle(&self) {}
}

/// A request. Neither its `Authorization`, which is marked as sensitive, nor its body prints: an
/// invitation's code comes in one.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// What stands after the origin: `/v1/…?…`.
    pub path_and_query: String,
    /// Everything but `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// Empty where there is none.
    pub body: Bytes,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path_and_query, headers, body } = self;
        let mut shown = f.debug_struct("Request");
        shown.field("method", method).field("path_and_query", path_and_query).field("headers", headers);
        shown.field("body_bytes", &body.len()).finish()
    }
}

/// A body as it comes; it ends after its first error.
pub type Body = BoxStream<'static, Result<Bytes, TransportFault>>;

/// The head of an answer, and its body.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as it comes.
    pub body: Body,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Response {
    /// Reads the body to its end.
    ///
    /// # Errors
    /// Where the connection broke; `None` where more than `most` bytes came.
    pub async fn read(self, most: usize) -> Result<Option<Bytes>, TransportFault> {
        let mut body = self.body;
        let mut all = Vec::new();
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            if all.len() + chunk.len() > most {
                return Ok(None);
            }
            all.extend_from_slice(&chunk);
        }
        Ok(Some(all.into()))
    }
}

/// A byte stream in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What a request for another protocol came to.
pub enum Upgrade {
    /// The server switched (101).
    Switched {
        /// The headers of its answer.
        headers: HeaderMap,
        /// The connection, from the first byte after the head on.
        io: Box<dyn Io>,
    },
    /// It answered in HTTP.
    Answered(Response),
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switched { .. } => f.write_str("Switched"),
            Self::Answered(response) => f.debug_tuple("Answered").field(response).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_prints_no_secret() {
        let mut headers = HeaderMap::new();
        let mut bearer = http::HeaderValue::from_static("Bearer the-token");
        bearer.set_sensitive(true);
        headers.insert(http::header::AUTHORIZATION, bearer);
        let body = Bytes::from_static(b"{\"code\":\"7K3QF-9XW2M\"}");
        let request =
            Request { method: Method::POST, path_and_query: "/v1/invitations".into(), headers, body };
        let shown = format!("{request:?}");
        assert!(!shown.contains("the-token") && !shown.contains("7K3QF"), "{shown}");
        assert!(shown.contains("body_bytes: 22"), "{shown}");
    }
}
