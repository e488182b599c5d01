//! One team as its server tells it: its machines and sessions, read as lists and kept current by events,
//! and its feed. An event changes what it tells of at once; what it does not tell is read again.

use super::feed::Feed;
use super::hour;
use std::collections::BTreeMap;
use teamlamp_wire::Millis;
use teamlamp_wire::account::Role;
use teamlamp_wire::event::{Event, Sequenced};
use teamlamp_wire::id::{MachineId, SessionId};
use teamlamp_wire::machine::{Away, Connection, Machine};
use teamlamp_wire::session::{Session, Turn};
use teamlamp_wire::window::{HOUR_MS, SessionRow};

/// What the app knows of a team.
#[derive(Clone, Debug, Default)]
pub(crate) struct Team {
    /// What the person may do there.
    pub role: Option<Role>,
    /// For how many days it keeps events.
    pub retention_days: Option<u32>,
    /// When its lists were last read or confirmed.
    pub read_at: Option<Millis>,
    /// Its active machines.
    pub machines: BTreeMap<MachineId, Machine>,
    /// Its sessions that are live, or ended within the last hour.
    pub sessions: BTreeMap<SessionId, SessionRow>,
    /// Its events.
    pub feed: Feed,
    /// The last event of the stream. What the lists and the history told meanwhile does not count: an
    /// event's own news, that a wait begins, is in neither.
    streamed: i64,
    /// Which waits were seen to begin, by their beginning; of the others it is only known.
    seen_to_begin: BTreeMap<SessionId, Millis>,
}

/// What has to be read again after an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Again {
    /// The lists of machines and sessions.
    pub lists: bool,
    /// The team and the person's role in it.
    pub team: bool,
}

impl Again {
    const NOTHING: Self = Self { lists: false, team: false };
    const LISTS: Self = Self { lists: true, team: false };
    const TEAM: Self = Self { lists: false, team: true };
}

impl Team {
    /// Puts lists in place that the server answered at `now`.
    pub(crate) fn lists(&mut self, machines: Vec<Machine>, sessions: Vec<Session>, now: Millis) {
        self.machines = machines.into_iter().map(|m| (m.id.clone(), m)).collect();
        let mut before = std::mem::take(&mut self.sessions);
        for session in sessions.into_iter().filter(|s| is_shown(s, now)) {
            let mut hour = before.remove(&session.id).map(|row| row.hour).unwrap_or_default();
            hour::note(&mut hour, session.turn, session.turn_since.unwrap_or(session.updated_at));
            hour::trim(&mut hour, now);
            self.sessions.insert(session.id.clone(), SessionRow { session, hour });
        }
        self.seen_to_begin.retain(|id, _| self.sessions.contains_key(id));
        self.read_at = Some(now);
    }

    /// Takes in the past that the server's history holds: the feed, and the sessions' hours.
    pub(crate) fn history(&mut self, mut past: Vec<Sequenced>, now: Millis) {
        past.sort_by_key(|item| item.sequence);
        let mut hours: BTreeMap<SessionId, Vec<_>> = BTreeMap::new();
        for Sequenced { event, .. } in &past {
            if let Some((id, turn)) = turn_told(event) {
                hour::note(hours.entry(id).or_default(), turn, since(event));
            }
        }
        for (id, past) in hours {
            if let Some(row) = self.sessions.get_mut(&id) {
                hour::prepend(&mut row.hour, past);
                hour::trim(&mut row.hour, now);
            }
        }
        self.feed.fill(past);
    }

    /// Takes in an event of the stream. `replay`: it tells of the past, so that nobody is notified of it.
    pub(crate) fn event(&mut self, sequence: i64, event: &Event, replay: bool, now: Millis) -> Again {
        if sequence <= self.streamed {
            return Again::NOTHING;
        }
        self.streamed = sequence;
        self.feed.event(sequence, event.clone(), replay);
        self.read_at = Some(now);
        match event.resource.kind.as_str() {
            "machine" => self.machine_event(event),
            "session" => self.session_event(event, replay, now),
            "team" | "principal" => Again::TEAM,
            _ => Again::NOTHING,
        }
    }

    /// The server's database was put back: what it tells now may have numbers that were told before.
    pub(crate) fn restored(&mut self) {
        self.streamed = 0;
    }

