//! `teamlamp status`: how this computer's connection is, in words, and why it is not better.

use crate::connect::sign;
use crate::fail::Fail;
use crate::machines::moment;
use crate::out::{Out, Style};
use crate::{setup, words};
use serde_json::{Value, json};
use teamlamp_client::ClientError;
use teamlamp_connector::Context;
use teamlamp_connector::contexts::choose;
use teamlamp_wire::Millis;
use teamlamp_wire::limits::{CREDENTIAL_WARNING_MS, LONG_POLL_SECONDS};
use teamlamp_wire::local::{ContextStatus, LocalSession, Pause, State, Status};
use teamlamp_wire::text::visible;

/// How many past changes of state explain a present one.
const CHANGES: usize = 4;

pub(crate) async fn run(wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let install = setup::install()?;
    let mut contexts = setup::contexts(&install, out)?;
    if contexts.is_empty() {
        if out.json {
            out.document(&json!({"running": false, "contexts": [], "sessions": []}))?;
        }
        return Err(setup::no_context());
    }
    if wish.is_some() {
        contexts = vec![choose(&contexts, wish).cloned().map_err(Fail::usage)?];
    }
    match setup::door(&install)?.status().await {
        Ok(mut status) => {
            status.contexts.retain(|c| contexts.iter().any(|meant| meant.id == c.id));
            running(&status, out)
        }
        Err(ClientError::Unreachable(_)) => {
            setup::none_runs(&install)?;
            not_running(&contexts, out)
        }
        Err(fault) => Err(fault.into()),
    }
}

fn running(status: &Status, out: &Out) -> Result<(), Fail> {
    if out.json {
        let mut value = serde_json::to_value(status).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("running".into(), true.into());
        }
        out.document(&value)?;
    } else {
        for line in lines(status, out, out.clock.now_ms()) {
            out.line(&line)?;
        }
    }
    let fine = |state: &State| {
        matches!(state, State::Online | State::Degraded { .. } | State::Paused { .. } | State::ReadOnly)
    };
    match status.contexts.iter().any(|context| fine(&context.state)) {
        true => Ok(()),
        false => Err(Fail::not_connected_as_shown()),
    }
}

/// What is known without a connector: the teams, and that nothing is reported.
fn not_running(contexts: &[Context], out: &Out) -> Result<(), Fail> {
    if out.json {
        let contexts: Vec<_> = contexts.iter().map(known).collect();
        out.document(&json!({"running": false, "contexts": contexts, "sessions": []}))?;
        return Err(Fail::not_connected_as_shown());
    }
    for context in contexts {
        let team = out.paint(Style::Strong, &visible(&context.team_name));
        out.line(&format!("{} {team}: not connected", out.paint(Style::Quiet, "□")))?;
        for (label, text) in about(
            &format!("{} ({})", context.origin, context.server_name),
            &context.principal_name,
            context.machine.as_ref().map(|machine| machine.name.as_str()),
        ) {
            out.line(&row(label, &text, out))?;
        }
        if let Some(machine) = &context.machine {
            let ends = sign_in(machine.credential_expires_at, out, out.clock.now_ms());
            out.line(&row("sign-in", &ends, out))?;
        }
    }
    Err(Fail::not_connected("No connector runs here, so nothing is reported: `teamlamp connect` starts one."))
}

/// A context as the connector would say it, but for its state.
fn known(context: &Context) -> Value {
    json!({
        "id": context.id, "origin": context.origin, "server_id": context.server_id,
        "server_name": context.server_name, "team_id": context.team_id, "team_name": context.team_name,
        "principal_id": context.principal_id, "principal_name": context.principal_name,
        "machine_id": context.machine.as_ref().map(|m| &m.id),
        "machine_name": context.machine.as_ref().map(|m| &m.name),
        "credential_expires_at": context.machine.as_ref().map(|m| m.credential_expires_at),
    })
}

fn about(server: &str, person: &str, machine: Option<&str>) -> Vec<(&'static str, String)> {
    let mut rows = vec![("server", server.to_owned()), ("you", person.to_owned())];
    rows.extend(machine.map(|machine| ("machine", machine.to_owned())));
    rows
}

fn row(label: &str, text: &str, out: &Out) -> String {
    format!("  {}  {}", out.paint(Style::Quiet, &format!("{label:<9}")), visible(text))
}

fn lines(status: &Status, out: &Out, now: Millis) -> Vec<String> {
    let mut lines = Vec::new();
    for context in &status.contexts {
        let (sign, style) = sign(&context.state);
        let team = out.paint(Style::Strong, &visible(&context.team_name));
        let state = visible(&context.state.sentence());
        lines.push(format!("{} {team}: {state}", out.paint(style, sign)));
        let server = format!("{} ({})", context.origin, context.server_name);
        let mut rows = about(&server, &context.principal_name, context.machine_name.as_deref());
        rows.extend(health(context, out, now));
        lines.extend(rows.iter().map(|(label, text)| row(label, text, out)));
        if context.state != State::Online {
            let past = context.changes.len().saturating_sub(CHANGES);
            lines.extend(context.changes[past..].iter().map(|change| {
                row(&out.time(change.at, "%H:%M:%S"), &format!("{}: {}", change.to, change.why), out)
            }));
        }
    }
    let runs = format!("pid {}, version {}", status.pid, status.version);
    lines.push(row("connector", &runs, out));
    if let Some(Pause { until: Some(until) }) = status.paused {
        lines.push(row("paused", &format!("until {}", moment(out, until, now)), out));
    }
    lines.push(row("agents", &agents(&status.sessions), out));
    lines
}

