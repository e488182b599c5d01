//! How a server is set: one struct per concern, a doc for each field.

use crate::store::Run;
use std::net::SocketAddr;
use std::path::PathBuf;
use teamlamp_clock::{Chance, Clock};

/// Everything that a server is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data folder: database, keys, the first owner's link. Made with mode 0700 where it is missing.
    pub data: PathBuf,
    /// Where to listen; port 0 lets the system choose. `None`: no socket, connections come through
    /// [`crate::Server::serve_io`].
    pub listen: Option<SocketAddr>,
    /// The server's name for people; `None`: the computer's name is used by the host program.
    pub name: String,
    /// The origin in links; `None`: the listen address.
    pub origin: Option<String>,
    /// Host names that the server answers to besides its own addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether owners of a team may make more teams here.
    pub owners_make_teams: bool,
    /// How many connections may be open.
    pub connections: usize,
    /// How many of them from one address other than this computer's own.
    pub connections_per_address: usize,
    /// Time, for everything that the server decides.
    pub clock: Clock,
    /// Randomness, for ids, tokens and codes.
    pub chance: Chance,
    /// Where the store's transactions run.
    pub run: Run,
}

impl Config {
    /// A server on loopback with its data in `data`.
    pub fn new(data: impl Into<PathBuf>, listen: SocketAddr) -> Self {
        Self {
            data: data.into(),
            listen: Some(listen),
            name: "Teamlamp".into(),
            origin: None,
            hosts: Vec::new(),
            owners_make_teams: true,
            connections: 20_000,
            connections_per_address: 1_000,
            clock: Clock::system(),
            chance: Chance::system(),
            run: Run::Blocking,
        }
    }
}
