//! One person's machine: the real connector over a scratch home and a keyring in memory, with its own
//! clock. It can crash, lose its power, sleep, stop and start again; its coding agents go on meanwhile.

use crate::agents::Agents;
use crate::keyring::SimKeyring;
use crate::network::Network;
use crate::record::Record;
use crate::transport::SimTransport;
use std::path::Path;
use std::sync::Arc;
use teamlamp_client::Transport;
use teamlamp_clock::{Chance, Clock, Tasks};
use teamlamp_connector::{Action, Config, Connector, Context, Custody, Home, Install, Transports};
use teamlamp_wire::local::State;

/// A machine and its person.
#[derive(Debug)]
pub struct Machine {
    /// Its host name, which is also its name in the team at first.
    pub name: String,
    /// Who sits at it.
    pub person: String,
    /// What its coding agents do.
    pub agents: Agents,
    /// Its own idea of the time.
    pub clock: Clock,
    /// Whether its person paused it; remembered over restarts.
    pub paused: bool,
    network: Network,
    chance: Chance,
    pub(crate) record: Record,
    home: Home,
    keyring: SimKeyring,
    /// The process of the connector, to which its connections belong.
    process: Tasks,
    connector: Option<Connector>,
}

impl Machine {
    /// A machine that was just switched on, with its home under `folder` and a clock that is wrong by
    /// `skew_ms`.
    pub fn new(
        (network, clock, chance, record): (&Network, &Clock, &Chance, &Record),
        folder: &Path,
        name: &str,
        person: &str,
        skew_ms: i64,
    ) -> Self {
        let clock = clock.skewed_by(skew_ms);
        let home = Home::at(folder.join(name));
        if let Err(fault) = home.prepare() {
            record.broken(fault.to_string());
        }
        Self {
            name: name.to_owned(),
            person: person.to_owned(),
            agents: Agents::new(name, clock.clone()),
            clock,
            paused: false,
            network: network.clone(),
            chance: chance.fork(),
            record: record.clone(),
            home,
            keyring: SimKeyring::new(record),
            process: Tasks::new(),
            connector: None,
        }
    }

    /// The install of this machine, for a program that runs now.
    pub fn install(&self) -> Install {
        let (network, clock, process, name) =
            (self.network.clone(), self.clock.clone(), self.process.clone(), self.name.clone());
        let transports: Transports = Arc::new(move |server| {
            let transport = SimTransport::new(&network, &clock, &process, &name, &server.origin);
            Ok(Arc::new(transport) as Arc<dyn Transport>)
        });
        Install {
            home: self.home.clone(),
            clock: self.clock.clone(),
            chance: self.chance.fork(),
            custody: Custody::with(Arc::new(self.keyring.clone()), self.clock.clone(), self.chance.fork()),
            transports,
            program: "simulation 0.1.0".into(),
        }
    }

    /// Its team, once it has joined one.
    pub fn context(&self) -> Option<Context> {
        self.install().contexts().ok()?.contexts.into_iter().next()
    }

    /// Whether its connector runs.
    pub fn is_up(&self) -> bool {
        self.connector.is_some()
    }

    /// Its connector's state towards its team.
    pub fn state(&self) -> Option<State> {
        self.connector.as_ref()?.status().contexts.first().map(|context| context.state.clone())
    }

    /// Starts the connector: a new incarnation. That this fails is a broken rule.
    pub async fn start(&mut self) {
        if self.connector.is_some() {
            return;
        }
        // What its person did before the connector ran came from another process.
        std::mem::take(&mut self.process).kill();
        let config =
            Config { install: self.install(), sessions: self.agents.watch(), only: None, door: false };
        match Connector::start(config).await {
            Ok(connector) => {
                self.connector = Some(connector);
                self.record.note(&self.name, "starts");
            }
            Err(fault) => {
                self.record.broken(format!("the connector of {} does not start: {fault}", self.name))
            }
        }
    }

    /// The connector's process is killed: its peers are told by the system.
    pub fn crash(&mut self) {
        if self.connector.is_some() {
            self.network.process_ended(&self.name);
            self.drop_process("crashes");
        }
    }

    /// The machine loses its power: its connections stay half open.
    pub fn lose_power(&mut self) {
        if self.connector.is_some() {
            self.network.vanish(&self.name);
            self.drop_process("loses its power");
            self.agents.end_all();
        }
    }

    fn drop_process(&mut self, how: &str) {
        self.process.kill();
        if let Some(connector) = self.connector.take() {
            connector.kill();
        }
        self.record.note(&self.name, how);
    }

    /// The connector ends in order. That this takes longer than 3 s is a broken rule.
    pub async fn shutdown(&mut self) {
        let Some(connector) = self.connector.take() else { return };
        let started = self.clock.monotonic();
        connector.shutdown().await;
        let took = self.clock.monotonic() - started;
        self.record.expect(took.as_millis() <= 3_000, || {
            format!("the connector of {} took {} ms to end", self.name, took.as_millis())
        });
        self.process.kill();
        self.record.note(&self.name, "ends");
    }

    /// Its person pauses reporting, or resumes it.
    pub async fn toggle_pause(&mut self) {
        let Some(connector) = &self.connector else { return };
        let action = if self.paused { Action::Resume } else { Action::Pause { for_ms: None } };
        match connector.act(action).await {
            Ok(()) => {
                self.paused = !self.paused;
                self.record.note(&self.name, if self.paused { "pauses" } else { "resumes" });
            }
            Err(fault) => self.record.broken(format!("{} can't be paused: {fault}", self.name)),
        }
    }
}
