//! Reports, one after the other: when the next is due, what goes out before it, and what its answer, or
//! none, changes.

use super::reporting::End;
use super::sign_in::Signed;
use super::{Team, flush};
use crate::heartbeat::{Pace, Said};
use crate::incarnations;
use crate::journal::Saying;
use crate::privacy::Native;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use teamlamp_client::ClientError;
use teamlamp_clock::{Backoff, Moment};
use teamlamp_wire::heartbeat::HeartbeatAnswer;
use teamlamp_wire::limits::LINK_BACKOFF_MS;
use teamlamp_wire::session::RegisterSession;

/// Jitter of the interval, in percent (spec 02).
const JITTER: u32 = 10;
/// How long the first report waits for the first scan.
const SCAN: Duration = Duration::from_secs(30);
/// How long anything beside a report may keep the next one waiting.
const SIDE: Duration = Duration::from_secs(10);
/// What a server says to a run whose place another one took.
const SUPERSEDED: &str = "incarnation_superseded";
/// Superseded twice within this time, another computer has this identity (spec 02).
const CLONE: Duration = Duration::from_secs(300);

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
    /// Reports again and again.
    pub(super) async fn beats(&self, signed: &Signed) -> End {
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
            // Waking up is often what made it due: that is heard here, and must not cancel the report.
            if redial.has_changed().unwrap_or(false) {
                redial.mark_unchanged();
                signed.client.forget_idle();
            }
            let saying = self.journal.say();
            let beat = tokio::select! {
                biased;
                // What was under way when the computer fell asleep will not be answered.
                _ = redial.changed() => {
                    signed.client.forget_idle();
                    rhythm.retry_at = Some(self.install.clock.monotonic());
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
        let mut recovered = self.recovered.subscribe();
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
                _ = recovered.changed(), if rhythm.retry_at.is_some() => break,
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
        if self.may_say_more() {
            let flushed = flush::outbox(self, &client).await;
            self.went_before(flushed, "what waits could not be told")?;
        }
        if self.may_say_more() {
            let known = self.registered_as_wanted();
            let registering = flush::register(self, &client, said.registrations(&known));
            let registered = self.install.clock.within(SIDE, registering).await;
            // The report says which sessions are not known; everything else of it counts.
            let registered = registered.unwrap_or_else(|| Err(flush::took_long(client.peer())));
            self.went_before(registered, "sessions could not be registered")?;
        }
        let Some(who) = self.who() else { return Err(flush::no_machine()) };
        client.heartbeat(&team, &who.machine, &said.report(&who, self.reporter.next_sequence())).await
    }

    /// Whether the server takes more than the report itself now.
    fn may_say_more(&self) -> bool {
        let after = *self.reporter.more_after.lock().unwrap_or_else(PoisonError::into_inner);
        after.is_none_or(|after| after <= self.install.clock.monotonic())
    }

    /// What goes out before a report keeps it back only where the report would be refused as well (spec
    /// 03); how long the server wants no more of it is remembered.
    fn went_before(&self, done: Result<(), ClientError>, what: &str) -> Result<(), ClientError> {
        let Err(fault) = done else { return Ok(()) };
        if fault.status() == Some(401) || fault.reason() == Some(SUPERSEDED) {
            return Err(fault);
        }
        tracing::warn!(context = %self.id, %fault, "{what}");
        if let Some(wait) = fault.retry_after() {
            let after = self.install.clock.monotonic() + wait;
            *self.reporter.more_after.lock().unwrap_or_else(PoisonError::into_inner) = Some(after);
        }
        Ok(())
    }

    fn registered_as_wanted(&self) -> BTreeMap<Native, RegisterSession> {
        let registered = self.reporter.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered.iter().map(|(native, (wanted, _))| (native.clone(), wanted.clone())).collect()
    }

    fn answered(&self, answer: &HeartbeatAnswer, saying: &Saying, rhythm: &mut Rhythm) {
        let now = self.now();
        self.journal.answered(saying.mark);
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
        self.works(|f| &mut f.heartbeat, |f| f.heartbeat_at = Some(now));
        self.reporter.answered.send_modify(|n| *n += 1);
    }

    fn unanswered(&self, fault: &ClientError, rhythm: &mut Rhythm) -> Option<End> {
        if fault.reason() == Some(SUPERSEDED) {
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
                self.board.incarnation(&fresh);
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
