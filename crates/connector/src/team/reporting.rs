//! Reporting: one machine's reports and its link under one sign-in, from the first to the farewell. What
//! a report is and when it goes out stands in [`super::beats`].

use super::Team;
use super::sign_in::Signed;
use crate::heartbeat::{Identity, Pace};
use crate::link::{Linked, Over, Told};
use crate::privacy::Native;
use crate::state::Channel;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use teamlamp_clock::Moment;
use teamlamp_wire::Millis;
use teamlamp_wire::id::SessionId;
use teamlamp_wire::limits::{HEARTBEAT_MS, REPORT_MIN_MS};
use teamlamp_wire::machine::AwayReason;
use teamlamp_wire::session::RegisterSession;
use tokio::sync::watch;

/// How long the first sign-in is hoped for before what happens goes to the outbox.
const SIGN_IN: Duration = Duration::from_secs(30);
/// How long the last report and the goodbye may take: within 3 s with everything else.
const FAREWELL: Duration = Duration::from_millis(1_200);
const GOODBYE: Duration = Duration::from_millis(1_000);

/// What reporting remembers from one connection to the next.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) incarnation: watch::Sender<String>,
    pub(super) sequence: AtomicU64,
    /// What this run registered, and the team's ids.
    pub(super) registered: Mutex<BTreeMap<Native, (RegisterSession, SessionId)>>,
    pub(super) superseded: Mutex<Option<Moment>>,
    /// Until then the server takes reports and nothing beside them.
    pub(super) more_after: Mutex<Option<Moment>>,
    pub(super) pace: Mutex<Pace>,
    /// Rises with each answered report.
    pub(super) answered: watch::Sender<u64>,
    /// Rises when the link came up, or the server changed the configuration.
    pub(super) kicked: watch::Sender<u64>,
    pub(super) configuration: watch::Sender<bool>,
}

impl Reporter {
    pub(super) fn new(incarnation: String) -> Self {
        Self {
            incarnation: watch::Sender::new(incarnation),
            sequence: AtomicU64::new(0),
            registered: Mutex::default(),
            superseded: Mutex::default(),
            more_after: Mutex::default(),
            pace: Mutex::new(Pace::of(HEARTBEAT_MS, REPORT_MIN_MS)),
            answered: watch::Sender::new(0),
            kicked: watch::Sender::new(0),
            configuration: watch::Sender::new(true),
        }
    }

