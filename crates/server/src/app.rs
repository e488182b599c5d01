//! The parts that every request may use, in one place.

use crate::config::Config;
use crate::hub::Hub;
use crate::keys::Keys;
use crate::store::Store;
use std::sync::Arc;
use teamlamp_clock::{Chance, Clock, Tasks};
use teamlamp_wire::id::ServerId;

/// The server's parts. Clones are the same server.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

/// What [`App`] holds.
#[derive(Debug)]
pub struct Parts {
    /// How it was set.
    pub config: Config,
    /// Time.
    pub clock: Clock,
    /// Randomness.
    pub chance: Chance,
    /// The database.
    pub store: Store,
    /// Wake-ups.
    pub hub: Hub,
    /// The secret keys of codes and cursors.
    pub keys: Keys,
    /// The server's id, of its database.
    pub server_id: ServerId,
    /// Made anew when the database is restored: cursors bind it.
    pub history_id: String,
    /// The origin that links name.
    pub origin: String,
    /// What runs beside the requests.
    pub tasks: Tasks,
    /// Rate limits and tallies (in memory; a restart forgives).
    pub limits: crate::access::rate_limit::Limits,
    /// What was lately read of credentials.
    pub known: crate::access::auth::Known,
    /// The requests with an idempotency key that are under way.
    pub flights: crate::access::idempotency::Flights,
    /// What the server counts of itself.
    pub metrics: crate::metrics::Metrics,
    /// Whether the store could be written lately.
    pub ready: crate::health::Ready,
    /// The host names that are answered to.
    pub hosts: crate::access::hosts::Hosts,
    /// The web pages that may call.
    pub origins: crate::access::origins::Origins,
    /// The fingerprint of the server's own key, where it has one: links name it.
    pub fingerprint: Option<String>,
    /// How connections are encrypted; `None`: not.
    pub(crate) tls: Option<crate::tls::Tls>,
    /// The open connections.
    pub(crate) connections: crate::serve::Connections,
    /// The open requests of each client behind a trusted proxy.
    pub(crate) clients: crate::serve::Connections,
    /// The open streams of each install and credential.
    pub streams: crate::events::places::Places,
    /// The newest events of each team that has readers.
    pub tails: crate::events::tail::Tails,
    /// The sessions that someone follows.
    pub followed: crate::sessions::followed::Followed,
    /// From when on the silence of machines means something.
    pub trust: crate::presence::trust::Trust,
}

impl App {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl std::ops::Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}
