//! A home of Claude Code on a real disk: registry, transcripts, processes.

use super::*;
use crate::sessions::fake_proc::{FakeProc, opened_during, written_at};
use serde_json::{Value, json};
use std::io::Write;
use teamlamp_wire::session::Turn;

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";
/// 2026-08-20T09:10:00Z, ten minutes after the fixtures begin.
const NOW: Millis = 1_787_217_000_000;
const STARTED_AT: Millis = NOW - 900_000;

struct World {
    _folder: tempfile::TempDir,
    root: PathBuf,
    proc: FakeProc,
    home: ClaudeHome,
    liveness: Liveness,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (root, proc) = (folder.path().join("claude"), folder.path().join("proc"));
        for below in ["sessions", "projects"] {
            fs::create_dir_all(root.join(below)).unwrap();
        }
        let (proc, liveness) = (FakeProc::new(proc.clone(), NOW - 5_000_000), Liveness::of_folder(proc));
        proc.set_now(NOW);
        Self { home: ClaudeHome::new(&root), _folder: folder, root, proc, liveness }
    }

    fn process(&self, pid: u32) {
        self.proc.start(pid, 1, &["/usr/bin/claude"], Path::new("/home/dev/acme"), STARTED_AT);
    }

    /// A registry file of a session whose process lives.
    fn entry(&self, pid: u32, id: &str, change: impl FnOnce(&mut Value)) {
        let mut entry = json!({"pid":pid,"sessionId":id,"cwd":"/home/dev/acme","startedAt":STARTED_AT,
            "procStart":self.proc.ticks(STARTED_AT).to_string(),"status":"busy","statusUpdatedAt":NOW - 5_000});
        change(&mut entry);
        fs::write(self.root.join(format!("sessions/{pid}.json")), entry.to_string()).unwrap();
    }

    fn transcript(&self, project: &str, id: &str, text: &str) -> PathBuf {
        let folder = self.root.join("projects").join(project);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{id}.jsonl"));
        fs::write(&path, text).unwrap();
        path
    }

    fn look(&mut self) -> Vec<Live> {
        self.look_at(NOW)
    }

    fn look_at(&mut self, now: Millis) -> Vec<Live> {
        self.home.look(&mut self.liveness, now).live
    }

    fn ids(&mut self) -> Vec<String> {
        self.look().into_iter().map(|live| live.native_id).collect()
    }
}

fn fixture(name: &str) -> String {
    fs::read_to_string(crate::sessions::fixture(name)).unwrap()
}

#[test]
fn a_live_entry_tells_the_turn_and_its_transcript_the_rest() {
    let mut world = World::new();
    world.process(4242);
    world.entry(4242, ONE, |e| {
        (e["status"], e["waitingFor"]) = (json!("waiting"), json!("permission prompt"))
    });
    world.transcript("-home-dev-acme", ONE, &fixture("claude-idle.jsonl"));
    let live = world.look().remove(0);
    assert_eq!(live.seen, TurnSeen::known(Turn::WaitingApproval, Some(NOW - 5_000)));
    assert_eq!((live.native_id.as_str(), live.pid), (ONE, Some(4242)));
    assert_eq!(
        (live.title.as_deref(), live.model.as_deref()),
        (Some("Rename greeting helper"), Some("claude-example-1"))
    );
    assert_eq!((live.cwd, live.started_at), ("/home/dev/acme".into(), Some(1_787_216_400_000)));
}

#[test]
fn an_entry_without_a_transcript_is_a_session_without_a_prompt() {
    let mut world = World::new();
    world.process(4242);
    world.entry(4242, ONE, |e| (e["status"], e["name"]) = (json!("idle"), json!("fix-it")));
    let live = world.look().remove(0);
    assert_eq!(
        (live.seen.turn, live.title.as_deref(), live.started_at),
        (Turn::Idle, Some("fix-it"), Some(STARTED_AT))
    );
}

#[test]
fn a_leftover_of_a_crash_and_a_reused_number_are_no_sessions() {
    let mut world = World::new();
    world.entry(1, ONE, |_| ());
    world.process(2);
    world.entry(2, TWO, |e| e["procStart"] = json!("77"));
    assert_eq!(world.ids(), [""; 0]);
}

#[test]
fn a_start_that_cannot_be_compared_needs_the_right_name_and_age() {
    let mut world = World::new();
    world.process(1);
    world.entry(1, ONE, |e| e["procStart"] = json!("Thu Aug 20 08:55:00 2026"));
    world.proc.start(2, 1, &["/usr/bin/vim"], Path::new("/home/dev/acme"), STARTED_AT);
    world.entry(2, TWO, |e| e["procStart"] = json!(null));
    assert_eq!(world.ids(), [ONE]);
    world.entry(1, ONE, |e| (e["procStart"], e["startedAt"]) = (json!(null), json!(STARTED_AT - 60_000)));
    assert_eq!(world.ids(), [""; 0]);
}

