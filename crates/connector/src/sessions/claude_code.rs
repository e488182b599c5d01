//! What the lines of a Claude Code transcript add up to: where, which model, what title, what turn. Pure:
//! it opens nothing. The transcript alone can't tell a wait for permission from work (the call reaches the
//! disk with its result), so `working` read here is never confirmed.

use super::harness::TurnSeen;
use super::lines::Line;
use super::records::{self, Record, is_true, moment, object, one_line, text};
use super::tail::Facts;
use serde_json::Value;
use std::path::PathBuf;
use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// The facts of a transcript so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Transcript {
    /// The folder of the first line that names one.
    pub(super) cwd: Option<PathBuf>,
    /// The last model that was one.
    pub(super) model: Option<String>,
    /// The first line's time.
    pub(super) started_at: Option<Millis>,
    /// The last conversation line's time.
    pub(super) last_at: Option<Millis>,
    /// Lines of which something could not be read.
    pub(super) lost: u64,
    titles: Titles,
    seen: Option<TurnSeen>,
    /// The call that asks the person, while it has no result.
    question: Option<String>,
    /// What was before a slash command that may turn out to be no prompt.
    before_command: Option<Option<TurnSeen>>,
    gapped: bool,
}

/// Titles, the better ones first.
#[derive(Clone, Debug, Default, PartialEq)]
struct Titles {
    custom: Option<String>,
    ai: Option<String>,
    summary: Option<String>,
    prompt: Option<String>,
}

/// How a user line's text counts.
enum Said {
    Interrupt,
    Command,
    CommandOutput,
    Prompt,
}

impl Said {
    fn of(text: &str) -> Self {
        let text = text.trim_start();
        if text.starts_with("[Request interrupted by user") {
            Self::Interrupt
        } else if text.starts_with("<command-") {
            Self::Command
        } else if text.starts_with("<local-command-") || text.starts_with("<bash-") {
            Self::CommandOutput
        } else {
            Self::Prompt
        }
    }
}

impl Facts for Transcript {
    fn line(&mut self, line: Line<'_>) {
        let Line::Whole(bytes) = line else {
            // Whatever it was, it may have changed the turn.
            self.lost += 1;
            if let Some(seen) = &mut self.seen {
                seen.confirmed = false;
            }
            return;
        };
        let reading = records::read(bytes);
        self.lost += u64::from(reading.lost);
        if let Some(record) = reading.record {
            self.record(&record);
        }
    }

    fn identified(&self) -> bool {
        self.cwd.is_some()
    }

    fn gap(&mut self) {
        (self.seen, self.question, self.before_command, self.gapped) = (None, None, None, true);
    }

    fn tells_turn(&self) -> bool {
        self.seen.is_some()
    }
}

impl Transcript {
    /// The best title.
    pub(super) fn title(&self) -> Option<&str> {
        let titles = &self.titles;
        [&titles.custom, &titles.ai, &titles.summary, &titles.prompt].into_iter().find_map(|t| t.as_deref())
    }

    /// The turn, given when the process that writes now began, where that is known: a turn left open before
    /// that was another process's, and does not go on.
    pub(super) fn turn(&self, process_started_at: Option<Millis>) -> TurnSeen {
        let Some(seen) = self.seen else {
            let nothing_yet = TurnSeen::likely(Turn::Idle, self.started_at);
            return if self.gapped { TurnSeen::unknown() } else { nothing_yet };
        };
        match (process_started_at, self.last_at) {
            (Some(began), Some(last)) if seen.turn != Turn::Idle && began > last + super::CLOCK_SLACK_MS => {
                TurnSeen::likely(Turn::Idle, Some(began))
            }
            _ => seen,
        }
    }

    fn record(&mut self, record: &Record) {
        // A sub-agent's lines are inside its parent's file in older versions: they are not the parent's.
        if is_true(record, "isSidechain") {
            return;
        }
        let at = moment(record.get("timestamp"));
        if self.cwd.is_none() {
            self.cwd = text(record, "cwd").map(PathBuf::from).filter(|p| p.is_absolute());
        }
        if self.started_at.is_none() {
            self.started_at = at;
        }
        match text(record, "type") {
            Some("user") => self.user(record, at),
            Some("assistant") => self.assistant(record, at),
            Some("system") => self.system(record, at),
            Some("custom-title") => set(&mut self.titles.custom, record, "customTitle"),
            Some("ai-title") => set(&mut self.titles.ai, record, "aiTitle"),
            Some("summary") => set(&mut self.titles.summary, record, "summary"),
            // Everything else is context, metadata, or written long after the turn: not activity.
            _ => {}
        }
    }

