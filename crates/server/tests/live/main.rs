//! What moves: heartbeats, links, presence, sessions, events and their streams, as a client sees each
//! rule of specs 02 and 03. Over real sockets, and over pipes with paused time where time matters.

#![expect(clippy::unwrap_used, reason = "a test that can't go on ends there")]

mod attention;
mod authority;
mod catalogue;
mod ended;
mod fair;
mod follow;
mod followed;
mod gaps;
mod heartbeat;
mod history;
mod kit;
mod link;
mod link_writes;
mod long_poll;
mod notes;
mod presence;
mod publish;
mod restart;
mod restored;
mod sessions;
mod slow;
mod stream;
mod upkeep;
mod wakes;
#[path = "../api/world.rs"]
#[expect(dead_code, reason = "it serves the tests of the API too")]
mod world;