    fn machine_event(&mut self, event: &Event) -> Again {
        let id = MachineId(event.resource.id.clone());
        if event.kind == "machine.revoked" {
            self.machines.remove(&id);
            return Again::LISTS;
        }
        let Some(machine) = self.machines.get_mut(&id) else { return Again::LISTS };
        if let Some(name) = text(event, "name") {
            machine.name = name;
        }
        let Some(to) = text(event, "to").and_then(|to| Connection::parse(&to)) else {
            return if event.kind == "machine.enrolled" { Again::LISTS } else { Again::NOTHING };
        };
        let was = std::mem::replace(&mut machine.connection, to);
        machine.away = event.data.get("away").and_then(|a| serde_json::from_value::<Away>(a.clone()).ok());
        if let Some(seen) = event.data.get("last_seen_at").and_then(serde_json::Value::as_i64) {
            machine.last_seen_at = Some(seen);
        }
        if to == Connection::Offline {
            self.sessions
                .values_mut()
                .filter(|r| r.session.machine_id == id)
                .for_each(|r| r.session.live = false);
        }
        // Which of its sessions are live again only the list says.
        if was == Connection::Offline && to != was { Again::LISTS } else { Again::NOTHING }
    }

    fn session_event(&mut self, event: &Event, replay: bool, now: Millis) -> Again {
        let id = SessionId(event.resource.id.clone());
        if event.kind == "session.deleted" {
            self.sessions.remove(&id);
            return Again::NOTHING;
        }
        // A list that was read after the event knows better.
        let told = turn_told(event).map(|(_, turn)| turn).filter(|_| {
            let known = self.sessions.get(&id).and_then(|row| row.session.turn_since);
            known.is_none_or(|known| since(event) >= known)
        });
        if let Some(turn) = told {
            if turn.waits() && !replay {
                self.seen_to_begin.insert(id.clone(), since(event));
            } else {
                self.seen_to_begin.remove(&id);
            }
        }
        let Some(row) = self.sessions.get_mut(&id) else { return Again::LISTS };
        let session = &mut row.session;
        session.updated_at = session.updated_at.max(event.at);
        match event.kind.as_str() {
            "attention.claimed" => session.claimed_by = event.actor.principal_id.clone(),
            "attention.released" => session.claimed_by = None,
            "session.started" => session.live = true,
            "session.ended" => session.live = false,
            _ => {}
        }
        if let Some(turn) = told {
            if session.turn != turn {
                session.claimed_by = None;
            }
            (session.turn, session.turn_since) = (turn, Some(since(event)));
            hour::note(&mut row.hour, turn, since(event));
            hour::trim(&mut row.hour, now);
        }
        match event.kind.as_str() {
            // The title or the model may be another one, which the event does not tell.
            "session.started" | "session.published" => Again::LISTS,
            _ => Again::NOTHING,
        }
    }

    /// Takes out sessions that ended more than an hour ago.
    pub(crate) fn forget_ended(&mut self, now: Millis) {
        self.sessions.retain(|_, row| is_shown(&row.session, now));
    }

    /// Whether a session's present turn was seen to begin, rather than found. A turn that a list tells first
    /// is found, until its own event comes.
    pub(crate) fn saw_begin(&self, session: &Session) -> bool {
        let began = self.seen_to_begin.get(&session.id);
        began.is_some() && began == session.turn_since.as_ref()
    }

    /// How many machines are online.
    pub(crate) fn online(&self) -> usize {
        self.machines.values().filter(|m| m.connection == Connection::Online).count()
    }

    /// The sessions that run now.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().map(|row| &row.session).filter(|session| session.live)
    }
}

fn is_shown(session: &Session, now: Millis) -> bool {
    session.live || session.updated_at > now - HOUR_MS
}

/// The turn that an event tells of a session.
fn turn_told(event: &Event) -> Option<(SessionId, Turn)> {
    let turn = match event.kind.as_str() {
        "session.started" => text(event, "turn").map(|t| Turn::parse(&t)),
        "session.turn" => text(event, "to").map(|t| Turn::parse(&t)),
        "session.ended" if text(event, "reason").as_deref() == Some("ended") => Some(Turn::Ended),
        _ => None,
    };
    turn.map(|turn| (SessionId(event.resource.id.clone()), turn))
}

