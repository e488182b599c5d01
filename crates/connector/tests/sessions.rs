//! The watchers on a real disk with real processes: files grow the way a harness writes them, and agents are
//! killed the way they crash.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use teamlamp_clock::{Clock, Tasks};
use teamlamp_connector::sessions::{Found, FoundSession, HarnessHomes, Sessions, SessionsConfig};
use teamlamp_wire::session::Turn;

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "01a00000-0000-7000-8000-000000000002";
/// Later than any process that a test starts: a turn that is older than its process is over.
const LATER: &str = "2099-01-01T00:00:00.000Z";

/// A person's machine: a home, a project in it, and the watchers.
struct Machine {
    home: tempfile::TempDir,
    tasks: Tasks,
    sessions: Sessions,
}

/// A program that does nothing until it is killed.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Agent {
    /// SIGKILL, and not yet collected by its parent: what a terminal's shell may leave for a while.
    fn kill(&mut self) {
        self.0.kill().unwrap();
    }
    fn pid(&self) -> u32 {
        self.0.id()
    }
    /// The process's start as the kernel counts it.
    fn start(&self) -> String {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().to_owned()
    }
}

impl Machine {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("acme")).unwrap();
        let (homes, tasks) = (HarnessHomes::of(home.path(), None, None), Tasks::new());
        let config = SessionsConfig { homes, root_salt: "salt".into() };
        let sessions = Sessions::start(config, &Clock::system(), &tasks);
        assert!(sessions.settled().await.sessions.is_empty());
        Self { home, tasks, sessions }
    }

    fn project(&self) -> PathBuf {
        self.home.path().join("acme")
    }

    fn path(&self, below: &str) -> PathBuf {
        let path = self.home.path().join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// Starts a program of that name in the project; with a lock, it holds that from the start.
    fn agent(&self, name: &str, lock: Option<&Path>) -> Agent {
        let program = self.path(&format!("bin/{name}"));
        fs::write(&program, "#!/bin/sh\necho ready\nread never\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = match lock {
            None => Command::new(program),
            Some(lock) => {
                let mut command = Command::new("flock");
                command.args(["--exclusive", "--no-fork"]).arg(lock).arg(program);
                command
            }
        };
        command.current_dir(self.project()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Agent(child)
    }

    /// Waits until the session is so, at most 20 s.
    async fn until(&self, id: &str, is_so: impl Fn(&FoundSession) -> bool) -> FoundSession {
        let one = |found: &Found| {
            found.sessions.iter().find(|(key, _)| key.native_id == id).map(|(_, session)| session.clone())
        };
        let mut found = self.sessions.subscribe();
        let waited = found.wait_for(|found| one(found).is_some_and(|session| is_so(&session)));
        match Clock::system().within(Duration::from_secs(20), waited).await {
            Some(found) => one(&found.unwrap()).unwrap(),
            None => panic!("not told within 20 s; what is told: {:?}", self.sessions.now()),
        }
    }

    async fn until_turn(&self, id: &str, turn: Turn) -> FoundSession {
        self.until(id, |session| session.turn == turn).await
    }

    async fn stop(self) {
        assert!(self.tasks.shutdown(Duration::from_secs(5)).await.is_empty());
    }
}

fn append(path: &Path, bytes: &str) {
    File::options().append(true).create(true).open(path).unwrap().write_all(bytes.as_bytes()).unwrap();
}

fn entry(machine: &Machine, agent: &Agent, status: &str, waiting_for: Option<&str>) -> String {
    json!({"pid":agent.pid(),"procStart":agent.start(),"sessionId":ONE,"cwd":machine.project(),"status":status,
           "waitingFor":waiting_for,"statusUpdatedAt":Clock::system().now_ms()})
    .to_string()
}

fn record(kind: &str, payload: Value) -> String {
    json!({"timestamp":LATER,"type":kind,"payload":payload}).to_string() + "\n"
}

fn meta(machine: &Machine) -> String {
    record("session_meta", json!({"id":TWO,"cwd":machine.project(),"source":"cli"}))
}

fn event(kind: &str) -> String {
    record("event_msg", json!({"type":kind,"turn_id":"t"}))
}

/// The rollout of the thread and its lock, in a home that Codex made.
fn codex_files(machine: &Machine) -> (PathBuf, PathBuf) {
    let rollout = format!(".codex/sessions/2026/08/20/rollout-2026-08-20T11-00-00-{TWO}.jsonl");
    (machine.path(&rollout), machine.path(&format!(".codex/thread-writer-locks/{TWO}.lock")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claude_code_session_from_its_start_to_its_kill() {
    let machine = Machine::start().await;
    let mut agent = machine.agent("claude", None);
    let registry = machine.path(&format!(".claude/sessions/{}.json", agent.pid()));
    fs::write(&registry, entry(&machine, &agent, "idle", None)).unwrap();
    let session = machine.until_turn(ONE, Turn::Idle).await;
    assert_eq!((session.live, session.pid, session.root.name.as_str()), (true, Some(agent.pid()), "acme"));

    let transcript = machine.path(&format!(".claude/projects/-any-name/{ONE}.jsonl"));
    let message = json!({"model":"claude-example-1","stop_reason":null});
    let line = json!({"type":"assistant","cwd":machine.project(),"message":message}).to_string();
    append(&transcript, &line[..30]);
    fs::write(&registry, entry(&machine, &agent, "busy", None)).unwrap();
    assert_eq!(machine.until_turn(ONE, Turn::Working).await.model, None);
    append(&transcript, &format!("{}\nnull\n", &line[30..]));
    machine.until(ONE, |session| session.model.as_deref() == Some("claude-example-1")).await;

    fs::write(&registry, entry(&machine, &agent, "waiting", Some("permission prompt"))).unwrap();
    let session = machine.until_turn(ONE, Turn::WaitingApproval).await;
    assert!(session.confirmed && session.since.is_some());

    agent.kill();
    let session = machine.until_turn(ONE, Turn::Ended).await;
    assert_eq!((session.live, session.pid), (false, None));
    assert!(registry.exists(), "nothing of the harness's is touched");
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claude_code_session_without_a_registry_is_found_by_its_process() {
    let machine = Machine::start().await;
    let folder = machine.project();
    let project = folder.to_str().unwrap().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let mut agent = machine.agent("claude", None);
    let transcript = machine.path(&format!(".claude/projects/{project}/{ONE}.jsonl"));
    let prompt = json!({"type":"user","cwd":folder,"timestamp":LATER,"message":{"content":"Go"}});
    append(&transcript, &format!("{prompt}\n"));
    let session = machine.until_turn(ONE, Turn::Working).await;
    assert_eq!((session.confirmed, session.pid), (false, Some(agent.pid())));
    append(&transcript, "{\"type\":\"system\",\"subtype\":\"turn_duration\"}\n");
    machine.until_turn(ONE, Turn::Idle).await;
    agent.kill();
    machine.until_turn(ONE, Turn::Ended).await;
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_codex_session_line_by_line_to_its_kill_and_its_resumption() {
    let machine = Machine::start().await;
    let (rollout, lock) = codex_files(&machine);
    let mut agent = machine.agent("codex", Some(&lock));
    let session = machine.until_turn(TWO, Turn::Idle).await;
    assert_eq!((session.pid, session.root.name.as_str()), (Some(agent.pid()), "acme"));

    for line in [meta(&machine), event("task_started")] {
        let half = line.len() / 2;
        append(&rollout, &line[..half]);
        append(&rollout, &line[half..]);
    }
    machine.until_turn(TWO, Turn::Working).await;
    append(&rollout, &record("response_item", json!({"type":"message","text":"x".repeat(5 << 20)})));
    append(&rollout, &event("task_complete"));
    machine.until_turn(TWO, Turn::Idle).await;
    append(&rollout, &event("task_started"));
    machine.until_turn(TWO, Turn::Working).await;
    agent.kill();
    machine.until_turn(TWO, Turn::Ended).await;

    let again = machine.agent("codex", Some(&lock));
    let session = machine.until(TWO, |session| session.live).await;
    assert_eq!(session.pid, Some(again.pid()));
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_is_cut_replaced_or_gone_is_read_as_it_is_now() {
    let machine = Machine::start().await;
    let (rollout, lock) = codex_files(&machine);
    let _agent = machine.agent("codex", Some(&lock));
    let (meta, started, ended) = (meta(&machine), event("task_started"), event("task_complete"));
    append(&rollout, &format!("{meta}{started}"));
    machine.until_turn(TWO, Turn::Working).await;
    fs::write(&rollout, &meta).unwrap();
    machine.until_turn(TWO, Turn::Idle).await;
    append(&rollout, &started);
    machine.until_turn(TWO, Turn::Working).await;
    let other = rollout.with_extension("tmp");
    fs::write(&other, format!("{meta}{started}{ended}")).unwrap();
    fs::rename(&other, &rollout).unwrap();
    machine.until_turn(TWO, Turn::Idle).await;
    fs::remove_file(&rollout).unwrap();
    fs::write(&rollout, format!("{meta}{started}")).unwrap();
    machine.until_turn(TWO, Turn::Working).await;
    machine.stop().await;
}
