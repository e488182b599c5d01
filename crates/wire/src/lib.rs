//! The contract of `teams.v1`: what travels between connector, server, window and command line.
//!
//! Nothing here does I/O, reads a clock or makes a random number: the crate holds types, limits and the
//! pure checks and decisions that more than one side needs. A type that both sides share lives here once.
//!
//! | module | what |
//! | --- | --- |
//! | [`id`] | the prefixed ids |
//! | [`limits`] | every size, count and interval that both sides agree on |
//! | [`json`] | strict JSON: depth, duplicate keys, unknown fields |
//! | [`name`] | names of teams, people and machines |
//! | [`envelope`] | results, lists, errors |
//! | [`account`] | capabilities, `me`, teams, members, credentials |
//! | [`invitation`] | codes, invitations, the deep link |
//! | [`machine`] | machines, sources, enrollment, configuration |
//! | [`heartbeat`] | the machine's report and its answer |
//! | [`link`] | the frames of the machine's link |
//! | [`presence`] | presence decisions, transitions, flapping |
//! | [`event`] | events, their catalogue, publishing |
//! | [`frame`] | the frames of the event stream |
//! | [`session`] | sessions, turns, registering |
//! | [`local`] | what the local door says |
//! | [`text`] | making foreign text safe to show |
//! | [`window`] | what the app and its window say to each other |

pub mod account;
pub mod envelope;
pub mod event;
pub mod frame;
pub mod heartbeat;
pub mod id;
pub mod invitation;
pub mod json;
pub mod limits;
pub mod link;
pub mod local;
pub mod machine;
pub mod name;
pub mod nearby;
pub mod presence;
pub mod session;
pub mod text;
pub mod window;
pub mod words;

/// The protocol's name, as `GET /v1/capabilities` says it.
pub const PROTOCOL: &str = "teams.v1";
/// The version number in every envelope.
pub const VERSION: u32 = 1;
/// Milliseconds since the Unix epoch.
pub type Millis = i64;

/// The header in which a client names its program and call site; tallied, never trusted.
pub const HEADER_CALLER: &str = "x-supercode-caller";
/// The header that names the enrolled machine that an install is.
pub const HEADER_MACHINE: &str = "x-supercode-machine";
/// The header of a retried change (spec 01).
pub const HEADER_IDEMPOTENCY: &str = "idempotency-key";
/// The header that carries the server's id of a request.
pub const HEADER_REQUEST_ID: &str = "x-request-id";
