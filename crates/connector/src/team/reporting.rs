//! Reporting: heartbeats and the link of one machine, from the first report to the farewell.

use super::sign_in::Signed;
use super::{Team, flush};
use crate::heartbeat::{Identity, Pace, Said};
use crate::incarnations;
use crate::link::{Linked, Over, Told};
use crate::privacy::Native;
use crate::state::Channel;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use teamlamp_client::ClientError;
use teamlamp_clock::{Backoff, Moment};
use teamlamp_wire::Millis;
use teamlamp_wire::heartbeat::HeartbeatAnswer;
use teamlamp_wire::id::SessionId;
use teamlamp_wire::limits::{HEARTBEAT_MS, LINK_BACKOFF_MS, REPORT_MIN_MS};
use teamlamp_wire::machine::AwayReason;
use teamlamp_wire::session::RegisterSession;
use tokio::sync::watch;

/// Jitter of the interval, in percent (spec 02).
const JITTER: u32 = 10;
/// How long the first report waits for the first scan.
const SCAN: Duration = Duration::from_secs(30);
/// How long anything beside a report may keep the next one waiting.
const SIDE: Duration = Duration::from_secs(10);
/// How long the first sign-in is hoped for before what happens goes to the outbox.
const SIGN_IN: Duration = Duration::from_secs(30);
/// How long the last report and the goodbye may take: within 3 s with everything else.
const FAREWELL: Duration = Duration::from_millis(1_200);
const GOODBYE: Duration = Duration::from_millis(1_000);
/// Superseded twice within this time, another computer has this identity (spec 02).
const CLONE: Duration = Duration::from_secs(300);

/// What reporting remembers from one connection to the next.
#[derive(Debug)]
pub(super) struct Reporter {
    incarnation: watch::Sender<String>,
    sequence: AtomicU64,
    /// What this run registered, and the team's ids.
    pub(super) registered: Mutex<BTreeMap<Native, (RegisterSession, SessionId)>>,
    superseded: Mutex<Option<Moment>>,
    pace: Mutex<Pace>,
    /// Rises with each answered report.
    answered: watch::Sender<u64>,
    /// Rises when the link came up, or the server changed the configuration.
    kicked: watch::Sender<u64>,
    configuration: watch::Sender<bool>,
}

impl Reporter {
    pub(super) fn new(incarnation: String) -> Self {
        Self {
            incarnation: watch::Sender::new(incarnation),
            sequence: AtomicU64::new(0),
            registered: Mutex::default(),
            superseded: Mutex::default(),
            pace: Mutex::new(Pace::of(HEARTBEAT_MS, REPORT_MIN_MS)),
            answered: watch::Sender::new(0),
            kicked: watch::Sender::new(0),
            configuration: watch::Sender::new(true),
        }
    }

