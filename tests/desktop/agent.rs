//! A Claude Code session on a computer: a live process, its registry file and its transcript, written as
//! the program writes them: line by line, a line in two pieces, the registry replaced as a whole.

use crate::computer::Computer;
use crate::processes::Running;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use teamlamp_clock::Clock;

/// A running session.
pub(crate) struct Agent {
    process: Running,
    id: String,
    folder: PathBuf,
    registry: PathBuf,
    transcript: PathBuf,
    started_at: i64,
    clock: Clock,
}

impl Agent {
    /// The person starts Claude Code in a project.
    pub(crate) fn start(computer: &Computer, project: &str) -> Self {
        let clock = Clock::system();
        let folder = computer.home().join("code").join(project);
        let claude = computer.home().join(".claude");
        let bin = computer.home().join("bin");
        for path in [&folder, &claude.join("sessions"), &bin] {
            fs::create_dir_all(path).expect("the home can be written");
        }
        // A process that is called what the program is called, and does nothing.
        let program = bin.join("claude");
        if !program.exists() {
            fs::copy("/bin/sleep", &program).expect("there is a program that waits");
        }
        let mut command = computer.command(&program);
        let process = Running::start(command.arg("600").current_dir(&folder), &computer.log_path());
        let id = format!("11111111-1111-4111-8111-{:012x}", process.pid());
        let projects = claude.join("projects").join(project_name(&folder));
        fs::create_dir_all(&projects).expect("the home can be written");
        let registry = claude.join("sessions").join(format!("{}.json", process.pid()));
        let transcript = projects.join(format!("{id}.jsonl"));
        let started_at = clock.now_ms();
        let agent = Self { process, id, folder, registry, transcript, started_at, clock };
        agent.says("idle", None);
        agent
    }

    /// The registry says another status, as the program does: the whole file anew.
    pub(crate) fn says(&self, status: &str, waiting_for: Option<&str>) {
        let now = self.clock.now_ms();
        let mut entry = json!({
            "pid": self.process.pid(), "sessionId": self.id, "cwd": self.folder, "startedAt": self.started_at,
            "procStart": proc_start(self.process.pid()), "version": "2.1.240", "kind": "interactive",
            "entrypoint": "cli", "status": status, "updatedAt": now, "statusUpdatedAt": now,
        });
        if let Some(what) = waiting_for {
            entry["waitingFor"] = json!(what);
        }
        let half = self.registry.with_extension("json.tmp");
        fs::write(&half, entry.to_string()).expect("the registry can be written");
        fs::rename(&half, &self.registry).expect("the registry can be written");
    }

    /// The person asks something: the first lines of a turn, the last one in two pieces.
    pub(crate) fn prompt(&self, text: &str) {
        self.write(&json!({"type": "permission-mode", "permissionMode": "default"}));
        self.write(&json!({"parentUuid": null, "type": "user", "uuid": "u-1", "promptSource": "typed",
            "message": {"role": "user", "content": text}}));
        self.says("busy", None);
        let line = self.line(&json!({"parentUuid": "u-1", "type": "assistant", "uuid": "a-1", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-example-1", "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "cargo test"}}]}}));
        let (head, tail) = line.split_at(line.len() / 2);
        self.append(head);
        self.append(tail);
    }

    /// The agent's turn is over.
    pub(crate) fn finish(&self) {
        self.write(&json!({"parentUuid": "u-1", "type": "assistant", "uuid": "a-2", "message": {
            "id": "msg_2", "type": "message", "role": "assistant", "model": "claude-example-1", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Done."}]}}));
        self.says("idle", None);
    }

    /// The process is killed: nothing more is written, and nothing is cleaned up.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    fn write(&self, record: &Value) {
        self.append(&self.line(record));
    }

    fn line(&self, record: &Value) -> String {
        let mut record = record.clone();
        record["sessionId"] = json!(self.id);
        record["cwd"] = json!(self.folder);
        record["timestamp"] = json!(timestamp(self.clock.now_ms()));
        record["version"] = json!("2.1.240");
        format!("{record}\n")
    }

    fn append(&self, text: &str) {
        let mut file =
            File::options().create(true).append(true).open(&self.transcript).expect("it can be written");
        file.write_all(text.as_bytes()).expect("it can be written");
        file.sync_all().expect("it can be written");
    }
}

/// A project's folder name: everything but ASCII letters and digits is a dash.
fn project_name(folder: &Path) -> String {
    folder.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// What tells a process from a later one of its number: the start in ticks since boot.
fn proc_start(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("a stat line");
    fields.split_whitespace().nth(19).expect("the 22nd field").to_owned()
}

/// A moment as the program writes it (RFC 3339, UTC).
fn timestamp(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Civil date from days since the epoch (H. Hinnant, chrono-compatible date algorithms).
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (h, m, s, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{milli:03}Z")
}