#[test]
fn a_file_seen_half_written_leaves_the_entry_before_it_in_force() {
    let mut world = World::new();
    world.process(4242);
    world.entry(4242, ONE, |_| ());
    assert_eq!(world.ids(), [ONE]);
    fs::write(world.root.join("sessions/4242.json"), "{\"pid\":4242,\"sess").unwrap();
    assert_eq!(world.look()[0].seen.turn, Turn::Working);
    world.entry(4242, ONE, |e| e["status"] = json!("idle"));
    assert_eq!(world.look()[0].seen.turn, Turn::Idle);
    fs::remove_file(world.root.join("sessions/4242.json")).unwrap();
    assert_eq!(world.look().len(), 0);
}

#[test]
fn a_word_that_is_replaced_by_one_of_its_length_is_seen() {
    let mut world = World::new();
    world.process(4242);
    for status in ["busy", "idle", "busy", "idle"] {
        world.entry(4242, ONE, |e| e["status"] = json!(status));
        written_at(&world.root.join("sessions/4242.json"), NOW - 500);
        assert_eq!(world.look()[0].seen.turn == Turn::Idle, status == "idle");
    }
}

#[test]
fn an_entry_without_a_status_leaves_the_turn_to_the_transcript() {
    let mut world = World::new();
    world.process(4242);
    let transcript = world.transcript("p", ONE, &fixture("claude-idle.jsonl"));
    world.entry(4242, ONE, |e| e["status"] = json!(null));
    assert_eq!(world.look()[0].seen, TurnSeen::known(Turn::Idle, Some(1_787_216_412_000)));
    let line = json!({"type":"user","timestamp":"2026-08-20T09:05:00.000Z","message":{"content":"More"}});
    writeln!(fs::OpenOptions::new().append(true).open(transcript).unwrap(), "{line}").unwrap();
    assert_eq!(world.look()[0].seen, TurnSeen::likely(Turn::Working, Some(1_787_216_700_000)));
}

#[test]
fn of_two_processes_in_one_session_the_one_that_needs_a_person_counts() {
    let mut world = World::new();
    for (pid, status) in [(1, "waiting"), (2, "busy"), (3, "idle")] {
        world.process(pid);
        world.entry(pid, ONE, |e| (e["status"], e["waitingFor"]) = (json!(status), json!("input needed")));
    }
    let live = world.look();
    assert_eq!((live.len(), live[0].pid, live[0].seen.turn), (1, Some(1), Turn::WaitingInput));
}

#[test]
fn after_clear_the_process_has_another_session() {
    let mut world = World::new();
    world.process(4242);
    world.entry(4242, ONE, |_| ());
    assert_eq!(world.ids(), [ONE]);
    world.entry(4242, TWO, |_| ());
    assert_eq!(world.ids(), [TWO]);
}

#[test]
fn a_transcript_that_moved_to_another_project_is_the_same_session() {
    let mut world = World::new();
    world.process(4242);
    world.entry(4242, ONE, |e| e["status"] = json!(null));
    let before = world.transcript("-home-dev-acme", ONE, &fixture("claude-idle.jsonl"));
    assert_eq!(world.look()[0].seen.turn, Turn::Idle);
    fs::remove_file(before).unwrap();
    let moved = fixture("claude-idle.jsonl").lines().take(2).collect::<Vec<_>>().join("\n") + "\n";
    world.transcript("-home-dev-other", ONE, &moved);
    let live = world.look();
    assert_eq!((live.len(), live[0].seen.turn), (1, Turn::Working));
}

#[test]
fn sub_agents_and_other_files_are_no_sessions() {
    let mut world = World::new();
    world.process(4242);
    world.transcript("-home-dev-acme", "agent-a0b1c2d3", &fixture("claude-subagent.jsonl"));
    world.transcript(&format!("-home-dev-acme/{ONE}/subagents"), TWO, &fixture("claude-subagent.jsonl"));
    assert_eq!(world.ids(), [""; 0]);
}

