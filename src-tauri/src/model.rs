//! The app's one value, from which tray, notifications and window show: what the connector says of
//! itself, each team as its server tells it, and what only this desktop knows. It does no I/O.

mod feed;
mod hour;
mod team;

pub(crate) use team::{Again, Team};

use std::collections::BTreeMap;
use teamlamp_wire::id::SessionId;
use teamlamp_wire::local::{ContextStatus, Status};
use teamlamp_wire::window::{
    CustodyQuestion, LocalServer, Notice, OpenPlace, PendingJoin, ShownTeam, SuggestedNames, WindowState,
};

/// Everything that the app shows anywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// What the connector says of itself.
    pub status: Status,
    /// The teams, by their contexts' ids.
    pub teams: BTreeMap<String, Team>,
    /// The context whose team the window shows.
    pub shown: Option<String>,
    /// A context that was just made and is shown as soon as the connector has it.
    awaited: Option<String>,
    /// The team server inside this app.
    pub local_server: Option<LocalServer>,
    /// The keyring's problem that waits for a choice.
    pub custody: Option<CustodyQuestion>,
    /// A deep link that waits for confirmation.
    pub pending_join: Option<PendingJoin>,
    /// What the person should know of this desktop.
    pub notices: Vec<Notice>,
    /// Where the window is.
    pub place: OpenPlace,
    /// Rises when the app, not the person in the window, chose the place.
    pub place_asked: u64,
    /// What the fields for names begin with.
    pub suggested: SuggestedNames,
}

impl Model {
    /// Takes in a new status. Teams whose context is gone go with it; the window shows a team as long as
    /// there is one.
    pub(crate) fn set_status(&mut self, status: Status) {
        self.teams.retain(|id, _| status.contexts.iter().any(|c| c.id == *id));
        for context in &status.contexts {
            self.teams.entry(context.id.clone()).or_default();
        }
        if self.awaited.as_ref().is_some_and(|id| self.teams.contains_key(id)) {
            self.shown = self.awaited.take();
        }
        if self.shown.as_ref().is_none_or(|id| !self.teams.contains_key(id)) {
            self.shown = status.contexts.first().map(|c| c.id.clone());
        }
        self.status = status;
    }

    /// Shows a team that was just joined, as soon as the connector has it.
    pub(crate) fn show_joined(&mut self, context: &str) {
        if !self.show_team(context) {
            self.awaited = Some(context.to_owned());
        }
    }

    /// Shows one of the teams; whether there is such a one.
    pub(crate) fn show_team(&mut self, context: &str) -> bool {
        let known = self.teams.contains_key(context);
        if known {
            self.shown = Some(context.to_owned());
        }
        known
    }

    /// Sends the window to a place.
    pub(crate) fn go(&mut self, open: OpenPlace) {
        // A session's team has to be the shown one for it to be seen.
        let team = open.session.as_ref().and_then(|id| self.team_of(id).map(str::to_owned));
        if team.is_some() {
            self.shown = team;
        }
        self.place = open;
        self.place_asked += 1;
    }

    /// Says or takes back a notice.
    pub(crate) fn notice(&mut self, notice: Notice, on: bool) {
        self.notices.retain(|n| *n != notice);
        if on {
            self.notices.push(notice);
        }
    }

    /// The context of the shown team.
    pub(crate) fn shown_context(&self) -> Option<&ContextStatus> {
        let id = self.shown.as_ref()?;
        self.status.contexts.iter().find(|c| c.id == *id)
    }

    /// The context in whose team a session is.
    pub(crate) fn team_of(&self, session: &SessionId) -> Option<&str> {
        self.teams.iter().find(|(_, team)| team.sessions.contains_key(session)).map(|(id, _)| id.as_str())
    }

    /// The facts of the shown team that are neither machines, sessions nor feed.
    pub(crate) fn shown_team(&self) -> Option<ShownTeam> {
        let context = self.shown.clone()?;
        let team = self.teams.get(&context)?;
        Some(ShownTeam {
            context,
            role: team.role,
            retention_days: team.retention_days,
            read_at: team.read_at,
        })
    }

