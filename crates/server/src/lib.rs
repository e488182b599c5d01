//! The team server as a library: routes, streams, the SQLite store, upkeep.

pub mod access;
pub mod app;
pub mod config;
pub mod error;
pub mod events;
pub mod hub;
pub mod request;
pub mod router;
pub mod store;
