//! What the tray shows, as pure functions of the model: the lamp, its words, the menu. Drawing it and
//! doing what is chosen is [`super`]'s.

use crate::attention::{Waiting, current, is_connected, waiting};
use crate::model::Model;
use crate::words::{ago, count, harness, length, plain, plain_line};
use teamlamp_wire::Millis;
use teamlamp_wire::account::Role;
use teamlamp_wire::id::SessionId;
use teamlamp_wire::session::Turn;

/// The most waiting sessions that the menu lists.
const WAITING_MAX: usize = 5;

/// How the lamp looks: a shape first, a colour second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lamp {
    /// Not connected: a hollow lamp.
    Off,
    /// Online, nothing to do: a full lamp.
    Steady,
    /// Agents work: a full lamp with a pulse dot.
    Working,
    /// Someone waits for a person: amber, with a mark.
    Waiting,
    /// Reporting is paused: struck.
    Paused,
    /// The person at this machine has to mend something: red, crossed.
    Broken,
}

/// One entry of the menu. The menu is flat: sub-menus get lost on some desktops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A line to read.
    Line(String),
    /// A line to choose.
    Choice(Choice, String),
    /// A line between groups.
    Separator,
}

/// What a person can choose in the menu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Shows a session in the window.
    Session(SessionId),
    /// Opens the window.
    Open,
    /// Pauses reporting for so many seconds, or until resumed.
    Pause(Option<i64>),
    /// Reports again.
    Resume,
    /// Opens the window at making an invitation.
    Invite,
    /// Starts the team server of this computer.
    StartServer,
    /// Stops it.
    StopServer,
    /// Ends the app.
    Quit,
}

impl Choice {
    /// The entry's id.
    pub(crate) fn id(&self) -> String {
        match self {
            Self::Session(id) => format!("session:{id}"),
            Self::Open => "open".into(),
            Self::Pause(None) => "pause".into(),
            Self::Pause(Some(seconds)) => format!("pause:{seconds}"),
            Self::Resume => "resume".into(),
            Self::Invite => "invite".into(),
            Self::StartServer => "start-server".into(),
            Self::StopServer => "stop-server".into(),
            Self::Quit => "quit".into(),
        }
    }

    /// The choice of an entry's id.
    pub(crate) fn of_id(id: &str) -> Option<Self> {
        Some(match id.split_once(':') {
            Some(("session", session)) => Self::Session(session.into()),
            Some(("pause", seconds)) => Self::Pause(Some(seconds.parse().ok()?)),
            Some(_) => return None,
            None => match id {
                "open" => Self::Open,
                "pause" => Self::Pause(None),
                "resume" => Self::Resume,
                "invite" => Self::Invite,
                "start-server" => Self::StartServer,
                "stop-server" => Self::StopServer,
                "quit" => Self::Quit,
                _ => return None,
            },
        })
    }
}

