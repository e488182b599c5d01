//! What one context's team has to be told of this machine's sessions, and how it gets there: by the next
//! report while reports are answered, through the outbox while they are not. It owns the recorder and
//! what of it is remembered over restarts.

use crate::heartbeat::Said;
use crate::outbox::{Outbox, OutboxFault, Row};
use crate::privacy::{AllShown, Sharing, shown};
use crate::recorder::Recorder;
use crate::sessions::Found;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use teamlamp_clock::{Chance, Clock};
use teamlamp_wire::machine::SyncRule;
use tokio::sync::watch;

/// The journal of one context.
#[derive(Debug)]
pub(crate) struct Journal {
    context: String,
    clock: Clock,
    chance: Chance,
    outbox: Outbox,
    inner: Mutex<Inner>,
    /// Rises with each change of what is to be said.
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    recorder: Recorder,
    sharing: Sharing,
    /// What the watchers found last.
    found: Found,
    shown: AllShown,
    /// What the outbox's file says that the team was told.
    remembered: AllShown,
    /// Whether the first scan is done.
    settled: bool,
    /// Whether the last report was answered; before the first one that is hoped for.
    answered: bool,
    paused: bool,
}

/// The outbox's disk can't be written, which was logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

/// What is to be said now, and how far it reaches.
#[derive(Clone, Debug)]
pub(crate) struct Saying {
    pub(crate) said: Said,
    pub(crate) mark: u64,
}

impl Journal {
    /// The journal of a context, going on where its last run stopped.
    pub(crate) fn open(
        context: &str,
        outbox: Outbox,
        hidden: BTreeSet<String>,
        clock: Clock,
        chance: Chance,
    ) -> Result<Self, OutboxFault> {
        let sharing = Sharing { hidden, rules: Vec::new() };
        let mut told = outbox.told(context)?;
        // A root that was hidden since leaves nothing, not even the end of its sessions.
        told.retain(|_, session| !sharing.hides(&session.root));
        let inner = Inner {
            recorder: Recorder::resuming(told.clone()),
            sharing,
            found: Found::default(),
            shown: AllShown::new(),
            remembered: told,
            settled: false,
            answered: true,
            paused: false,
        };
        let changed = watch::Sender::new(0);
        Ok(Self { context: context.to_owned(), clock, chance, outbox, inner: Mutex::new(inner), changed })
    }

    /// Takes what the watchers found.
    pub(crate) fn found(&self, found: &Found) {
        if !found.settled {
            return;
        }
        let mut inner = self.lock();
        inner.found = found.clone();
        self.show(inner);
    }

    /// Takes other sync rules: titles come and go with them at once.
    pub(crate) fn share(&self, rules: Vec<SyncRule>) {
        let mut inner = self.lock();
        inner.sharing.rules = rules;
        if inner.settled {
            self.show(inner);
        }
    }

    fn show(&self, mut inner: MutexGuard<'_, Inner>) {
        let shown = shown(&inner.found, &inner.sharing);
        if inner.settled && shown == inner.shown {
            return;
        }
        inner.settled = true;
        inner.shown = shown;
        self.observe(&mut inner);
        drop(inner);
        self.changed.send_modify(|n| *n += 1);
    }

    /// Reporting is paused, or resumed: nothing of the time between is kept.
    pub(crate) fn pause(&self, paused: bool) {
        let mut inner = self.lock();
        if inner.paused == paused {
            return;
        }
        inner.paused = paused;
        // What happened before the pause was still allowed to be told.
        self.put_away(&mut inner);
        if !paused {
            // Who pauses leaves: the team has to hear of a session's start before it hears of its end.
            inner.recorder.begin_anew();
        }
        self.observe(&mut inner);
    }

    /// Whether the first scan is done, without which a report would end every binding.
    pub(crate) fn settled(&self) -> bool {
        self.lock().settled
    }

    /// Each change of what is to be said.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What is to be said now.
    pub(crate) fn say(&self) -> Saying {
        let inner = self.lock();
        Saying { said: Said::of(&inner.shown, inner.recorder.gone()), mark: inner.recorder.mark() }
    }

    /// A report was answered. Where the outbox still holds what came before it, what the report told goes
    /// there too: of a session whose start still waits the server could not take the end. What it did
    /// take is found out before the rows are sent, as for a report whose answer was lost.
    pub(crate) fn answered(&self, mark: u64) {
        if !self.waiting(1).is_empty() {
            return self.unanswered();
        }
        let mut inner = self.lock();
        inner.answered = true;
        inner.recorder.answered(mark);
        self.remember(&mut inner);
    }

    /// A report was not answered: from now on changes go to the outbox.
    pub(crate) fn unanswered(&self) {
        let mut inner = self.lock();
        inner.answered = false;
        self.put_away(&mut inner);
    }

    /// This run's sessions are no longer bound: the next run begins anew.
    pub(crate) fn left(&self) {
        self.lock().remembered.clear();
        self.told(self.outbox.remember(&self.context, &AllShown::new()));
    }

    /// Rows that wait, the first ones.
    pub(crate) fn waiting(&self, limit: i64) -> Vec<(i64, Row)> {
        self.told(self.outbox.first(&self.context, limit)).unwrap_or_default()
    }

