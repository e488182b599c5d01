//! An install in a temporary home whose only server is the scripted one.

use super::Scripted;
use crate::config::Config;
use crate::connector::Connector;
use crate::custody::{Custody, MemoryKeyring};
use crate::home::Home;
use crate::install::Install;
use crate::sessions::{Found, FoundSession};
use std::sync::Arc;
use std::time::Duration;
use teamlamp_client::Transport;
use teamlamp_clock::{Chance, Clock};
use teamlamp_wire::local::State;
use teamlamp_wire::window::{JoinAccept, JoinFrom};
use tokio::sync::watch;

pub(crate) const CODE: &str = "7K3QF-9XW2M";

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) server: Scripted,
    pub(crate) keyring: MemoryKeyring,
    pub(crate) install: Install,
    pub(crate) found: watch::Sender<Arc<Found>>,
    _dir: tempfile::TempDir,
}

impl World {
    /// An install that is in no team yet, in paused time.
    pub(crate) fn new() -> Self {
        Self::by(Clock::starting_at(1_800_000_000_000))
    }

    pub(crate) fn by(clock: Clock) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Scripted::new(clock.clone());
        let keyring = MemoryKeyring::default();
        let chance = Chance::seeded(7);
        let transport = server.clone();
        let install = Install {
            home: Home::at(dir.path()),
            clock: clock.clone(),
            chance: chance.clone(),
            custody: Custody::with(Arc::new(keyring.clone()), clock.clone(), chance),
            transports: Arc::new(move |_| Ok(Arc::new(transport.clone()) as Arc<dyn Transport>)),
            program: "teamlamp 0.1.0".into(),
        };
        let found = watch::Sender::new(Arc::new(Found { settled: true, ..Found::default() }));
        Self { clock, server, keyring, install, found, _dir: dir }
    }

    pub(crate) fn wish(&self) -> JoinAccept {
        JoinAccept {
            invitation: JoinFrom::Code { code: CODE.into(), server: "http://127.0.0.1:8720".into() },
            person: "Ada".into(),
            machine: "laptop".into(),
            team_name: None,
        }
    }

    /// Joins the team and runs the connector.
    pub(crate) async fn connected(&self) -> Connector {
        self.install.join(self.wish()).await.unwrap();
        self.start(false).await
    }

    pub(crate) async fn start(&self, door: bool) -> Connector {
        let sessions = self.found.subscribe();
        Connector::start(Config { install: self.install.clone(), sessions, only: None, door }).await.unwrap()
    }

    /// The watchers find other sessions.
    pub(crate) fn find(&self, sessions: &[(&str, FoundSession)]) {
        self.found.send_replace(Arc::new(crate::privacy::tests::found(sessions)));
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until the one context is in a state; says in which it is where that takes too long.
    pub(crate) async fn until(&self, connector: &Connector, word: &str) -> State {
        let mut status = connector.watch_status();
        let reached = async {
            loop {
                let state = status.borrow_and_update().contexts.first().map(|c| c.state.clone());
                if let Some(state) = state.filter(|state| state.word() == word) {
                    return state;
                }
                status.changed().await.unwrap();
            }
        };
        match self.clock.within(Duration::from_secs(120), reached).await {
            Some(state) => state,
            None => {
                panic!("waited for {word}, it is {:?}; {:?}", connector.status(), self.server.state().calls)
            }
        }
    }
}
