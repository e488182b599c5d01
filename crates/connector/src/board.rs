//! The one value that everybody shows: facts of all contexts, their states, and the found sessions, put
//! together into a `Status`. Facts change here and nowhere else, each change of state with a log line.

use crate::contexts::Context;
use crate::sessions::Found;
use crate::state::{Channel, Facts, due, state};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use teamlamp_clock::Clock;
use teamlamp_wire::Millis;
use teamlamp_wire::local::{ContextStatus, LocalSession, Pause, State, StateChange, Status};
use tokio::sync::{Notify, watch};

/// Changes of state that are kept for 'why offline?'.
const CHANGES: usize = 20;

/// The status of a connector and who watches it.
#[derive(Debug)]
pub(crate) struct Board {
    clock: Clock,
    inner: Mutex<Inner>,
    shown: watch::Sender<Arc<Status>>,
    /// Wakes [`Board::keep_time`] when something else falls due next.
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    about: Status,
    standings: BTreeMap<String, Standing>,
}

/// One context and how it stands.
#[derive(Debug)]
struct Standing {
    context: Context,
    facts: Facts,
    state: State,
    since: Millis,
    changes: VecDeque<StateChange>,
}

impl Board {
    pub(crate) fn new(clock: Clock, version: &str, incarnation_id: &str) -> Self {
        let about = Status {
            version: version.to_owned(),
            pid: std::process::id(),
            incarnation_id: incarnation_id.to_owned(),
            ..Status::default()
        };
        let shown = watch::Sender::new(Arc::new(about.clone()));
        let inner = Mutex::new(Inner { about, standings: BTreeMap::new() });
        Self { clock, inner, shown, changed: Notify::new() }
    }

    /// What is shown now.
    pub(crate) fn status(&self) -> Arc<Status> {
        self.shown.borrow().clone()
    }

