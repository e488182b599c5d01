//! What a connector is started with.

use crate::install::Install;
use crate::sessions::Found;
use std::sync::Arc;
use teamlamp_client::{ClientError, Transport};
use tokio::sync::watch;

/// Where a server is and what proves that it is that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `scheme://host[:port]`.
    pub origin: String,
    /// The SHA-256 of its public key, in hex, where it is pinned; else the platform's trust decides.
    pub fingerprint: Option<String>,
}

/// Makes the transport to a server: the network, or the simulation's.
pub type Transports = Arc<dyn Fn(&Server) -> Result<Arc<dyn Transport>, ClientError> + Send + Sync>;

/// What [`crate::Connector::start`] needs.
#[derive(Clone, Debug)]
pub struct Config {
    /// The install that it runs for.
    pub install: Install,
    /// What the coding agents of this machine do: `Sessions::subscribe`, or what a simulation says.
    pub sessions: watch::Receiver<Arc<Found>>,
    /// The one context that is connected (its id), or all of the home's.
    pub only: Option<String>,
    /// Whether the local door is opened: not in a simulation, which has no sockets.
    pub door: bool,
}
