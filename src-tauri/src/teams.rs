//! The teams of this install as the app reaches them: through a connector of its own, or, where another
//! process of this home runs one, through that one's local door. It keeps the model's status and teams
//! current, and does what the person wants of them.

mod custody;
mod follow;
mod lists;

use crate::desktop::Desktop;
use crate::failure::{failure, no_connector, not_connected, of_act, of_client, of_join, of_sign_in};
use crate::parts::problem;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use teamlamp_client::{Client, Door, FollowQuery, Followed};
use teamlamp_clock::Tasks;
use teamlamp_connector::claim::{ClaimFault, SOCKET};
use teamlamp_connector::custody::Kind;
use teamlamp_connector::{Action, Config, Connector, Install, StartFault, contexts};
use teamlamp_wire::id::TeamId;
use teamlamp_wire::local::{PauseRequest, Status};
use teamlamp_wire::window::{Failure, JoinAccept, JoinFrom, JoinPreview, Joined, Notice};
use tokio::sync::RwLock;

/// How often the status of another process's connector is asked for.
const DOOR_LOOK: Duration = Duration::from_secs(2);

/// The teams. Clones are the same.
#[derive(Clone)]
pub(crate) struct Teams(Arc<Inner>);

struct Inner {
    install: Install,
    config: Config,
    desktop: Arc<Desktop>,
    tasks: Tasks,
    reach: RwLock<Reach>,
}

/// How the connector is reached.
enum Reach {
    /// Not yet, or not any more.
    None,
    /// It is this process's.
    Own(Connector),
    /// It is another process's.
    Door(Door),
}

impl Teams {
    /// The teams of an install, whose facts go into the model. [`Teams::run`] reaches them.
    pub(crate) fn of(config: Config, desktop: Arc<Desktop>) -> Self {
        let (install, tasks, reach) = (config.install.clone(), Tasks::new(), RwLock::new(Reach::None));
        Self(Arc::new(Inner { install, config, desktop, tasks, reach }))
    }

    /// Starts the connector, or reads from the one that runs, and keeps the model current until the app
    /// ends. When the other process ends, its connector is taken over.
    pub(crate) async fn run(&self) {
        if let Err(what) = self.contexts() {
            problem(&self.0.desktop, what);
        }
        loop {
            match Connector::start(self.0.config.clone()).await {
                Ok(connector) => {
                    let mut status = connector.watch_status();
                    self.set_reach(Reach::Own(connector)).await;
                    let mut followers = BTreeMap::new();
                    loop {
                        let now = status.borrow_and_update().clone();
                        self.show(&now, &mut followers);
                        if status.changed().await.is_err() {
                            return;
                        }
                    }
                }
                Err(StartFault::Claim(ClaimFault::Held { pid })) => self.read_from_other(pid).await,
                Err(fault) => {
                    return problem(&self.0.desktop, fault.to_string());
                }
            }
        }
    }

    /// The contexts of this install. What could not be read of them the person has to know, whenever that
    /// comes up: the connector goes on without.
    fn contexts(&self) -> Result<Vec<contexts::Context>, String> {
        let loaded = self.0.install.contexts().map_err(|fault| fault.to_string())?;
        if let Some(aside) = loaded.kept_aside {
            let what = format!(
                "The list of your teams could not be read. It is kept as {}: mend it and put it back, or join again.",
                aside.display()
            );
            problem(&self.0.desktop, what);
        }
        Ok(loaded.contexts)
    }

    /// Reads from another process's connector for as long as it answers.
    async fn read_from_other(&self, pid: u32) {
        let Inner { install, desktop, .. } = &*self.0;
        let socket = install.home.path(SOCKET);
        let (clock, chance) = (install.clock.clone(), install.chance.clone());
        let door = match Door::at(&socket, clock.clone(), chance, &install.program) {
            Ok(door) => door,
            Err(fault) => {
                problem(desktop, fault.sentence());
                return clock.sleep(DOOR_LOOK).await;
            }
        };
        self.set_reach(Reach::Door(door.clone())).await;
        let mut followers = BTreeMap::new();
        while let Ok(status) = door.status().await {
            desktop.change(|model| model.notice(Notice::OtherConnector { pid }, true));
            self.show(&status, &mut followers);
            clock.sleep(DOOR_LOOK).await;
        }
        desktop.change(|model| model.notice(Notice::OtherConnector { pid }, false));
        for (_, follower) in followers {
            follower.shutdown(Duration::ZERO).await;
        }
        // The lock may outlast the door for a moment while that process ends.
        clock.sleep(DOOR_LOOK).await;
    }

    /// Shows a status, and follows exactly its contexts.
    fn show(&self, status: &Status, followers: &mut BTreeMap<String, Tasks>) {
        self.0.desktop.change(|model| {
            if model.status != *status {
                model.set_status(status.clone());
            }
        });
        followers.retain(|id, follower| {
            let stays = status.contexts.iter().any(|context| context.id == *id);
            if !stays {
                follower.token().cancel();
            }
            stays
        });
        for context in &status.contexts {
            followers.entry(context.id.clone()).or_insert_with(|| {
                let follower = self.0.tasks.child();
                follower
                    .spawn("team", follow::follow(self.clone(), context.id.clone(), context.team_id.clone()));
                follower
            });
        }
    }

