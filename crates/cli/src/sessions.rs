//! `teamlamp sessions`: the coding agents of the team, those that wait for a person first.

use crate::args::Sessions;
use crate::fail::Fail;
use crate::out::{Items, Out, Style};
use crate::table::{Cell, lines};
use crate::{setup, words};
use std::collections::BTreeMap;
use teamlamp_client::session::SessionQuery;
use teamlamp_wire::Millis;
use teamlamp_wire::id::MachineId;
use teamlamp_wire::machine::Machine;
use teamlamp_wire::session::{Session, Turn};

pub(crate) async fn run(args: &Sessions, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let (_, context, client) = setup::person(wish, "sessions", out).await?;
    let query = SessionQuery { live: (!args.all).then_some(true), ..SessionQuery::default() };
    let mut sessions = client.all_sessions(&context.team_id, &query).await?;
    if args.waiting {
        sessions.retain(|session| session.turn.waits());
    }
    if out.json {
        return Ok(out.document(&Items { items: &sessions })?);
    }
    let machines = client.machines(&context.team_id).await?;
    sessions.sort_by_key(order);
    if sessions.is_empty() {
        out.note(if args.waiting { "Nobody waits for a person." } else { "No agents run now." });
    }
    for line in lines(out, &rows(&sessions, &machines, out.clock.now_ms())) {
        out.line(&line)?;
    }
    Ok(())
}

/// Who waits stands first, longest first; then who works; then the others, newest first.
fn order(session: &Session) -> (u8, Millis) {
    let since = session.turn_since.unwrap_or(session.updated_at);
    match session.turn {
        turn if turn.waits() => (0, since),
        Turn::Working => (1, -since),
        Turn::Ended => (3, -since),
        _ => (2, -since),
    }
}

fn rows(sessions: &[Session], machines: &[Machine], now: Millis) -> Vec<Vec<Cell>> {
    let names: BTreeMap<&MachineId, &str> = machines.iter().map(|m| (&m.id, m.name.as_str())).collect();
    sessions
        .iter()
        .map(|session| {
            let (sign, style) = words::turn_sign(session.turn);
            let since = session.turn_since.map(|at| words::ago(at, now)).unwrap_or_default();
            let strong = if session.turn.waits() { Style::Waiting } else { Style::Plain };
            vec![
                Cell::new(style, sign),
                Cell::new(Style::Strong, session.root.as_deref().unwrap_or("no folder")),
                Cell::new(strong, words::turn(session.turn)),
                Cell::plain(&since),
                Cell::quiet(&words::harness(&session.harness)),
                Cell::quiet(names.get(&session.machine_id).copied().unwrap_or("a machine that is gone")),
                Cell::quiet(session.title.as_deref().unwrap_or_default()),
                Cell::quiet(session.model.as_deref().unwrap_or_default()),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use serde_json::json;

    fn session(root: &str, turn: &str, since: Millis) -> Session {
        serde_json::from_value(json!({
            "id": "sess_1", "harness": "claude-code", "native_id": "n", "machine_id": "mach_1", "root": root,
            "title": null, "model": null, "turn": turn, "turn_since": since, "confirmed": true, "live": true,
            "started_at": 1, "updated_at": 1, "visibility": "restricted", "revision": 1, "claimed_by": null,
        }))
        .unwrap()
    }

    #[test]
    fn who_waits_longest_stands_first() {
        let mut sessions = [
            session("notes", "idle", 90_000),
            session("api\u{1b}", "working", 50_000),
            session("mobile", "waiting_input", 60_000),
            session("billing", "waiting_approval", 40_000),
        ];
        sessions.sort_by_key(order);
        let machine: Machine = serde_json::from_str(
            r#"{"id":"mach_1","name":"ada-laptop","custodian_id":"prin_1","enrollment":"active",
            "connection":"online","last_seen_at":1,"incarnation_id":null,"host_key_id":null,"revision":1,
            "away":null}"#,
        )
        .unwrap();
        let shown = lines(&Out::for_test(false), &rows(&sessions, &[machine], 100_000));
        assert_snapshot!(shown.join("\n"), @"
        ◆  billing  waits for approval  1 min  Claude Code  ada-laptop
        ◆  mobile   asks a question     40 s   Claude Code  ada-laptop
        ◉  api␛     works               50 s   Claude Code  ada-laptop
        ○  notes    idle                10 s   Claude Code  ada-laptop
        ");
    }
}