    pub(super) fn pace(&self) -> Pace {
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// How a connection ended.
pub(super) enum End {
    Leave(AwayReason),
    Refused,
    Cloned,
}

impl Team {
    /// Reports until it is asked to leave, and has left.
    pub(super) async fn report(&self) {
        if self.context().machine.is_none() {
            return self.quit.cancelled().await;
        }
        let mut pause = self.signals.pause.subscribe();
        loop {
            let paused = pause.borrow_and_update().is_some();
            self.journal.pause(paused);
            let signed = tokio::select! {
                biased;
                () = self.quit.cancelled() => return,
                _ = pause.changed() => continue,
                signed = self.signed_in(), if !paused => signed,
            };
            let end = self.connection(&signed).await;
            match end {
                End::Leave(AwayReason::Paused) => continue,
                End::Leave(_) => return,
                End::Refused => self.sign_in.refused(signed.number),
                End::Cloned => self.sign_in.cloned(signed.number),
            }
            self.journal.unanswered();
        }
    }

    /// Waits for a sign-in; what happens where there is none for a while goes to the outbox.
    async fn signed_in(&self) -> Signed {
        match self.install.clock.within(SIGN_IN, self.sign_in.wait()).await {
            Some(signed) => signed,
            None => {
                self.journal.unanswered();
                self.sign_in.wait().await
            }
        }
    }

    /// One sign-in's reporting: both the reports and the link, until one of them can't go on.
    async fn connection(&self, signed: &Signed) -> End {
        let now = self.now();
        self.change(|f| {
            f.heartbeat.begin(now);
            f.link.begin(now);
        });
        let context = self.context();
        let Some(machine) = context.machine else { return End::Refused };
        let leaving = watch::Sender::new(None);
        let client = signed.client.at("link");
        let linked = Linked {
            client: &client,
            team: &context.team_id,
            machine: &machine.id,
            version: &self.board.status().version.clone(),
            clock: &self.install.clock,
            chance: &self.install.chance,
            incarnation: self.reporter.incarnation.subscribe(),
            answered: self.reporter.answered.subscribe(),
            nudged: self.signals.nudge.subscribe(),
            recovered: self.recovered.subscribe(),
            redial: self.signals.redial.subscribe(),
            leaving: leaving.subscribe(),
        };
        let mut link = Box::pin(linked.run(self));
        let mut beats = Box::pin(self.beats(signed));
        let end = tokio::select! {
            biased;
            reason = self.asked_to_leave() => End::Leave(reason),
            () = self.sign_in.over(signed.number) => End::Refused,
            end = &mut beats => end,
            Over::Refused | Over::Left = &mut link => End::Refused,
        };
        drop(beats);
        if let End::Leave(reason) = end {
            self.say_farewell(signed, reason, &leaving, &mut link).await;
        }
        // Who ends for good has no next connection to show.
        if !matches!(end, End::Leave(AwayReason::Shutdown)) {
            let now = self.now();
            self.change(|f| {
                f.linked_at = None;
                f.link.begin(now);
            });
        }
        end
    }

    /// Why the machine goes on purpose, once it does.
    async fn asked_to_leave(&self) -> AwayReason {
        let mut pause = self.signals.pause.subscribe();
        tokio::select! {
            biased;
            () = self.quit.cancelled() => AwayReason::Shutdown,
            _ = pause.wait_for(Option::is_some) => AwayReason::Paused,
        }
    }

    /// A last report without bindings, answered; then `away`; then the link is closed (spec 02).
    async fn say_farewell(
        &self,
        signed: &Signed,
        reason: AwayReason,
        leaving: &watch::Sender<Option<AwayReason>>,
        link: &mut (impl Future<Output = Over> + Unpin),
    ) {
        if self.board.facts(&self.id).is_some_and(|f| f.heartbeat == Channel::Up) {
            let last = self.install.clock.within(FAREWELL, self.farewell(signed));
            tokio::select! {
                biased;
                // Not answered, or not in time: the goodbye over the link says it, and nothing waits longer.
                answered = last => if answered == Some(true) { self.journal.left() },
                _ = &mut *link => return,
            }
        }
        leaving.send_replace(Some(reason));
        let _ = self.install.clock.within(GOODBYE, link).await;
    }

    async fn farewell(&self, signed: &Signed) -> bool {
        let context = self.context();
        let Some((who, said)) = self.who().map(|who| (who, self.journal.say().said)) else { return false };
        let beat = said.farewell(&who, self.reporter.next_sequence());
        signed.client.at("farewell").heartbeat(&context.team_id, &who.machine, &beat).await.is_ok()
    }

    pub(super) fn who(&self) -> Option<Identity> {
        let machine = self.context().machine?.id;
        Some(Identity { machine, incarnation: self.reporter.incarnation.borrow().clone() })
    }
}

impl Told for Team {
    fn up(&self, server_time: Millis, heartbeat_ms: i64) {
        let now = self.now();
        {
            let mut pace = self.reporter.pace.lock().unwrap_or_else(PoisonError::into_inner);
            *pace = Pace::of(heartbeat_ms, i64::try_from(pace.least.as_millis()).unwrap_or(REPORT_MIN_MS));
        }
        self.works(
            |f| &mut f.link,
            |f| {
                f.linked_at = Some(now);
                f.clock_offset_ms = Some(now - server_time);
            },
        );
        self.reporter.kicked.send_modify(|n| *n += 1);
    }

    fn lost(&self) {
        let now = self.now();
        self.change(|f| {
            f.linked_at = None;
            f.link.lost(now);
        });
    }

    fn down(&self, why: String, wait: Option<Duration>) {
        let now = self.now();
        let next = wait.map(|wait| now + i64::try_from(wait.as_millis()).unwrap_or(0));
        self.change(|f| {
            f.linked_at = None;
            f.link.failed(now, why, next);
        });
    }

    fn configuration_changed(&self) {
        self.reporter.configuration.send_replace(true);
        self.reporter.kicked.send_modify(|n| *n += 1);
    }
}

const _: () = assert!(FAREWELL.as_millis() + GOODBYE.as_millis() < 3_000);
