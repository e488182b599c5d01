//! Codex in one of its homes: the rollout of each held thread, and what the holder's child processes tell
//! about an open call. It opens rollouts and the index of titles, nothing else of that folder.

use super::codex::{APPROVAL_SHOWS_MS, Rollout, Writer, made_at, thread_of};
use super::codex_holds::{Held, Holds};
use super::codex_titles::Titles;
use super::folders::Folders;
use super::harness::{Harness, Live, Look, TurnSeen, Written, same_folder};
use super::liveness::Liveness;
use super::tail::{Tail, modified_ms};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// How long a thread without a rollout is not told of: that of a sub-agent has one within moments.
const EMPTY_SHOWS_MS: i64 = 2_000;
/// How often is looked while an approval is waited for: that it was given is in no file.
const WAITING_LOOK_MS: i64 = 1_000;
/// Rollouts that are considered where nothing tells who holds what, newest first.
const WRITTEN_MAX: usize = 16;

/// One home.
#[derive(Debug)]
pub(super) struct CodexHome {
    sessions_path: PathBuf,
    sessions: Folders,
    listed_at: Option<Millis>,
    holds: Holds,
    rollouts: BTreeMap<String, Tail<Rollout>>,
    titles: Tail<Titles>,
}

impl CodexHome {
    /// The home at `home`, which need not exist yet.
    pub(super) fn new(home: &Path) -> Self {
        let sessions_path = home.join("sessions");
        Self {
            sessions: Folders::new(sessions_path.clone(), 3, |name| thread_of(name).is_some()),
            sessions_path,
            listed_at: None,
            holds: Holds::new(home),
            rollouts: BTreeMap::new(),
            titles: Tail::new(home.join("session_index.jsonl")),
        }
    }

    /// Reads the rollout of each held thread; of several the newest, which goes on with the others.
    fn read_rollouts(&mut self, now: Millis) {
        let held = self.holds.held();
        let missing = held.keys().any(|thread| self.rollouts.get(thread).is_none_or(|r| !r.path().exists()));
        if missing || super::is_due(self.listed_at, super::SWEEP_MS, now) {
            self.sessions.refresh(now);
            self.listed_at = Some(now);
            self.rollouts.retain(|thread, _| held.contains_key(thread));
            for thread in held.keys() {
                let files = self.sessions.find(|name| thread_of(name) == Some(thread)).into_iter();
                let Some(path) = files.max_by(|a, b| a.file_name().cmp(&b.file_name())) else { continue };
                if self.rollouts.get(thread).is_none_or(|rollout| rollout.path() != path) {
                    self.rollouts.insert(thread.clone(), Tail::new(path));
                }
            }
        }
        for rollout in self.rollouts.values_mut() {
            if let Err(error) = rollout.refresh() {
                tracing::debug!(%error, "a rollout could not be read");
            }
        }
    }

    /// A terminal shows one thread. After `/new` its process still holds the one before, which the person
    /// left, unless its turn goes on. A server holds the threads of many windows.
    fn is_left(&self, thread: &str, held: &Held, now: Millis) -> bool {
        let process = held.process.as_ref().map(|process| process.pid).filter(|_| !held.is_server);
        process.is_some()
            && self.holds.held().iter().any(|(other, newer)| {
                (newer.locked_at, other.as_str()) > (held.locked_at, thread)
                    && newer.process.as_ref().map(|process| process.pid) == process
                    && self.is_own(other, newer, now)
            })
    }

    /// Whether a thread is a session of its own. Before its rollout says so, that shows with time.
    fn is_own(&self, thread: &str, held: &Held, now: Millis) -> bool {
        match self.rollouts.get(thread).map(Tail::facts).filter(|rollout| rollout.id.is_some()) {
            Some(rollout) => !rollout.is_subagent,
            None => now >= held.locked_at + EMPTY_SHOWS_MS,
        }
    }

    /// A thread before its first prompt. Its process's folder is its own, except in a server.
    fn empty(&self, thread: &str, held: &Held, liveness: &Liveness) -> Option<Live> {
        let process = held.process.as_ref().filter(|_| !held.is_server)?;
        Some(Live {
            native_id: thread.to_owned(),
            cwd: liveness.cwd(process.pid)?,
            title: None,
            model: None,
            started_at: made_at(thread),
            seen: TurnSeen::known(Turn::Idle, made_at(thread)),
            pid: Some(process.pid),
        })
    }

