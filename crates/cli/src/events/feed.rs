//! The feed as people read it: days as headings, and flapping machines folded into one line. A machine
//! that goes is shown once it has stayed away for a while; one that comes is shown at once.

use super::line::{self, Line, Names};
use crate::out::{Out, Style};
use std::collections::{BTreeMap, BTreeSet};
use teamlamp_wire::Millis;
use teamlamp_wire::event::Event;
use teamlamp_wire::id::MachineId;
use teamlamp_wire::limits::FLAP_MS;
use teamlamp_wire::machine::Connection;
use teamlamp_wire::presence::{PresenceLine, fold};

/// What was said, and what is held back.
#[derive(Debug, Default)]
pub(super) struct Feed {
    pub(super) names: Names,
    held: BTreeMap<String, Vec<Held>>,
    /// What was said to be over: sessions that ended, machines that went on purpose. The server says it
    /// again when the last trace is gone, which is no news.
    over: BTreeSet<String>,
    day: String,
}

/// A transition that may be the beginning of flapping, and until when that is open.
#[derive(Debug)]
struct Held {
    event: Event,
    from: Connection,
    to: Connection,
    until: Millis,
}

impl Feed {
    pub(super) fn of(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    /// Takes an event that came at `now`, and gives the lines that are due by then.
    pub(super) fn take(&mut self, event: Event, now: Millis) -> Vec<Line> {
        self.names.learn(&event);
        let mut lines = self.due(now);
        if self.is_told(&event) {
            return lines;
        }
        let Some((from, to)) = transition(&event) else {
            lines.push(line::of(&event, &self.names));
            return lines;
        };
        let held = self.held.entry(event.resource.id.clone()).or_default();
        // A report that comes just before its link is the beginning of being online.
        if to == Connection::Online && matches!(&held[..], [one] if one.from == Connection::Offline) {
            held.clear();
        }
        if (to == Connection::Online && held.is_empty()) || line::gone(&event).is_some() {
            lines.push(line::of(&event, &self.names));
        } else {
            held.push(Held { event, from, to, until: now + FLAP_MS });
        }
        self.held.retain(|_, held| !held.is_empty());
        lines
    }

    /// Whether an event only repeats what was said to be over; remembers what it says.
    fn is_told(&mut self, event: &Event) -> bool {
        let word = |field: &str| event.data.get(field).and_then(serde_json::Value::as_str);
        let id = &event.resource.id;
        match event.kind.as_str() {
            "session.turn" if word("to") == Some("ended") => !self.over.insert(id.clone()),
            "session.ended" => self.over.remove(id) && word("reason") == Some("ended"),
            "machine.unlinked" if line::gone(event).is_some() => !self.over.insert(id.clone()),
            "machine.offline" => self.over.remove(id),
            _ => {
                self.over.remove(id);
                false
            }
        }
    }

    /// When a line falls due without another event.
    pub(super) fn due_at(&self) -> Option<Millis> {
        self.held.values().filter_map(|held| held.first()).map(|held| held.until).min()
    }

    /// The lines that are due.
    pub(super) fn due(&mut self, now: Millis) -> Vec<Line> {
        let mut lines = Vec::new();
        for (machine, held) in &mut self.held {
            while held.first().is_some_and(|first| first.until <= now) {
                let id = MachineId(machine.clone());
                let steps: Vec<_> = held.iter().map(|h| (id.clone(), h.event.at, h.from, h.to)).collect();
                let (taken, line) = match fold(&steps).into_iter().next() {
                    Some(PresenceLine::Flapped { at, times, .. }) => {
                        (times, line::flapped(machine, at, times, &self.names))
                    }
                    _ => (1, line::of(&held[0].event, &self.names)),
                };
                held.drain(..taken);
                lines.push(line);
            }
        }
        self.held.retain(|_, held| !held.is_empty());
        lines.sort_by_key(|line| line.at);
        lines
    }

    /// The lines of a whole past, oldest first.
    pub(super) fn past(&mut self, events: Vec<Event>) -> Vec<Line> {
        let mut lines: Vec<_> = events
            .into_iter()
            .flat_map(|event| {
                let at = event.at;
                self.take(event, at)
            })
            .collect();
        lines.extend(self.due(Millis::MAX));
        // What was held back is told at its own time.
        lines.sort_by_key(|line| line.at);
        lines
    }

    /// The lines as they are printed, with a heading before each day.
    pub(super) fn draw(&mut self, lines: &[Line], now: Millis, out: &Out) -> Vec<String> {
        let mut drawn = Vec::new();
        for line in lines {
            let day = out.time(line.at, "%F");
            if day != self.day {
                let heading = match day {
                    _ if day == out.time(now, "%F") => "Today".to_owned(),
                    _ if day == out.time(now - 86_400_000, "%F") => "Yesterday".to_owned(),
                    _ => out.time(line.at, "%A, %-d %B"),
                };
                drawn.push(out.paint(Style::Quiet, &heading));
                self.day = day;
            }
            drawn.push(line.draw(out));
        }
        drawn
    }
}

/// From where to where a machine went.
fn transition(event: &Event) -> Option<(Connection, Connection)> {
    if !matches!(event.kind.as_str(), "machine.online" | "machine.unlinked" | "machine.offline") {
        return None;
    }
    let word = |field: &str| Connection::parse(event.data.get(field)?.as_str()?);
    Some((word("from")?, word("to")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::line::tests::event;
    use insta::assert_snapshot;
    use serde_json::json;

    fn step(at: Millis, from: &str, to: &str) -> Event {
        let data = json!({"name": "ci", "from": from, "to": to});
        event(at, &format!("machine.{to}"), ("machine", "mach_1"), data)
    }

    fn texts(lines: Vec<Line>) -> Vec<String> {
        lines.iter().map(|line| line.draw(&Out::for_test(false))[10..].to_owned()).collect()
    }

    #[test]
    fn a_machine_that_comes_is_told_at_once_and_one_that_goes_once_it_stays_away() {
        let mut feed = Feed::default();
        assert_eq!(texts(feed.take(step(0, "offline", "online"), 0)), ["■  ci is online"]);
        assert!(feed.take(step(1_000, "online", "unlinked"), 1_000).is_empty());
        assert_eq!(feed.due_at(), Some(21_000));
        assert!(feed.due(20_999).is_empty());
        assert_eq!(texts(feed.due(21_000)), ["◧  ci lost its live link"]);
        assert_eq!(feed.due_at(), None);
    }

    #[test]
    fn flapping_is_one_line_and_what_comes_after_it_another() {
        let mut feed = Feed::default();
        for (at, from, to) in [
            (0, "online", "unlinked"),
            (5_000, "unlinked", "online"),
            (9_000, "online", "unlinked"),
            (12_000, "unlinked", "online"),
            (19_000, "online", "offline"),
        ] {
            assert!(feed.take(step(at, from, to), at).is_empty());
        }
        assert_eq!(texts(feed.due(20_000)), ["~  ci flapped 4 times"]);
        assert_eq!(texts(feed.due(39_000)), ["□  ci went offline"]);
    }

    #[test]
    fn coming_online_is_one_line_and_going_on_purpose_another() {
        let mut feed = Feed::default();
        assert!(feed.take(step(0, "offline", "unlinked"), 0).is_empty());
        assert_eq!(texts(feed.take(step(100, "unlinked", "online"), 100)), ["■  ci is online"]);
        let away = |to: &str, from: &str| {
            let data =
                json!({"name": "ci", "from": from, "to": to, "away": {"reason": "shutdown", "since": 1}});
            event(9, &format!("machine.{to}"), ("machine", "mach_1"), data)
        };
        assert_eq!(texts(feed.take(away("unlinked", "online"), 200)), ["□  ci quit Teamlamp"]);
        assert!(feed.take(away("offline", "unlinked"), 45_000).is_empty(), "that was said");
        assert_eq!(texts(feed.take(step(50_000, "offline", "online"), 50_000)), ["■  ci is online"]);
    }

    #[test]
    fn a_session_ends_once() {
        let mut feed = Feed::default();
        let turn = |to: &str| {
            let data =
                json!({"harness": "codex", "machine_id": "mach_1", "root": "r", "from": "idle", "to": to});
            event(1, "session.turn", ("session", "s"), data)
        };
        let ended = |reason: &str| {
            let data = json!({"harness": "codex", "machine_id": "mach_1", "reason": reason});
            event(2, "session.ended", ("session", "s"), data)
        };
        assert_eq!(texts(feed.take(turn("ended"), 1)), ["–  r ended · Codex on a machine"]);
        assert!(feed.take(ended("ended"), 2).is_empty());
        assert_eq!(texts(feed.take(ended("ended"), 3)), ["–  r ended · Codex on a machine"]);
        feed.take(turn("ended"), 4);
        feed.take(turn("working"), 5);
        assert_eq!(feed.take(ended("reporter_left"), 6).len(), 1);
    }

    #[test]
    fn another_event_is_not_held_up() {
        let mut feed = Feed::default();
        feed.take(step(0, "online", "offline"), 0);
        let turn =
            json!({"harness": "codex", "machine_id": "mach_1", "root": "r", "from": "idle", "to": "working"});
        let lines = feed.take(event(1, "session.turn", ("session", "s"), turn), 1);
        assert_eq!(texts(lines), ["◉  r started to work · Codex on ci"]);
    }

    #[test]
    fn the_past_is_folded_and_has_its_days() {
        let day = 86_400_000;
        let mut feed = Feed::default();
        let lines = feed.past(vec![
            step(day - 1_000, "online", "offline"),
            event(day - 500, "member.joined", ("principal", "p"), json!({"name": "Ben", "role": "member"})),
            step(day + 2_000, "offline", "online"),
            step(day + 60_000, "online", "offline"),
        ]);
        let drawn = feed.draw(&lines, day + 70_000, &Out::for_test(false));
        assert_snapshot!(drawn.join("\n"), @"
        Yesterday
        23:59:59  ~  ci flapped 2 times
        23:59:59  ·  Ben joined as member
        Today
        00:01:00  □  ci went offline
        ");
    }
}
