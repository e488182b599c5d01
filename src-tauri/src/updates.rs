//! What the window has seen of the model, and the patch that takes it to the present: pure. Several
//! changes of one thing are one, and a feed that was rewritten is asked for as a whole.

use crate::model::{Model, Team};
use std::collections::BTreeMap;
use teamlamp_wire::id::{MachineId, SessionId};
use teamlamp_wire::local::Status;
use teamlamp_wire::machine::Machine;
use teamlamp_wire::window::{
    Change, CustodyQuestion, LocalServer, Notice, Patch, PendingJoin, SessionRow, ShownTeam,
};

/// What one window has seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    version: u64,
    status: Status,
    team: Option<ShownTeam>,
    machines: BTreeMap<MachineId, Machine>,
    sessions: BTreeMap<SessionId, SessionRow>,
    feed: (u64, u64),
    local_server: Option<LocalServer>,
    custody: Option<CustodyQuestion>,
    pending_join: Option<PendingJoin>,
    notices: Vec<Notice>,
    place_asked: u64,
}

impl Seen {
    /// A window that has just been told all of the model as this version.
    pub(crate) fn all_of(model: &Model, version: u64) -> Self {
        let team = shown(model);
        Self {
            version,
            status: model.status.clone(),
            team: model.shown_team(),
            machines: team.map(|t| t.machines.clone()).unwrap_or_default(),
            sessions: team.map(|t| t.sessions.clone()).unwrap_or_default(),
            feed: team.map(|t| t.feed.mark()).unwrap_or_default(),
            local_server: model.local_server.clone(),
            custody: model.custody.clone(),
            pending_join: model.pending_join.clone(),
            notices: model.notices.clone(),
            place_asked: model.place_asked,
        }
    }

    /// The version that the window has.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The step to the present, after which the window has seen all; `None` where nothing changed.
    pub(crate) fn step(&mut self, model: &Model) -> Option<Patch> {
        let changes = self.changes(model);
        if changes.is_empty() {
            return None;
        }
        self.version += 1;
        Some(Patch { version: self.version, changes })
    }

    /// Takes note of what changed, and of that alone: most of a big team is the same from step to step.
    fn changes(&mut self, model: &Model) -> Vec<Change> {
        let other_team = self.team.as_ref().map(|t| &t.context) != model.shown.as_ref();
        let team = shown(model);
        let (appended, rewritten) = team.map(|t| t.feed.mark()).unwrap_or_default();
        if other_team || rewritten != self.feed.1 {
            *self = Self::all_of(model, self.version);
            return vec![Change::Stale];
        }
        let mut changes = Vec::new();
        if let Some(status) = noted(&mut self.status, &model.status) {
            changes.push(Change::Status { status: Box::new(status) });
        }
        if let Some(team) = noted(&mut self.team, &model.shown_team()) {
            changes.push(Change::Team { team });
        }
        if let Some(team) = team {
            let machines = difference(&mut self.machines, &team.machines);
            changes.extend(machines.map(|(changed, gone)| Change::Machines { changed, gone }));
            let sessions = difference(&mut self.sessions, &team.sessions);
            changes.extend(sessions.map(|(changed, gone)| Change::Sessions { changed, gone }));
            if appended != self.feed.0 {
                changes.push(Change::Feed { items: team.feed.after(self.feed.0) });
                self.feed.0 = appended;
            }
        }
        let server = noted(&mut self.local_server, &model.local_server);
        changes.extend(server.map(|server| Change::LocalServer { server }));
        let question = noted(&mut self.custody, &model.custody);
        changes.extend(question.map(|question| Change::Custody { question }));
        let join = noted(&mut self.pending_join, &model.pending_join);
        changes.extend(join.map(|join| Change::PendingJoin { join }));
        let notices = noted(&mut self.notices, &model.notices);
        changes.extend(notices.map(|notices| Change::Notices { notices }));
        if noted(&mut self.place_asked, &model.place_asked).is_some() {
            changes.push(Change::Place { open: model.place.clone() });
        }
        changes
    }
}

/// What is there now, where it is not what was seen; it is seen from then on.
fn noted<T: PartialEq + Clone>(seen: &mut T, now: &T) -> Option<T> {
    (seen != now).then(|| {
        seen.clone_from(now);
        now.clone()
    })
}

fn shown(model: &Model) -> Option<&Team> {
    model.teams.get(model.shown.as_ref()?)
}

