//! An event as one line for people. The words are those of the window's feed; names of others are made
//! safe to show.

use crate::out::{Out, Style};
use crate::words;
use serde_json::Value;
use std::collections::BTreeMap;
use teamlamp_wire::Millis;
use teamlamp_wire::event::{Event, KindOf, kind_of};
use teamlamp_wire::machine::Connection;
use teamlamp_wire::session::Turn;
use teamlamp_wire::text::visible;

/// More of a custom event's data than this is cut.
const DATA_CHARS: usize = 100;

/// More sessions than this are not remembered by name.
const ROOTS: usize = 10_000;

/// The names of machines and of sessions' roots, learned from the list and from events.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    machines: BTreeMap<String, String>,
    roots: BTreeMap<String, String>,
}

impl Names {
    pub(super) fn of(machines: BTreeMap<String, String>) -> Self {
        Self { machines, roots: BTreeMap::new() }
    }

    /// Takes the names that an event tells.
    pub(super) fn learn(&mut self, event: &Event) {
        let id = &event.resource.id;
        let (field, known) = match event.resource.kind.as_str() {
            "machine" => ("name", &mut self.machines),
            "session" => ("root", &mut self.roots),
            _ => return,
        };
        let Some(name) = event.data.get(field).and_then(Value::as_str) else { return };
        known.insert(id.clone(), name.to_owned());
        if self.roots.len() > ROOTS {
            self.roots.pop_first();
        }
    }

    fn machine(&self, id: &str) -> String {
        self.machines.get(id).map_or_else(|| "a machine".to_owned(), |name| visible(name))
    }

    fn root(&self, session: &str) -> String {
        self.roots.get(session).map_or_else(|| "A session".to_owned(), |root| visible(root))
    }
}

/// One line of the feed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) at: Millis,
    sign: (&'static str, Style),
    parts: Vec<(Style, String)>,
}

impl Line {
    /// The line as it is printed, without its day.
    pub(super) fn draw(&self, out: &Out) -> String {
        let time = out.paint(Style::Quiet, &out.time(self.at, "%H:%M:%S"));
        let sign = out.paint(self.sign.1, self.sign.0);
        let text: String = self.parts.iter().map(|(style, text)| out.paint(*style, text)).collect();
        format!("{time}  {sign}  {text}")
    }
}

/// What an event says.
pub(super) fn of(event: &Event, names: &Names) -> Line {
    let word = |field: &str| event.data.get(field).and_then(Value::as_str).unwrap_or_default();
    let Some(KindOf::Listed(kind)) = kind_of(&event.kind) else { return custom(event) };
    let name = visible(word("name"));
    let subject = match kind.resource {
        // An end may come without the root, which its machine no longer reports.
        "session" if word("root").is_empty() => names.root(&event.resource.id),
        "session" => visible(word("root")),
        "machine" if name.is_empty() => names.machine(&event.resource.id),
        _ => name,
    };
    let (sign, before, after) = says(event, word);
    let mut parts = Vec::new();
    if !before.is_empty() {
        parts.push((Style::Plain, format!("{before} ")));
    }
    parts.push((Style::Strong, subject));
    if !after.is_empty() {
        parts.push((Style::Plain, format!(" {after}")));
    }
    if kind.resource == "session" && !word("harness").is_empty() {
        let place =
            format!(" · {} on {}", words::harness(word("harness")), names.machine(word("machine_id")));
        parts.push((Style::Quiet, place));
    }
    Line { at: event.at, sign, parts }
}

