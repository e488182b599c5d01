//! A stand-in for a coding agent: a real process that writes the files that Claude Code or Codex writes,
//! line by line and each line in two pieces, and holds what they hold. Which of the two it is follows from
//! the name that it is started under (`claude` or `codex`), as liveness sees it.
//!
//! `claude HOME FOLDER SESSION` reads one command a line from its input and answers `ok` when its files say
//! so: `prompt TEXT`, `ask` (wait for an approval), `answer` (end the turn), `half` and `rest` (a line of
//! which the end comes later), `quit`. Killed, it leaves everything behind as a killed agent does.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use teamlamp_clock::Clock;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

fn main() -> Result<()> {
    let words: Vec<PathBuf> = std::env::args_os().map(PathBuf::from).collect();
    let [program, home, folder, session] = words.as_slice() else {
        bail!("usage: claude|codex HOME FOLDER SESSION");
    };
    let session = session.to_string_lossy().into_owned();
    let name = program.file_name().unwrap_or_default();
    let mut agent: Box<dyn Agent> = match name.to_str() {
        Some("claude") => Box::new(Claude::start(home, folder, session)?),
        Some("codex") => Box::new(Codex::start(home, folder, session)?),
        _ => bail!("start this under the name claude or codex"),
    };
    println!("ok");
    let mut rest = Vec::new();
    for command in std::io::stdin().lock().lines() {
        let command = command?;
        match command.split_once(' ').unwrap_or((&command, "")) {
            ("prompt", text) => agent.prompt(text)?,
            ("ask", _) => agent.ask()?,
            ("answer", _) => agent.answer()?,
            ("half", _) => rest = agent.half()?,
            ("rest", _) => append(agent.file(), &std::mem::take(&mut rest))?,
            ("quit", _) => {
                agent.quit()?;
                println!("ok");
                return Ok(());
            }
            (other, _) => bail!("{other} is no command"),
        }
        println!("ok");
    }
    agent.quit()
}

/// What a coding agent does to its files.
trait Agent {
    fn prompt(&mut self, text: &str) -> Result<()>;
    fn ask(&mut self) -> Result<()>;
    fn answer(&mut self) -> Result<()>;
    /// Where its lines go.
    fn file(&self) -> &Path;
    /// The line that ends a turn.
    fn last_line(&self) -> Value;
    fn quit(&mut self) -> Result<()>;

    /// Writes the first half of the line that ends the turn, and gives the other half.
    fn half(&mut self) -> Result<Vec<u8>> {
        let line = format!("{}\n", self.last_line());
        let (first, rest) = line.as_bytes().split_at(line.len() / 2);
        append(self.file(), first)?;
        Ok(rest.to_vec())
    }
}

fn now() -> String {
    let nanos = i128::from(Clock::system().now_ms()) * 1_000_000;
    let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(&Rfc3339).unwrap_or_default()
}

fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(bytes).with_context(|| format!("writing {}", path.display()))
}

/// Writes a line as the system may cut it: in two pieces.
fn write_line(path: &Path, line: &Value) -> Result<()> {
    let line = format!("{line}\n");
    let (first, rest) = line.as_bytes().split_at(line.len() / 3);
    append(path, first)?;
    append(path, rest)
}

struct Claude {
    registry: PathBuf,
    transcript: PathBuf,
    folder: PathBuf,
    session: String,
}

impl Claude {
    fn start(home: &Path, folder: &Path, session: String) -> Result<Self> {
        let root = home.join(".claude");
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let project: String = folder.to_string_lossy().chars().map(plain).collect();
        let project = root.join("projects").join(project);
        std::fs::create_dir_all(&project)?;
        std::fs::create_dir_all(root.join("sessions"))?;
        let it = Self {
            registry: root.join("sessions").join(format!("{}.json", std::process::id())),
            transcript: project.join(format!("{session}.jsonl")),
            folder: folder.to_owned(),
            session,
        };
        it.register("idle", None)?;
        Ok(it)
    }

    /// Rewrites the registry's entry by rename, as the program does.
    fn register(&self, status: &str, waiting_for: Option<&str>) -> Result<()> {
        let now_ms = Clock::system().now_ms();
        let mut entry = json!({
            "pid": std::process::id(), "sessionId": self.session, "cwd": self.folder, "startedAt": now_ms,
            "procStart": start_ticks()?, "version": "2.1.240", "kind": "interactive", "entrypoint": "cli",
            "status": status, "updatedAt": now_ms, "statusUpdatedAt": now_ms,
        });
        if let Some(what) = waiting_for {
            entry["waitingFor"] = json!(what);
        }
        let beside = self.registry.with_extension("json.tmp");
        std::fs::write(&beside, entry.to_string())?;
        Ok(std::fs::rename(beside, &self.registry)?)
    }