    fn written(&self, thread: &str, rollout: &Rollout, held: &Held, seen: TurnSeen) -> Option<Live> {
        Some(Live {
            native_id: thread.to_owned(),
            cwd: rollout.cwd.clone()?,
            title: self.titles.facts().of(thread).or(rollout.prompt.as_deref()).map(str::to_owned),
            model: rollout.model.clone(),
            started_at: made_at(thread).or(rollout.started_at),
            seen,
            pid: held.process.as_ref().map(|process| process.pid),
        })
    }
}

impl Harness for CodexHome {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn roots(&self) -> Vec<PathBuf> {
        vec![self.sessions_path.clone(), self.holds.locks_folder()]
    }

    fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::from([self.holds.locks_folder()]);
        folders.extend(self.sessions.newest_path());
        folders.extend(self.rollouts.values().filter_map(|r| r.path().parent().map(Path::to_owned)));
        folders
    }

    fn look(&mut self, liveness: &mut Liveness, now: Millis) -> Look {
        let sessions = &mut self.sessions;
        self.holds.refresh(liveness, || lately_written(sessions, now), now);
        self.read_rollouts(now);
        // Without an index there are no titles, and nothing else is lost.
        let _ = self.titles.refresh();
        let mut look = Look::default();
        for (thread, held) in self.holds.held() {
            if !self.is_own(thread, held, now) {
                look.again_at = earlier(look.again_at, held.locked_at + EMPTY_SHOWS_MS, now);
                continue;
            }
            let live = match self.rollouts.get(thread).map(Tail::facts) {
                None => self.empty(thread, held, liveness),
                Some(rollout) => {
                    if let Some(asked_at) = rollout.open_escalation().flatten() {
                        let shows_at = (asked_at + APPROVAL_SHOWS_MS).max(now + WAITING_LOOK_MS);
                        look.again_at = earlier(look.again_at, shows_at, now);
                    }
                    let seen = rollout.turn(writer(rollout, held, liveness, now), now);
                    self.written(thread, rollout, held, seen)
                }
            };
            let shown = |live: &Live| live.seen.turn != Turn::Idle || !self.is_left(thread, held, now);
            look.live.extend(live.filter(shown));
        }
        look
    }
}

fn earlier(again_at: Option<Millis>, at: Millis, now: Millis) -> Option<Millis> {
    if at <= now { again_at } else { Some(again_at.map_or(at, |again| again.min(at))) }
}

/// What the thread's process and its children tell. Children are looked for only while a call may wait for
/// an approval: one that began after the call and works in the thread's folder means that it was given.
fn writer(rollout: &Rollout, held: &Held, liveness: &Liveness, now: Millis) -> Writer {
    let started_at = held.process.as_ref().map(|process| process.started_at);
    let has_child = || {
        let (asked_at, pid) = (rollout.open_escalation()??, held.process.as_ref()?.pid);
        let cwd = rollout.cwd.as_deref()?;
        let mut children = liveness.children(pid, now).into_iter();
        Some(children.any(|child| {
            child.started_at + super::CLOCK_SLACK_MS >= asked_at
                && liveness.cwd(child.pid).is_some_and(|at| at.starts_with(cwd) || same_folder(&at, cwd))
        }))
    };
    Writer { started_at, has_child: has_child() }
}

fn lately_written(sessions: &mut Folders, now: Millis) -> Vec<Written> {
    sessions.refresh(now);
    let mut files = Vec::new();
    for path in sessions.find(|_| true).into_iter().rev().take(WRITTEN_MAX) {
        let modified_at = std::fs::metadata(&path).ok().and_then(|meta| modified_ms(&meta));
        let mut rollout = Tail::<Rollout>::new(path);
        if rollout.refresh().is_err() {
            continue;
        }
        let facts = rollout.facts().clone();
        if let (Some(native_id), Some(cwd), Some(modified_at)) = (facts.id, facts.cwd, modified_at)
            && !facts.is_subagent
        {
            files.push(Written { native_id, cwd, modified_at });
        }
    }
    files
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