fn since(event: &Event) -> Millis {
    event.data.get("since").and_then(serde_json::Value::as_i64).unwrap_or(event.at)
}

fn text(event: &Event, field: &str) -> Option<String> {
    event.data.get(field)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{event, machine, session};
    use serde_json::json;

    fn team() -> Team {
        let mut team = Team::default();
        let (mut a, b) = (machine("mach_a"), machine("mach_b"));
        a.connection = Connection::Online;
        team.lists(vec![a, b], vec![session("sess_1", "mach_a", Turn::Working, 500)], 1_000);
        team
    }

    fn news(team: &Team) -> bool {
        team.saw_begin(&team.sessions[&"sess_1".into()].session)
    }

    fn turned(to: &str, at: i64) -> Event {
        let mut event =
            event("session.turn", "session", "sess_1", json!({"from": "working", "to": to, "since": at}));
        event.at = at;
        event
    }

    #[test]
    fn a_turn_is_shown_as_soon_as_its_event_comes() {
        let mut team = team();
        assert_eq!(team.event(1, &turned("waiting_approval", 2_000), false, 2_001), Again::NOTHING);
        let row = &team.sessions[&"sess_1".into()];
        assert_eq!((row.session.turn, row.session.turn_since), (Turn::WaitingApproval, Some(2_000)));
        assert_eq!(row.hour.len(), 2);
        assert!(news(&team));
    }

    #[test]
    fn what_is_replayed_was_not_seen_to_begin() {
        let mut team = team();
        team.event(1, &turned("waiting_input", 2_000), true, 9_000);
        assert!(!news(&team));
        team.event(2, &turned("working", 9_500), false, 9_500);
        team.event(3, &turned("waiting_input", 9_600), false, 9_600);
        assert!(news(&team));
        team.event(4, &turned("idle", 9_700), false, 9_700);
        assert!(!news(&team));
    }

    #[test]
    fn what_comes_while_the_lists_are_read_is_news_all_the_same() {
        let mut team = team();
        let began = turned("waiting_approval", 2_000);
        let sequenced =
            |sequence, event: &Event| Sequenced { sequence, event: event.clone(), source_id: None };
        // The history that is read after the lists knows the event before the stream's copy is taken.
        team.history(vec![sequenced(7, &began)], 2_010);
        assert_eq!(team.sessions[&"sess_1".into()].session.turn, Turn::Working);
        team.event(7, &began, false, 2_020);
        assert_eq!(team.sessions[&"sess_1".into()].session.turn, Turn::WaitingApproval);
        assert!(news(&team));
        assert_eq!(team.feed.items().len(), 1, "the feed shows it once");
        // A list that is newer than an event that waited knows better.
        team.lists(vec![machine("mach_a")], vec![session("sess_1", "mach_a", Turn::Idle, 3_000)], 3_010);
        team.event(8, &turned("waiting_input", 2_500), false, 3_020);
        assert_eq!(team.sessions[&"sess_1".into()].session.turn, Turn::Idle);
        assert!(!news(&team));
        // A wait that a list tells first is found, until its event comes.
        let waits = session("sess_1", "mach_a", Turn::WaitingInput, 4_000);
        team.lists(vec![machine("mach_a")], vec![waits.clone()], 4_010);
        assert!(!news(&team));
        team.event(9, &turned("waiting_input", 4_000), false, 4_020);
        assert!(news(&team));
        team.lists(vec![machine("mach_a")], vec![waits], 5_000);
        assert!(news(&team), "the same wait, read again");
    }

    #[test]
    fn a_session_that_begins_with_a_wait_is_news_once_its_list_is_read() {
        let mut team = Team::default();
        let began =
            event("session.started", "session", "sess_1", json!({"turn": "waiting_input", "since": 700}));
        assert_eq!(team.event(1, &began, false, 701), Again::LISTS);
        team.lists(vec![], vec![session("sess_1", "mach_a", Turn::WaitingInput, 700)], 1_000);
        assert!(news(&team));
    }

    #[test]
    fn an_event_that_came_already_changes_nothing() {
        let mut team = team();
        team.event(5, &turned("idle", 2_000), false, 2_000);
        team.event(5, &turned("working", 2_500), false, 2_500);
        assert_eq!(team.sessions[&"sess_1".into()].session.turn, Turn::Idle);
    }

    #[test]
    fn a_machine_that_goes_takes_its_sessions_off_and_its_return_reads_the_lists() {
        let mut team = team();
        let went = event(
            "machine.offline",
            "machine",
            "mach_a",
            json!({"name": "mach_a", "from": "online", "to": "offline",
            "last_seen_at": 1_500, "away": {"reason": "asleep", "since": 1_400}}),
        );
        assert_eq!(team.event(1, &went, false, 2_000), Again::NOTHING);
        let gone = &team.machines[&"mach_a".into()];
        assert_eq!((gone.connection, gone.last_seen_at), (Connection::Offline, Some(1_500)));
        assert_eq!(gone.away.as_ref().map(|a| a.since), Some(1_400));
        assert_eq!((team.online(), team.live().count()), (1, 0), "the other machine is still there");
        let back = event(
            "machine.online",
            "machine",
            "mach_a",
            json!({"name": "mach_a", "from": "offline", "to": "online"}),
        );
        assert_eq!(team.event(2, &back, false, 3_000), Again::LISTS);
        assert!(team.machines[&"mach_a".into()].away.is_none());
    }

    #[test]
    fn what_an_event_does_not_tell_is_read_again() {
        let mut team = team();
        let cases = [
            ("session.started", "session", "sess_new", json!({"turn": "working"}), Again::LISTS),
            ("session.published", "session", "sess_1", json!({}), Again::LISTS),
            ("machine.enrolled", "machine", "mach_new", json!({"name": "n"}), Again::LISTS),
            ("machine.renamed", "machine", "mach_b", json!({"name": "desk"}), Again::NOTHING),
            ("machine.revoked", "machine", "mach_b", json!({"name": "desk"}), Again::LISTS),
            ("member.changed", "principal", "prin_1", json!({}), Again::TEAM),
            ("custom.cli.deploy", "custom", "x", json!({}), Again::NOTHING),
        ];
        for (n, (kind, resource, id, data, again)) in cases.into_iter().enumerate() {
            assert_eq!(
                team.event(n as i64 + 1, &event(kind, resource, id, data), false, 2_000),
                again,
                "{kind}"
            );
        }
        assert!(!team.machines.contains_key(&"mach_b".into()));
    }

    #[test]
    fn a_claim_stands_until_the_session_goes_on() {
        let mut team = team();
        team.event(1, &turned("waiting_input", 2_000), false, 2_000);
        let mut claim = event("attention.claimed", "session", "sess_1", json!({"by": "Ben"}));
        claim.actor.principal_id = Some("prin_ben".into());
        team.event(2, &claim, false, 2_100);
        assert_eq!(team.sessions[&"sess_1".into()].session.claimed_by, Some("prin_ben".into()));
        team.event(3, &turned("working", 2_200), false, 2_200);
        assert_eq!(team.sessions[&"sess_1".into()].session.claimed_by, None);
    }

    #[test]
    fn a_session_that_ended_is_shown_for_an_hour() {
        let mut team = team();
        let mut end = event("session.ended", "session", "sess_1", json!({"reason": "ended"}));
        end.at = 2_000;
        team.event(1, &end, false, 2_000);
        assert_eq!(team.sessions[&"sess_1".into()].session.turn, Turn::Ended);
        team.forget_ended(HOUR_MS);
        assert_eq!(team.sessions.len(), 1);
        team.forget_ended(HOUR_MS + 2_000);
        assert!(team.sessions.is_empty());
    }

    #[test]
    fn history_draws_the_hour_before_this_window_was_there() {
        let mut team = team();
        let past = [("idle", 100), ("waiting_input", 200), ("working", 500)];
        let past = past.iter().enumerate().map(|(n, (to, at))| Sequenced {
            sequence: n as i64 + 1,
            event: turned(to, *at),
            source_id: None,
        });
        team.history(past.collect(), 1_000);
        let hour: Vec<_> = team.sessions[&"sess_1".into()].hour.iter().map(|p| (p.at, p.turn)).collect();
        assert_eq!(hour, [(100, Turn::Idle), (200, Turn::WaitingInput), (500, Turn::Working)]);
        assert_eq!(team.feed.items().len(), 3);
    }
}
