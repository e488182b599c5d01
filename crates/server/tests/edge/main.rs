//! The server's edge over real sockets: TLS, proxies in front, web pages elsewhere, and how many may come.

#![expect(clippy::unwrap_used, reason = "a test that can't go on ends there")]

mod certificate;
mod connections;
mod origins;
mod proxies;
mod tls;
#[path = "../api/world.rs"]
#[expect(dead_code, reason = "it serves the tests of the API too")]
mod world;