type Sign = (&'static str, Style);

/// The sign, what stands before the subject, and what after it.
fn says<'a>(event: &'a Event, word: impl Fn(&str) -> &'a str) -> (Sign, String, String) {
    let quiet = ("·", Style::Quiet);
    let machine = |connection| words::machine_sign(connection);
    let plain = |sign, after: &str| (sign, String::new(), after.to_owned());
    let who = |field: &str| match word(field) {
        "" => visible(&event.actor.name),
        name => visible(name),
    };
    match event.kind.as_str() {
        "team.created" => (quiet, "The team".into(), "was made".into()),
        "team.renamed" => (quiet, "The team is now called".into(), String::new()),
        "member.joined" => plain(quiet, &format!("joined as {}", visible(word("role")))),
        "member.changed" => match event.data.get("active").and_then(Value::as_bool) {
            Some(false) => plain(quiet, "was made inactive"),
            _ => plain(quiet, &format!("is now {}", visible(word("role")))),
        },
        "member.removed" => plain(quiet, "was removed from the team"),
        "machine.enrolled" => plain(machine(Connection::Offline), "was enrolled"),
        "machine.renamed" => (quiet, "A machine is now called".into(), String::new()),
        "machine.revoked" => plain(("✕", Style::Broken), "was revoked"),
        "machine.online" => plain(machine(Connection::Online), "is online"),
        "machine.unlinked" => match gone(event) {
            Some(went) => plain(machine(Connection::Offline), went),
            None if word("from") == "offline" => {
                plain(machine(Connection::Unlinked), "reports again, without a live link")
            }
            None => plain(machine(Connection::Unlinked), "lost its live link"),
        },
        "machine.offline" => plain(machine(Connection::Offline), gone(event).unwrap_or("went offline")),
        "machine.cloned" => {
            plain(("✕", Style::Broken), "runs twice: its identity is on another computer too")
        }
        "session.started" => {
            let turn = Turn::parse(word("turn"));
            plain(words::turn_sign(turn), started(turn))
        }
        "session.turn" => {
            let (from, to) = (Turn::parse(word("from")), Turn::parse(word("to")));
            plain(words::turn_sign(to), turned(from, to))
        }
        "session.ended" => match word("reason") {
            "reporter_left" => plain(("?", Style::Quiet), "is out of sight: its machine stopped reporting"),
            _ => plain(words::turn_sign(Turn::Ended), "ended"),
        },
        "session.published" => plain(quiet, "was shared with the team"),
        "session.deleted" => plain(quiet, "was deleted"),
        "note.sent" => (quiet, format!("{} sent a note to", who("from")), String::new()),
        "attention.claimed" => (quiet, format!("{} takes", who("by")), String::new()),
        "attention.released" => (quiet, format!("{} let go of", who("by")), String::new()),
        "app.installed" => plain(quiet, "was installed"),
        "app.removed" => plain(quiet, "was removed"),
        "webhook.disabled" => (quiet, "A webhook of".into(), "was switched off".into()),
        other => plain(quiet, other),
    }
}

/// How a machine went, where it said so.
pub(super) fn gone(event: &Event) -> Option<&'static str> {
    match event.data.get("away")?.get("reason")?.as_str()? {
        "asleep" => Some("went to sleep"),
        "shutdown" => Some("quit Teamlamp"),
        "paused" => Some("paused reporting"),
        _ => None,
    }
}

fn started(turn: Turn) -> &'static str {
    match turn {
        Turn::WaitingApproval => "started, and asks for approval",
        Turn::WaitingInput => "started, and asks a question",
        _ => "started",
    }
}

fn turned(from: Turn, to: Turn) -> &'static str {
    match to {
        Turn::Working if from.waits() => "works again",
        Turn::Working => "started to work",
        Turn::WaitingApproval => "asks for approval",
        Turn::WaitingInput => "asks a question",
        Turn::Idle if from == Turn::Working => "finished its turn",
        Turn::Idle => "is idle",
        Turn::Ended => "ended",
        Turn::Unknown => "can't be read just now",
    }
}

/// A custom event says what its data says of itself, else its data.
fn custom(event: &Event) -> Line {
    let said = ["text", "message", "title"]
        .iter()
        .find_map(|field| event.data.get(*field).and_then(Value::as_str))
        .map(str::to_owned)
        .unwrap_or_else(|| match event.data.is_empty() {
            true => String::new(),
            false => serde_json::to_string(&event.data).unwrap_or_default(),
        });
    let mut said = visible(&said);
    if said.chars().count() > DATA_CHARS {
        said = said.chars().take(DATA_CHARS).chain(['…']).collect();
    }
    let name = event.kind.splitn(3, '.').last().unwrap_or_default();
    let mut parts = vec![(Style::Strong, visible(name))];
    if !said.is_empty() {
        parts.push((Style::Plain, format!("  {said}")));
    }
    parts.push((Style::Quiet, format!(" · {}", visible(&event.actor.name))));
    Line { at: event.at, sign: ("›", Style::Plain), parts }
}

