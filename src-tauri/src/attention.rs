//! Who waits for a person, in all teams: what the lamp, the tray's menu and notifications speak of.

use crate::model::{Model, Team};
use teamlamp_wire::Millis;
use teamlamp_wire::id::SessionId;
use teamlamp_wire::local::{ContextStatus, State};
use teamlamp_wire::session::{Session, Turn};

/// A session that waits for a person. Its texts are others': they are made plain where they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Which.
    pub session: SessionId,
    /// What it waits for: an approval, or an answer.
    pub turn: Turn,
    /// Since when.
    pub since: Option<Millis>,
    /// The project: its root's name, else its title.
    pub project: String,
    /// Its program.
    pub harness: String,
    /// Its machine's name.
    pub machine: String,
    /// Whether it runs on this machine.
    pub own: bool,
    /// Whether it was seen to begin, rather than found waiting: only then it is news.
    pub news: bool,
}

/// Whether the team is reached.
pub(crate) fn is_connected(state: &State) -> bool {
    matches!(state, State::Online | State::Degraded { .. } | State::ReadOnly)
}

/// The teams of which what is known is current: also in a pause, which stops reporting and not reading.
pub(crate) fn current(model: &Model) -> impl Iterator<Item = (&ContextStatus, &Team)> {
    let contexts = model.status.contexts.iter();
    let known = contexts.filter_map(|context| Some((context, model.teams.get(&context.id)?)));
    known.filter(|(context, _)| match &context.state {
        State::Paused { .. } => context.streaming,
        state => is_connected(state),
    })
}

/// Everybody who waits, the longest first. Who waits for somebody else, because a teammate took it, and
/// who is only remembered, because the connection is gone, does not count.
pub(crate) fn waiting(model: &Model) -> Vec<Waiting> {
    let mut all: Vec<Waiting> = current(model).flat_map(|(context, team)| of_team(context, team)).collect();
    all.sort_by(|a, b| (a.since, &a.session).cmp(&(b.since, &b.session)));
    all
}

fn of_team<'a>(context: &'a ContextStatus, team: &'a Team) -> impl Iterator<Item = Waiting> + 'a {
    let waits = team.live().filter(|session| session.turn.waits());
    let for_me = waits.filter(|s| s.claimed_by.as_ref().is_none_or(|by| *by == context.principal_id));
    for_me.map(move |session| Waiting {
        session: session.id.clone(),
        turn: session.turn,
        since: session.turn_since,
        project: project(session),
        harness: session.harness.clone(),
        machine: team.machines.get(&session.machine_id).map(|m| m.name.clone()).unwrap_or_default(),
        own: context.machine_id.as_ref() == Some(&session.machine_id),
        news: team.saw_begin(session),
    })
}

fn project(session: &Session) -> String {
    session.root.clone().or_else(|| session.title.clone()).unwrap_or_else(|| "A session".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{model, session};

    #[test]
    fn who_waits_longest_comes_first_and_who_is_taken_care_of_does_not_count() {
        let mut taken = session("sess_3", "mach_b", Turn::WaitingInput, 100);
        taken.claimed_by = Some("prin_ben".into());
        let mut mine = session("sess_4", "mach_b", Turn::WaitingInput, 900);
        mine.claimed_by = Some("prin_1".into());
        let mut gone = session("sess_5", "mach_b", Turn::WaitingInput, 100);
        gone.live = false;
        let sessions = vec![
            session("sess_1", "mach_a", Turn::WaitingApproval, 800),
            session("sess_2", "mach_b", Turn::WaitingInput, 700),
            taken,
            mine,
            gone,
            session("sess_6", "mach_a", Turn::Working, 1),
        ];
        let all = waiting(&model(State::Online, sessions));
        let ids: Vec<_> = all.iter().map(|w| (w.session.as_str(), w.machine.as_str(), w.own)).collect();
        assert_eq!(ids, [("sess_2", "b", false), ("sess_1", "a", true), ("sess_4", "b", false)]);
    }

    #[test]
    fn a_pause_stops_reporting_and_not_reading() {
        let mut model =
            model(State::Paused { until: None }, vec![session("s", "mach_b", Turn::WaitingInput, 1)]);
        assert_eq!(waiting(&model).len(), 1);
        model.status.contexts[0].streaming = false;
        assert!(waiting(&model).is_empty(), "nothing comes: it is only remembered");
    }

    #[test]
    fn what_is_only_remembered_does_not_wait() {
        let off = State::Offline { why: "The server does not answer.".into(), since: 1, next_try_at: None };
        assert!(waiting(&model(off, vec![session("sess_1", "mach_a", Turn::WaitingInput, 1)])).is_empty());
    }
}
