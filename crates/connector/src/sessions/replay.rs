//! Recordings of real Codex sessions, replayed: files grow at the moments they grew, processes live as long
//! as they lived, and the scene is looked at when the running watcher would look. What it says is compared
//! with what was true.

use super::fake_proc::{FakeProc, written_at};
use super::found::{HarnessHomes, SessionsConfig};
use super::liveness::Liveness;
use super::scene::Scene;
use super::{DEBOUNCE_MS, until_next_look_ms};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// A machine's uptime when a recording begins.
const UPTIME_MS: Millis = 10_000_000;
/// How long is watched after the last thing that happened.
const AFTER_MS: Millis = 10_000;

/// A recording that is being replayed.
struct Replay {
    name: String,
    recording: PathBuf,
    home: PathBuf,
    proc: FakeProc,
    lines: BTreeMap<String, Vec<String>>,
    next_pid: u32,
    terminal: Option<u32>,
    daemon: Option<u32>,
    child: Option<u32>,
    /// The thread on the screen.
    thread: Option<String>,
    truth: String,
}

impl Replay {
    fn new(recording: &Path, folder: &Path, begins_at: Millis) -> Self {
        let home = folder.join("codex");
        fs::create_dir_all(home.join("thread-writer-locks")).unwrap();
        fs::create_dir_all(home.join("app-server-daemon")).unwrap();
        Self {
            name: recording.file_name().unwrap().to_str().unwrap().to_owned(),
            recording: recording.to_owned(),
            home,
            proc: FakeProc::new(folder.join("proc"), begins_at - UPTIME_MS),
            lines: BTreeMap::new(),
            next_pid: 100,
            terminal: None,
            daemon: None,
            child: None,
            thread: None,
            truth: "none".into(),
        }
    }

    fn start(&mut self, parent: u32, arguments: &[&str], at: Millis) -> u32 {
        self.next_pid += 1;
        self.proc.start(self.next_pid, parent, arguments, Path::new("/home/dev/acme"), at);
        self.next_pid
    }

    fn end(&mut self, pid: Option<u32>) {
        if let Some(pid) = pid {
            self.proc.end(pid);
        }
    }

    fn holder(&self) -> Option<u32> {
        self.daemon.or(self.terminal)
    }

    fn end_child(&mut self) {
        let child = self.child.take();
        self.end(child);
    }

    fn start_child(&mut self, at: Millis) {
        self.end_child();
        let holder = self.holder().unwrap();
        self.child = Some(self.start(holder, &["sleep", "3"], at));
    }

    fn act(&mut self, act: &str, expect: &Value, at: Millis) {
        if act.starts_with("start terminal") || act.starts_with("codex exec") {
            self.terminal = Some(self.start(1, &["/usr/bin/codex"], at));
        } else if act.contains("the daemon") {
            self.end_child();
            let daemon = self.daemon.take();
            self.end(daemon);
        } else if act == "approve" {
            self.start_child(at);
        }
        if expect["process"] == "dead" {
            if self.daemon.is_none() {
                self.end_child();
            }
            let terminal = self.terminal.take();
            self.end(terminal);
        }
        self.truth = expect["turn"].as_str().unwrap().to_owned();
    }

