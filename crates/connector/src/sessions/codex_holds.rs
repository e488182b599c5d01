//! Which process holds which Codex thread: by the kernel's list of locks, else by open files, else by folder;
//! and which process is the daemon. It reads no rollout and takes no lock.

use super::codex::thread_of;
use super::harness::{Candidate, Written, by_folder, is_uuid};
use super::liveness::{HeldLock, Liveness, Process};
use super::records::{self, object, text};
use super::tail::modified_ms;
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;

/// The largest pid file that is read.
const PID_FILE_BYTES: u64 = 16 << 10;

/// A thread and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// The process; `None` where the kernel names none that can be seen from here.
    pub(super) process: Option<Process>,
    /// Whether that process serves other programs' windows and terminals.
    pub(super) is_server: bool,
    /// When it was taken.
    pub(super) locked_at: Millis,
    /// The last reading of the list of locks did not show it.
    doubted: bool,
}

/// The held threads of one home.
#[derive(Debug)]
pub(super) struct Holds {
    home: PathBuf,
    held: BTreeMap<String, Held>,
}

/// A lock file.
struct LockFile {
    device: (u32, u32),
    inode: u64,
    locked_at: Millis,
}

impl Holds {
    /// The home at `home`.
    pub(super) fn new(home: &Path) -> Self {
        Self { home: home.to_owned(), held: BTreeMap::new() }
    }

    /// The folder of the locks.
    pub(super) fn locks_folder(&self) -> PathBuf {
        self.home.join("thread-writer-locks")
    }

    /// The threads that a living process holds.
    pub(super) fn held(&self) -> &BTreeMap<String, Held> {
        &self.held
    }

    /// Looks again. `written` gives the lately written rollouts, where it comes to those.
    pub(super) fn refresh(
        &mut self,
        liveness: &mut Liveness,
        written: impl FnOnce() -> Vec<Written>,
        now: Millis,
    ) {
        let daemon = self.daemon(liveness, now);
        let files = lock_files(&self.locks_folder());
        let pids = match (&files, liveness.locks()) {
            (Some(files), Some(locks)) => self.by_locks(files, &locks, liveness, now),
            _ => self.without_locks(liveness, daemon, written, now),
        };
        let files = files.unwrap_or_default();
        let before = std::mem::take(&mut self.held);
        for (thread, pid) in pids {
            let process = liveness.process(pid, now);
            if process.is_none() && pid != 0 {
                continue;
            }
            let is_server = Some(pid) == daemon || serves(&liveness.arguments(pid));
            let since = before.get(&thread).map_or(now, |held| held.locked_at);
            let locked_at = files.get(&thread).map_or(since, |file| file.locked_at);
            self.held.insert(thread, Held { process, is_server, locked_at, doubted: false });
        }
        for (thread, held) in before {
            if files.contains_key(&thread) && !self.held.contains_key(&thread) && held.goes_on(liveness, now)
            {
                self.held.insert(thread, Held { doubted: true, ..held });
            }
        }
    }

    /// The daemon's process, if its pid file names one that lives, by boot and ticks.
    fn daemon(&self, liveness: &Liveness, now: Millis) -> Option<u32> {
        let path = self.home.join("app-server-daemon").join("daemon.pid");
        fs::metadata(&path).ok().filter(|meta| meta.is_file() && meta.len() <= PID_FILE_BYTES)?;
        let record = records::read(&fs::read(path).ok()?).record?;
        let pid = u32::try_from(record.get("pid")?.as_u64()?).ok()?;
        let identity = object(&record, "processIdentity")?;
        let process = liveness.process(pid, now)?;
        let same_boot = liveness.boot_id().as_deref() == text(identity, "bootId");
        (same_boot && process.start_ticks == identity.get("startTicks")?.as_u64()).then_some(pid)
    }