    fn pace(&self) -> Pace {
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// How a connection ended.
enum End {
    Leave(AwayReason),
    Refused,
    Cloned,
}

/// When the next report of a connection is due, and what the last one said.
struct Rhythm {
    last: Option<Moment>,
    told: Option<Said>,
    jittered: Duration,
    backoff: Backoff,
    retry_at: Option<Moment>,
    /// The server did not know a session: it is registered again with a report of its own, once.
    again: bool,
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

    fn who(&self) -> Option<Identity> {
        let machine = self.context().machine?.id;
        Some(Identity { machine, incarnation: self.reporter.incarnation.borrow().clone() })
    }

    /// Reports again and again.
    async fn beats(&self, signed: &Signed) -> End {
        let mut rhythm = Rhythm {
            last: None,
            told: None,
            jittered: self.reporter.pace().every,
            backoff: Backoff::new(LINK_BACKOFF_MS),
            retry_at: None,
            again: false,
        };
        self.first_scan().await;
        let mut redial = self.signals.redial.subscribe();
        loop {
            self.wait_until_due(&mut rhythm).await;
            let saying = self.journal.say();
            let beat = tokio::select! {
                biased;
                // What was under way when the computer fell asleep will not be answered.
                _ = redial.changed() => {
                    signed.client.forget_idle();
                    continue;
                }
                beat = self.beat(signed, &saying.said) => beat,
            };
            match beat {
                Ok(answer) => {
                    self.answered(&answer, &saying, &mut rhythm);
                    self.configure(signed).await;
                }
                Err(fault) => {
                    if let Some(end) = self.unanswered(&fault, &mut rhythm) {
                        return end;
                    }
                }
            }
        }
    }

    /// A report before the first scan would end every binding; one that never came would make this
    /// machine vanish.
    async fn first_scan(&self) {
        let mut journal = self.journal.watch();
        let scanned = async { while !self.journal.settled() && journal.changed().await.is_ok() {} };
        if self.install.clock.within(SCAN, scanned).await.is_none() {
            tracing::warn!(context = %self.id, "the first scan takes long: reporting what is known");
        }
    }

    async fn wait_until_due(&self, rhythm: &mut Rhythm) {
        let clock = &self.install.clock;
        let mut journal = self.journal.watch();
        let mut nudge = self.signals.nudge.subscribe();
        let mut kicked = self.reporter.kicked.subscribe();
        loop {
            let (now, pace) = (clock.monotonic(), self.reporter.pace());
            let changed =
                rhythm.again || rhythm.told.as_ref().is_some_and(|told| *told != self.journal.say().said);
            let due =
                rhythm.retry_at.unwrap_or_else(|| pace.next(rhythm.last, changed, rhythm.jittered, now));
            if due <= now {
                return;
            }
            tokio::select! {
                biased;
                _ = nudge.changed() => break,
                _ = kicked.changed() => {
                    if rhythm.retry_at.is_some() || *self.reporter.configuration.borrow() {
                        break;
                    }
                }
                _ = journal.changed() => {}
                () = clock.sleep_until(due) => {}
            }
        }
        // Even then at most one a second, so that nobody's finger makes a flood.
        if let Some(last) = rhythm.last {
            clock.sleep_until(last + self.reporter.pace().least).await;
        }
    }

    /// One report, and before it what has to be there for it: what waits in the outbox, and the sessions.
    async fn beat(&self, signed: &Signed, said: &Said) -> Result<HeartbeatAnswer, ClientError> {
        let client = signed.client.at("heartbeat");
        let team = self.context().team_id;
        flush::outbox(self, &client).await?;
        let known = self.registered_as_wanted();
        let registering = flush::register(self, &client, said.registrations(&known));
        let registered = self.install.clock.within(SIDE, registering).await;
        match registered.unwrap_or_else(|| Err(flush::took_long(client.peer()))) {
            // The report says which sessions are not known; everything else of it counts.
            Err(fault) if matches!(fault.status(), Some(400 | 409 | 413)) => {
                tracing::warn!(context = %self.id, %fault, "sessions could not be registered");
            }
            done => done?,
        }
        let Some(who) = self.who() else { return Err(flush::no_machine()) };
        client.heartbeat(&team, &who.machine, &said.report(&who, self.reporter.next_sequence())).await
    }

    fn registered_as_wanted(&self) -> BTreeMap<Native, RegisterSession> {
        let registered = self.reporter.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered.iter().map(|(native, (wanted, _))| (native.clone(), wanted.clone())).collect()
    }

    fn answered(&self, answer: &HeartbeatAnswer, saying: &crate::journal::Saying, rhythm: &mut Rhythm) {
        let now = self.now();
        self.journal.answered(saying.mark);
        self.sign_in.accepted();
        let mut registered = self.reporter.registered.lock().unwrap_or_else(PoisonError::into_inner);
        for unbound in &answer.unbound_bindings {
            let (harness, native_id) = (unbound.harness.clone(), unbound.native_session_id.clone());
            registered.remove(&Native { harness, native_id });
        }
        // Sessions that are long gone need no place here.
        registered.retain(|native, _| saying.said.live().contains_key(native));
        rhythm.again = !answer.unbound_bindings.is_empty() && !rhythm.again;
        rhythm.told = Some(saying.said.clone());
        rhythm.last = Some(self.install.clock.monotonic());
        rhythm.jittered = self.install.chance.around(self.reporter.pace().every, JITTER);
        rhythm.retry_at = None;
        rhythm.backoff.reset();
        self.change(|f| {
            f.heartbeat = Channel::Up;
            f.heartbeat_at = Some(now);
        });
        self.reporter.answered.send_modify(|n| *n += 1);
    }

    fn unanswered(&self, fault: &ClientError, rhythm: &mut Rhythm) -> Option<End> {
        if fault.reason() == Some("incarnation_superseded") {
            return self.superseded(rhythm);
        }
        if matches!(fault.status(), Some(401 | 403 | 404)) {
            self.journal.unanswered();
            return Some(End::Refused);
        }
        self.journal.unanswered();
        let wait = rhythm.backoff.next(&self.install.chance).max(fault.retry_after().unwrap_or_default());
        let clock = &self.install.clock;
        rhythm.last = Some(clock.monotonic());
        rhythm.retry_at = Some(clock.monotonic() + wait);
        let (now, wait) = (self.now(), i64::try_from(wait.as_millis()).unwrap_or(0));
        tracing::debug!(context = %self.id, %fault, wait, "a report was not answered");
        self.change(|f| f.heartbeat.failed(now, fault.sentence(), Some(now + wait)));
        None
    }

    /// Another run took this one's place: a fresh one takes it back once; twice within five minutes,
    /// another computer has this identity.
    fn superseded(&self, rhythm: &mut Rhythm) -> Option<End> {
        let now = self.install.clock.monotonic();
        let before = self.reporter.superseded.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if before.is_some_and(|before| now - before < CLONE) {
            return Some(End::Cloned);
        }
        match incarnations::fresh(&self.install.home, &self.install.chance) {
            Ok(fresh) => {
                tracing::warn!(context = %self.id, "another run of this machine took its place: taking it back once");
                self.reporter.incarnation.send_replace(fresh);
                self.reporter.sequence.store(0, Ordering::Relaxed);
                (rhythm.last, rhythm.told, rhythm.retry_at) = (None, None, None);
                None
            }
            Err(fault) => {
                tracing::error!(context = %self.id, %fault, "a fresh run could not be remembered");
                Some(End::Cloned)
            }
        }
    }

    /// Reads the configuration where it has changed, or was not read yet. It can wait for the next report.
    async fn configure(&self, signed: &Signed) {
        if !*self.reporter.configuration.borrow() {
            return;
        }
        let Some(who) = self.who() else { return };
        let (client, team) = (signed.client.at("configuration"), self.context().team_id);
        // What changes while it is read is read again.
        self.reporter.configuration.send_replace(false);
        let read = self.install.clock.within(SIDE, client.configuration(&team, &who.machine)).await;
        match read.unwrap_or_else(|| Err(flush::took_long(client.peer()))) {
            Ok(configuration) => {
                let intervals = configuration.intervals;
                *self.reporter.pace.lock().unwrap_or_else(PoisonError::into_inner) =
                    Pace::of(intervals.heartbeat_ms, intervals.report_min_ms);
                self.journal.share(configuration.sync_rules);
            }
            Err(fault) => {
                tracing::debug!(context = %self.id, %fault, "the configuration could not be read");
                self.reporter.configuration.send_replace(true);
            }
        }
    }
}

impl Told for Team {
    fn up(&self, server_time: Millis, heartbeat_ms: i64) {
        let now = self.now();
        {
            let mut pace = self.reporter.pace.lock().unwrap_or_else(PoisonError::into_inner);
            *pace = Pace::of(heartbeat_ms, i64::try_from(pace.least.as_millis()).unwrap_or(REPORT_MIN_MS));
        }
        self.change(|f| {
            f.link = Channel::Up;
            f.linked_at = Some(now);
            f.clock_offset_ms = Some(now - server_time);
        });
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