    /// Rows that need no more telling. Where the disk can't be told so they stay, and come again.
    pub(crate) fn done(&self, numbers: &[i64]) -> Result<(), Full> {
        self.told(self.outbox.done(numbers)).ok_or(Full)
    }

    /// What is shared now.
    pub(crate) fn sharing(&self) -> Sharing {
        self.lock().sharing.clone()
    }

    fn observe(&self, inner: &mut Inner) {
        if inner.paused {
            inner.recorder.skip_to(&inner.shown);
        } else {
            inner.recorder.observe(&inner.shown, self.clock.now_ms());
            if !inner.answered {
                self.put_away(inner);
            }
        }
    }

    fn put_away(&self, inner: &mut Inner) {
        let changes = inner.recorder.take();
        if !changes.is_empty() {
            self.told(self.outbox.keep(&self.context, &changes, self.clock.now_ms(), &self.chance));
            self.remember(inner);
        }
    }

    fn remember(&self, inner: &mut Inner) {
        if inner.remembered != *inner.recorder.told() {
            inner.remembered = inner.recorder.told().clone();
            self.told(self.outbox.remember(&self.context, &inner.remembered));
        }
    }

    /// A disk that fails must not stop the reporting: presence and the present turns need no outbox.
    fn told<T>(&self, done: Result<T, OutboxFault>) -> Option<T> {
        done.inspect_err(|fault| tracing::error!(context = %self.context, %fault, "the outbox failed")).ok()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::privacy::tests::{found, session};
    use teamlamp_wire::session::Turn;

    fn journal(home: &Home, hidden: &[&str]) -> Journal {
        let outbox = Outbox::open(home, 1).unwrap();
        let hidden = hidden.iter().map(|root| (*root).to_owned()).collect();
        Journal::open("c", outbox, hidden, Clock::system(), Chance::system()).unwrap()
    }

    #[test]
    fn before_the_first_scan_nothing_is_known_to_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let first = journal(&home, &[]);
        first.found(&found(&[("a", session("acme", Turn::Working, 5))]));
        first.answered(first.say().mark);
        let again = journal(&home, &[]);
        again.found(&Found::default());
        assert!(!again.settled());
        again.unanswered();
        assert!(again.waiting(10).is_empty());
        again.found(&found(&[]));
        assert_eq!(again.waiting(10).len(), 2, "its turn and the session ended while nobody watched");
    }

    #[test]
    fn an_end_waits_behind_a_start_that_the_team_has_not_heard() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let offline = journal(&home, &[]);
        offline.found(&found(&[]));
        offline.unanswered();
        offline.found(&found(&[("a", session("acme", Turn::Working, 5))]));
        assert_eq!(offline.waiting(10).len(), 1, "its start");
        // The computer loses its power; a report is answered although the outbox could not be sent before.
        let again = journal(&home, &[]);
        again.found(&found(&[]));
        again.answered(again.say().mark);
        assert_eq!(again.waiting(10).len(), 3, "its start, its last turn and its end");
        let numbers: Vec<i64> = again.waiting(10).iter().map(|(number, _)| *number).collect();
        again.done(&numbers).unwrap();
        again.answered(again.say().mark);
        assert!(
            again.waiting(10).is_empty()
                && again.say().said == Said::of(&AllShown::new(), Default::default())
        );
    }

    #[test]
    fn a_root_that_was_hidden_since_leaves_not_even_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let open = journal(&home, &[]);
        open.found(&found(&[("a", session("acme", Turn::Working, 5))]));
        open.answered(open.say().mark);
        let hiding = journal(&home, &["acme"]);
        hiding.unanswered();
        hiding.found(&found(&[("a", session("acme", Turn::Idle, 9))]));
        assert!(hiding.waiting(10).is_empty());
        assert_eq!(hiding.say().said, Said::of(&AllShown::new(), Default::default()));
    }

    #[test]
    fn another_sharing_of_titles_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(&Home::at(dir.path()), &[]);
        journal.found(&found(&[("a", session("acme", Turn::Working, 5))]));
        let (before, mut changed) = (journal.say().said, journal.watch());
        let rule = |state: &str| crate::privacy::tests::rule(None, "titles", state);
        journal.share(vec![rule("active")]);
        assert!(changed.has_changed().unwrap(), "the next report is due");
        changed.mark_unchanged();
        assert_ne!(journal.say().said, before);
        journal.share(vec![rule("paused")]);
        assert_eq!(journal.say().said, before);
        journal.share(vec![rule("paused")]);
        changed.mark_unchanged();
        journal.share(vec![rule("paused")]);
        assert!(!changed.has_changed().unwrap(), "the same rules again are no news");
    }

    #[test]
    fn an_unchanged_report_writes_nothing_to_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(&Home::at(dir.path()), &[]);
        journal.found(&found(&[("a", session("acme", Turn::Working, 5))]));
        journal.answered(journal.say().mark);
        let size = || std::fs::metadata(dir.path().join("outbox.db-wal")).map_or(0, |file| file.len());
        let before = size();
        (0..20).for_each(|_| journal.answered(journal.say().mark));
        assert_eq!(size(), before);
    }
}