    async fn set_reach(&self, reach: Reach) {
        *self.0.reach.write().await = reach;
    }

    /// A context's events from its snapshot on; `None` while there is no connector.
    async fn events(&self, context: &str) -> Option<BoxStream<'static, Followed>> {
        match &*self.0.reach.read().await {
            Reach::None => None,
            Reach::Door(door) => Some(door.follow(context, None)),
            Reach::Own(connector) => {
                let events = match connector.events(context, None) {
                    Ok(events) => events,
                    // What the connector does not keep the server has.
                    Err(why) => {
                        tracing::info!(context, %why, "reading from the server itself");
                        let team = connector.contexts().into_iter().find(|c| c.id == context)?.team_id;
                        let client = self.person(context).await.ok()?;
                        return Some(client.at("stream").follow(&FollowQuery::all(team), None));
                    }
                };
                let told = |mut events: teamlamp_connector::Events| async move {
                    let told = events.next().await?;
                    Some((told.what, events))
                };
                Some(futures_util::stream::unfold(events, told).boxed())
            }
        }
    }

    /// A client of a context's server, signed in as its person.
    async fn person(&self, context: &str) -> Result<Client, Failure> {
        let all = self.contexts().map_err(|why| failure("internal", why))?;
        let context = contexts::choose(&all, Some(context)).map_err(|_| not_connected())?;
        self.0.install.signed_in(context, Kind::User).await.map_err(|fault| of_sign_in(&fault))
    }

    /// The shown team, and a client signed in there as its person.
    pub(crate) async fn shown(&self) -> Result<(TeamId, Client), Failure> {
        let shown = self.0.desktop.read(|m| m.shown_context().map(|c| (c.id.clone(), c.team_id.clone())));
        let (context, team) = shown.ok_or_else(not_connected)?;
        Ok((team, self.person(&context).await?))
    }

    /// What an invitation is, as the server itself says it.
    pub(crate) async fn preview(&self, from: &JoinFrom) -> Result<JoinPreview, Failure> {
        self.0.install.preview(from).await.map_err(|fault| of_join(&fault))
    }

    /// Joins a team, which is shown from then on.
    pub(crate) async fn join(&self, accept: JoinAccept) -> Result<Joined, Failure> {
        let joined = match &*self.0.reach.read().await {
            Reach::None => return Err(no_connector()),
            Reach::Own(connector) => connector.join(accept).await,
            Reach::Door(door) => {
                let joined = self.0.install.join(accept).await;
                // That connector is to read the contexts again. The team is joined whether it hears it or not.
                if joined.is_ok()
                    && let Err(fault) = door.connect_now().await
                {
                    tracing::warn!(why = %fault.sentence(), "the other connector was not told of the new team");
                }
                joined
            }
        };
        match joined {
            Ok(joined) => {
                self.0.desktop.change(|model| {
                    model.show_joined(&joined.context);
                    model.custody = None;
                });
                Ok(joined)
            }
            Err(fault) => {
                self.ask_about_keyring(&fault);
                Err(of_join(&fault))
            }
        }
    }

    /// Pauses reporting for so many seconds, or until resumed; or resumes.
    pub(crate) async fn pause(&self, paused: bool, for_seconds: Option<i64>) -> Result<(), Failure> {
        match &*self.0.reach.read().await {
            Reach::None => Err(no_connector()),
            Reach::Own(connector) => {
                let for_ms = for_seconds.map(|seconds| seconds.saturating_mul(1000));
                let action = if paused { Action::Pause { for_ms } } else { Action::Resume };
                connector.act(action).await.map_err(|fault| of_act(&fault))
            }
            Reach::Door(door) => {
                let request = PauseRequest { paused, for_seconds: for_seconds.filter(|_| paused) };
                door.pause(&request).await.map(|_| ()).map_err(|fault| of_client(&fault))
            }
        }
    }

    /// Skips every wait.
    pub(crate) async fn connect_now(&self) -> Result<(), Failure> {
        match &*self.0.reach.read().await {
            Reach::None => Err(no_connector()),
            Reach::Own(connector) => connector.act(Action::ConnectNow).await.map_err(|fault| of_act(&fault)),
            Reach::Door(door) => door.connect_now().await.map_err(|fault| of_client(&fault)),
        }
    }

    /// Ends the app's connector in order, so that the team sees this machine leave; another process's
    /// goes on.
    pub(crate) async fn shutdown(&self) {
        self.0.tasks.shutdown(Duration::from_millis(500)).await;
        let reach = std::mem::replace(&mut *self.0.reach.write().await, Reach::None);
        if let Reach::Own(connector) = reach {
            connector.shutdown().await;
        }
    }
}
