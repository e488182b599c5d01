//! Every call of the protocol `teams.v1`: over the network, over the local door's socket, or over
//! whatever else implements [`Transport`]. It owns headers, envelopes, retries and streams, and keeps no
//! state but its credential; what to do with an answer is its caller's business.
//!
//! | module | what |
//! | --- | --- |
//! | [`transport`] | the seam: a request, an answer, an upgrade |
//! | [`net`] | the real network and the local socket |
//! | [`client`], `call`, `answer` | a call: headers, time limits, retries, envelopes |
//! | `account`, `machine`, [`event`], [`session`] | one method for each route |
//! | [`follow`], `presence` | the endless event stream, and that of machines |
//! | [`link`] | the machine's WebSocket |
//! | [`door`] | the connector of this computer |
//! | [`redact`] | no secret travels where none belongs |
//! | [`error`] | why a call failed |

mod account;
mod answer;
mod call;
pub mod client;
pub mod door;
pub mod error;
pub mod event;
pub mod follow;
pub mod link;
mod machine;
pub mod net;
mod path;
mod presence;
pub mod redact;
mod retry;
#[cfg(test)]
mod scripted;
pub mod session;
mod sse;
mod tls;
pub mod transport;

pub use client::{Client, IdempotencyKey};
pub use door::Door;
pub use error::{ClientError, FaultKind, Garbled, Refusal, TransportFault};
pub use follow::{Ending, FollowQuery, Followed, Mode};
pub use link::{Link, LinkEnd};
pub use net::{Http, Trust};
pub use transport::{Io, Request, Response, Transport, Upgrade};
