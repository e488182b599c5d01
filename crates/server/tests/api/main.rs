//! The API over real sockets and real database files: what a client sees of each rule of spec 01.

#![expect(clippy::unwrap_used, reason = "a test that can't go on ends there")]

mod accounts;
mod audit;
mod backup;
mod conventions;
mod credentials;
mod enrollment;
mod faults;
mod idempotency;
mod invitations;
mod kept;
mod limits;
mod machines;
mod members;
mod metrics;
mod openapi;
mod security;
mod start;
mod store;
mod world;