    /// Older versions and other systems: by open rollouts; a process that shows none may write that of its
    /// folder.
    fn without_locks(
        &self,
        liveness: &mut Liveness,
        daemon: Option<u32>,
        written: impl FnOnce() -> Vec<Written>,
        now: Millis,
    ) -> BTreeMap<String, u32> {
        let (mut pids, mut candidates) = (BTreeMap::new(), Vec::new());
        for process in programs(liveness, now) {
            let files = liveness.open_files(process.pid);
            let ours = self.names_below(files.as_deref().unwrap_or_default(), &self.home);
            let threads: Vec<_> = ours.iter().filter_map(|name| thread_of(name)).map(str::to_owned).collect();
            let is_server = Some(process.pid) == daemon || serves(&liveness.arguments(process.pid));
            if threads.is_empty() && (files.is_none() || !is_server) {
                // A server's folder is that of whoever started it, and says nothing.
                let cwd = liveness.cwd(process.pid).filter(|_| !is_server);
                candidates.push(Candidate { pid: process.pid, cwd, started_at: process.started_at });
            }
            pids.extend(threads.into_iter().map(|thread| (thread, process.pid)));
        }
        if !candidates.is_empty() {
            let unclaimed =
                written().into_iter().filter(|file| !pids.contains_key(&file.native_id)).collect();
            pids.extend(by_folder(candidates, unclaimed));
        }
        pids
    }

    /// The holder of each lock file by the kernel's list; by open files where a layered or network file system
    /// shows another inode there.
    fn by_locks(
        &self,
        files: &BTreeMap<String, LockFile>,
        locks: &[HeldLock],
        liveness: &mut Liveness,
        now: Millis,
    ) -> BTreeMap<String, u32> {
        let listed = &*liveness;
        let holder = |file: &LockFile| {
            let mut ours = locks.iter().filter(|lock| lock.inode == file.inode);
            // Where only the device differs (btrfs), the program's name has to agree.
            let named =
                |pid| listed.process(pid, now).is_some_and(|process| process.name.starts_with("codex"));
            ours.find(|lock| lock.device == file.device || named(lock.pid)).map(|lock| lock.pid)
        };
        let mut pids: BTreeMap<_, _> =
            files.iter().filter_map(|(thread, file)| Some((thread.clone(), holder(file)?))).collect();
        if files.len() > pids.len() {
            for process in programs(liveness, now) {
                let open = liveness.open_files(process.pid).unwrap_or_default();
                for name in self.names_below(&open, &self.locks_folder()) {
                    let thread = name.strip_suffix(".lock").filter(|thread| files.contains_key(*thread));
                    pids.extend(
                        thread.filter(|t| !pids.contains_key(*t)).map(|t| (t.to_owned(), process.pid)),
                    );
                }
            }
        }
        pids
    }

    /// The names of those files that lie below a folder, which may be reached by a symbolic link.
    fn names_below(&self, files: &[PathBuf], folder: &Path) -> Vec<String> {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let below = files.iter().filter(|file| file.starts_with(&real));
        below.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned())).collect()
    }
}

impl Held {
    /// Whether a lock that is not listed is believed for one more look: reading that list while it changes
    /// can skip a line. It is not where its process ended.
    fn goes_on(&self, liveness: &Liveness, now: Millis) -> bool {
        let Some(process) = self.process.as_ref().filter(|_| !self.doubted) else { return false };
        liveness.process(process.pid, now).is_some_and(|now| now.start_ticks == process.start_ticks)
    }
}

/// The lock files; `None` where this version keeps none. They stay after a crash: being there proves nothing.
fn lock_files(folder: &Path) -> Option<BTreeMap<String, LockFile>> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let files = entries.filter_map(|entry| {
        let name = entry.file_name();
        let thread = name.to_str()?.strip_suffix(".lock").filter(|id| is_uuid(id))?;
        Some((thread.to_owned(), lock_file(&entry.metadata().ok()?)?))
    });
    Some(files.collect())
}

#[cfg(target_os = "linux")]
fn lock_file(meta: &Metadata) -> Option<LockFile> {
    use std::os::unix::fs::MetadataExt;
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    Some(LockFile { device, inode: meta.ino(), locked_at: modified_ms(meta)? })
}

/// Elsewhere no list of locks tells of devices and inodes.
#[cfg(not(target_os = "linux"))]
fn lock_file(meta: &Metadata) -> Option<LockFile> {
    Some(LockFile { device: (0, 0), inode: 0, locked_at: modified_ms(meta)? })
}

/// The processes of the program, from a list that may be some seconds old.
fn programs(liveness: &mut Liveness, now: Millis) -> Vec<Process> {
    let named = |p: &&Process| matches!(p.name.as_str(), "codex" | "codex.exe");
    let listed: Vec<Process> = liveness.processes(now).iter().filter(named).cloned().collect();
    listed.into_iter().filter(|process| liveness.process(process.pid, now).is_some()).collect()
}

fn serves(arguments: &[String]) -> bool {
    arguments.iter().skip(1).any(|word| word == "app-server")
}
