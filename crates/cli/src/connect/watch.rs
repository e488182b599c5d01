//! What a running connector says of itself, line by line: each change of a team's state, and what the
//! agents of this machine do. Pure but for the last step, which prints.

use crate::fail::Fail;
use crate::out::{Out, Style};
use crate::words;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use teamlamp_wire::Millis;
use teamlamp_wire::id::MachineId;
use teamlamp_wire::local::{ContextStatus, State, Status};
use teamlamp_wire::session::Turn;
use teamlamp_wire::text::visible;
use tokio::sync::watch;

/// What there is to say.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Said {
    /// The first heartbeat was answered.
    Ready { ready: bool, machine_id: MachineId, incarnation_id: String },
    /// A team's state changed.
    State {
        at: Millis,
        context: String,
        team: String,
        #[serde(flatten)]
        state: State,
        sentence: String,
    },
    /// An agent of this machine does something else; not said in JSON, which is about the connection.
    #[serde(skip)]
    Agent { at: Millis, root: String, harness: String, turn: Turn },
}

/// What was said already.
#[derive(Debug, Default)]
struct Told {
    ready: bool,
    states: BTreeMap<String, (&'static str, String)>,
    turns: BTreeMap<(String, String), Turn>,
}

/// Says what changes until the connector ends.
pub(super) async fn tell(mut status: watch::Receiver<Arc<Status>>, out: &Out) -> Result<(), Fail> {
    let mut told = Told::default();
    loop {
        let now = status.borrow_and_update().clone();
        for said in told.news(&now, out.clock.now_ms()) {
            match out.json {
                // The first line is the ready one; what keeps it from coming is said beside.
                true if !told.ready => {
                    if let Said::State { sentence, state, .. } = &said
                        && *state != State::Connecting
                    {
                        out.note(&visible(sentence));
                    }
                }
                true if matches!(said, Said::Agent { .. }) => {}
                true => out.document(&said)?,
                false => {
                    if let Some(line) = line(&said, out) {
                        out.line(&line)?;
                    }
                }
            }
        }
        if status.changed().await.is_err() {
            return Ok(());
        }
    }
}

impl Told {
    /// What is new in a status.
    fn news(&mut self, status: &Status, now: Millis) -> Vec<Said> {
        let mut news = Vec::new();
        let answered = status.contexts.iter().find(|context| context.heartbeat_at.is_some());
        if let Some(machine_id) = answered.and_then(|context| context.machine_id.clone())
            && !self.ready
        {
            self.ready = true;
            news.push(Said::Ready { ready: true, machine_id, incarnation_id: status.incarnation_id.clone() });
        }
        for context in &status.contexts {
            let (word, sentence) = (context.state.word(), context.state.sentence());
            if self.states.get(&context.id) != Some(&(word, sentence.clone())) {
                self.states.insert(context.id.clone(), (word, sentence.clone()));
                news.push(state(context, sentence));
            }
        }
        self.states.retain(|id, _| status.contexts.iter().any(|context| context.id == *id));
        for session in &status.sessions {
            let key = (session.harness.clone(), session.native_id.clone());
            if self.turns.insert(key, session.turn) != Some(session.turn) {
                let (root, harness) = (session.root.clone(), session.harness.clone());
                news.push(Said::Agent {
                    at: session.since.unwrap_or(now),
                    root,
                    harness,
                    turn: session.turn,
                });
            }
        }
        self.turns
            .retain(|key, _| status.sessions.iter().any(|s| (&s.harness, &s.native_id) == (&key.0, &key.1)));
        news
    }
}

fn state(context: &ContextStatus, sentence: String) -> Said {
    Said::State {
        at: context.state_since,
        context: context.id.clone(),
        team: context.team_name.clone(),
        state: context.state.clone(),
        sentence,
    }
}

/// A state's sign and how it is drawn.
pub(crate) fn sign(state: &State) -> (&'static str, Style) {
    match state {
        State::Online => ("■", Style::Up),
        State::Degraded { .. } => ("◧", Style::Quiet),
        State::Offline { .. } | State::SignedOut => ("□", Style::Quiet),
        State::Connecting | State::Enrolling => ("◌", Style::Quiet),
        State::Paused { .. } => ("‖", Style::Quiet),
        State::ReadOnly => ("·", Style::Quiet),
        _ => ("◆", Style::Broken),
    }
}

fn line(said: &Said, out: &Out) -> Option<String> {
    let (at, (sign, style), name, words) = match said {
        Said::Ready { .. } => return None,
        Said::State { at, team, state, sentence, .. } => (at, sign(state), team.clone(), visible(sentence)),
        Said::Agent { at, root, harness, turn } => {
            let words = format!("{} · {}", words::turn(*turn), words::harness(harness));
            (at, words::turn_sign(*turn), root.clone(), words)
        }
    };
    let time = out.paint(Style::Quiet, &out.time(*at, "%H:%M:%S"));
    let name = out.paint(Style::Strong, &visible(&name));
    Some(format!("{time}  {}  {name}  {words}", out.paint(style, sign)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use teamlamp_wire::local::LocalSession;

    fn status(state: State, heartbeat_at: Option<Millis>) -> Status {
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
            heartbeat_at,
            streaming: true,
            polls: false,
            linked_at: None,
            credential_expires_at: None,
            clock_offset_ms: None,
            changes: Vec::new(),
        };
        Status { incarnation_id: "inc".into(), contexts: vec![context], ..Status::default() }
    }

    fn json(said: Vec<Said>) -> Vec<String> {
        said.iter().map(|said| serde_json::to_string(said).unwrap()).collect()
    }

    #[test]
    fn the_ready_line_comes_with_the_first_answered_heartbeat_and_each_state_once() {
        let mut told = Told::default();
        assert_eq!(told.news(&status(State::Connecting, None), 5).len(), 1);
        assert!(!told.ready);
        let online = json(told.news(&status(State::Online, Some(1)), 6));
        assert_eq!(online[0], r#"{"ready":true,"machine_id":"mach_1","incarnation_id":"inc"}"#);
        assert_eq!(
            online[1],
            r#"{"at":34000000,"context":"acme-1","team":"Acme","state":"online","sentence":"Live."}"#
        );
        assert!(told.news(&status(State::Online, Some(2)), 7).is_empty());
        let offline =
            |next| State::Offline { why: "Nothing answers.".into(), since: 8, next_try_at: Some(next) };
        assert_eq!(told.news(&status(offline(9), Some(2)), 8).len(), 1);
        assert!(told.news(&status(offline(19), Some(2)), 18).is_empty(), "another try is no other state");
    }

    #[test]
    fn lines_for_people_name_state_and_agents() {
        let mut told = Told::default();
        let mut it = status(State::Online, Some(1));
        it.sessions = vec![LocalSession {
            harness: "claude-code".into(),
            native_id: "n".into(),
            root: "billing\u{7}".into(),
            turn: Turn::WaitingApproval,
            since: Some(34_060_000),
            confirmed: true,
        }];
        let out = Out::for_test(false);
        let lines: Vec<_> = told.news(&it, 5).iter().filter_map(|said| line(said, &out)).collect();
        assert_snapshot!(lines.join("\n"), @"
        09:26:40  ■  Acme  Live.
        09:27:40  ◆  billing␇  waits for approval · Claude Code
        ");
    }
}
