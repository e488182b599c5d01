//! The team server inside this app: started on the person's wish, on this computer's own address, with its
//! data in the home, and again at each launch from then on. What it serves is the server library's.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use teamlamp_clock::{Chance, Clock};
use teamlamp_connector::Home;
use teamlamp_server::config::Config;
use teamlamp_server::{Server, StartError};
use teamlamp_wire::window::LocalServer;
use tokio::sync::Mutex;

use crate::desktop::Desktop;

/// What of it is remembered, in the home.
const FILE: &str = "local-server.json";
/// Where its data is, in the home.
const DATA: &str = "server";
/// The port that it takes where it is free.
const PORT: u16 = 8720;

/// Why the server of this computer does not run.
#[derive(Debug)]
pub(crate) enum LocalFault {
    /// It does not start.
    Start(StartError),
    /// What is to be remembered of it can't be read or written.
    Memory(std::io::Error),
}

impl std::fmt::Display for LocalFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // The teams' links and saved connections name the port, so another one would be no help.
            Self::Start(StartError::PortInUse { address }) => write!(
                f,
                "The team server of this computer does not start: another program has its port {}. End that program, then choose Connect now.",
                address.port()
            ),
            Self::Start(fault) => write!(f, "The team server of this computer does not start: {fault}."),
            Self::Memory(fault) => write!(
                f,
                "The file {FILE} in the home can't be used ({fault}): mend its owner, and that its disk has room."
            ),
        }
    }
}

/// What is remembered: links and contexts name the port, so it has to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    port: u16,
}

/// The server of this computer, running or not.
pub(crate) struct LocalTeamServer {
    home: Home,
    name: String,
    clock: Clock,
    chance: Chance,
    desktop: Arc<Desktop>,
    running: Mutex<Option<Server>>,
}

impl LocalTeamServer {
    /// The server whose data is in `home`; it does not run yet. `name` is what people see.
    pub(crate) fn of(home: Home, name: String, clock: Clock, chance: Chance, desktop: Arc<Desktop>) -> Self {
        Self { home, name, clock, chance, desktop, running: Mutex::new(None) }
    }

    /// Starts it where it was started once before; what goes wrong is shown.
    pub(crate) async fn start_again(&self) {
        match self.remembered() {
            Ok(None) => {}
            Ok(Some(_)) => {
                // The fault is in the model by now, which is all that a launch can do about it.
                let _ = self.start().await;
            }
            Err(fault) => self.show(false, None, Some(fault.to_string())),
        }
    }

    /// Starts it, and remembers that it was; its origin. Running already, it stays as it is.
    ///
    /// # Errors
    /// Where it does not start; the model shows it too.
    pub(crate) async fn start(&self) -> Result<String, LocalFault> {
        let mut running = self.running.lock().await;
        if let Some(server) = running.as_ref() {
            return Ok(server.origin().to_owned());
        }
        match self.listen().await {
            Ok(server) => {
                let origin = server.origin().to_owned();
                tracing::info!(%origin, "the local server runs");
                self.show(true, Some(origin.clone()), None);
                *running = Some(server);
                Ok(origin)
            }
            Err(fault) => {
                tracing::warn!(%fault, "the local server does not start");
                self.show(false, None, Some(fault.to_string()));
                Err(fault)
            }
        }
    }

    /// Ends it, in order.
    pub(crate) async fn stop(&self) {
        let mut running = self.running.lock().await;
        if let Some(server) = running.take() {
            server.shutdown().await;
            self.show(false, None, None);
        }
    }

    /// The owner's link of a running server that has no team yet.
    pub(crate) async fn owner_link(&self) -> Option<String> {
        self.running.lock().await.as_ref()?.owner_link().map(|link| link.to_string())
    }

    /// Listens on the remembered port, or on a first start where a port is free.
    async fn listen(&self) -> Result<Server, LocalFault> {
        if let Some(Remembered { port }) = self.remembered()? {
            return Server::start(self.config(port)).await.map_err(LocalFault::Start);
        }
        let started = match Server::start(self.config(PORT)).await {
            Err(StartError::PortInUse { .. }) => Server::start(self.config(0)).await,
            started => started,
        };
        let server = started.map_err(LocalFault::Start)?;
        let port = server.local_addr().map_or(PORT, |address| address.port());
        let bytes =
            serde_json::to_vec(&Remembered { port }).map_err(|fault| LocalFault::Memory(fault.into()))?;
        self.home.write(FILE, &bytes).map_err(LocalFault::Memory)?;
        Ok(server)
    }

    fn remembered(&self) -> Result<Option<Remembered>, LocalFault> {
        let Some(bytes) = self.home.read(FILE).map_err(LocalFault::Memory)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|fault| LocalFault::Memory(fault.into()))
    }

    fn config(&self, port: u16) -> Config {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut config = Config::new(self.home.path(DATA), address);
        config.name = self.name.clone();
        (config.clock, config.chance) = (self.clock.clone(), self.chance.clone());
        config
    }

    fn show(&self, running: bool, origin: Option<String>, error: Option<String>) {
        self.desktop.change(|model| model.local_server = Some(LocalServer { running, origin, error }));
    }
}
