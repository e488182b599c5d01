//! What happened to the sessions since the team last heard of it: pure. While reports are answered they
//! tell all of it; when one fails, what it would have told, and all that follows, goes to the outbox.
//!
//! So a change travels once: by the report that was answered, or by the outbox. Where a report arrived
//! and only its answer was lost, [`crate::outbox::settle`] finds that out before anything is sent.

use crate::privacy::{AllShown, Native, Shown};
use std::collections::BTreeMap;
use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// What happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It began, with this turn.
    Started {
        /// Its first turn.
        turn: Turn,
    },
    /// Its turn changed.
    Turned {
        /// From.
        from: Turn,
        /// To.
        to: Turn,
    },
    /// It ended.
    Ended,
}

/// A change of a session, with what the team needs to place it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The session.
    pub native: Native,
    /// How it was shown when it changed; of one that ended, before.
    pub shown: Shown,
    /// What happened.
    pub what: What,
    /// When, by the session's own record; else when it was noticed.
    pub at: Millis,
}

/// Follows the shown sessions of one context.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    seen: AllShown,
    gone: BTreeMap<Native, (u64, Millis)>,
    unanswered: Vec<(u64, Change)>,
    number: u64,
}

impl Recorder {
    /// A recorder that goes on from what the team was told by an earlier run.
    pub fn resuming(told: AllShown) -> Self {
        Self { seen: told, ..Self::default() }
    }

    /// Takes what is shown now.
    pub fn observe(&mut self, shown: &AllShown, now: Millis) {
        for change in changes(&self.seen, shown, now) {
            self.number += 1;
            match change.what {
                What::Ended => drop(self.gone.insert(change.native.clone(), (self.number, change.at))),
                _ => drop(self.gone.remove(&change.native)),
            }
            self.unanswered.push((self.number, change));
        }
        let live = shown.iter().filter(|(_, session)| session.live);
        self.seen = live
            .map(|(native, session)| {
                let before = self.seen.get(native).and_then(|old| old.since);
                (native.clone(), Shown { since: session.since.max(before), ..session.clone() })
            })
            .collect();
    }

    /// Takes what is shown now without remembering what changed: nothing of a pause is told later.
    pub fn skip_to(&mut self, shown: &AllShown) {
        let number = self.number;
        self.observe(shown, 0);
        self.unanswered.retain(|(n, _)| *n <= number);
        self.gone.retain(|_, (n, _)| *n <= number);
    }

    /// The team was told that everything left: what lives is a beginning for it.
    pub fn begin_anew(&mut self) {
        self.seen.clear();
    }

    /// The sessions that the team still believes alive, and when they ended.
    pub fn gone(&self) -> BTreeMap<Native, Option<Millis>> {
        self.gone.iter().map(|(native, (_, at))| (native.clone(), Some(*at))).collect()
    }

    /// How far a report reaches that is made now.
    pub fn mark(&self) -> u64 {
        self.number
    }

    /// A report was answered: what it told needs no telling.
    pub fn answered(&mut self, mark: u64) {
        self.unanswered.retain(|(n, _)| *n > mark);
        self.gone.retain(|_, (n, _)| *n > mark);
    }

    /// What no report told: for the outbox, which has it from now on.
    pub fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.unanswered).into_iter().map(|(_, change)| change).collect()
    }

    /// The live sessions of which the team has heard, once what was taken or answered reached it.
    pub fn told(&self) -> &AllShown {
        &self.seen
    }
}

