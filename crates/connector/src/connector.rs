//! The running connector: a loop for each context, the local door, and what a person can make it do.

mod fault;
mod teams;

pub use fault::{ActFault, StartFault};

use crate::board::Board;
use crate::claim::Claim;
use crate::config::Config;
use crate::contexts::{Context, choose};
use crate::custody::Place;
use crate::enrollment::{JoinFault, LeaveFault, Left};
use crate::home::HomeFault;
use crate::install::Install;
use crate::outbox::Outbox;
use crate::sessions::Found;
use crate::settings::{Settings, SettingsFault};
use crate::stream::{Events, Unsupported};
use crate::team::{Signals, Team};
use crate::{clock_watch, incarnations};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use teamlamp_client::Client;
use teamlamp_clock::{Tasks, ms};
use teamlamp_wire::local::{Pause, Status};
use teamlamp_wire::window::{JoinAccept, JoinFrom, JoinPreview, Joined};
use teams::Running;
use tokio::sync::watch;

/// How long the door and its readers may take to end: 3 s with the leaving of the teams (spec 06).
const ENDING: Duration = Duration::from_millis(400);
/// How often the end of a pause is looked for, since the wall clock may jump.
const PAUSE_LOOK: Duration = Duration::from_secs(30);

/// What a person makes a running connector do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stops reporting, everywhere, at once, also offline; remembered over restarts.
    Pause {
        /// For how long; `None`: until [`Action::Resume`].
        for_ms: Option<i64>,
    },
    /// Reports again.
    Resume,
    /// Reads the contexts again, then skips every wait: the keyring is asked again, what was refused is
    /// tried again, what is down is dialled.
    ConnectNow,
    /// Has the keyring ask its person to open it, then connects.
    UnlockKeyring,
    /// Chooses where secrets of later enrollments are put, and remembers it.
    SetCustody(Place),
    /// Enrolls this machine again by the person's credential: the one button of `revoked` and `expired`,
    /// and, with a new name, of `cloned`.
    EnrollAgain {
        /// The context's id.
        context: String,
        /// Its name as a new machine with a new identity; `None`: the same machine.
        as_new: Option<String>,
    },
}

/// A running connector; clones are the same one. It ends with [`Connector::shutdown`]; its local door holds
/// one too, so that only without a door does dropping every clone end it, and the team then sees this
/// machine vanish rather than leave.
#[derive(Clone, Debug)]
pub struct Connector(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    install: Install,
    board: Arc<Board>,
    signals: Arc<Signals>,
    sessions: watch::Receiver<Arc<Found>>,
    only: Option<String>,
    outbox: Outbox,
    hidden: BTreeSet<String>,
    incarnation: String,
    tasks: Tasks,
    door: Tasks,
    teams: Mutex<BTreeMap<String, Running>>,
    /// One change of the set of teams at a time.
    changing: tokio::sync::Mutex<()>,
    claim: Mutex<Option<Claim>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody can end it in order any more.
        self.tasks.kill();
        self.door.kill();
    }
}