    /// The whole state, as the window asks for it.
    pub(crate) fn window(&self, version: u64) -> WindowState {
        let empty = Team::default();
        let team = self.shown.as_ref().and_then(|id| self.teams.get(id)).unwrap_or(&empty);
        WindowState {
            version,
            status: self.status.clone(),
            team: self.shown_team(),
            machines: team.machines.values().cloned().collect(),
            sessions: team.sessions.values().cloned().collect(),
            feed: team.feed.items(),
            local_server: self.local_server.clone(),
            custody: self.custody.clone(),
            pending_join: self.pending_join.clone(),
            notices: self.notices.clone(),
            place: self.place.clone(),
            suggested: self.suggested.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::Value;
    use teamlamp_wire::event::{Actor, ActorKind, Event, Resource};
    use teamlamp_wire::local::State;
    use teamlamp_wire::machine::{Connection, Enrollment, Machine};
    use teamlamp_wire::session::{Session, Turn};
    use teamlamp_wire::window::Place;

    pub(crate) fn event(kind: &str, resource: &str, id: &str, data: Value) -> Event {
        Event {
            id: "evt_1".into(),
            org: "team_1".into(),
            at: 1_000,
            actor: Actor {
                principal_id: None,
                kind: ActorKind::System,
                name: "server".into(),
                on_behalf_of: vec![],
            },
            kind: kind.into(),
            resource: Resource { kind: resource.into(), id: id.into() },
            data: data.as_object().cloned().unwrap_or_default(),
        }
    }

    pub(crate) fn machine(id: &str) -> Machine {
        Machine {
            id: id.into(),
            name: id.trim_start_matches("mach_").into(),
            custodian_id: "prin_1".into(),
            enrollment: Enrollment::Active,
            connection: Connection::Online,
            last_seen_at: Some(900),
            incarnation_id: None,
            host_key_id: None,
            revision: 1,
            away: None,
            clock_offset_ms: None,
        }
    }

    pub(crate) fn session(id: &str, machine: &str, turn: Turn, since: i64) -> Session {
        Session {
            id: id.into(),
            harness: "claude-code".into(),
            native_id: format!("native-{id}"),
            machine_id: machine.into(),
            root: Some("billing-api".into()),
            title: None,
            model: None,
            turn,
            turn_since: Some(since),
            confirmed: true,
            live: true,
            started_at: Some(1),
            updated_at: since,
            visibility: "restricted".into(),
            revision: 1,
            claimed_by: None,
        }
    }

    pub(crate) fn context(id: &str, state: State) -> ContextStatus {
        ContextStatus {
            id: id.into(),
            origin: "http://127.0.0.1:8720".into(),
            server_id: "srv_1".into(),
            server_name: "Office".into(),
            team_id: "team_1".into(),
            team_name: "Acme".into(),
            principal_id: "prin_1".into(),
            principal_name: "Ada".into(),
            machine_id: Some("mach_a".into()),
            machine_name: Some("a".into()),
            state,
            state_since: 1,
            heartbeat_at: None,
            streaming: true,
            polls: false,
            linked_at: None,
            credential_expires_at: None,
            clock_offset_ms: None,
            changes: vec![],
        }
    }

    /// A model with one team in a state and these sessions, on the machines `mach_a` (this one) and `mach_b`.
    pub(crate) fn model(state: State, sessions: Vec<Session>) -> Model {
        let mut model = Model::default();
        model.set_status(Status { contexts: vec![context("acme", state)], ..Status::default() });
        if let Some(team) = model.teams.get_mut("acme") {
            team.lists(vec![machine("mach_a"), machine("mach_b")], sessions, 1_000);
        }
        model
    }

    #[test]
    fn the_window_shows_a_team_as_long_as_there_is_one() {
        let mut model = model(State::Online, vec![]);
        assert_eq!(model.shown.as_deref(), Some("acme"));
        model.set_status(Status { contexts: vec![context("other", State::Online)], ..Status::default() });
        assert_eq!((model.shown.as_deref(), model.teams.len()), (Some("other"), 1));
        model.set_status(Status::default());
        assert_eq!(model.window(7).team, None);
    }

    #[test]
    fn a_team_that_was_just_joined_is_shown_once_it_is_there() {
        let mut model = model(State::Online, vec![]);
        model.show_joined("new");
        assert_eq!(model.shown.as_deref(), Some("acme"));
        let contexts = vec![context("acme", State::Online), context("new", State::Connecting)];
        model.set_status(Status { contexts, ..Status::default() });
        assert_eq!(model.shown.as_deref(), Some("new"));
        assert!(model.show_team("acme") && !model.show_team("gone"));
        assert_eq!(model.shown.as_deref(), Some("acme"));
    }

    #[test]
    fn going_to_a_session_shows_its_team() {
        let mut model = model(State::Online, vec![session("sess_1", "mach_a", Turn::Idle, 1)]);
        model.shown = None;
        model.go(OpenPlace { place: Place::Now, session: Some("sess_1".into()) });
        assert_eq!(model.shown.as_deref(), Some("acme"));
    }

    #[test]
    fn a_notice_is_said_once() {
        let mut model = Model::default();
        model.notice(Notice::TrayMissing, true);
        model.notice(Notice::TrayMissing, true);
        assert_eq!(model.notices, [Notice::TrayMissing]);
        model.notice(Notice::TrayMissing, false);
        assert!(model.notices.is_empty());
    }
}