    fn line(&self, kind: &str, message: Value) -> Value {
        json!({
            "type": kind, "isSidechain": false, "message": message, "timestamp": now(), "userType": "external",
            "cwd": self.folder, "sessionId": self.session, "version": "2.1.240", "uuid": now(),
        })
    }
}

impl Agent for Claude {
    fn prompt(&mut self, text: &str) -> Result<()> {
        write_line(&self.transcript, &self.line("user", json!({"role": "user", "content": text})))?;
        let call = json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}});
        let message = json!({"role": "assistant", "model": "claude-example-1", "content": [call],
            "stop_reason": "tool_use"});
        write_line(&self.transcript, &self.line("assistant", message))?;
        self.register("busy", None)
    }

    fn ask(&mut self) -> Result<()> {
        self.register("waiting", Some("permission prompt"))
    }

    fn answer(&mut self) -> Result<()> {
        write_line(&self.transcript, &self.last_line())?;
        self.register("idle", None)
    }

    fn file(&self) -> &Path {
        &self.transcript
    }

    fn last_line(&self) -> Value {
        let said = json!([{"type": "text", "text": "Done."}]);
        let message = json!({"role": "assistant", "model": "claude-example-1", "content": said,
            "stop_reason": "end_turn"});
        self.line("assistant", message)
    }

    fn quit(&mut self) -> Result<()> {
        Ok(std::fs::remove_file(&self.registry)?)
    }
}

struct Codex {
    rollout: PathBuf,
    lock_path: PathBuf,
    /// Held for as long as the thread is.
    _lock: File,
    folder: PathBuf,
    thread: String,
    turn: u32,
}

impl Codex {
    fn start(home: &Path, folder: &Path, thread: String) -> Result<Self> {
        let root = home.join(".codex");
        let date = now().get(..10).unwrap_or("2026-11-30").replace('-', "/");
        let sessions = root.join("sessions").join(date);
        std::fs::create_dir_all(&sessions)?;
        std::fs::create_dir_all(root.join("thread-writer-locks"))?;
        let lock_path = root.join("thread-writer-locks").join(format!("{thread}.lock"));
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&lock_path)?;
        lock.lock()?;
        let time = now().get(..19).unwrap_or("2026-11-30T00:00:00").replace(':', "-");
        let rollout = sessions.join(format!("rollout-{time}-{thread}.jsonl"));
        Ok(Self { rollout, lock_path, _lock: lock, folder: folder.to_owned(), thread, turn: 0 })
    }

    fn write(&self, kind: &str, payload: Value) -> Result<()> {
        write_line(&self.rollout, &json!({"timestamp": now(), "type": kind, "payload": payload}))
    }
}

impl Agent for Codex {
    fn prompt(&mut self, text: &str) -> Result<()> {
        if self.turn == 0 {
            let meta = json!({"id": self.thread, "timestamp": now(), "cwd": self.folder,
                "originator": "codex-tui", "cli_version": "0.171.0", "source": "cli"});
            self.write("session_meta", meta)?;
        }
        self.turn += 1;
        let turn = format!("turn-{}", self.turn);
        self.write("event_msg", json!({"type": "task_started", "turn_id": turn}))?;
        let settings = json!({"turn_id": turn, "cwd": self.folder, "approval_policy": "on-request",
            "sandbox_policy": {"type": "workspace-write"}, "model": "gpt-example"});
        self.write("turn_context", settings)?;
        self.write("event_msg", json!({"type": "user_message", "message": text}))
    }

    fn ask(&mut self) -> Result<()> {
        let arguments = json!({"cmd": "make", "sandbox_permissions": "require_escalated"}).to_string();
        self.write(
            "response_item",
            json!({"type": "function_call", "name": "exec_command",
            "arguments": arguments, "call_id": "call_1"}),
        )
    }

    fn answer(&mut self) -> Result<()> {
        self.write(
            "response_item",
            json!({"type": "function_call_output", "call_id": "call_1", "output": "ok"}),
        )?;
        write_line(&self.rollout, &self.last_line())
    }

    fn file(&self) -> &Path {
        &self.rollout
    }

    fn last_line(&self) -> Value {
        json!({"timestamp": now(), "type": "event_msg", "payload":
            {"type": "task_complete", "turn_id": format!("turn-{}", self.turn), "last_agent_message": "Done."}})
    }

    fn quit(&mut self) -> Result<()> {
        Ok(std::fs::remove_file(&self.lock_path)?)
    }
}

/// When this process began, in the kernel's ticks since boot: field 22 of its `stat`.
fn start_ticks() -> Result<String> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').context("a stat line")?.1;
    Ok(after_name.split_whitespace().nth(19).context("field 22")?.to_owned())
}
