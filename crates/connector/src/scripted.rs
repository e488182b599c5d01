//! A team server in memory that does what a test tells it, and an install that speaks to it: for tests
//! of the loops in paused time. It knows no rules of its own beyond credentials; the real server is in
//! the scenarios.

mod link;
mod routes;
mod secrets;
mod world;

pub(crate) use world::World;

use futures_util::future::BoxFuture;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use teamlamp_client::{FaultKind, Request, Response, Transport, TransportFault, Upgrade};
use teamlamp_clock::{Clock, Tasks};
use teamlamp_wire::event::PublishEvent;
use teamlamp_wire::heartbeat::{Heartbeat, Unbound};
use teamlamp_wire::link::{FromMachine, FromServer};
use teamlamp_wire::machine::SyncRule;
use teamlamp_wire::session::{RegisterSession, Session};
use tokio::sync::broadcast;

/// The scripted server. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    state: Arc<Mutex<State>>,
    /// What every held link says next; `None` breaks it.
    pub(crate) say: broadcast::Sender<Option<FromServer>>,
    /// What every open stream says next; `None` breaks it.
    pub(crate) stream: broadcast::Sender<Option<String>>,
}

/// What it was asked, and what it answers.
#[derive(Default)]
pub(crate) struct State {
    /// Nothing is reached.
    pub(crate) down: bool,
    /// Requests are taken and never answered.
    pub(crate) silent: bool,
    /// Something on the way holds streams back: their heads come, and no byte.
    pub(crate) held_back: bool,
    /// What is published is taken and never answered.
    pub(crate) mute: bool,
    /// Heartbeats are applied and their answer is lost, this many times.
    pub(crate) lose_answers: usize,
    /// The next heartbeats are refused like this: status, code, `details.reason`.
    pub(crate) refuse_heartbeats: VecDeque<(u16, &'static str, Option<&'static str>)>,
    /// Enrolling is refused like this.
    pub(crate) refuse_enroll: Option<(u16, &'static str)>,
    /// Calls, as they stand in `calls`, are refused like this: status, code, seconds of `Retry-After`.
    pub(crate) refuse: BTreeMap<&'static str, (u16, &'static str, Option<&'static str>)>,
    /// What the configuration says of sharing.
    pub(crate) sync_rules: Vec<SyncRule>,
    /// Renewing is refused like this.
    pub(crate) refuse_rotate: Option<(u16, &'static str)>,
    /// The answer to the next acceptances is lost, this many times.
    pub(crate) lose_acceptances: usize,
    /// Said back by the next heartbeats.
    pub(crate) unbound: VecDeque<Vec<Unbound>>,
    /// What may be used.
    pub(crate) user_token: Option<String>,
    pub(crate) machine_token: Option<String>,
    /// When new machine credentials end.
    pub(crate) expires_at: i64,
    pub(crate) role: Option<&'static str>,
    pub(crate) revoked: bool,
    /// Who the server thinks reports.
    pub(crate) incarnation: Option<String>,
    pub(crate) sessions: Vec<Session>,
    /// What was called, in order: the last part of the path, with what is worth telling.
    pub(crate) calls: Vec<String>,
    pub(crate) beats: Vec<Heartbeat>,
    pub(crate) registered: BTreeMap<String, RegisterSession>,
    pub(crate) published: Vec<PublishEvent>,
    pub(crate) heard: Vec<FromMachine>,
    pub(crate) dials: usize,
    pub(crate) keys: Vec<String>,
    pub(crate) tokens_made: usize,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Scripted {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = State { expires_at: clock.now_ms() + 30 * 86_400_000, ..State::default() };
        Self {
            clock,
            tasks: Tasks::new(),
            state: Arc::new(Mutex::new(state)),
            say: broadcast::Sender::new(16),
            stream: broadcast::Sender::new(16),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How often something was called so far.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.state().calls.iter().filter(|c| c.starts_with(call)).count()
    }

    fn unreachable(&self) -> TransportFault {
        TransportFault::new(FaultKind::Refused, self.peer(), "scripted")
    }

    async fn reached(&self) -> Result<(), TransportFault> {
        let (down, silent) = {
            let state = self.state();
            (state.down, state.silent)
        };
        if silent {
            std::future::pending::<()>().await;
        }
        if down { Err(self.unreachable()) } else { Ok(()) }
    }
}

impl Transport for Scripted {
    fn peer(&self) -> &str {
        "http://127.0.0.1:8720"
    }

    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportFault>> {
        Box::pin(async move {
            self.reached().await?;
            let publishes =
                request.method == http::Method::POST && request.path_and_query.ends_with("/events");
            if publishes && self.state().mute {
                self.state().calls.push("events".into());
                std::future::pending::<()>().await;
            }
            routes::answer(self, &request)
        })
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, TransportFault>> {
        Box::pin(async move {
            self.reached().await?;
            Ok(link::upgrade(self, &request))
        })
    }
}
