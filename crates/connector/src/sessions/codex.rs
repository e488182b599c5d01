//! What the lines of a Codex rollout add up to: which thread, where, which model, what turn. Pure: it opens
//! nothing. A wait for approval is not on disk; what an open call and the writer's child processes tell
//! together is the best reading, and is marked so.

use super::harness::{TurnSeen, is_uuid};
use super::lines::Line;
use super::records::{self, Record, moment, object, one_line, text};
use super::tail::Facts;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// An approval is asked for at once; a call that a saved rule allows has its process about as soon. Until
/// this much later nobody can tell the two apart.
pub(super) const APPROVAL_SHOWS_MS: i64 = 1_500;
/// Open calls that are remembered of one turn.
const CALLS_MAX: usize = 256;

/// The facts of a rollout so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rollout {
    /// The thread: the first `session_meta` is the file's; forks replay their parent's after it.
    pub(super) id: Option<String>,
    /// The folder that the thread began in.
    pub(super) cwd: Option<PathBuf>,
    /// When the file's first record says that it began.
    pub(super) started_at: Option<Millis>,
    /// Whether a thread of another thread: not a session of its own.
    pub(super) is_subagent: bool,
    /// The model of the last turn.
    pub(super) model: Option<String>,
    /// The first prompt's first line.
    pub(super) prompt: Option<String>,
    /// The last record's time.
    pub(super) last_at: Option<Millis>,
    /// Lines of which something could not be read.
    pub(super) lost: u64,
    turn: TurnState,
    calls: BTreeMap<String, Call>,
    policy: Policy,
    gapped: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum TurnState {
    /// No record told of a turn.
    #[default]
    Untold,
    /// Records of a turn whose start was not read.
    Amid,
    Open {
        id: Option<String>,
        since: Option<Millis>,
    },
    Closed {
        since: Option<Millis>,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct Call {
    at: Option<Millis>,
    asks: Asks,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asks {
    /// Asks the person a question.
    Input,
    /// Wants to leave the sandbox, which a person allows.
    Escalation,
    /// Runs a command or changes files; older policies ask before.
    Nothing,
}

/// What the current turn's settings let the agent do unasked.
#[derive(Clone, Debug, Default, PartialEq)]
struct Policy {
    approval: Option<String>,
    /// The sandbox is off: leaving it needs no asking.
    unsandboxed: bool,
    /// Someone or something else than the person answers.
    reviewed: bool,
}

/// What the writer's processes tell about the call that is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writer {
    /// When the process that holds the thread began.
    pub(super) started_at: Option<Millis>,
    /// Whether a child of it that began after the call works in the session's folder; `None` where that
    /// can't be seen.
    pub(super) has_child: Option<bool>,
}

impl Facts for Rollout {
    fn line(&mut self, line: Line<'_>) {
        let Line::Whole(bytes) = line else {
            self.lost += 1;
            return;
        };
        let reading = records::read(bytes);
        self.lost += u64::from(reading.lost);
        if let Some(record) = reading.record {
            self.record(&record);
        }
    }

    fn identified(&self) -> bool {
        self.id.is_some()
    }

    fn gap(&mut self) {
        (self.turn, self.gapped) = (TurnState::Untold, true);
        self.calls.clear();
    }

    fn tells_turn(&self) -> bool {
        matches!(self.turn, TurnState::Open { .. } | TurnState::Closed { .. })
    }
}

impl Rollout {
    /// The earliest open call that wants to leave the sandbox and may have to be allowed by a person: the
    /// only one whose children are worth looking at.
    pub(super) fn open_escalation(&self) -> Option<Option<Millis>> {
        let asked = !self.policy.unsandboxed
            && !self.policy.reviewed
            && self.policy.approval.as_deref() != Some("never")
            && !matches!(self.turn, TurnState::Closed { .. });
        let calls = self.calls.values().filter(|c| asked && c.asks == Asks::Escalation);
        calls.map(|call| call.at).min()
    }

    /// The turn at `now`, with what its writer's processes tell.
    pub(super) fn turn(&self, writer: Writer, now: Millis) -> TurnSeen {
        let since = match &self.turn {
            TurnState::Closed { since } => return TurnSeen::known(Turn::Idle, *since),
            TurnState::Untold if self.gapped => return TurnSeen::unknown(),
            TurnState::Untold => return TurnSeen::known(Turn::Idle, self.started_at),
            TurnState::Amid => None,
            TurnState::Open { since, .. } => *since,
        };
        if let (Some(began), Some(last)) = (writer.started_at, self.last_at)
            && began > last + super::CLOCK_SLACK_MS
        {
            // A crash closes no turn, and resuming goes on with none.
            return TurnSeen::likely(Turn::Idle, Some(began));
        }
        if let Some(call) = self.calls.values().find(|c| c.asks == Asks::Input) {
            return TurnSeen::known(Turn::WaitingInput, call.at);
        }
        if let Some(asked_at) = self.open_escalation() {
            let shows = asked_at.is_some_and(|at| now >= at + APPROVAL_SHOWS_MS);
            return match writer.has_child {
                Some(false) if shows => TurnSeen::likely(Turn::WaitingApproval, asked_at),
                _ => TurnSeen::likely(Turn::Working, since),
            };
        }
        let asks_before_each = matches!(self.policy.approval.as_deref(), Some("untrusted" | "on-failure"))
            && !self.calls.is_empty();
        let confirmed = matches!(self.turn, TurnState::Open { .. }) && !asks_before_each;
        TurnSeen { turn: Turn::Working, since, confirmed }
    }

    fn record(&mut self, record: &Record) {
        let at = moment(record.get("timestamp"));
        let Some(payload) = object(record, "payload") else {
            // Before the envelope of 2025 the first line is bare, and nothing of such a file tells a turn.
            if self.id.is_none() {
                self.id = text(record, "id").filter(|id| is_uuid(id)).map(str::to_owned);
                (self.started_at, self.gapped) = (at, true);
            }
            return;
        };
        match (text(record, "type"), text(payload, "type")) {
            (Some("session_meta"), _) => return self.meta(payload, at),
            (Some("turn_context"), _) => self.context(payload),
            (Some("event_msg"), Some(kind)) => self.event(kind, payload, at),
            (Some("response_item"), Some(kind)) => self.item(kind, payload, at),
            _ => {}
        }
        self.last_at = at.or(self.last_at);
    }

    fn meta(&mut self, payload: &Record, at: Option<Millis>) {
        if self.id.is_some() {
            return;
        }
        self.id = text(payload, "id").filter(|id| is_uuid(id)).map(str::to_owned);
        self.cwd = text(payload, "cwd").map(PathBuf::from).filter(|path| path.is_absolute());
        self.started_at = moment(payload.get("timestamp")).or(at);
        self.is_subagent = text(payload, "thread_source") == Some("subagent")
            || object(payload, "source").is_some_and(|source| source.contains_key("subagent"));
    }

    fn context(&mut self, payload: &Record) {
        if let Some(model) = text(payload, "model").and_then(one_line) {
            self.model = Some(model);
        }
        let sandbox = object(payload, "sandbox_policy").and_then(|policy| text(policy, "type"));
        self.policy = Policy {
            approval: text(payload, "approval_policy").map(str::to_owned),
            unsandboxed: sandbox == Some("danger-full-access"),
            reviewed: text(payload, "approvals_reviewer").is_some_and(|who| who != "user"),
        };
    }

    fn event(&mut self, kind: &str, payload: &Record, at: Option<Millis>) {
        let id = text(payload, "turn_id");
        match kind {
            "task_started" | "turn_started" => {
                // An earlier turn that a crash left open is over by this.
                self.calls.clear();
                self.turn = TurnState::Open { id: id.map(str::to_owned), since: at };
            }
            "task_complete" | "turn_complete" | "turn_aborted" if self.closes(id) => {
                self.calls.clear();
                self.turn = TurnState::Closed { since: at };
            }
            "item_completed" => {
                let item = object(payload, "item");
                if item.and_then(|item| text(item, "type")) == Some("UserMessage") {
                    self.prompted(item.and_then(|item| item.get("content")));
                }
                self.amid();
            }
            "user_message" => {
                self.prompted(payload.get("message"));
                self.amid();
            }
            "agent_message" | "exec_command_end" | "patch_apply_end" => self.amid(),
            _ => {}
        }
    }

    fn item(&mut self, kind: &str, payload: &Record, at: Option<Millis>) {
        let call_id = text(payload, "call_id");
        match (kind, call_id) {
            ("function_call" | "custom_tool_call" | "local_shell_call", Some(id)) => {
                self.amid();
                if self.calls.len() < CALLS_MAX {
                    self.calls.insert(id.to_owned(), Call { at, asks: asks(kind, payload) });
                }
            }
            ("function_call_output" | "custom_tool_call_output", Some(id)) => {
                self.amid();
                self.calls.remove(id);
            }
            ("message", _) if text(payload, "role") == Some("user") => self.prompted(payload.get("content")),
            _ => {}
        }
    }

    /// A late end of an older turn ends nothing.
    fn closes(&self, id: Option<&str>) -> bool {
        match (&self.turn, id) {
            (TurnState::Open { id: Some(open), .. }, Some(id)) => open == id,
            (TurnState::Closed { .. }, _) => false,
            _ => true,
        }
    }

    fn amid(&mut self) {
        if self.turn == TurnState::Untold && self.gapped {
            self.turn = TurnState::Amid;
        }
    }

    fn prompted(&mut self, content: Option<&Value>) {
        if self.prompt.is_some() || self.gapped {
            return;
        }
        let said = match content {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(Value::Array(blocks)) => blocks.iter().find_map(|block| block.get("text")?.as_str()),
            _ => None,
        };
        let injected = |text: &&str| !text.starts_with('<') && !text.starts_with("# AGENTS.md");
        self.prompt = said.map(str::trim_start).filter(injected).and_then(one_line);
    }
}

/// The thread of a rollout's name, `rollout-<time>-<thread>[_<rollout>].jsonl`: the id before the `_`.
pub(super) fn thread_of(file_name: &str) -> Option<&str> {
    let rest = file_name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    // The time is as long as `2026-11-30T19-11-48` and a `-`.
    let thread = rest.get(20..56).filter(|id| is_uuid(id))?;
    let tail = &rest[56..];
    (tail.is_empty() || tail.strip_prefix('_').is_some_and(is_uuid)).then_some(thread)
}

/// When a thread was made: its id is a UUIDv7. A later file of the same thread knows only its own beginning.
pub(super) fn made_at(thread: &str) -> Option<Millis> {
    let digits: String = thread.chars().filter(|c| *c != '-').collect();
    let is_v7 = digits.as_bytes().get(12) == Some(&b'7');
    Millis::from_str_radix(digits.get(..12)?, 16).ok().filter(|_| is_v7)
}

fn asks(kind: &str, payload: &Record) -> Asks {
    let name = text(payload, "name").unwrap_or_default();
    if name == "request_user_input" {
        return Asks::Input;
    }
    let escalates = match kind {
        // The arguments are JSON inside of a string.
        "function_call" => text(payload, "arguments")
            .and_then(|arguments| records::read(arguments.as_bytes()).record)
            .is_some_and(|arguments| text(&arguments, "sandbox_permissions") == Some("require_escalated")),
        // This input is free text, which for a patch is somebody's source code.
        "custom_tool_call" if name != "apply_patch" => {
            text(payload, "input").is_some_and(|input| input.contains("\"require_escalated\""))
        }
        _ => false,
    };
    if escalates { Asks::Escalation } else { Asks::Nothing }
}

#[cfg(test)]
mod tests;