impl Connector {
    /// Claims the home and starts: a loop for each context, and the local door.
    ///
    /// # Errors
    /// [`StartFault::Claim`] with [`crate::claim::ClaimFault::Held`] where another process runs the
    /// connector of this home: read from it through its local door (`teamlamp_client::Door`).
    pub async fn start(config: Config) -> Result<Self, StartFault> {
        let Config { install, sessions, only, door } = config;
        install.home.prepare()?;
        let claim = Claim::take(&install.home)?;
        for name in ["secrets", "contexts", "settings", "joining", "incarnations"] {
            let swept =
                install.home.lock(&format!("{name}.lock")).and_then(|_locked| install.home.sweep(name));
            if let Err(fault) = swept {
                tracing::warn!(name, %fault, "what was left half-written could not be removed");
            }
        }
        let chosen = Settings::of(&install.home).load()?;
        let outbox = Outbox::open(&install.home, install.clock.now_ms())?;
        let incarnation = incarnations::fresh(&install.home, &install.chance)
            .map_err(|cause| HomeFault::Unusable { path: install.home.folder().to_owned(), cause })?;
        let version = install.program.rsplit(' ').next().unwrap_or_default().to_owned();
        let connector = Self(Arc::new(Inner {
            board: Arc::new(Board::new(install.clock.clone(), &version, &incarnation)),
            signals: Arc::new(Signals::new(None)),
            hidden: chosen.hidden_roots,
            tasks: Tasks::new(),
            door: Tasks::new(),
            teams: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            claim: Mutex::new(Some(claim)),
            install,
            sessions,
            only,
            outbox,
            incarnation,
        }));
        if let Some(pause) = chosen.pause.filter(|p| p.until.is_none_or(|until| until > connector.now())) {
            connector.show_pause(Some(pause));
        }
        connector.start_tasks();
        if let Err(fault) = connector.reload().await {
            connector.shutdown().await;
            return Err(fault.into());
        }
        if door {
            crate::door::open(&connector, &connector.0.door).map_err(|cause| StartFault::Door {
                path: connector.0.install.home.path(crate::claim::SOCKET),
                cause,
            })?;
        }
        Ok(connector)
    }

    fn start_tasks(&self) {
        let inner = &self.0;
        let (board, mut sessions) = (inner.board.clone(), inner.sessions.clone());
        inner.tasks.spawn("states", async move { board.keep_time().await });
        let board = inner.board.clone();
        inner.tasks.spawn("found sessions", async move {
            loop {
                let found = sessions.borrow_and_update().clone();
                board.sessions(&found);
                if sessions.changed().await.is_err() {
                    return;
                }
            }
        });
        let (clock, signals) = (inner.install.clock.clone(), inner.signals.clone());
        inner.tasks.spawn("clock watch", async move { clock_watch::watch(&clock, |_| signals.woke()).await });
        // A weak hold: the task belongs to the connector, not the other way round.
        let (weak, mut pause) = (Arc::downgrade(inner), inner.signals.pause.subscribe());
        let clock = inner.install.clock.clone();
        inner.tasks.spawn("end of the pause", async move {
            loop {
                let until = (*pause.borrow_and_update()).and_then(|p| p.until);
                let wait = until.map_or(PAUSE_LOOK * 120, |until| ms(until - clock.now_ms()).min(PAUSE_LOOK));
                tokio::select! {
                    biased;
                    changed = pause.changed() => if changed.is_err() { return },
                    () = clock.sleep(wait) => {
                        if until.is_some_and(|until| until <= clock.now_ms())
                            && let Some(inner) = weak.upgrade()
                            && let Err(fault) = Self(inner).set_pause(None)
                        {
                            tracing::warn!(%fault, "the end of the pause could not be remembered");
                        }
                    }
                }
            }
        });
    }

    /// The install that it runs for.
    pub fn install(&self) -> &Install {
        &self.0.install
    }

    /// Everything that it knows of its own state.
    pub fn status(&self) -> Arc<Status> {
        self.0.board.status()
    }

    /// The present status, then each change of it.
    pub fn watch_status(&self) -> watch::Receiver<Arc<Status>> {
        self.0.board.watch()
    }

    /// A context's events: from its latest snapshot on, or after a cursor.
    ///
    /// # Errors
    /// Where the context is none of this connector's, or the cursor is older than the frames that it
    /// keeps: ask the server itself.
    pub fn events(&self, context: &str, after: Option<&str>) -> Result<Events, Unsupported> {
        let team =
            self.team(context).ok_or_else(|| Unsupported("This connector has no such team.".into()))?;
        team.hub().read(after)
    }

    /// The client with which a context reports and reads now; none while it is not signed in. What a
    /// person does goes through [`Install::signed_in`].
    pub fn client(&self, context: &str) -> Option<(Client, Context)> {
        let team = self.team(context)?;
        Some((team.client()?, team.context()))
    }

    /// The contexts that it is connected to, by id.
    pub fn contexts(&self) -> Vec<Context> {
        self.teams().values().map(|running| running.team.context()).collect()
    }