/// What is new or changed, and what is gone; `None` where both are the same. It is seen from then on.
fn difference<K: Ord + Clone, V: PartialEq + Clone>(
    seen: &mut BTreeMap<K, V>,
    now: &BTreeMap<K, V>,
) -> Option<(Vec<V>, Vec<K>)> {
    let gone: Vec<K> = seen.keys().filter(|key| !now.contains_key(key)).cloned().collect();
    gone.iter().for_each(|key| drop(seen.remove(key)));
    let mut changed = Vec::new();
    for (key, value) in now {
        if seen.get(key) != Some(value) {
            seen.insert(key.clone(), value.clone());
            changed.push(value.clone());
        }
    }
    (!changed.is_empty() || !gone.is_empty()).then_some((changed, gone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{context, event, model, session};
    use proptest::prelude::*;
    use serde_json::json;
    use teamlamp_wire::local::State;
    use teamlamp_wire::session::Turn;
    use teamlamp_wire::window::{FEED_MAX, FeedItem, OpenPlace, Place, WindowState};

    fn turned(to: &str) -> teamlamp_wire::event::Event {
        event("session.turn", "session", "sess_1", json!({"from": "working", "to": to, "since": 2_000}))
    }

    #[test]
    fn several_changes_of_one_thing_are_one() {
        let mut model = model(State::Online, vec![session("sess_1", "mach_a", Turn::Working, 1)]);
        let mut seen = Seen::all_of(&model, 7);
        assert_eq!(seen.step(&model), None);
        if let Some(team) = model.teams.get_mut("acme") {
            team.event(1, &turned("idle"), false, 1_000);
            team.event(2, &turned("waiting_input"), false, 1_000);
        }
        let patch = seen.step(&model).unwrap();
        assert_eq!(patch.version, 8);
        match &patch.changes[..] {
            [Change::Sessions { changed, gone }, Change::Feed { items }] => {
                assert_eq!((changed[0].session.turn, gone.len(), items.len()), (Turn::WaitingInput, 0, 2));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_team_or_a_rewritten_feed_is_asked_for_as_a_whole() {
        let mut model = model(State::Online, vec![]);
        let mut seen = Seen::all_of(&model, 1);
        model.set_status(Status { contexts: vec![context("other", State::Online)], ..Status::default() });
        assert_eq!(seen.step(&model).unwrap().changes, [Change::Stale]);
        assert_eq!(seen.step(&model), None);
    }

    #[test]
    fn the_window_is_sent_to_a_place_each_time_and_not_when_the_person_went_there() {
        let mut model = model(State::Online, vec![]);
        let mut seen = Seen::all_of(&model, 1);
        model.place = OpenPlace { place: Place::Feed, session: None };
        assert_eq!(seen.step(&model), None);
        for _ in 0..2 {
            model.go(OpenPlace { place: Place::Invite, session: None });
            assert!(matches!(seen.step(&model).unwrap().changes[..], [Change::Place { .. }]));
        }
    }

    /// What a window does with patches, as the contract says it.
    fn apply(state: &mut WindowState, model: &Model, patch: Patch) {
        assert_eq!(patch.version, state.version + 1);
        state.version = patch.version;
        for change in patch.changes {
            match change {
                Change::Stale => *state = model.window(patch.version),
                Change::Status { status } => state.status = *status,
                Change::Team { team } => state.team = team,
                Change::Machines { changed, gone } => {
                    state.machines.retain(|m| !gone.contains(&m.id) && !changed.iter().any(|c| c.id == m.id));
                    state.machines.extend(changed);
                }
                Change::Sessions { changed, gone } => {
                    let new = |id| changed.iter().any(|c| c.session.id == id);
                    state.sessions.retain(|s| !gone.contains(&s.session.id) && !new(s.session.id.clone()));
                    state.sessions.extend(changed);
                }
                Change::Feed { items } => state.feed.extend(items),
                Change::LocalServer { server } => state.local_server = server,
                Change::Custody { question } => state.custody = question,
                Change::PendingJoin { join } => state.pending_join = join,
                Change::Notices { notices } => state.notices = notices,
                Change::Place { open } => state.place = open,
            }
        }
        let over = state.feed.len().saturating_sub(FEED_MAX);
        state.feed.drain(..over);
        state.machines.sort_by(|a, b| a.id.cmp(&b.id));
        state.sessions.sort_by(|a, b| a.session.id.cmp(&b.session.id));
    }

    proptest! {
        #[test]
        fn a_window_that_follows_patches_shows_what_one_that_asks_for_all_shows(
            steps in proptest::collection::vec((0u8..9, any::<bool>()), 1..60)
        ) {
            let mut model = model(State::Online, vec![session("sess_1", "mach_a", Turn::Working, 1)]);
            let mut seen = Seen::all_of(&model, 1);
            let mut window = model.window(1);
            for (n, (step, flush)) in steps.into_iter().enumerate() {
                let sequence = n as i64 + 1;
                let now = 1_000 + sequence;
                let team = model.teams.get_mut("acme").unwrap();
                match step {
                    0 => { team.event(sequence, &turned("idle"), false, now); }
                    1 => { team.event(sequence, &turned("waiting_input"), true, now); }
                    2 => { team.lists(vec![], vec![session("sess_2", "mach_b", Turn::Idle, now)], now); }
                    3 => { team.feed.gap(now, teamlamp_wire::window::GapReason::Unknown, None, None); }
                    4 => { team.history(vec![teamlamp_wire::event::Sequenced { sequence, event: turned("idle"), source_id: None }], now); }
                    5 => model.notice(Notice::TrayMissing, flush),
                    6 => model.go(OpenPlace { place: Place::Feed, session: None }),
                    7 => model.status.version.push('x'),
                    _ => model.custody = flush.then(|| CustodyQuestion { why: "locked".into() }),
                }
                if flush {
                    if let Some(patch) = seen.step(&model) {
                        apply(&mut window, &model, patch);
                    }
                    let whole = model.window(seen.version());
                    prop_assert_eq!(&window, &whole);
                }
            }
        }
    }

    #[test]
    fn what_came_since_is_appended_even_when_old_items_fell_out() {
        let mut model = model(State::Online, vec![]);
        let mut seen = Seen::all_of(&model, 1);
        if let Some(team) = model.teams.get_mut("acme") {
            for sequence in 1..=FEED_MAX as i64 + 3 {
                team.event(sequence, &turned("idle"), false, 1_000);
            }
        }
        let patch = seen.step(&model).unwrap();
        let items = patch.changes.iter().find_map(|c| match c {
            Change::Feed { items } => Some(items),
            _ => None,
        });
        assert_eq!(items.map(Vec::len), Some(FEED_MAX));
        assert!(
            matches!(items.unwrap().last(), Some(FeedItem::Event { sequence, .. }) if *sequence == FEED_MAX as i64 + 3)
        );
    }
}
