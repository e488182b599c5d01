//! A home of Codex: rollouts, locks and processes, with a made-up /proc.

use super::*;
use crate::sessions::fake_proc::{FakeProc, opened_during, written_at};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;

const ONE: &str = "01a00000-0000-7000-8000-000000000001";
const TWO: &str = "01a00000-0000-7000-8000-000000000002";
/// 2026-08-20T09:10:00Z, ten minutes after the fixtures begin.
const NOW: Millis = 1_787_217_000_000;
const STARTED_AT: Millis = NOW - 900_000;

struct World {
    _folder: tempfile::TempDir,
    path: PathBuf,
    proc: FakeProc,
    home: CodexHome,
    liveness: Liveness,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (path, proc) = (folder.path().join("codex"), folder.path().join("proc"));
        fs::create_dir_all(path.join("thread-writer-locks")).unwrap();
        let (proc, liveness) = (FakeProc::new(proc.clone(), NOW - 5_000_000), Liveness::of_folder(proc));
        proc.set_now(NOW);
        Self { home: CodexHome::new(&path), _folder: folder, path, proc, liveness }
    }

    fn process(&self, pid: u32, arguments: &[&str]) {
        self.proc.start(pid, 1, arguments, Path::new("/home/dev/acme"), STARTED_AT);
    }

    fn lock_file(&self, thread: &str, at: Millis) -> PathBuf {
        let file = self.path.join(format!("thread-writer-locks/{thread}.lock"));
        fs::write(&file, "").unwrap();
        written_at(&file, at);
        file
    }

    fn lock(&mut self, thread: &str, pid: u32, at: Millis) {
        let file = self.lock_file(thread, at);
        self.proc.lock(&file, pid);
    }

    fn rollout(&self, thread: &str, lines: &[String]) -> PathBuf {
        self.rollout_named(&format!("rollout-2026-08-20T09-00-00-{thread}.jsonl"), lines)
    }

    fn rollout_named(&self, name: &str, lines: &[String]) -> PathBuf {
        let folder = self.path.join("sessions/2026/08/20");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        path
    }

    fn look(&mut self) -> Vec<Live> {
        self.home.look(&mut self.liveness, NOW).live
    }

    fn ids(&mut self) -> Vec<String> {
        self.look().into_iter().map(|live| live.native_id).collect()
    }
}

fn record(kind: &str, payload: serde_json::Value) -> String {
    json!({"timestamp":"2026-08-20T09:00:00.000Z","type":kind,"payload":payload}).to_string()
}

fn meta(thread: &str) -> String {
    record(
        "session_meta",
        json!({"id":thread,"cwd":"/home/dev/acme","source":"vscode","thread_source":"user"}),
    )
}

fn started() -> String {
    record("event_msg", json!({"type":"task_started","turn_id":"t"}))
}

fn ended() -> String {
    record("event_msg", json!({"type":"task_complete","turn_id":"t"}))
}

#[test]
fn a_lock_left_by_a_crash_proves_nothing() {
    let mut world = World::new();
    world.lock_file(ONE, NOW - 60_000);
    world.rollout(ONE, &[meta(ONE), started()]);
    world.process(7, &["codex"]);
    assert_eq!(world.ids(), [""; 0]);
}

#[test]
fn a_held_thread_is_told_with_its_title_model_and_folder() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    let context = record("turn_context", json!({"model":"gpt-example"}));
    let prompt = record("event_msg", json!({"type":"user_message","message":"Fix the test"}));
    world.rollout(ONE, &[meta(ONE), started(), context, prompt]);
    let live = world.look().remove(0);
    assert_eq!((live.native_id.as_str(), live.pid, live.seen.turn), (ONE, Some(7), Turn::Working));
    assert_eq!((live.title.as_deref(), live.model.as_deref()), (Some("Fix the test"), Some("gpt-example")));
    assert_eq!(live.cwd, Path::new("/home/dev/acme"));
    let index = json!({"id":ONE,"thread_name":"Mend tests","updated_at":"x"});
    fs::write(world.path.join("session_index.jsonl"), format!("{index}\n")).unwrap();
    assert_eq!(world.look()[0].title.as_deref(), Some("Mend tests"));
}

