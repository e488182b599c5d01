//! The team server as a library: routes, streams, the SQLite store, upkeep. [`Server::start`] is its one
//! entry; the desktop app and `teamlamp serve` host it.

pub mod access;
mod answer;
pub mod app;
pub mod capabilities;
pub mod config;
pub mod dispatch;
pub mod error;
pub mod events;
pub mod folder;
pub mod health;
pub mod hub;
pub mod keys;
pub mod presence;
pub mod request;
pub mod router;
mod serve;
mod server;
pub mod store;

pub use server::{Server, StartError};
