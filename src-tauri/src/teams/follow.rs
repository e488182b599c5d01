//! The loop of one team: its lists and past are read once, then its events keep them current. What an
//! event does not tell is read again, a moment later, so that many events cost one reading.

use super::Teams;
use super::lists::Reader;
use futures_util::{FutureExt, StreamExt};
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use teamlamp_client::Followed;
use teamlamp_clock::{Backoff, Moment};
use teamlamp_wire::frame::{Frame, ResyncReason};
use teamlamp_wire::id::TeamId;
use teamlamp_wire::window::GapReason;

use crate::model::Again;

/// Events of one moment are read after as one.
const SETTLE: Duration = Duration::from_millis(300);
/// How often lists are read while a window shows when machines were last heard from.
const FRESH: Duration = Duration::from_secs(15);
/// How often they are read while nobody looks, since what a team's server forgot to tell is told so.
const IDLE: Duration = Duration::from_secs(3_600);
/// Between tries to reach a stream or a list, in milliseconds.
const RETRY_MS: (i64, i64) = (500, 15_000);

/// Keeps a team in the model current, for as long as it is polled.
pub(super) async fn follow(teams: Teams, context: String, team: TeamId) {
    let install = teams.0.install.clone();
    let mut backoff = Backoff::new(RETRY_MS);
    loop {
        let following = follow_once(&teams, &context, &team, &mut backoff);
        if AssertUnwindSafe(following).catch_unwind().await.is_err() {
            tracing::error!(%context, "following a team failed; beginning anew");
        }
        install.clock.sleep(backoff.next(&install.chance)).await;
    }
}

/// Follows one stream of events to its end.
async fn follow_once(teams: &Teams, context: &str, team: &TeamId, backoff: &mut Backoff) {
    let Some(mut events) = teams.events(context).await else { return };
    let clock = &teams.0.install.clock;
    let mut following = Following {
        reader: Reader::new(teams.clone(), context.to_owned(), team.clone()),
        teams: teams.clone(),
        context: context.to_owned(),
        again: Again::default(),
        due: None,
        read_at: clock.monotonic(),
        backoff: Backoff::new(RETRY_MS),
    };
    let mut followed = teams.0.desktop.followed();
    loop {
        let due = following.next_due(*followed.borrow_and_update());
        tokio::select! {
            biased;
            () = clock.sleep_until(due) => following.read().await,
            Ok(()) = followed.changed() => {}
            next = events.next() => {
                let Some(next) = next else { return };
                if matches!(next, Followed::Frame { .. }) {
                    backoff.reset();
                }
                following.take(next).await;
            }
        }
    }
}

struct Following {
    teams: Teams,
    context: String,
    reader: Reader,
    /// What is to be read again.
    again: Again,
    /// When.
    due: Option<Moment>,
    /// When something was last read, or tried to be.
    read_at: Moment,
    backoff: Backoff,
}

impl Following {
    async fn take(&mut self, followed: Followed) {
        let now = self.teams.0.install.clock.now_ms();
        match followed {
            Followed::Frame { frame: Frame::SnapshotEnd { .. }, .. } => {
                self.again = Again { lists: true, team: true };
                self.reader.wants_past();
                self.read().await;
            }
            Followed::Frame { frame: Frame::Event { sequence, data, .. }, replayed } => {
                let again =
                    self.change(|team| team.event(sequence, &data, replayed, now)).unwrap_or_default();
                self.want(again);
            }
            Followed::Gap { reason, pruned_through, events_missed } => {
                let reason = match reason {
                    ResyncReason::Retention | ResyncReason::SnapshotRetention => GapReason::Retention,
                    ResyncReason::ServerRestored => GapReason::ServerRestored,
                    _ => GapReason::Unknown,
                };
                self.change(|team| {
                    if reason == GapReason::ServerRestored {
                        team.restored();
                    }
                    team.feed.gap(now, reason, events_missed, pruned_through);
                });
            }
            Followed::Frame { .. } | Followed::Connected { .. } | Followed::Dropped { .. } => {}
            Followed::Ended { why } => {
                tracing::info!(context = %self.context, ?why, "the team's events ended")
            }
        }
    }

    fn want(&mut self, again: Again) {
        if again == Again::default() {
            return;
        }
        self.again.lists |= again.lists;
        self.again.team |= again.team;
        let soon = self.teams.0.install.clock.monotonic() + SETTLE;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// When something is to be read next: what an event left open, or the lists while someone looks.
    fn next_due(&self, is_followed: bool) -> Moment {
        self.due.unwrap_or(self.read_at + if is_followed { FRESH } else { IDLE })
    }

    /// Reads what is wanted; what fails is tried again later.
    async fn read(&mut self) {
        let again = match std::mem::take(&mut self.again) {
            // Nothing was left open: it is the clock that asks.
            Again { lists: false, team: false } => Again { lists: true, team: false },
            again => again,
        };
        self.due = None;
        self.read_at = self.teams.0.install.clock.monotonic();
        if self.reader.read(again).await {
            self.backoff.reset();
        } else {
            self.again = again;
            let install = &self.teams.0.install;
            self.due = Some(install.clock.monotonic() + self.backoff.next(&install.chance) + SETTLE);
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut crate::model::Team) -> T) -> Option<T> {
        self.teams.0.desktop.change(|model| model.teams.get_mut(&self.context).map(change))
    }
}
