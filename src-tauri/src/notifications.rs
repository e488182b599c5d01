//! Which notifications a change is worth: pure, from who waited before to who waits now. A notification
//! says which project and which machine; what is replayed or only found is none, and a flood is one.

use crate::attention::Waiting;
use crate::words::{count, harness, plain};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use teamlamp_wire::Millis;
use teamlamp_wire::id::SessionId;
use teamlamp_wire::session::Turn;

/// The most notifications in [`WINDOW_MS`]; what comes above that waits and is then told as one.
const WINDOW_MAX: usize = 4;
/// One minute.
const WINDOW_MS: i64 = 60_000;
/// The most that are told one by one when they come at once.
const AT_ONCE_MAX: usize = 2;
/// How many waits are remembered.
const KNOWN_MAX: usize = 1_000;
/// The most projects that a folded notification names.
const NAMED_MAX: usize = 3;

/// What to do on the desktop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// Show a notification.
    Show {
        /// Its number, by which a click or [`Announcement::Close`] names it.
        number: i32,
        /// One line of plain text.
        title: String,
        /// One line without markup.
        body: String,
        /// What a click brings into view.
        session: SessionId,
    },
    /// Nobody of it waits any more: take it away.
    Close {
        /// Its number.
        number: i32,
    },
}

/// What was announced, so that nothing is twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announcer {
    /// Who waits or waited, and since when. It outlives a lost connection, after which all are found anew.
    known: BTreeMap<SessionId, Option<Millis>>,
    /// Who is to be told once the flood is over.
    held: BTreeSet<SessionId>,
    /// When notifications were shown within the last minute.
    shown_at: VecDeque<Millis>,
    /// What stands on the desktop and of whom it speaks.
    open: BTreeMap<i32, BTreeSet<SessionId>>,
    last_number: i32,
}

impl Announcer {
    /// What the step from before to `waiting` is worth. `paused`: the person paused reporting, so that
    /// sessions of this machine are not spoken of.
    pub(crate) fn step(&mut self, waiting: &[Waiting], paused: bool, now: Millis) -> Vec<Announcement> {
        let mut told = self.close(waiting);
        let waits = |id: &SessionId| waiting.iter().any(|w| w.session == *id);
        for w in waiting {
            let known = self.known.insert(w.session.clone(), w.since);
            if w.news && known != Some(w.since) && !(paused && w.own) {
                self.held.insert(w.session.clone());
            }
        }
        // Of a wait without a beginning it can't be told whether it is the same one.
        self.known.retain(|id, since| since.is_some() || waits(id));
        if self.known.len() > KNOWN_MAX {
            self.known.retain(|id, _| waits(id));
        }
        self.held.retain(waits);
        while self.shown_at.front().is_some_and(|at| now - at >= WINDOW_MS) {
            self.shown_at.pop_front();
        }
        let free = WINDOW_MAX - self.shown_at.len();
        let due: Vec<&Waiting> = waiting.iter().filter(|w| self.held.contains(&w.session)).collect();
        if due.is_empty() || free == 0 {
            return told;
        }
        self.held.clear();
        // Who waits for something else now is spoken of once.
        told.extend(self.replace(&due));
        if due.len() <= AT_ONCE_MAX.min(free) {
            told.extend(due.into_iter().map(|w| self.show(now, &[w], title(w), body(w))));
        } else {
            let words = (format!("{} wait for a person", count(due.len(), "agent", "agents")), names(&due));
            told.push(self.show(now, &due, words.0, words.1));
        }
        told
    }

    /// When there is something to tell that had to wait, if there is.
    pub(crate) fn due(&self) -> Option<Millis> {
        let oldest = self.shown_at.front().filter(|_| !self.held.is_empty())?;
        Some(oldest + WINDOW_MS)
    }

    fn show(&mut self, now: Millis, of: &[&Waiting], title: String, body: String) -> Announcement {
        // Numbers stay positive: the desktop's notification service takes 0 for none.
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        let number = self.last_number;
        self.shown_at.push_back(now);
        self.open.insert(number, of.iter().map(|w| w.session.clone()).collect());
        Announcement::Show { number, title, body, session: of[0].session.clone() }
    }

    fn replace(&mut self, due: &[&Waiting]) -> Vec<Announcement> {
        self.open.values_mut().for_each(|of| of.retain(|id| due.iter().all(|w| w.session != *id)));
        self.close_empty()
    }

    fn close(&mut self, waiting: &[Waiting]) -> Vec<Announcement> {
        let still = |id: &SessionId| waiting.iter().any(|w| w.session == *id);
        self.open.values_mut().for_each(|of| of.retain(still));
        self.close_empty()
    }

    fn close_empty(&mut self) -> Vec<Announcement> {
        let over: Vec<i32> =
            self.open.iter().filter(|(_, of)| of.is_empty()).map(|(number, _)| *number).collect();
        over.into_iter()
            .map(|number| {
                self.open.remove(&number);
                Announcement::Close { number }
            })
            .collect()
    }
}

fn title(waiting: &Waiting) -> String {
    format!("{} waits on {}", plain(&waiting.project), plain(&waiting.machine))
}

fn body(waiting: &Waiting) -> String {
    let asks = if waiting.turn == Turn::WaitingApproval { "asks for approval" } else { "asks a question" };
    format!("{} {asks}.", harness(&waiting.harness))
}