    /// Does what a person wants.
    ///
    /// # Errors
    /// What did not work, with a sentence that says what to do.
    pub async fn act(&self, action: Action) -> Result<(), ActFault> {
        match action {
            Action::Pause { for_ms } => {
                let until = for_ms.map(|for_ms| self.now().saturating_add(for_ms.max(0)));
                self.set_pause(Some(Pause { until }))?;
            }
            Action::Resume => self.set_pause(None)?,
            Action::ConnectNow => {
                self.reload().await?;
                self.0.signals.by_person();
            }
            Action::UnlockKeyring => {
                self.0.install.custody.unlock().await?;
                self.0.signals.by_person();
            }
            Action::SetCustody(place) => {
                self.0.install.custody.choose(place)?;
                self.0.signals.by_person();
            }
            Action::EnrollAgain { context, as_new } => self.enroll_again(&context, as_new).await?,
        }
        Ok(())
    }

    /// What an invitation is, as the server itself says it: what the confirm dialog shows.
    pub async fn preview(&self, from: &JoinFrom) -> Result<JoinPreview, JoinFault> {
        self.0.install.preview(from).await
    }

    /// Joins a team and connects to it.
    pub async fn join(&self, accept: JoinAccept) -> Result<Joined, JoinFault> {
        let joined = self.0.install.join(accept).await?;
        match self.reload().await {
            Ok(()) => Ok(joined),
            Err(ActFault::Contexts(fault)) => Err(fault.into()),
            Err(fault) => {
                tracing::error!(%fault, "a team was joined and can't be connected");
                Ok(joined)
            }
        }
    }

    /// Leaves a team in order, revokes this machine there and forgets its secrets.
    pub async fn leave(&self, context: &str) -> Result<Left, LeaveFault> {
        let id =
            choose(&self.contexts(), Some(context)).map_or_else(|_| context.to_owned(), |c| c.id.clone());
        {
            let _changing = self.0.changing.lock().await;
            self.stop(&id).await;
        }
        let left = self.0.install.leave(&id).await;
        if let Err(fault) = self.reload().await {
            tracing::warn!(%fault, "the contexts could not be read again");
        }
        left
    }

    /// Ends, in order and within 3 s: a last report without bindings, `away`, the link, the local door, the
    /// outbox. A second call does nothing.
    pub async fn shutdown(&self) {
        let inner = &self.0;
        // Given back last: until then nobody else may open the door.
        let Some(claim) = inner.claim.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let running: Vec<_> = self.teams().values().cloned().collect();
        futures_util::future::join_all(running.iter().map(Running::leave)).await;
        inner.door.shutdown(ENDING).await;
        if let Err(fault) = inner.install.home.remove(crate::claim::SOCKET) {
            tracing::debug!(%fault, "the local door's socket could not be removed");
        }
        if let Err(fault) = inner.outbox.flush() {
            tracing::warn!(%fault, "the outbox could not be put on the disk");
        }
        inner.tasks.shutdown(Duration::from_millis(50)).await;
        self.teams().clear();
        drop(claim);
    }

    /// Ends as a crash does: nothing more is said to anybody, and nothing is finished. For simulations.
    pub fn kill(&self) {
        self.0.tasks.kill();
        self.0.door.kill();
        self.0.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn set_pause(&self, pause: Option<Pause>) -> Result<(), SettingsFault> {
        // It takes effect whether or not it can be remembered.
        self.show_pause(pause);
        Settings::of(&self.0.install.home).change(|chosen| chosen.pause = pause).map(|_| ())
    }

    fn show_pause(&self, pause: Option<Pause>) {
        tracing::info!(paused = pause.is_some(), "reporting");
        self.0.board.pause(pause);
        self.0.signals.pause.send_replace(pause);
    }

    fn team(&self, context: &str) -> Option<Arc<Team>> {
        self.teams().get(context).map(|running| running.team.clone())
    }

    fn teams(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.0.teams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> teamlamp_wire::Millis {
        self.0.install.clock.now_ms()
    }
}