#[test]
fn a_terminal_before_its_first_prompt_is_idle_after_a_moment() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - EMPTY_SHOWS_MS + 1);
    let look = world.home.look(&mut world.liveness, NOW);
    assert_eq!((look.live.len(), look.again_at), (0, Some(NOW + 1)));
    world.lock(ONE, 7, NOW - EMPTY_SHOWS_MS);
    let live = world.look().remove(0);
    assert_eq!((live.seen.turn, live.cwd.as_path()), (Turn::Idle, Path::new("/home/dev/acme")));
    world.rollout(ONE, &[meta(ONE), started()]);
    assert_eq!(world.look()[0].seen.turn, Turn::Working);
}

#[test]
fn an_empty_thread_of_the_daemon_has_no_folder_and_is_not_told() {
    let mut world = World::new();
    world.process(7, &["/x/codex", "app-server", "--listen", "unix://", "--managed-daemon"]);
    world.lock(ONE, 7, NOW - 60_000);
    assert_eq!(world.ids(), [""; 0]);
}

#[test]
fn after_new_the_thread_before_is_over_unless_its_turn_goes_on() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    world.lock(TWO, 7, NOW - 30_000);
    world.rollout(TWO, &[meta(TWO), started()]);
    world.rollout(ONE, &[meta(ONE), started(), ended()]);
    assert_eq!(world.ids(), [TWO]);
    world.rollout(ONE, &[meta(ONE), started()]);
    assert_eq!(world.ids(), [ONE, TWO]);
}

#[test]
fn a_child_from_before_the_call_does_not_mean_that_it_was_allowed() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    let arguments = r#"{"cmd":"x","sandbox_permissions":"require_escalated"}"#;
    let call = json!({"type":"function_call","name":"exec_command","call_id":"c","arguments":arguments});
    world.rollout(ONE, &[meta(ONE), started(), record("response_item", call)]);
    let there = Path::new("/home/dev/acme");
    world.proc.start(8, 7, &["dev-server"], there, STARTED_AT + 1_000);
    let waits = |world: &mut World| world.look()[0].seen.turn == Turn::WaitingApproval;
    assert!(waits(&mut world));
    world.proc.start(9, 7, &["cargo"], Path::new("/elsewhere"), NOW - 1_000);
    assert!(waits(&mut world));
    world.proc.start(10, 7, &["cargo"], &there.join("sub"), NOW - 1_000);
    assert!(!waits(&mut world));
}

#[test]
fn a_server_holds_the_threads_of_many_windows() {
    let mut world = World::new();
    world.process(7, &["/x/codex", "app-server"]);
    for (thread, at) in [(ONE, NOW - 60_000), (TWO, NOW - 30_000)] {
        world.lock(thread, 7, at);
        world.rollout(thread, &[meta(thread), started(), ended()]);
    }
    assert_eq!(world.ids(), [ONE, TWO]);
}

#[test]
fn the_daemons_pid_file_names_it_by_boot_and_ticks() {
    let mut world = World::new();
    // Nothing in its arguments tells that it is one.
    world.process(7, &["codex"]);
    for (thread, at) in [(ONE, NOW - 60_000), (TWO, NOW - 30_000)] {
        world.lock(thread, 7, at);
        world.rollout(thread, &[meta(thread), started(), ended()]);
    }
    let recorded =
        crate::sessions::fixture("codex-0.171.0/daemon-tui_approve/codex__app-server-daemon__daemon.pid");
    let mut file: serde_json::Value = serde_json::from_slice(&fs::read(recorded).unwrap()).unwrap();
    fs::create_dir(world.path.join("app-server-daemon")).unwrap();
    file["pid"] = json!(7);
    let ticks = world.proc.ticks(STARTED_AT);
    for (start, boot, is_daemon) in [
        (ticks, "00000000-0000-4000-8000-000000000000", true),
        (ticks + 1, "00000000-0000-4000-8000-000000000000", false),
        (ticks, "another boot", false),
    ] {
        file["processIdentity"] = json!({"bootId":boot,"startTicks":start});
        fs::write(world.path.join("app-server-daemon/daemon.pid"), file.to_string()).unwrap();
        assert_eq!(world.look().len(), if is_daemon { 2 } else { 1 }, "{file}");
    }
}