#[test]
fn a_process_that_keeps_no_entry_is_found_by_its_folder() {
    let mut world = World::new();
    let old = world.transcript("-home-dev-acme", TWO, &fixture("claude-idle.jsonl"));
    written_at(&old, STARTED_AT - 2_000);
    world.proc.start(7, 1, &["/usr/bin/claude"], Path::new("/home/dev/acme"), STARTED_AT);
    assert_eq!(world.ids(), [""; 0], "a session of yesterday is not woken by a process of today");
    let path = world.transcript("-home-dev-acme", ONE, &fixture("claude-idle.jsonl"));
    written_at(&path, NOW - 60_000);
    let idle = TurnSeen::known(Turn::Idle, Some(1_787_216_412_000));
    let live = world.look();
    assert_eq!((live.len(), live[0].native_id.as_str(), live[0].pid), (1, ONE, Some(7)));
    assert_eq!(live[0].seen, idle);
    written_at(&path, NOW);
    assert_eq!(world.look()[0].seen, idle, "a file that is touched is no activity");
    world.proc.end(7);
    assert_eq!(world.look().len(), 0);
}

#[test]
fn a_project_that_was_given_a_name_is_found_too() {
    let mut world = World::new();
    world.process(7);
    let path = world.transcript("my-own-name", ONE, &fixture("claude-idle.jsonl"));
    written_at(&path, NOW);
    assert_eq!(world.ids(), [ONE]);
}

#[test]
fn helpers_of_the_program_and_other_programs_are_no_sessions() {
    let mut world = World::new();
    let path = world.transcript("-home-dev-acme", ONE, &fixture("claude-idle.jsonl"));
    written_at(&path, NOW);
    let there = Path::new("/home/dev/acme");
    for (pid, arguments) in [
        (1, vec!["claude", "mcp", "serve"]),
        (2, vec!["claude", "daemon", "run"]),
        (3, vec!["/usr/bin/node", "/srv/claude/server.js"]),
        (4, vec!["/opt/claude/helper"]),
    ] {
        world.proc.start(pid, 1, &arguments, there, STARTED_AT);
    }
    world.proc.start(6, 5, &["claude"], there, STARTED_AT);
    world.entry(5, TWO, |_| ());
    assert_eq!(world.ids(), [""; 0]);
}

#[test]
fn a_session_with_an_entry_is_never_taken_for_another_process() {
    let mut world = World::new();
    let path = world.transcript("-home-dev-acme", ONE, &fixture("claude-idle.jsonl"));
    written_at(&path, NOW);
    world.entry(9, ONE, |_| ());
    world.process(7);
    assert_eq!(world.ids(), [""; 0]);
}

#[test]
fn the_project_of_a_long_path_is_found_by_its_beginning() {
    let mut world = World::new();
    let folder = format!("/home/dev/{}", "deep_folder/".repeat(20));
    let name = project_name(Path::new(&folder));
    assert_eq!(project_name(Path::new("/home/dev/my_app.é🦀")), "-home-dev-my-app----");
    let path = world.transcript(&format!("{}-h4sh", &name[..200]), ONE, &fixture("claude-idle.jsonl"));
    written_at(&path, NOW);
    assert_eq!(world.home.project(Path::new(&folder)).file_name(), path.parent().unwrap().file_name());
    assert!(world.look().is_empty());
}

#[test]
fn twenty_thousand_old_sessions_are_neither_opened_nor_watched() {
    let mut world = World::new();
    let old = world.root.join("old.jsonl");
    fs::write(&old, fixture("claude-idle.jsonl")).unwrap();
    for project in 0..20 {
        let folder = world.root.join(format!("projects/p{project}"));
        fs::create_dir_all(&folder).unwrap();
        for at in 0..1_000 {
            // Links, for many disks take half a minute to make so many files.
            fs::hard_link(&old, folder.join(format!("{project:08}-0000-4000-8000-{at:012}.jsonl"))).unwrap();
        }
    }
    world.process(4242);
    world.entry(4242, ONE, |_| ());
    world.transcript("p7", ONE, &fixture("claude-idle.jsonl"));
    assert_eq!(world.ids(), [ONE]);
    assert_eq!(world.home.projects.find(|_| true).len(), 20_001);
    assert_eq!(world.home.transcripts.len(), 1);
    assert!(world.home.folders().len() <= 4, "{:?}", world.home.folders());
}

#[test]
fn files_beside_the_registry_are_never_opened() {
    let mut world = World::new();
    world.process(4242);
    world.entry(4242, ONE, |_| ());
    let secrets = ["sessions/4242.a1b2.key", "sessions/4242.a1b2.json", ".credentials.json", "settings.json"];
    for secret in secrets {
        fs::copy(world.root.join("sessions/4242.json"), world.root.join(secret)).unwrap();
    }
    let folders = [world.root.clone(), world.root.join("sessions")];
    let opened = opened_during(&folders, || assert_eq!(world.ids(), [ONE]));
    assert!(opened.contains(&"4242.json".to_owned()), "{opened:?}");
    for secret in secrets {
        let name = secret.rsplit('/').next().unwrap();
        assert!(!opened.contains(&name.to_owned()), "{opened:?}");
    }
}