/// Ages of heartbeat and link, the end of the credential, the clock.
fn health(context: &ContextStatus, out: &Out, now: Millis) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(at) = context.heartbeat_at {
        rows.push(("heartbeat", format!("{} ago", words::length(now - at))));
    }
    if let Some(at) = context.linked_at {
        rows.push(("link", format!("for {}", words::length(now - at))));
    }
    if context.polls {
        let every = LONG_POLL_SECONDS;
        rows.push(("events", format!("a proxy holds live streams back: asked for instead, every {every} s")));
    }
    if let State::Offline { next_try_at: Some(at), .. } = &context.state {
        rows.push(("next try", format!("in {}", words::length(at - now))));
    }
    if let Some(at) = context.credential_expires_at {
        rows.push(("sign-in", sign_in(at, out, now)));
    }
    if let Some(offset) = context.clock_offset_ms.filter(|offset| offset.abs() >= 30_000) {
        let side = if offset > 0 { "ahead of" } else { "behind" };
        rows.push(("clock", format!("{} {side} the server's", words::length(offset.abs()))));
    }
    rows
}

/// When the machine's credential ends.
fn sign_in(at: Millis, out: &Out, now: Millis) -> String {
    let when = moment(out, at, now);
    match at - now {
        i64::MIN..=0 => format!("ended {when}"),
        left if left < CREDENTIAL_WARNING_MS => format!("ends {when}: it could not be renewed yet"),
        _ => format!("ends {when}"),
    }
}

fn agents(sessions: &[LocalSession]) -> String {
    let live: Vec<_> = sessions.iter().filter(|s| s.turn != teamlamp_wire::session::Turn::Ended).collect();
    let waiting = live.iter().filter(|session| session.turn.waits()).count();
    match (live.len(), waiting) {
        (0, _) => "none run here now".into(),
        (n, 0) => words::count(n, "runs here", "run here"),
        (n, w) => {
            format!("{}, {}", words::count(n, "runs here", "run here"), words::count(w, "waits", "wait"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use teamlamp_wire::local::StateChange;

    fn status(state: State) -> Status {
        let context = ContextStatus {
            id: "acme-1".into(),
            origin: "http://127.0.0.1:8720".into(),
            server_id: "srv_1".into(),
            server_name: "Office".into(),
            team_id: "team_1".into(),
            team_name: "Acme".into(),
            principal_id: "prin_1".into(),
            principal_name: "Ada".into(),
            machine_id: Some("mach_1".into()),
            machine_name: Some("ada-laptop".into()),
            state,
            state_since: 34_000_000,
            heartbeat_at: Some(34_000_000),
            streaming: true,
            polls: false,
            linked_at: Some(33_000_000),
            credential_expires_at: Some(400_000_000),
            clock_offset_ms: Some(-40_000),
            changes: vec![StateChange {
                at: 34_000_000,
                to: "offline".into(),
                why: "Nothing answers.".into(),
            }],
        };
        Status { version: "0.1.0".into(), pid: 7, contexts: vec![context], ..Status::default() }
    }

    #[test]
    fn a_connected_computer_says_how_well() {
        let out = Out::for_test(false);
        assert_snapshot!(lines(&status(State::Online), &out, 34_012_000).join("\n"), @"
        ■ Acme: Live.
          server     http://127.0.0.1:8720 (Office)
          you        Ada
          machine    ada-laptop
          heartbeat  12 s ago
          link       for 16 min
          sign-in    ends Mon 5 Jan, 15:06: it could not be renewed yet
          clock      40 s behind the server's
          connector  pid 7, version 0.1.0
          agents     none run here now
        ");
    }

    #[test]
    fn events_that_are_asked_for_say_why() {
        let mut polling = status(State::Online);
        polling.contexts[0].polls = true;
        let shown = lines(&polling, &Out::for_test(false), 34_012_000).join("\n");
        assert!(
            shown.contains("  events     a proxy holds live streams back: asked for instead, every 25 s"),
            "{shown}"
        );
    }

    #[test]
    fn one_that_is_not_says_why_and_when_it_goes_on() {
        let state =
            State::Offline { why: "Nothing answers.".into(), since: 1, next_try_at: Some(34_020_000) };
        let shown = lines(&status(state), &Out::for_test(false), 34_012_000).join("\n");
        assert!(shown.contains("□ Acme: Nothing answers."), "{shown}");
        assert!(shown.contains("next try   in 8 s"), "{shown}");
        assert!(shown.contains("09:26:40   offline: Nothing answers."), "{shown}");
    }
}
