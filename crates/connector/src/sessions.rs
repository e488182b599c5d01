//! The watchers of coding agents: reads what each harness writes on this disk and tells which native
//! sessions live and what they do. It changes nothing of theirs and decides nothing about sharing.
//!
//! A session is found by its process, never by its file: Claude Code's registry and Codex' locks name both,
//! and the list of processes is what is left elsewhere. So 20,000 old files cost a listing of their folders,
//! and only the files of sessions that run are opened, watched and asked after.

mod claude_code;
mod claude_home;
mod claude_registry;
mod codex;
mod codex_holds;
mod codex_home;
mod codex_titles;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod fake_proc;
mod folders;
mod found;
mod harness;
mod lines;
mod liveness;
mod records;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod replay;
mod scene;
mod tail;
mod watch;

pub use found::{
    ENDED_SHOWN_MS, Found, FoundRoot, FoundSession, HarnessHomes, PollReason, PrivateTitle, SessionKey,
    SessionsConfig,
};

use liveness::Liveness;
use notify::RecursiveMode;
use scene::Scene;
use std::sync::Arc;
use std::time::Duration;
use teamlamp_clock::{Clock, Tasks, ms};
use teamlamp_wire::Millis;
use tokio::sync::{Notify, watch as value};
use watch::Watch;

/// Changes this close together are one. A harness writes several lines at a time.
const DEBOUNCE_MS: i64 = 200;
/// How often everything that lives is looked at without being told of a change: processes end, folders
/// appear and some file systems tell of nothing.
const TICK_MS: i64 = 2_000;
/// How often folders are listed although no live session's file is missing.
const SWEEP_MS: i64 = 15_000;
/// A file's time can stand still for changes this close together: what is newer is looked into again.
const FILE_TIME_SETTLED_MS: i64 = 2_000;
/// How much a process's start, computed from ticks since boot, and a record's time may differ.
const CLOCK_SLACK_MS: i64 = 1_000;

/// The running watchers. Clones show the same.
#[derive(Clone, Debug)]
pub struct Sessions {
    found: value::Receiver<Arc<Found>>,
}

impl Sessions {
    /// Starts to watch; ends with `tasks`. Never fails: what can't be watched is polled and named in
    /// [`Found::polled`], what does not exist yet is found when it appears.
    pub fn start(config: SessionsConfig, clock: &Clock, tasks: &Tasks) -> Self {
        Self::start_with(config, watch::open_system, clock, tasks)
    }

    fn start_with(config: SessionsConfig, open: watch::Open, clock: &Clock, tasks: &Tasks) -> Self {
        let (tell, found) = value::channel(Arc::new(Found::default()));
        tasks.spawn("sessions", run(config, open, clock.clone(), tell));
        Self { found }
    }

    /// What is known now.
    pub fn now(&self) -> Arc<Found> {
        self.found.borrow().clone()
    }

    /// The present value first, then each change.
    pub fn subscribe(&self) -> value::Receiver<Arc<Found>> {
        self.found.clone()
    }

    /// Waits for the first scan; what is known then. A first heartbeat sent before would end every binding.
    pub async fn settled(&self) -> Arc<Found> {
        let mut found = self.found.clone();
        match found.wait_for(|found| found.settled).await {
            Ok(found) => found.clone(),
            Err(_) => self.now(),
        }
    }
}

/// The state that looking changes: it goes to a thread that may wait for the disk, and comes back.
struct Eyes {
    scene: Scene,
    watch: Watch,
}

impl Eyes {
    fn look(&mut self, now: Millis) -> Option<Millis> {
        let again_at = self.scene.look(now);
        if cfg!(target_os = "linux") {
            self.watch.follow(&self.scene.folders(), RecursiveMode::NonRecursive);
        } else {
            // Elsewhere each new watch restarts the stream of events and can lose some: few, and for good.
            self.watch.follow(&self.scene.roots(), RecursiveMode::Recursive);
        }
        again_at
    }

    fn found(&self) -> Found {
        let (sessions, polled) = (self.scene.sessions().clone(), self.watch.polled().clone());
        Found { settled: true, sessions, polled }
    }
}

async fn run(config: SessionsConfig, open: watch::Open, clock: Clock, tell: value::Sender<Arc<Found>>) {
    let changed = Arc::new(Notify::new());
    let new_eyes =
        || Eyes { scene: Scene::new(&config, Liveness::system()), watch: Watch::new(open, changed.clone()) };
    let mut eyes = new_eyes();
    loop {
        let now = clock.now_ms();
        #[expect(clippy::disallowed_methods, reason = "one look at the files, awaited below")]
        let looked = tokio::task::spawn_blocking(move || {
            let again_at = eyes.look(now);
            (eyes, again_at)
        });
        let mut wait_ms = TICK_MS;
        match looked.await {
            Ok((back, again_at)) => {
                eyes = back;
                wait_ms = until_next_look_ms(again_at, now);
                publish(&tell, eyes.found());
            }
            // Cancelled: the runtime ends. Anything else is a mistake of this program that one file brought
            // out; the others go on being watched.
            Err(error) if error.is_cancelled() => return,
            Err(error) => {
                tracing::error!(%error, "looking at the sessions failed; beginning anew");
                eyes = new_eyes();
            }
        }
        tokio::select! {
            biased;
            () = tell.closed() => return,
            () = changed.notified() => clock.sleep(ms(DEBOUNCE_MS)).await,
            () = clock.sleep(Duration::from_millis(wait_ms.unsigned_abs())) => {}
        }
    }
}

