//! The one decision about turns: what a report makes of a session, and which events tell of it. Whether
//! the report came by heartbeat, by registering or by publication makes no difference (spec 03).

use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// What the store says of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether a binding names it.
    pub bound: bool,
    /// Its turn, as a word.
    pub turn: String,
    /// Since when.
    pub since: Option<Millis>,
}

impl State {
    /// Whether it waits for a person: only then can it be anybody's.
    pub fn waits(&self) -> bool {
        self.bound && Turn::parse(&self.turn).waits()
    }
}

/// What a report says; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether a binding names it.
    pub bound: Option<bool>,
    /// Its turn, and since when.
    pub turn: Option<(String, Option<Millis>)>,
}

/// What happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Its first binding; carries its first turn.
    Started,
    /// The turn changed.
    Turned {
        /// The turn before.
        from: String,
    },
    /// Its binding is gone.
    Ended {
        /// Whether the agent ended (else its reporter left, and it may go on).
        ended: bool,
    },
}

/// What a report makes of a session at `now`, and what of that is told. A turn is told only while a
/// binding names the session: its start carries the turn that it then has. A machine's clock that is ahead
/// counts as now, or what happens later would seem older than it.
pub fn next(stored: &State, report: &Report, now: Millis) -> (State, Vec<Happened>) {
    let bound = report.bound.unwrap_or(stored.bound);
    let (turn, since) = match &report.turn {
        None => (stored.turn.clone(), stored.since),
        // Since when is known to nobody: as before, or from now.
        Some((turn, None)) if *turn == stored.turn => (turn.clone(), stored.since),
        Some((turn, since)) => (turn.clone(), Some(since.map_or(now, |since| since.min(now)))),
    };
    let mut happened = Vec::new();
    if bound && !stored.bound {
        happened.push(Happened::Started);
    } else if stored.bound && turn != stored.turn {
        happened.push(Happened::Turned { from: stored.turn.clone() });
    }
    if stored.bound && !bound {
        happened.push(Happened::Ended { ended: turn == Turn::Ended.as_str() });
    }
    (State { bound, turn, since }, happened)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 9_000;

    fn state(bound: bool, turn: &str, since: Option<Millis>) -> State {
        State { bound, turn: turn.into(), since }
    }
    fn turn(word: &str, since: Option<Millis>) -> Report {
        Report { bound: None, turn: Some((word.into(), since)) }
    }
    fn turned(from: &str) -> Vec<Happened> {
        vec![Happened::Turned { from: from.into() }]
    }

    #[test]
    fn a_first_binding_carries_its_first_turn() {
        let report = Report { bound: Some(true), ..turn("working", Some(5)) };
        let (after, happened) = next(&state(false, "unknown", None), &report, NOW);
        assert_eq!((after, happened), (state(true, "working", Some(5)), vec![Happened::Started]));
    }

    #[test]
    fn only_another_turn_is_an_event() {
        let stored = state(true, "working", Some(5));
        assert_eq!(
            next(&stored, &turn("idle", Some(7)), NOW),
            (state(true, "idle", Some(7)), turned("working"))
        );
        assert_eq!(next(&stored, &turn("working", Some(6)), NOW), (state(true, "working", Some(6)), vec![]));
        assert_eq!(next(&stored, &Report::default(), NOW), (stored, vec![]));
    }

    #[test]
    fn an_unknown_since_keeps_the_old_one_or_is_now() {
        let stored = state(true, "working", Some(5));
        assert_eq!(next(&stored, &turn("working", None), NOW).0, stored);
        assert_eq!(next(&stored, &turn("idle", None), NOW).0, state(true, "idle", Some(NOW)));
    }

    #[test]
    fn the_end_of_a_binding_says_whether_the_agent_ended() {
        let gone = Report { bound: Some(false), turn: None };
        let (_, left) = next(&state(true, "working", Some(5)), &gone, NOW);
        assert_eq!(left, [Happened::Ended { ended: false }]);
        let (_, before) = next(&state(true, "ended", Some(5)), &gone, NOW);
        assert_eq!(before, [Happened::Ended { ended: true }]);
        let both = Report { bound: Some(false), ..turn("ended", Some(8)) };
        let (after, same) = next(&state(true, "idle", Some(5)), &both, NOW);
        assert_eq!(same, [Happened::Turned { from: "idle".into() }, Happened::Ended { ended: true }]);
        assert_eq!(after, state(false, "ended", Some(8)));
    }

    #[test]
    fn a_turn_before_the_start_or_after_the_end_is_not_told() {
        let (after, happened) = next(&state(false, "working", Some(5)), &turn("ended", Some(8)), NOW);
        assert_eq!((after, happened), (state(false, "ended", Some(8)), vec![]));
    }

    #[test]
    fn a_clock_that_is_ahead_counts_as_now() {
        let stored = state(true, "working", Some(5));
        assert_eq!(next(&stored, &turn("idle", Some(NOW + 1)), NOW).0, state(true, "idle", Some(NOW)));
    }

    #[test]
    fn bound_again_it_starts_again() {
        let again = Report { bound: Some(true), turn: None };
        assert_eq!(next(&state(false, "ended", Some(5)), &again, NOW).1, [Happened::Started]);
    }
}