/// What changed from one view to the next, by time. A session's times only rise: where the clock was set
/// back, an older time would be taken for old news (spec 03) and its change for one that did not happen.
fn changes(before: &AllShown, now_shown: &AllShown, now: Millis) -> Vec<Change> {
    let mut all = Vec::new();
    let mut change = |native: &Native, shown: &Shown, what, at: Millis| {
        all.push(Change { native: native.clone(), shown: shown.clone(), what, at });
    };
    for (native, old) in before.iter().filter(|(_, s)| s.live) {
        match now_shown.get(native) {
            Some(new) if new.live && new.turn == old.turn => {}
            Some(new) if new.live => {
                let at = new.since.unwrap_or(now).max(old.since.unwrap_or(i64::MIN));
                change(native, new, What::Turned { from: old.turn, to: new.turn }, at);
            }
            gone => {
                // As a report would: the turn ends, and with it the session.
                let at = gone.and_then(|g| g.since).unwrap_or(now).max(old.since.unwrap_or(i64::MIN));
                change(native, old, What::Turned { from: old.turn, to: Turn::Ended }, at);
                change(native, old, What::Ended, at);
            }
        }
    }
    for (native, new) in now_shown.iter().filter(|(_, s)| s.live) {
        if !before.get(native).is_some_and(|old| old.live) {
            change(native, new, What::Started { turn: new.turn }, new.since.unwrap_or(now));
        }
    }
    all.sort_by_key(|change| change.at);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::tests::{found, session};
    use crate::privacy::{Sharing, shown};

    fn view(sessions: &[(&str, Turn, Millis)]) -> AllShown {
        let sessions: Vec<_> =
            sessions.iter().map(|(id, turn, since)| (*id, session("acme", *turn, *since))).collect();
        shown(&found(&sessions), &Sharing::default())
    }

    fn said(changes: &[Change]) -> Vec<(&str, &What, Millis)> {
        changes.iter().map(|c| (c.native.native_id.as_str(), &c.what, c.at)).collect()
    }

    #[test]
    fn a_lost_network_keeps_every_change_with_its_own_time() {
        let mut recorder = Recorder::default();
        recorder.observe(&view(&[("a", Turn::Working, 10)]), 11);
        recorder.observe(&view(&[("a", Turn::Idle, 20), ("b", Turn::Working, 21)]), 22);
        recorder.observe(&view(&[("a", Turn::Ended, 30), ("b", Turn::Working, 21)]), 31);
        recorder.observe(&view(&[]), 41);
        let taken = recorder.take();
        let expected = [
            ("a", &What::Started { turn: Turn::Working }, 10),
            ("a", &What::Turned { from: Turn::Working, to: Turn::Idle }, 20),
            ("b", &What::Started { turn: Turn::Working }, 21),
            ("a", &What::Turned { from: Turn::Idle, to: Turn::Ended }, 30),
            ("a", &What::Ended, 30),
            ("b", &What::Turned { from: Turn::Working, to: Turn::Ended }, 41),
            ("b", &What::Ended, 41),
        ];
        assert_eq!(said(&taken), expected);
        assert!(recorder.take().is_empty());
    }

    #[test]
    fn what_an_answered_report_told_is_not_told_again() {
        let mut recorder = Recorder::default();
        recorder.observe(&view(&[("a", Turn::Working, 10)]), 11);
        let mark = recorder.mark();
        recorder.observe(&view(&[("a", Turn::Idle, 20)]), 21);
        recorder.answered(mark);
        assert_eq!(said(&recorder.take()).len(), 1, "only what came while the report was under way");
    }

    #[test]
    fn an_end_is_reported_until_it_was_answered() {
        let mut recorder = Recorder::default();
        recorder.observe(&view(&[("a", Turn::Working, 10)]), 11);
        recorder.answered(recorder.mark());
        recorder.observe(&view(&[("a", Turn::Ended, 20)]), 21);
        recorder.observe(&view(&[]), 700_000);
        assert_eq!(recorder.gone().into_values().collect::<Vec<_>>(), [Some(20)]);
        recorder.answered(recorder.mark());
        assert!(recorder.gone().is_empty());
    }

    #[test]
    fn a_session_that_came_back_is_not_gone() {
        let mut recorder = Recorder::resuming(view(&[("a", Turn::Working, 10)]));
        recorder.observe(&view(&[]), 20);
        recorder.observe(&view(&[("a", Turn::Idle, 30)]), 31);
        assert!(recorder.gone().is_empty());
        assert_eq!(recorder.take().len(), 3);
    }

    #[test]
    fn a_restart_tells_only_what_changed_meanwhile() {
        let mut recorder = Recorder::resuming(view(&[("a", Turn::Working, 10), ("b", Turn::Idle, 10)]));
        recorder.observe(&view(&[("a", Turn::Working, 10), ("c", Turn::Idle, 15)]), 20);
        let ends = What::Turned { from: Turn::Idle, to: Turn::Ended };
        let expected =
            [("c", &What::Started { turn: Turn::Idle }, 15), ("b", &ends, 20), ("b", &What::Ended, 20)];
        assert_eq!(said(&recorder.take()), expected);
    }

    #[test]
    fn a_clock_that_is_set_back_turns_no_change_into_old_news() {
        let mut recorder = Recorder::default();
        recorder.observe(&view(&[("a", Turn::Working, 1_000)]), 1_001);
        recorder.observe(&view(&[("a", Turn::Idle, 500)]), 501);
        recorder.observe(&view(&[("a", Turn::Working, 600)]), 601);
        recorder.observe(&view(&[("a", Turn::Ended, 700)]), 701);
        let times: Vec<_> = recorder.take().into_iter().map(|change| change.at).collect();
        assert_eq!(times, [1_000; 5]);
    }

    #[test]
    fn nothing_of_a_pause_is_kept() {
        let mut recorder = Recorder::default();
        recorder.observe(&view(&[("a", Turn::Working, 10)]), 11);
        recorder.answered(recorder.mark());
        recorder.skip_to(&view(&[("a", Turn::Idle, 20), ("b", Turn::Working, 21)]));
        recorder.skip_to(&view(&[("a", Turn::Working, 30)]));
        assert!(recorder.take().is_empty() && recorder.gone().is_empty());
    }

    #[test]
    fn after_a_pause_what_lives_begins_and_what_ended_in_it_was_never_there() {
        let mut recorder = Recorder::default();
        recorder.skip_to(&view(&[("a", Turn::Working, 10), ("b", Turn::Working, 11)]));
        recorder.skip_to(&view(&[("b", Turn::Idle, 20)]));
        recorder.begin_anew();
        recorder.observe(&view(&[("b", Turn::Idle, 20)]), 30);
        recorder.observe(&view(&[]), 40);
        let taken = recorder.take();
        let expected = [
            ("b", &What::Started { turn: Turn::Idle }, 20),
            ("b", &What::Turned { from: Turn::Idle, to: Turn::Ended }, 40),
            ("b", &What::Ended, 40),
        ];
        assert_eq!(said(&taken), expected);
    }
}