#[test]
fn a_sub_agents_thread_is_no_session_and_does_not_end_its_parents() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    world.lock(TWO, 7, NOW - 30_000);
    world.rollout(ONE, &[meta(ONE), started(), ended()]);
    let source = json!({"subagent":{"thread_spawn":{"parent_thread_id":ONE}}});
    let sub_agent = record("session_meta", json!({"id":TWO,"cwd":"/home/dev/acme","source":source}));
    world.rollout(TWO, &[sub_agent, started()]);
    assert_eq!(world.ids(), [ONE]);
}

#[test]
fn a_lock_that_one_reading_skips_is_believed_once() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    world.rollout(ONE, &[meta(ONE), started()]);
    assert_eq!(world.ids(), [ONE]);
    let file = world.path.join(format!("thread-writer-locks/{ONE}.lock"));
    world.proc.unlock(&file);
    assert_eq!(world.ids(), [ONE]);
    assert_eq!(world.ids(), [""; 0]);
    world.proc.lock(&file, 7);
    assert_eq!(world.ids(), [ONE]);
    world.proc.end(7);
    assert_eq!(world.ids(), [""; 0], "not where its process ended");
}

#[test]
fn a_lock_held_in_another_container_is_a_life_without_a_process() {
    let mut world = World::new();
    world.lock(ONE, 0, NOW - 60_000);
    world.rollout(ONE, &[meta(ONE), started()]);
    let live = world.look();
    assert_eq!((live.len(), live[0].pid), (1, None));
}

#[test]
fn where_the_list_of_locks_shows_another_device_the_name_of_the_holder_has_to_agree() {
    let mut world = World::new();
    let file = world.lock_file(ONE, NOW - 60_000);
    world.rollout(ONE, &[meta(ONE), started()]);
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&file).unwrap());
    let line = format!("1: FLOCK  ADVISORY  WRITE 7 fff:ff:{inode} 0 EOF\n");
    fs::write(world.proc.path.join("locks"), line).unwrap();
    world.process(7, &["vim"]);
    assert_eq!(world.ids(), [""; 0]);
    world.process(7, &["codex"]);
    assert_eq!(world.ids(), [ONE]);
}

#[test]
fn where_the_list_of_locks_shows_another_file_an_open_lock_tells() {
    let mut world = World::new();
    let file = world.lock_file(ONE, NOW - 60_000);
    world.rollout(ONE, &[meta(ONE), started()]);
    world.process(7, &["codex"]);
    assert_eq!(world.ids(), [""; 0]);
    std::os::unix::fs::symlink(file.canonicalize().unwrap(), world.proc.path.join("7/fd/9")).unwrap();
    assert_eq!(world.ids(), [ONE]);
}

#[test]
fn the_newest_file_of_a_thread_goes_on_with_it() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    world.rollout(ONE, &[meta(ONE), started()]);
    let name = format!("rollout-2026-08-27T11-00-00-{ONE}_{TWO}.jsonl");
    world.rollout_named(&name, &[meta(ONE), started(), ended()]);
    let live = world.look();
    assert_eq!((live.len(), live[0].native_id.as_str(), live[0].seen.turn), (1, ONE, Turn::Idle));
    assert_eq!(live[0].started_at, made_at(ONE));
}

