//! Whether the process behind a session lives: files say what was written last, not whether the program
//! runs. One interface; what the platform can't tell is `None`, never a guess. It reads no session's files.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;

#[cfg(target_os = "linux")]
use linux::Table;
#[cfg(not(target_os = "linux"))]
use portable::Table;

use std::path::PathBuf;
use teamlamp_wire::Millis;

/// How old the list of all processes may be (spec 06: 10 s at most). One process, named by its number, is
/// always looked at anew.
const LIST_AGE_MS: i64 = 4_000;

/// A process that lives; one that ended and was not yet collected by its parent is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: u32,
    /// Its parent's.
    pub(super) parent: u32,
    /// The program's name as the system shows it, cut to 15 bytes on Linux.
    pub(super) name: String,
    /// When it began, in the kernel's ticks since boot: with the number an identity.
    pub(super) start_ticks: Option<u64>,
    /// When it began.
    pub(super) started_at: Millis,
}

/// A lock on a file that is held for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldLock {
    /// Who holds it; 0: somebody in another container.
    pub(super) pid: u32,
    /// The file's device: major, minor.
    pub(super) device: (u32, u32),
    /// The file's inode.
    pub(super) inode: u64,
}

/// The processes of this machine.
#[derive(Debug)]
pub(super) struct Liveness {
    table: Table,
    listed: Vec<Process>,
    listed_at: Option<Millis>,
}

impl Liveness {
    /// The system's own.
    pub(super) fn system() -> Self {
        Self { table: Table::system(), listed: Vec::new(), listed_at: None }
    }

    /// Those that a folder in the form of `/proc` shows.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn of_folder(folder: PathBuf) -> Self {
        Self { table: Table::of_folder(folder), listed: Vec::new(), listed_at: None }
    }

    /// The process of that number, if it lives.
    pub(super) fn process(&self, pid: u32, now: Millis) -> Option<Process> {
        self.table.process(pid, now)
    }

    /// All processes, from a list that is at most four seconds old.
    pub(super) fn processes(&mut self, now: Millis) -> &[Process] {
        if super::is_due(self.listed_at, LIST_AGE_MS, now) {
            self.listed = self.table.all(now);
            self.listed_at = Some(now);
        }
        &self.listed
    }

    /// The processes that this one started and that live.
    pub(super) fn children(&self, pid: u32, now: Millis) -> Vec<Process> {
        self.table.children(pid, now)
    }

    /// A process's working folder; `None` where it may not be seen.
    pub(super) fn cwd(&self, pid: u32) -> Option<PathBuf> {
        self.table.cwd(pid)
    }

    /// A process's arguments, the program first; empty where they may not be seen.
    pub(super) fn arguments(&self, pid: u32) -> Vec<String> {
        self.table.arguments(pid)
    }

    /// The files that a process holds open; `None` where they may not be seen.
    pub(super) fn open_files(&self, pid: u32) -> Option<Vec<PathBuf>> {
        self.table.open_files(pid)
    }

    /// The locks held for writing; `None` where the system does not tell.
    pub(super) fn locks(&self) -> Option<Vec<HeldLock>> {
        self.table.locks()
    }

    /// What tells this run of the system from others; `None` where it does not say.
    pub(super) fn boot_id(&self) -> Option<String> {
        self.table.boot_id()
    }
}

/// Whether `start`, which a harness wrote of its process, names this one. `None`: it is not in a form that
/// can be compared here (macOS writes a date).
pub(super) fn began_at(process: &Process, start: &str) -> Option<bool> {
    Some(process.start_ticks? == start.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_number_is_another_process() {
        let process =
            Process { pid: 7, parent: 1, name: "claude".into(), start_ticks: Some(50), started_at: 0 };
        assert_eq!(began_at(&process, "50"), Some(true));
        assert_eq!(began_at(&process, "51"), Some(false));
        assert_eq!(began_at(&process, "Mon Nov 30 19:34:42 2026"), None);
    }
}
