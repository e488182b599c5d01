//! Why a call failed: what a program matches on, and the sentence that a person reads. Nothing here
//! holds a token, a body or a whole address with its query.

use std::time::Duration;
use teamlamp_wire::envelope::{ErrorBody, ErrorCode};
use thiserror::Error;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClientError {
    /// No answer came.
    #[error(transparent)]
    Unreachable(#[from] TransportFault),
    /// The server answered with a refusal.
    #[error("refused with status {} ({:?}): {}", .0.status, .0.body.code, .0.body.message)]
    Refused(Refusal),
    /// What came was not of this protocol.
    #[error(transparent)]
    Garbled(#[from] Garbled),
}

/// A refusal of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The code for programs and the sentence for people.
    pub body: ErrorBody,
    /// How long to wait before asking again; always there with 429.
    pub retry_after: Option<Duration>,
}

/// Why no answer came.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no answer from {peer}: {detail}")]
pub struct TransportFault {
    /// What kind of thing went wrong.
    pub kind: FaultKind,
    /// Whom it was about: an origin, or a socket's path.
    pub peer: String,
    /// What the machine says of it, for the log.
    pub detail: String,
}

/// What kind of thing went wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The address is none that this client may talk to.
    Address,
    /// The name has no address.
    Dns,
    /// Nothing listens there.
    Refused,
    /// Nothing came in time.
    Timeout,
    /// The connection can't be trusted.
    Tls,
    /// Another key than the pinned one.
    Pin,
    /// A proxy on the way refused.
    Proxy,
    /// The connection broke.
    Reset,
    /// The other side ended an endless stream.
    Closed,
}

/// What came was not of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Garbled {
    /// A web page in place of the server: a captive portal, or a proxy's own error page.
    #[error("{peer} answered with a web page (status {status}) in place of JSON")]
    Html {
        /// Who answered.
        peer: String,
        /// With which status.
        status: u16,
    },
    /// Something that is no answer of this protocol.
    #[error("{peer} answered with something that is not of this protocol (status {status}): {detail}")]
    NotOurs {
        /// Who answered.
        peer: String,
        /// With which status.
        status: u16,
        /// What does not fit.
        detail: String,
    },
    /// A stream broke its rules.
    #[error("the stream of {peer} broke its rules: {detail}")]
    Stream {
        /// Whose stream.
        peer: String,
        /// What does not fit.
        detail: String,
    },
}

impl TransportFault {
    /// A fault towards a peer.
    pub fn new(kind: FaultKind, peer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind, peer: peer.into(), detail: detail.into() }
    }

    /// What a person reads and can act on.
    pub fn sentence(&self) -> String {
        let Self { kind, peer, detail } = self;
        match kind {
            FaultKind::Address => detail.clone(),
            FaultKind::Dns => {
                format!("The name in {peer} can't be found: check it and this computer's network.")
            }
            FaultKind::Refused => format!("Nothing answers at {peer}: the server may not be running."),
            FaultKind::Timeout => format!("{peer} did not answer in time."),
            FaultKind::Tls => format!("The connection to {peer} can't be trusted: {detail}."),
            FaultKind::Pin => format!(
                "{peer} shows another key than the one that was pinned: it was set up anew, or something \
                 stands in between. Ask for a new invitation link."
            ),
            FaultKind::Proxy => format!("The proxy on the way to {peer} refused: {detail}."),
            FaultKind::Reset => format!("The connection to {peer} broke."),
            FaultKind::Closed => format!("{peer} closed the connection."),
        }
    }
}

impl Garbled {
    /// What a person reads and can act on.
    pub fn sentence(&self) -> String {
        match self {
            Self::Html { peer, .. } => format!(
                "A web page came back in place of {peer}: this network may want a sign-in (open any page in \
                 a browser), or a proxy stands in between."
            ),
            Self::NotOurs { peer, .. } => {
                format!("{peer} does not answer like a Teamlamp server: check the address.")
            }
            Self::Stream { peer, .. } => {
                format!("{peer} sent something unreadable; the connection is made anew.")
            }
        }
    }
}

impl ClientError {
    /// What a person reads and can act on.
    pub fn sentence(&self) -> String {
        match self {
            Self::Unreachable(fault) => fault.sentence(),
            Self::Refused(refusal) => refusal.body.message.clone(),
            Self::Garbled(garbled) => garbled.sentence(),
        }
    }

    /// The server's code, where the server refused.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.body.code),
            _ => None,
        }
    }

    /// The HTTP status, where the server refused.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// How long to wait before asking again, where the server says it.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// The text of `details.reason`, by which refusals with one code are told apart.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.body.details.as_ref()?.get("reason")?.as_str(),
            _ => None,
        }
    }

    /// Whether the same request may succeed when it is simply made again (spec 01: no answer, 5xx, or a
    /// `retryable` error). A refusal for load is not, nor is a peer that can't be trusted.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(fault) => {
                !matches!(fault.kind, FaultKind::Address | FaultKind::Tls | FaultKind::Pin)
            }
            Self::Refused(refusal) => {
                refusal.status != 429 && (refusal.status >= 500 || refusal.body.retryable == Some(true))
            }
            Self::Garbled(Garbled::Html { status, .. }) => *status >= 500,
            Self::Garbled(_) => false,
        }
    }
}