#[test]
fn an_older_version_without_locks_is_known_by_its_open_rollout() {
    let mut world = World::new();
    fs::remove_dir(world.path.join("thread-writer-locks")).unwrap();
    world.process(7, &["codex"]);
    world.proc.start(8, 1, &["codex", "app-server"], Path::new("/home/dev/acme"), STARTED_AT);
    let path = world.rollout(ONE, &[meta(ONE), started()]);
    let other = world.rollout(TWO, &[meta(TWO), started()]);
    written_at(&path, STARTED_AT - 2_000);
    written_at(&other, NOW);
    std::os::unix::fs::symlink(path.canonicalize().unwrap(), world.proc.path.join("7/fd/9")).unwrap();
    let live = world.look();
    assert_eq!((live.len(), live[0].native_id.as_str(), live[0].pid), (1, ONE, Some(7)));
    world.proc.end(7);
    assert_eq!(world.look().len(), 0);
}

#[test]
fn where_nothing_tells_who_holds_what_the_folder_does() {
    for hidden in [true, false] {
        let mut world = World::new();
        fs::remove_dir(world.path.join("thread-writer-locks")).unwrap();
        world.process(7, &["codex"]);
        if hidden {
            fs::remove_dir(world.proc.path.join("7/fd")).unwrap();
        }
        let old = world.rollout(TWO, &[meta(TWO), started()]);
        written_at(&old, STARTED_AT - 2_000);
        assert_eq!(world.ids(), [""; 0]);
        let path = world.rollout(ONE, &[meta(ONE), started()]);
        written_at(&path, NOW);
        assert_eq!(world.ids(), [ONE]);
    }
}

#[test]
fn a_rollout_that_vanishes_leaves_what_was_known_and_compression_is_no_file() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    let path = world.rollout(ONE, &[meta(ONE), started()]);
    assert_eq!(world.look()[0].seen.turn, Turn::Working);
    fs::rename(&path, path.with_extension("jsonl.zst")).unwrap();
    assert_eq!(world.look()[0].seen.turn, Turn::Working);
    fs::rename(path.with_extension("jsonl.zst"), &path).unwrap();
    writeln!(File::options().append(true).open(&path).unwrap(), "{}", ended()).unwrap();
    assert_eq!(world.look()[0].seen.turn, Turn::Idle);
}

#[test]
fn only_few_folders_are_watched() {
    let mut world = World::new();
    for month in 1..=12 {
        for day in 1..=28 {
            fs::create_dir_all(world.path.join(format!("sessions/2025/{month:02}/{day:02}"))).unwrap();
        }
    }
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    world.rollout(ONE, &[meta(ONE)]);
    assert_eq!(world.ids(), [ONE]);
    let below = |path: &str| world.path.join(path);
    let expected = BTreeSet::from([
        below("thread-writer-locks"),
        below("sessions"),
        below("sessions/2026"),
        below("sessions/2026/08"),
        below("sessions/2026/08/20"),
    ]);
    assert_eq!(world.home.folders(), expected);
}

#[test]
fn neither_secrets_nor_databases_of_the_home_are_opened() {
    let mut world = World::new();
    world.process(7, &["codex"]);
    world.lock(ONE, 7, NOW - 60_000);
    world.rollout(ONE, &[meta(ONE), started()]);
    fs::write(world.path.join("session_index.jsonl"), "\n").unwrap();
    for name in ["auth.json", "config.toml", "state_5.sqlite", "history.jsonl"] {
        fs::write(world.path.join(name), "secret").unwrap();
    }
    let folders = [world.path.clone(), world.path.join("thread-writer-locks")];
    let opened = opened_during(&folders, || assert_eq!(world.ids(), [ONE]));
    let files: BTreeSet<_> = opened.iter().filter(|name| name.contains('.')).collect();
    assert_eq!(files, BTreeSet::from([&"session_index.jsonl".to_owned()]));
}