fn names(due: &[&Waiting]) -> String {
    let named = due.iter().take(NAMED_MAX);
    let mut words: Vec<String> =
        named.map(|w| format!("{} on {}", plain(&w.project), plain(&w.machine))).collect();
    if due.len() > NAMED_MAX {
        words.push(format!("{} more", due.len() - NAMED_MAX));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::waiting;
    use crate::model::tests::{context, event, model, session};
    use serde_json::json;
    use teamlamp_wire::local::{Pause, State, Status};

    fn waits(n: usize, since: i64) -> Waiting {
        Waiting {
            session: format!("sess_{n}").into(),
            turn: Turn::WaitingApproval,
            since: Some(since),
            project: format!("project-{n}"),
            harness: "claude-code".into(),
            machine: "ada-laptop".into(),
            own: true,
            news: true,
        }
    }

    fn shown(told: &[Announcement]) -> Vec<(&str, &str)> {
        told.iter()
            .filter_map(|a| match a {
                Announcement::Show { title, body, .. } => Some((title.as_str(), body.as_str())),
                Announcement::Close { .. } => None,
            })
            .collect()
    }

    #[test]
    fn a_notification_says_which_project_and_which_machine_once() {
        let mut announcer = Announcer::default();
        let told = announcer.step(&[waits(1, 100)], false, 100);
        assert_eq!(shown(&told), [("project-1 waits on ada-laptop", "Claude Code asks for approval.")]);
        assert!(announcer.step(&[waits(1, 100)], false, 200).is_empty());
        assert_eq!(shown(&announcer.step(&[waits(1, 300)], false, 300)).len(), 1, "it asks again");
    }

    #[test]
    fn a_connection_that_was_lost_tells_nobody_twice() {
        let mut announcer = Announcer::default();
        assert_eq!(shown(&announcer.step(&[waits(1, 100)], false, 100)).len(), 1);
        // Offline nobody is known to wait; back, the same session waits since the same moment.
        assert_eq!(announcer.step(&[], false, 200), [Announcement::Close { number: 1 }]);
        assert!(announcer.step(&[waits(1, 100)], false, 300).is_empty());
        assert_eq!(shown(&announcer.step(&[waits(1, 400)], false, 400)).len(), 1, "a new wait is news");
    }

    #[test]
    fn who_waits_for_something_else_is_spoken_of_once() {
        let mut announcer = Announcer::default();
        announcer.step(&[waits(1, 100)], false, 100);
        let asks = Waiting { turn: Turn::WaitingInput, ..waits(1, 200) };
        let told = announcer.step(&[asks], false, 200);
        assert_eq!(told[0], Announcement::Close { number: 1 });
        assert_eq!(shown(&told), [("project-1 waits on ada-laptop", "Claude Code asks a question.")]);
    }

    #[test]
    fn what_is_replayed_or_found_is_never_a_notification() {
        let mut announcer = Announcer::default();
        let found = Waiting { news: false, ..waits(1, 100) };
        assert!(announcer.step(&[found], false, 100).is_empty());
    }

    #[test]
    fn a_notification_goes_when_nobody_of_it_waits() {
        let mut announcer = Announcer::default();
        announcer.step(&[waits(1, 100)], false, 100);
        assert_eq!(announcer.step(&[], false, 200), [Announcement::Close { number: 1 }]);
        assert!(announcer.step(&[], false, 300).is_empty());
    }

    #[test]
    fn many_at_once_are_one() {
        let all: Vec<_> = (1..=5).map(|n| waits(n, 100)).collect();
        let told = Announcer::default().step(&all, false, 100);
        let body = "project-1 on ada-laptop, project-2 on ada-laptop, project-3 on ada-laptop, 2 more";
        assert_eq!(shown(&told), [("5 agents wait for a person", body)]);
    }

    #[test]
    fn a_flood_is_held_back_and_then_told_as_one() {
        let mut announcer = Announcer::default();
        let mut waiting = Vec::new();
        let mut told = 0;
        for n in 1..=10 {
            waiting.push(waits(n, n as i64));
            told += shown(&announcer.step(&waiting, false, n as i64 * 1_000)).len();
        }
        assert_eq!((told, announcer.due()), (WINDOW_MAX, Some(61_000)));
        waiting.retain(|w| w.session.as_str() != "sess_10");
        let told = announcer.step(&waiting, false, 61_000);
        assert_eq!(shown(&told)[0].0, "5 agents wait for a person");
        assert_eq!(announcer.due(), None);
    }

    #[test]
    fn a_pause_is_silent_about_this_machine_alone() {
        let sessions =
            [session("sess_1", "mach_a", Turn::Working, 1), session("sess_2", "mach_b", Turn::Working, 1)];
        let mut model = model(State::Paused { until: None }, sessions.to_vec());
        model.status.paused = Some(Pause { until: None });
        let Some(team) = model.teams.get_mut("acme") else { panic!("the model has its team") };
        for (sequence, id) in [(1, "sess_1"), (2, "sess_2")] {
            let turned = event("session.turn", "session", id, json!({"to": "waiting_input", "since": 1_000}));
            team.event(sequence, &turned, false, 1_000);
        }
        let mut announcer = Announcer::default();
        let told = announcer.step(&waiting(&model), model.status.paused.is_some(), 1_000);
        assert_eq!(shown(&told), [("billing-api waits on b", "Claude Code asks a question.")]);
        model.set_status(Status { contexts: vec![context("acme", State::Online)], ..Status::default() });
        let told = announcer.step(&waiting(&model), false, 2_000);
        assert!(told.is_empty(), "what began in the pause is in the menu, and calls nobody: {told:?}");
    }

    #[test]
    fn names_of_others_have_no_power_in_a_notification() {
        let hostile = Waiting { project: "<a href=\"x\">y</a>".into(), harness: "<b>".into(), ..waits(1, 1) };
        let told = Announcer::default().step(&[hostile], false, 1);
        let (title, body) = shown(&told)[0];
        assert!(!title.contains('<') && !body.contains('<') && !body.contains('&'), "{title} {body}");
    }
}