/// A machine that went to and fro and is where it was.
pub(super) fn flapped(machine: &str, at: Millis, times: usize, names: &Names) -> Line {
    let parts =
        vec![(Style::Strong, names.machine(machine)), (Style::Plain, format!(" flapped {times} times"))];
    Line { at, sign: ("~", Style::Quiet), parts }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;
    use teamlamp_wire::event::CATALOGUE;

    pub(in crate::events) fn event(at: Millis, kind: &str, resource: (&str, &str), data: Value) -> Event {
        serde_json::from_value(json!({
            "id": format!("evt_{at}"), "org": "team_1", "at": at, "kind": kind,
            "actor": {"principal_id": null, "kind": "person", "name": "Ada\u{1b}[2J"},
            "resource": {"kind": resource.0, "id": resource.1}, "data": data,
        }))
        .unwrap()
    }

    fn told(kind: &str, resource: (&str, &str), data: Value) -> String {
        let names = Names::of(BTreeMap::from([("mach_1".into(), "ada-laptop".into())]));
        of(&event(34_000_000, kind, resource, data), &names).draw(&Out::for_test(false))
    }

    #[test]
    fn each_kind_has_its_words() {
        let session = |kind: &str, data: Value| told(kind, ("session", "sess_1"), data);
        let at = |from: &str, to: &str| json!({"harness": "claude-code", "machine_id": "mach_1", "root": "billing", "from": from, "to": to});
        let lines = [
            told("machine.online", ("machine", "mach_1"), json!({"name": "ada-laptop"})),
            told("machine.offline", ("machine", "mach_1"), json!({"away": {"reason": "asleep", "since": 1}})),
            told("machine.unlinked", ("machine", "mach_1"), json!({"from": "online"})),
            told("machine.unlinked", ("machine", "mach_1"), json!({"from": "offline"})),
            told("member.joined", ("principal", "prin_1"), json!({"name": "Mate", "role": "member"})),
            session("session.started", json!({"harness": "codex", "machine_id": "mach_9", "turn": "idle"})),
            session("session.turn", at("idle", "working")),
            session("session.turn", at("working", "waiting_approval")),
            session("session.turn", at("waiting_approval", "working")),
            session("session.turn", at("working", "idle")),
            session("session.ended", at("", "")),
            told("custom.cli.deploy", ("custom", "x"), json!({"message": "4f2a91c is out\u{7}"})),
            told("custom.bot.build", ("build", "7"), json!({"n": 1})),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r#"
        09:26:40  ■  ada-laptop is online
        09:26:40  □  ada-laptop went to sleep
        09:26:40  ◧  ada-laptop lost its live link
        09:26:40  ◧  ada-laptop reports again, without a live link
        09:26:40  ·  Mate joined as member
        09:26:40  ○  A session started · Codex on a machine
        09:26:40  ◉  billing started to work · Claude Code on ada-laptop
        09:26:40  ◆  billing asks for approval · Claude Code on ada-laptop
        09:26:40  ◉  billing works again · Claude Code on ada-laptop
        09:26:40  ○  billing finished its turn · Claude Code on ada-laptop
        09:26:40  –  billing ended · Claude Code on ada-laptop
        09:26:40  ›  deploy  4f2a91c is out␇ · Ada␛[2J
        09:26:40  ›  build  {"n":1} · Ada␛[2J
        "#);
    }

    #[test]
    fn every_kind_of_the_catalogue_is_told_and_none_as_its_name() {
        for kind in CATALOGUE {
            let line =
                told(kind.name, (kind.resource, "x"), json!({"name": "N", "role": "member", "by": "B"}));
            assert!(!line.contains(kind.name), "{line}");
        }
        assert!(told("later.kind", ("x", "y"), json!({})).contains("kind"));
    }

    #[test]
    fn a_flood_of_data_is_cut() {
        let line = told("custom.cli.x", ("custom", "x"), json!({"text": "a".repeat(10_000)}));
        assert!(line.chars().count() < 150 && line.contains('…'), "{line}");
    }
}
