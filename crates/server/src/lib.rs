//! The team server as a library: routes, streams, the SQLite store, upkeep. [`Server::start`] is its one
//! entry; the desktop app and `teamlamp serve` host it.

pub mod access;
mod announce;
mod answer;
pub mod app;
pub mod audit;
pub mod backup;
pub mod capabilities;
pub mod config;
pub mod credentials;
pub mod dispatch;
pub mod enrollment;
pub mod error;
pub mod events;
pub mod folder;
mod forever;
pub mod health;
pub mod heartbeat;
pub mod hub;
pub mod invitations;
pub mod keys;
pub mod link;
pub mod machines;
pub mod maintenance;
pub mod me;
pub mod members;
pub mod metrics;
pub mod notes;
pub mod openapi;
pub mod presence;
mod reach;
pub mod request;
pub mod router;
mod serve;
mod server;
pub mod sessions;
pub mod store;
pub mod teams;
pub mod tls;

pub use server::{Server, StartError};
