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
mod folders;
mod found;
mod harness;
mod lines;
mod liveness;
mod records;
#[cfg(all(test, target_os = "linux"))]
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
use tokio::sync::{Notify, watch as value};
use watch::Watch;

/// Changes this close together are one. A harness writes several lines at a time.
const DEBOUNCE_MS: i64 = 200;
/// How often everything that lives is looked at without being told of a change: processes end, folders
/// appear and some file systems tell of nothing.
const TICK_MS: i64 = 2_000;
/// How often folders are listed while the file of a live session is missing.
const LOOK_MS: i64 = 1_000;
/// How often folders are listed anyway.
const SWEEP_MS: i64 = 15_000;
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
    fn look(&mut self, now: teamlamp_wire::Millis) -> Option<teamlamp_wire::Millis> {
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
        let looked = tokio::task::spawn_blocking(move || {
            let again_at = eyes.look(now);
            (eyes, again_at)
        });
        let mut wait_ms = TICK_MS;
        match looked.await {
            Ok((back, again_at)) => {
                eyes = back;
                wait_ms = again_at.map_or(TICK_MS, |at| (at - now).clamp(DEBOUNCE_MS, TICK_MS));
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