    /// The present value, then each change.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Status>> {
        self.shown.subscribe()
    }

    /// Shows a context, or shows it with other names.
    pub(crate) fn show(&self, context: &Context) {
        let now = self.clock.now_ms();
        let mut inner = self.lock();
        let paused = inner.about.paused;
        let standing = inner.standings.entry(context.id.clone()).or_insert_with(|| Standing {
            context: context.clone(),
            facts: Facts { paused, ..Facts::default() },
            state: State::Connecting,
            since: now,
            changes: VecDeque::new(),
        });
        standing.context = context.clone();
        standing.facts.reads_only = context.machine.is_none();
        standing.facts.credential_expires_at = context.machine.as_ref().map(|m| m.credential_expires_at);
        standing.settle(now);
        self.publish(inner);
    }

    /// Shows a context no more.
    pub(crate) fn remove(&self, context: &str) {
        let mut inner = self.lock();
        inner.standings.remove(context);
        self.publish(inner);
    }

    /// Changes facts of a context; the state follows.
    pub(crate) fn change(&self, context: &str, change: impl FnOnce(&mut Facts)) {
        let now = self.clock.now_ms();
        let mut inner = self.lock();
        if let Some(standing) = inner.standings.get_mut(context) {
            change(&mut standing.facts);
            standing.settle(now);
            self.publish(inner);
        }
    }

    /// A context's facts, where it is shown.
    pub(crate) fn facts(&self, context: &str) -> Option<Facts> {
        self.lock().standings.get(context).map(|standing| standing.facts.clone())
    }

    /// Shows another pause, or none, everywhere.
    pub(crate) fn pause(&self, pause: Option<Pause>) {
        let now = self.clock.now_ms();
        let mut inner = self.lock();
        inner.about.paused = pause;
        for standing in inner.standings.values_mut() {
            standing.facts.paused = pause;
            standing.settle(now);
        }
        self.publish(inner);
    }

    /// Shows another run: one took this one's place, and it goes on as a fresh one.
    pub(crate) fn incarnation(&self, id: &str) {
        let mut inner = self.lock();
        id.clone_into(&mut inner.about.incarnation_id);
        self.publish(inner);
    }

    /// Shows other sessions.
    pub(crate) fn sessions(&self, found: &Found) {
        let mut inner = self.lock();
        inner.about.sessions = found
            .sessions
            .iter()
            .map(|(key, session)| LocalSession {
                harness: key.harness.to_owned(),
                native_id: key.native_id.clone(),
                root: session.root.name.clone(),
                turn: session.turn,
                since: session.since,
                confirmed: session.confirmed,
            })
            .collect();
        self.publish(inner);
    }

    /// Lets the states follow time, for as long as it is polled.
    pub(crate) async fn keep_time(&self) {
        loop {
            let wait = self.next_due();
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = self.clock.sleep(wait) => {
                    let now = self.clock.now_ms();
                    let mut inner = self.lock();
                    inner.standings.values_mut().for_each(|standing| standing.settle(now));
                    self.publish(inner);
                }
            }
        }
    }

    fn next_due(&self) -> Duration {
        let now = self.clock.now_ms();
        let dues = self.lock().standings.values().filter_map(|s| due(&s.facts, now)).min();
        // The wall clock may jump meanwhile, so that even far moments are looked at again; not more often
        // than a second, so that an idle connector stays idle.
        dues.map_or(Duration::from_secs(3_600), |wait| {
            wait.clamp(Duration::from_secs(1), Duration::from_secs(3_600))
        })
    }

    fn publish(&self, mut inner: MutexGuard<'_, Inner>) {
        let now = self.clock.now_ms();
        let contexts: Vec<_> = inner.standings.values().map(Standing::shown).collect();
        inner.about.paused = inner.about.paused.filter(|p| p.until.is_none_or(|until| until > now));
        inner.about.contexts = contexts;
        let status = inner.about.clone();
        let shown = self.shown.send_if_modified(|shown| {
            let differs = **shown != status;
            if differs {
                *shown = Arc::new(status);
            }
            differs
        });
        drop(inner);
        if shown {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    /// The one place where a state changes.
    fn settle(&mut self, now: Millis) {
        let next = state(&self.facts, now);
        if next == self.state {
            return;
        }
        let (from, to, why) = (self.state.word(), next.word(), next.sentence());
        // The next try of an outage is news for the window, not a change of state.
        if from != to {
            tracing::info!(context = %self.context.id, from, to, %why, "the state changed");
            self.since = now;
            if self.changes.len() == CHANGES {
                self.changes.pop_front();
            }
            self.changes.push_back(StateChange { at: now, to: to.to_owned(), why });
        }
        self.state = next;
    }

    fn shown(&self) -> ContextStatus {
        let Self { context, facts, .. } = self;
        ContextStatus {
            id: context.id.clone(),
            origin: context.origin.clone(),
            server_id: context.server_id.clone(),
            server_name: context.server_name.clone(),
            team_id: context.team_id.clone(),
            team_name: context.team_name.clone(),
            principal_id: context.principal_id.clone(),
            principal_name: context.principal_name.clone(),
            machine_id: context.machine.as_ref().map(|m| m.id.clone()),
            machine_name: context.machine.as_ref().map(|m| m.name.clone()),
            state: self.state.clone(),
            state_since: self.since,
            heartbeat_at: facts.heartbeat_at,
            linked_at: facts.linked_at,
            streaming: facts.stream == Channel::Up,
            polls: facts.polls && facts.stream == Channel::Up,
            credential_expires_at: facts.credential_expires_at,
            clock_offset_ms: facts.clock_offset_ms,
            changes: self.changes.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::tests::context;
    use crate::state::{Channel, Kept};

    #[tokio::test(start_paused = true)]
    async fn each_change_of_state_is_shown_with_its_reason_and_twenty_are_kept() {
        let clock = Clock::starting_at(1_000);
        let board = Board::new(clock.clone(), "1", "inc");
        board.show(&context("a"));
        for n in 0..15 {
            board.change("a", |f| {
                f.kept = Kept::Yes;
                f.heartbeat.failed(1_000, format!("Reason {n}."), None);
            });
            board.change("a", |f| f.heartbeat = Channel::Up);
        }
        let status = board.status();
        let shown = &status.contexts[0];
        assert_eq!(shown.changes.len(), CHANGES);
        assert_eq!(shown.changes[18].why, "Reason 14.");
        assert_eq!(shown.changes[19].to, "connecting");
        assert_eq!(shown.state_since, 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_by_itself() {
        let clock = Clock::starting_at(0);
        let board = Board::new(clock.clone(), "1", "inc");
        board.show(&context("a"));
        board.pause(Some(Pause { until: Some(60_000) }));
        assert_eq!(board.status().contexts[0].state.word(), "paused");
        let mut watch = board.watch();
        watch.mark_unchanged();
        tokio::select! {
            biased;
            () = board.keep_time() => {}
            changed = clock.within(Duration::from_secs(90), watch.changed()) => changed.unwrap().unwrap(),
        }
        let status = board.status();
        assert_eq!((status.contexts[0].state.word(), status.paused), ("connecting", None));
    }
}