/// Whether two menus are the same entries in the same order, whatever their words.
pub(crate) fn has_shape_of(one: &[Item], other: &[Item]) -> bool {
    let same = |(one, other): (&Item, &Item)| match (one, other) {
        (Item::Line(_), Item::Line(_)) | (Item::Separator, Item::Separator) => true,
        (Item::Choice(one, _), Item::Choice(other, _)) => one == other,
        _ => false,
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// How the lamp looks. What the person has to mend comes before all; what is only remembered of a team
/// that can't be reached counts for nothing.
pub(crate) fn lamp(model: &Model) -> Lamp {
    let mut states = model.status.contexts.iter().map(|context| &context.state);
    if model.custody.is_some() || states.clone().any(|state| state.needs_person()) {
        Lamp::Broken
    } else if model.status.paused.is_some() {
        Lamp::Paused
    } else if !states.any(is_connected) {
        Lamp::Off
    } else if !waiting(model).is_empty() {
        Lamp::Waiting
    } else if working(model) > 0 {
        Lamp::Working
    } else {
        Lamp::Steady
    }
}

/// The same in words: the tooltip, and the menu's first line.
pub(crate) fn summary(model: &Model, now: Millis) -> String {
    let contexts = &model.status.contexts;
    if let Some(question) = &model.custody {
        return question.why.clone();
    }
    if let Some(context) = contexts.iter().find(|context| context.state.needs_person()) {
        return context.state.sentence();
    }
    if let Some(pause) = model.status.paused {
        let until = match pause.until {
            Some(until) => format!("for {} more", length(until - now)),
            None => "until you resume it".into(),
        };
        let waiting = match waiting(model).len() {
            0 => String::new(),
            n => format!(" · {n} waiting"),
        };
        return format!("Reporting is paused {until}{waiting}");
    }
    if contexts.is_empty() {
        return "Not part of a team yet".into();
    }
    if !contexts.iter().any(|context| is_connected(&context.state)) {
        return contexts.iter().map(|context| context.state.sentence()).next().unwrap_or_default();
    }
    let mut parts = vec![format!("{} online", count(online(model), "machine", "machines"))];
    match working(model) {
        0 => {}
        n => parts.push(format!("{} working", count(n, "agent", "agents"))),
    }
    match waiting(model).len() {
        0 => {}
        n => parts.push(format!("{n} waiting")),
    }
    parts.join(" · ")
}

/// The whole menu.
pub(crate) fn menu(model: &Model, now: Millis) -> Vec<Item> {
    let choice = |choice, text: &str| Item::Choice(choice, text.to_owned());
    let mut items = vec![Item::Line(plain_line(&summary(model, now)))];
    let waiting = waiting(model);
    let waits = waiting.iter().take(WAITING_MAX);
    items.extend(waits.map(|w| Item::Choice(Choice::Session(w.session.clone()), waits_line(w, now))));
    items.extend([Item::Separator, choice(Choice::Open, "Open Teamlamp")]);
    if !model.status.contexts.is_empty() {
        if model.status.paused.is_some() {
            items.push(choice(Choice::Resume, "Resume reporting"));
        } else {
            items.extend([
                choice(Choice::Pause(Some(900)), "Pause reporting for 15 minutes"),
                choice(Choice::Pause(Some(3600)), "Pause reporting for 1 hour"),
                choice(Choice::Pause(None), "Pause reporting until I resume"),
            ]);
        }
        if model.shown_team().is_some_and(|team| team.role != Some(Role::Viewer)) {
            items.push(choice(Choice::Invite, "Invite…"));
        }
    }
    if let Some(server) = &model.local_server {
        items.push(Item::Separator);
        match (&server.origin, server.running) {
            (Some(origin), true) => items.push(Item::Line(format!("Local server: {origin}"))),
            (_, true) => items.push(Item::Line("Local server: running".into())),
            (_, false) => items.push(Item::Line("Local server: stopped".into())),
        }
        items.extend(server.error.as_deref().map(|why| Item::Line(plain_line(why))));
        items.push(if server.running {
            choice(Choice::StopServer, "Stop the local server")
        } else {
            choice(Choice::StartServer, "Start the local server")
        });
    }
    items.extend([Item::Separator, choice(Choice::Quit, "Quit Teamlamp")]);
    items
}

fn waits_line(waiting: &Waiting, now: Millis) -> String {
    let asks = if waiting.turn == Turn::WaitingApproval { "asks for approval" } else { "asks a question" };
    let since = waiting.since.map(|since| format!(" · {}", ago(since, now))).unwrap_or_default();
    format!(
        "{} {asks} · {} on {}{since}",
        plain(&waiting.project),
        harness(&waiting.harness),
        plain(&waiting.machine)
    )
}

fn connected(model: &Model) -> impl Iterator<Item = &crate::model::Team> {
    current(model).map(|(_, team)| team)
}

fn online(model: &Model) -> usize {
    connected(model).map(crate::model::Team::online).sum()
}

fn working(model: &Model) -> usize {
    connected(model).flat_map(crate::model::Team::live).filter(|s| s.turn == Turn::Working).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{model, session};
    use teamlamp_wire::local::{Pause, State};
    use teamlamp_wire::window::{CustodyQuestion, LocalServer};

    fn offline() -> State {
        State::Offline {
            why: "The server at http://127.0.0.1:8720 does not answer.".into(),
            since: 1,
            next_try_at: None,
        }
    }

    fn texts(items: &[Item]) -> Vec<String> {
        items
            .iter()
            .map(|item| match item {
                Item::Line(text) => format!("({text})"),
                Item::Choice(_, text) => text.clone(),
                Item::Separator => "—".into(),
            })
            .collect()
    }

    #[test]
    fn the_lamp_says_what_matters_most() {
        let working = || session("sess_1", "mach_a", Turn::Working, 1);
        let waits = || session("sess_2", "mach_b", Turn::WaitingInput, 1);
        assert_eq!(lamp(&Model::default()), Lamp::Off);
        assert_eq!(lamp(&model(State::Connecting, vec![])), Lamp::Off);
        assert_eq!(lamp(&model(offline(), vec![waits()])), Lamp::Off);
        assert_eq!(lamp(&model(State::Online, vec![])), Lamp::Steady);
        assert_eq!(lamp(&model(State::ReadOnly, vec![working()])), Lamp::Working);
        assert_eq!(lamp(&model(State::Online, vec![working(), waits()])), Lamp::Waiting);
        let mut paused = model(State::Paused { until: None }, vec![waits()]);
        paused.status.paused = Some(Pause { until: None });
        assert_eq!(lamp(&paused), Lamp::Paused);
        for state in [State::Cloned, State::Expired { why: "Join again.".into() }] {
            assert_eq!(lamp(&model(state, vec![waits()])), Lamp::Broken);
        }
        let mut locked = model(State::Online, vec![]);
        locked.custody = Some(CustodyQuestion { why: "The keyring is locked.".into() });
        assert_eq!(lamp(&locked), Lamp::Broken);
    }

    #[test]
    fn the_words_say_the_same_as_the_lamp() {
        let sessions = vec![
            session("sess_1", "mach_a", Turn::Working, 1),
            session("sess_2", "mach_a", Turn::Working, 1),
            session("sess_3", "mach_b", Turn::WaitingInput, 1),
        ];
        assert_eq!(
            summary(&model(State::Online, sessions), 0),
            "2 machines online · 2 agents working · 1 waiting"
        );
        assert_eq!(summary(&model(State::Online, vec![]), 0), "2 machines online");
        let mut one = model(State::Online, vec![session("sess_1", "mach_a", Turn::Working, 1)]);
        if let Some(team) = one.teams.get_mut("acme") {
            team.machines.remove(&"mach_b".into());
        }
        assert_eq!(summary(&one, 0), "1 machine online · 1 agent working");
        assert_eq!(summary(&Model::default(), 0), "Not part of a team yet");
        assert_eq!(
            summary(&model(offline(), vec![]), 0),
            "The server at http://127.0.0.1:8720 does not answer."
        );
        assert_eq!(summary(&model(State::Cloned, vec![]), 0), State::Cloned.sentence());
    }

    #[test]
    fn a_first_run_offers_what_can_be_done() {
        assert_eq!(
            texts(&menu(&Model::default(), 0)),
            ["(Not part of a team yet)", "—", "Open Teamlamp", "—", "Quit Teamlamp"]
        );
    }

    #[test]
    fn the_menu_lists_who_waits_and_everything_that_can_be_done() {
        let mut hostile = session("sess_2", "mach_b", Turn::WaitingApproval, 1_000);
        hostile.root = Some("a&b\u{202e}\n<i>".into());
        let mut model =
            model(State::Online, vec![session("sess_1", "mach_a", Turn::WaitingInput, 61_000), hostile]);
        model.local_server =
            Some(LocalServer { running: true, origin: Some("http://127.0.0.1:8720".into()), error: None });
        assert_eq!(
            texts(&menu(&model, 241_000)),
            [
                "(2 machines online · 2 waiting)",
                "a＆b\u{fffd} ‹i› asks for approval · Claude Code on b · 4 min",
                "billing-api asks a question · Claude Code on a · 3 min",
                "—",
                "Open Teamlamp",
                "Pause reporting for 15 minutes",
                "Pause reporting for 1 hour",
                "Pause reporting until I resume",
                "Invite…",
                "—",
                "(Local server: http://127.0.0.1:8720)",
                "Stop the local server",
                "—",
                "Quit Teamlamp",
            ]
        );
    }

    #[test]
    fn a_crowd_is_cut_to_five_a_pause_can_be_ended_and_a_viewer_invites_nobody() {
        let crowd = (0..9).map(|n| session(&format!("sess_{n}"), "mach_a", Turn::WaitingInput, n)).collect();
        let until = Some(900_010);
        let mut model = model(State::Paused { until }, crowd);
        model.status.paused = Some(Pause { until });
        if let Some(team) = model.teams.get_mut("acme") {
            team.role = Some(Role::Viewer);
        }
        let why = "Another program has its port 8720.".to_owned();
        model.local_server = Some(LocalServer { running: false, origin: None, error: Some(why.clone()) });
        let items = menu(&model, 10);
        let sessions = items.iter().filter(|i| matches!(i, Item::Choice(Choice::Session(_), _))).count();
        assert_eq!(sessions, 5);
        let texts = texts(&items);
        assert_eq!(texts[0], "(Reporting is paused for 15 min more · 9 waiting)");
        assert!(
            texts.contains(&"Resume reporting".into()) && !texts.contains(&"Invite…".into()),
            "{texts:?}"
        );
        assert!(texts.contains(&"Start the local server".into()), "{texts:?}");
        assert!(texts.contains(&format!("({why})")), "{texts:?}");
    }

    #[test]
    fn time_that_goes_on_changes_no_entry_and_who_stops_waiting_does() {
        let waits = vec![session("sess_1", "mach_a", Turn::WaitingInput, 1_000)];
        let waiting = model(State::Online, waits);
        let (early, late) = (menu(&waiting, 31_000), menu(&waiting, 90_000));
        assert!(early != late && has_shape_of(&early, &late));
        let nobody = menu(&model(State::Online, vec![]), 31_000);
        assert!(!has_shape_of(&early, &nobody) && !has_shape_of(&nobody, &early));
        let other = model(State::Online, vec![session("sess_2", "mach_a", Turn::WaitingInput, 1_000)]);
        assert!(!has_shape_of(&early, &menu(&other, 31_000)), "a click is on this session");
    }

    #[test]
    fn every_choice_is_found_again_by_its_id() {
        let all = [
            Choice::Session("sess_1".into()),
            Choice::Open,
            Choice::Pause(None),
            Choice::Pause(Some(900)),
            Choice::Resume,
            Choice::Invite,
            Choice::StartServer,
            Choice::StopServer,
            Choice::Quit,
        ];
        for choice in all {
            assert_eq!(Choice::of_id(&choice.id()), Some(choice));
        }
        for strange in ["", "pause:x", "what:ever", "rm"] {
            assert_eq!(Choice::of_id(strange), None);
        }
    }
}
