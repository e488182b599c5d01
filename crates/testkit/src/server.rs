//! The one server of a world: the real one, on a real database in a scratch folder, reached over the
//! simulated network alone. It can be killed, also between its commit and its answer, and started again.

use crate::network::Network;
use crate::record::Record;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teamlamp_clock::{Chance, Clock, Tasks};
use teamlamp_server::Server;
use teamlamp_server::config::Config;
use teamlamp_server::store::Run;

/// The server's host, and its address.
pub const SERVER: &str = "10.0.0.1";
/// The server's origin.
pub const ORIGIN: &str = "http://10.0.0.1";

/// The server's place in a world.
#[derive(Debug)]
pub struct SimServer {
    network: Network,
    clock: Clock,
    chance: Chance,
    record: Record,
    data: PathBuf,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    server: Arc<Server>,
    accepting: Tasks,
}

impl SimServer {
    /// A server that does not run yet, with its data under `folder`.
    pub fn new(network: &Network, clock: &Clock, chance: &Chance, record: &Record, folder: &Path) -> Self {
        // The first host has the first address, which is the server's.
        drop(network.listen(SERVER));
        Self {
            network: network.clone(),
            clock: clock.clone(),
            chance: chance.fork(),
            record: record.clone(),
            data: folder.join("server"),
            running: None,
        }
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Whether it runs.
    pub fn is_up(&self) -> bool {
        self.running.is_some()
    }

    /// Starts it on its data. That this fails is a broken rule.
    pub async fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        let mut config = Config::new(&self.data, SocketAddr::from(([127, 0, 0, 1], 0)));
        config.listen = None;
        config.origin = Some(ORIGIN.to_owned());
        config.clock = self.clock.clone();
        config.chance = self.chance.fork();
        config.run = Run::Inline;
        let server = match Server::start(config).await {
            Ok(server) => Arc::new(server),
            Err(fault) => return self.record.broken(format!("the server does not start: {fault}")),
        };
        let mut incoming = self.network.listen(SERVER);
        // A weak hold: a killed server lets go of its data at once, not when this task next runs.
        let (accepting, serving) = (Tasks::new(), Arc::downgrade(&server));
        accepting.spawn("accept", async move {
            while let Some(connection) = incoming.recv().await {
                let Some(server) = serving.upgrade() else { return };
                server.serve_io(connection.io, connection.peer);
            }
        });
        self.running = Some(Running { server, accepting });
        self.record.note("server", "starts");
    }

    /// Ends it as SIGKILL does: nothing that it had under way goes one step further.
    pub fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.server.app().tasks.kill();
        running.accepting.kill();
        self.network.process_ended(SERVER);
        self.record.note("server", "killed");
    }

    /// Ends it in order. Tasks that outlive their grace are a broken rule.
    pub async fn shutdown(&mut self) {
        let Some(Running { server, accepting }) = self.running.take() else { return };
        self.record.note("server", "shuts down");
        accepting.shutdown(std::time::Duration::from_secs(1)).await;
        let tasks = server.app().tasks.clone();
        match Arc::into_inner(server) {
            Some(server) => server.shutdown().await,
            None => self.record.broken("the server is still in use after its end"),
        }
        self.record.expect(tasks.running().is_empty(), || {
            format!("these tasks of the server outlive its end: {:?}", tasks.running())
        });
        self.network.process_ended(SERVER);
        self.record.note("server", "ended");
    }
}
