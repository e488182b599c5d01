//! Which process holds which Codex thread: by the kernel's list of locks, else by open files, the daemon's
//! pid file, or folders. It reads no rollout and takes no lock.

use super::codex::thread_of;
use super::harness::{Candidate, Written, by_folder, is_uuid};
use super::liveness::{Liveness, Process};
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
            (Some(files), Some(_)) => by_locks(files, liveness, now),
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

    /// Older versions, other systems, homes on a network: by open rollouts, else by folder.
    fn without_locks(
        &self,
        liveness: &mut Liveness,
        daemon: Option<u32>,
        written: impl FnOnce() -> Vec<Written>,
        now: Millis,
    ) -> BTreeMap<String, u32> {
        let named = |p: &&Process| matches!(p.name.as_str(), "codex" | "codex.exe");
        let processes: Vec<_> = liveness.processes(now).iter().filter(named).cloned().collect();
        let (mut pids, mut unseen) = (BTreeMap::new(), Vec::new());
        for process in processes {
            let Some(files) = liveness.open_files(process.pid) else {
                let is_server = Some(process.pid) == daemon || serves(&liveness.arguments(process.pid));
                // A server's folder is that of whoever started it, and says nothing.
                let cwd = liveness.cwd(process.pid).filter(|_| !is_server);
                unseen.push(Candidate { pid: process.pid, cwd, started_at: process.started_at });
                continue;
            };
            let ours = files.iter().filter(|path| path.starts_with(&self.home));
            let threads = ours.filter_map(|path| thread_of(path.file_name()?.to_str()?));
            pids.extend(threads.map(|thread| (thread.to_owned(), process.pid)));
        }
        if !unseen.is_empty() {
            pids.extend(by_folder(unseen, written()));
        }
        pids
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

#[cfg(unix)]
fn lock_file(meta: &Metadata) -> Option<LockFile> {
    use std::os::unix::fs::MetadataExt;
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    Some(LockFile { device, inode: meta.ino(), locked_at: modified_ms(meta)? })
}

#[cfg(not(unix))]
fn lock_file(meta: &Metadata) -> Option<LockFile> {
    Some(LockFile { device: (0, 0), inode: 0, locked_at: modified_ms(meta)? })
}

fn by_locks(files: &BTreeMap<String, LockFile>, liveness: &Liveness, now: Millis) -> BTreeMap<String, u32> {
    let locks = liveness.locks().unwrap_or_default();
    let holder = |file: &LockFile| {
        let mut ours = locks.iter().filter(|lock| lock.inode == file.inode);
        // Layered file systems show another device here than for the file: then the name has to agree.
        let named = |pid| liveness.process(pid, now).is_some_and(|process| process.name.starts_with("codex"));
        ours.find(|lock| lock.device == file.device || named(lock.pid)).map(|lock| lock.pid)
    };
    files.iter().filter_map(|(thread, file)| Some((thread.clone(), holder(file)?))).collect()
}

fn serves(arguments: &[String]) -> bool {
    arguments.iter().skip(1).any(|word| word == "app-server")
}