/// How long nothing may be told of before everything is looked at again.
fn until_next_look_ms(again_at: Option<Millis>, now: Millis) -> i64 {
    again_at.map_or(TICK_MS, |at| (at - now).clamp(DEBOUNCE_MS, TICK_MS))
}

/// Whether something done last at `last` is due again. A clock that was set back makes it due.
fn is_due(last: Option<Millis>, every_ms: i64, now: Millis) -> bool {
    last.is_none_or(|last| !(0..every_ms).contains(&(now - last)))
}

fn publish(tell: &value::Sender<Arc<Found>>, new: Found) {
    tell.send_if_modified(|found| {
        let differs = **found != new;
        if differs {
            *found = Arc::new(new);
        }
        differs
    });
}

/// A file of the invented sessions that several tests read.
#[cfg(test)]
fn fixture(name: &str) -> std::path::PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/harness");
    std::path::Path::new(folder).join(name)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::fs;
    use teamlamp_wire::session::Turn;

    /// A person's home in which this very test is Claude Code in a session.
    fn home(status: &str) -> (tempfile::TempDir, SessionsConfig, std::path::PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let homes = HarnessHomes::of(home.path(), None, None);
        let registry = home.path().join(".claude/sessions");
        fs::create_dir_all(&registry).unwrap();
        let file = registry.join(format!("{}.json", std::process::id()));
        fs::write(&file, entry(status)).unwrap();
        (home, SessionsConfig { homes, root_salt: "salt".into() }, file)
    }

    fn entry(status: &str) -> String {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let start = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
        let id = "11111111-1111-4111-8111-111111111111";
        format!(r#"{{"sessionId":"{id}","cwd":"/home/dev/acme","procStart":"{start}","status":"{status}"}}"#)
    }

    #[test]
    fn what_is_done_now_and_then_is_due_after_its_time_and_when_the_clock_was_set_back() {
        assert!(is_due(None, 10, 100));
        assert!(!is_due(Some(100), 10, 109));
        assert!(is_due(Some(100), 10, 110));
        assert!(is_due(Some(100), 10, 50));
    }

    async fn until_turn(sessions: &Sessions, turn: Turn) -> Arc<Found> {
        let mut found = sessions.subscribe();
        let is_so = |found: &Arc<Found>| found.sessions.values().any(|session| session.turn == turn);
        let waited = Clock::system().within(Duration::from_secs(20), found.wait_for(is_so)).await;
        waited.expect("the turn is told in time").unwrap().clone()
    }

    #[tokio::test]
    async fn where_the_system_gives_no_watcher_changes_are_found_all_the_same_and_the_reason_is_named() {
        let (_home, config, file) = home("busy");
        let tasks = Tasks::new();
        let refuse: watch::Open = |_| Err(notify::Error::io(std::io::Error::from_raw_os_error(24)));
        let sessions = Sessions::start_with(config, refuse, &Clock::system(), &tasks);
        let found = sessions.settled().await;
        assert_eq!(found.polled.get(file.parent().unwrap()), Some(&PollReason::InstanceLimit));
        until_turn(&sessions, Turn::Working).await;
        fs::write(&file, entry("idle")).unwrap();
        until_turn(&sessions, Turn::Idle).await;
        assert!(tasks.shutdown(Duration::from_secs(5)).await.is_empty());
    }

    #[tokio::test]
    async fn what_was_polled_is_watched_once_there_is_room() {
        static ROOM: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        let (_home, config, _file) = home("busy");
        let open: watch::Open = |handler| match ROOM.load(std::sync::atomic::Ordering::SeqCst) {
            true => watch::open_system(handler),
            false => Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch)),
        };
        let tasks = Tasks::new();
        let sessions = Sessions::start_with(config, open, &Clock::system(), &tasks);
        assert_eq!(sessions.settled().await.polled.values().next(), Some(&PollReason::WatchLimit));
        ROOM.store(true, std::sync::atomic::Ordering::SeqCst);
        let mut found = sessions.subscribe();
        let waited =
            Clock::system().within(Duration::from_secs(20), found.wait_for(|f| f.polled.is_empty())).await;
        assert!(waited.is_some());
        tasks.shutdown(Duration::from_secs(5)).await;
    }

    #[tokio::test]
    async fn watching_ends_when_nobody_listens_any_more() {
        let (_home, config, _file) = home("busy");
        let tasks = Tasks::new();
        drop(Sessions::start(config, &Clock::system(), &tasks));
        let ended = async {
            while !tasks.running().is_empty() {
                Clock::system().sleep(ms(20)).await;
            }
        };
        assert!(Clock::system().within(Duration::from_secs(20), ended).await.is_some());
    }
}