    fn file(&mut self, what: &str, path: &str, at: Millis) {
        let file = self.home.join(path.strip_prefix(".codex/").unwrap_or(path));
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "daemon.pid" && self.daemon.is_none() {
            let daemon =
                self.start(1, &["/x/codex", "app-server", "--listen", "unix://", "--managed-daemon"], at);
            self.daemon = Some(daemon);
            let identity =
                json!({"bootId":"00000000-0000-4000-8000-000000000000","startTicks":self.proc.ticks(at)});
            fs::write(file, json!({"pid":daemon,"processIdentity":identity}).to_string()).unwrap();
        } else if let Some(thread) =
            name.strip_suffix(".lock").filter(|_| path.contains("thread-writer-locks"))
        {
            if what == "gone" {
                self.proc.unlock(&file);
                fs::remove_file(file).unwrap();
            } else if super::harness::is_uuid(thread) {
                fs::write(&file, "").unwrap();
                written_at(&file, at);
                self.proc.lock(&file, self.holder().unwrap());
                self.thread = Some(thread.to_owned());
            }
        } else if name.starts_with("rollout-") && what == "new" {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
    }

    /// The next line of a recorded file.
    fn disk(&mut self, name: &str, at: Millis) {
        let folder = if name.starts_with("rollout-") { "sessions/2026/11/30" } else { "" };
        let stored = format!(
            "codex__{}",
            self.home
                .join(folder)
                .join(name)
                .strip_prefix(&self.home)
                .unwrap()
                .to_str()
                .unwrap()
                .replace('/', "__")
        );
        let recording = &self.recording;
        let Ok(text) = fs::read_to_string(recording.join(&stored)) else { return };
        let lines =
            self.lines.entry(stored).or_insert_with(|| text.lines().rev().map(str::to_owned).collect());
        let line = lines.pop().unwrap();
        let path = self.home.join(folder).join(name);
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
        let record: Value = serde_json::from_str(&line).unwrap();
        match record["payload"]["type"].as_str() {
            Some("function_call") => {
                let escalated =
                    record["payload"]["arguments"].as_str().unwrap().contains("require_escalated");
                if !escalated || self.name.contains("full_access") {
                    self.start_child(at);
                }
            }
            Some("function_call_output" | "turn_aborted") => self.end_child(),
            // The recorder watched on after its last act, and the turn came to its end by itself.
            Some("task_complete") if self.truth == "working" => self.truth = "idle".to_owned(),
            _ => {}
        }
    }

    fn happen(&mut self, event: &Value, at: Millis) {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        match text("kind") {
            "act" => self.act(text("act"), &event["expect"], at),
            "file" => self.file(text("what"), text("path"), at),
            "disk" => self.disk(text("file"), at),
            _ => {}
        }
    }
}

/// What a replay came to.
struct Agreement {
    agreed_ms: Millis,
    counted_ms: Millis,
    wrong: BTreeMap<(String, String), Millis>,
}

fn agrees(truth: &str, said: Option<Turn>) -> bool {
    match truth {
        "none" => matches!(said, None | Some(Turn::Idle | Turn::Ended)),
        "ended" => matches!(said, None | Some(Turn::Ended)),
        turn => said.is_some_and(|said| said.as_str() == turn),
    }
}

fn replay(recording: &Path) -> Agreement {
    let text = fs::read_to_string(recording.join("timeline.jsonl")).unwrap();
    let events: Vec<(Millis, Value)> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| ((event["t"].as_f64().unwrap() * 1_000.0) as Millis, event))
        .collect();
    let begins_at = events[0].0;
    let folder = tempfile::tempdir().unwrap();
    let mut replay = Replay::new(recording, folder.path(), begins_at);
    let homes = HarnessHomes { claude_code: Vec::new(), codex: vec![replay.home.clone()] };
    let config = SessionsConfig { homes, root_salt: "salt".into() };
    let mut scene = Scene::new(&config, Liveness::of_folder(replay.proc.path.clone()));
    let mut agreement = Agreement { agreed_ms: 0, counted_ms: 0, wrong: BTreeMap::new() };
    let (mut now, mut look_at, mut next) = (begins_at, begins_at, 0);
    let ends_at = events[events.len() - 1].0 + AFTER_MS;
    while now < ends_at {
        if now >= look_at {
            replay.proc.set_now(now);
            let again_at = scene.look(now);
            look_at = now + until_next_look_ms(again_at, now);
        }
        while let Some((_, event)) = events.get(next).filter(|(at, _)| *at <= now) {
            replay.happen(event, now);
            if event["kind"] == "file" || event["kind"] == "disk" {
                look_at = look_at.min(now + DEBOUNCE_MS);
            }
            next += 1;
        }
        let until = look_at.min(events.get(next).map_or(ends_at, |(at, _)| *at)).min(ends_at).max(now + 1);
        let said = replay.thread.as_deref().and_then(|thread| {
            let found = scene.sessions().iter().find(|(key, _)| key.native_id == thread);
            found.map(|(_, session)| session.turn)
        });
        agreement.counted_ms += until - now;
        if agrees(&replay.truth, said) {
            agreement.agreed_ms += until - now;
        } else {
            let said = said.map_or("nothing", Turn::as_str).to_owned();
            *agreement.wrong.entry((replay.truth.clone(), said)).or_default() += until - now;
        }
        now = until;
    }
    agreement
}

/// The daemon keeps a thread for 60 s after its terminal left, and nothing on this disk tells of that: these
/// are shown as idle so long. For each the least share of time in agreement, in thousandths, as measured.
const KEPT_BY_THE_DAEMON: [(&str, i64); 4] = [
    ("daemon-daemon_after_quit", 230),
    ("daemon-tui_quit_midturn", 280),
    ("daemon-tui_resume", 855),
    ("daemon-tui_turns", 370),
];
/// The least share of every other recording, in thousandths, as measured.
const LEAST_SHARE: i64 = 880;
/// The least share of all those together.
const LEAST_SHARE_TOGETHER: i64 = 945;
/// The longest that anything else is told wrongly: until an approval is told from a rule that allowed the
/// call, and the debounce.
const LONGEST_WRONG_MS: Millis = 1_500;

#[test]
fn every_recording_is_told_as_it_was() {
    let folder = super::fixture("codex-0.171.0");
    let mut recordings: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    recordings.sort();
    assert_eq!(recordings.len(), 38);
    let (mut agreed_ms, mut counted_ms) = (0, 0);
    for recording in &recordings {
        let name = recording.file_name().unwrap().to_str().unwrap();
        let told = replay(recording);
        let share = told.agreed_ms * 1_000 / told.counted_ms;
        println!("{name}: {share} ‰ of {} ms in agreement; wrong for ms: {:?}", told.counted_ms, told.wrong);
        let kept = KEPT_BY_THE_DAEMON.iter().find(|(kept, _)| *kept == name);
        assert!(share >= kept.map_or(LEAST_SHARE, |(_, least)| *least), "{name}: {share} ‰");
        for ((truth, said), wrong_ms) in &told.wrong {
            let is_kept = kept.is_some() && truth == "ended" && said == "idle";
            assert!(is_kept || *wrong_ms <= LONGEST_WRONG_MS, "{name}: {said} for {truth}, {wrong_ms} ms");
        }
        if kept.is_none() {
            agreed_ms += told.agreed_ms;
            counted_ms += told.counted_ms;
        }
    }
    let together = agreed_ms * 1_000 / counted_ms;
    println!(
        "the {} without a terminal that left: {together} ‰",
        recordings.len() - KEPT_BY_THE_DAEMON.len()
    );
    assert!(together >= LEAST_SHARE_TOGETHER, "{together} ‰");
}