    fn user(&mut self, record: &Record, at: Option<Millis>) {
        let unsaid = ["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"];
        if unsaid.into_iter().any(|flag| is_true(record, flag)) {
            return;
        }
        let Some(content) = object(record, "message").and_then(|m| m.get("content")) else { return };
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let said = content.as_str().or_else(|| blocks.iter().find_map(|b| b.get("text")?.as_str()));
        self.last_at = at.or(self.last_at);
        match said.map(Said::of) {
            Some(Said::Interrupt) => self.idle(at),
            _ if blocks.iter().any(|b| kind(b) == Some("tool_result")) => self.results(blocks, at),
            Some(Said::Command) => {
                self.before_command = Some(self.seen);
                self.prompt(at);
            }
            Some(Said::CommandOutput) => {
                if let Some(before) = self.before_command.take() {
                    self.seen = before;
                }
            }
            Some(Said::Prompt) | None => {
                let text = said.filter(|t| !t.trim_start().starts_with('<'));
                if self.titles.prompt.is_none() && !self.gapped {
                    self.titles.prompt = text.and_then(one_line);
                }
                self.prompt(at);
            }
        }
    }

    fn assistant(&mut self, record: &Record, at: Option<Millis>) {
        let Some(message) = object(record, "message") else { return };
        (self.last_at, self.before_command) = (at.or(self.last_at), None);
        if let Some(model) = text(message, "model").filter(|m| *m != "<synthetic>") {
            self.model = one_line(model);
        }
        let ended = matches!(
            text(message, "stop_reason"),
            Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal")
        );
        if ended || is_true(record, "isApiErrorMessage") {
            return self.idle(at);
        }
        let blocks = message.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let asks = blocks.iter().filter(|b| kind(b) == Some("tool_use")).find_map(|block| {
            let turn = match block.get("name")?.as_str()? {
                "AskUserQuestion" => Turn::WaitingInput,
                "ExitPlanMode" => Turn::WaitingApproval,
                _ => return None,
            };
            Some((turn, block.get("id")?.as_str()?.to_owned()))
        });
        match asks {
            Some((turn, id)) => {
                self.question = Some(id);
                self.seen = Some(TurnSeen::known(turn, at));
            }
            None if self.question.is_none() => self.working(at),
            None => {}
        }
    }

    fn system(&mut self, record: &Record, at: Option<Millis>) {
        match text(record, "subtype") {
            Some("turn_duration" | "stop_hook_summary") => self.idle(at),
            Some("api_error") => self.working(at),
            _ => return,
        }
        self.last_at = at.or(self.last_at);
    }

    fn results(&mut self, blocks: &[Value], at: Option<Millis>) {
        let answered = |id: &String| {
            blocks.iter().any(|b| b.get("tool_use_id").and_then(Value::as_str) == Some(id.as_str()))
        };
        match &self.question {
            Some(id) if !answered(id) => {}
            Some(_) => {
                self.question = None;
                self.seen = Some(TurnSeen::likely(Turn::Working, at));
            }
            None => self.working(at),
        }
    }

    /// A prompt begins a turn, also where the one before was never closed.
    fn prompt(&mut self, at: Option<Millis>) {
        self.question = None;
        self.seen = Some(TurnSeen::likely(Turn::Working, at));
    }

    /// A line that goes on with a turn; what caused it is further up, perhaps further than was read.
    fn working(&mut self, at: Option<Millis>) {
        let since = match self.seen {
            Some(seen) if seen.turn == Turn::Working => seen.since,
            Some(_) => at,
            None => None,
        };
        self.seen = Some(TurnSeen::likely(Turn::Working, since));
    }

    fn idle(&mut self, at: Option<Millis>) {
        self.question = None;
        let since = match self.seen {
            Some(seen) if seen.turn == Turn::Idle => seen.since,
            _ => at,
        };
        self.seen = Some(TurnSeen::known(Turn::Idle, since));
    }
}

fn kind(block: &Value) -> Option<&str> {
    block.get("type")?.as_str()
}

fn set(title: &mut Option<String>, record: &Record, field: &str) {
    if let Some(new) = text(record, field).and_then(one_line) {
        *title = Some(new);
    }
}

#[cfg(test)]
mod tests;
