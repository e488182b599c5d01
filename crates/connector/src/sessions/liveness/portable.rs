//! Processes by `sysinfo`, for platforms other than Linux: numbers, names, parents, folders, arguments.
//! Which files a process holds open or locked is not told there, and is said to be unknown.

use super::{HeldLock, Process};
use std::path::PathBuf;
use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};
use teamlamp_wire::Millis;

/// The processes that `sysinfo` shows.
#[derive(Debug)]
pub(super) struct Table;

impl Table {
    pub(super) fn system() -> Self {
        Self
    }

    pub(super) fn process(&self, pid: u32, _now: Millis) -> Option<Process> {
        told(one(pid)?.process(Pid::from_u32(pid))?)
    }

    pub(super) fn all(&self, _now: Millis) -> Vec<Process> {
        let Ok(mut system) = System::new() else { return Vec::new() };
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing());
        system.processes().values().filter_map(told).collect()
    }

    pub(super) fn children(&self, pid: u32, now: Millis) -> Vec<Process> {
        self.all(now).into_iter().filter(|process| process.parent == pid).collect()
    }

    pub(super) fn cwd(&self, pid: u32) -> Option<PathBuf> {
        Some(one(pid)?.process(Pid::from_u32(pid))?.cwd()?.to_owned())
    }

    pub(super) fn arguments(&self, pid: u32) -> Vec<String> {
        let words = one(pid).and_then(|system| {
            let process = system.process(Pid::from_u32(pid))?;
            Some(process.cmd().iter().map(|word| word.to_string_lossy().into_owned()).collect())
        });
        words.unwrap_or_default()
    }

    pub(super) fn open_files(&self, _pid: u32) -> Option<Vec<PathBuf>> {
        None
    }

    pub(super) fn locks(&self) -> Option<Vec<HeldLock>> {
        None
    }

    pub(super) fn boot_id(&self) -> Option<String> {
        None
    }
}

fn one(pid: u32) -> Option<System> {
    let mut system = System::new().ok()?;
    let kind = ProcessRefreshKind::nothing().with_cwd(UpdateKind::Always).with_cmd(UpdateKind::Always);
    let found =
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[Pid::from_u32(pid)]), true, kind);
    (found > 0).then_some(system)
}

fn told(process: &sysinfo::Process) -> Option<Process> {
    if matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead)
        || process.thread_kind().is_some()
    {
        return None;
    }
    Some(Process {
        pid: process.pid().as_u32(),
        parent: process.parent().map_or(0, Pid::as_u32),
        name: process.name().to_string_lossy().into_owned(),
        start_ticks: None,
        started_at: Millis::try_from(process.start_time()).ok()?.checked_mul(1_000)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_finds_itself_and_what_is_not_told_is_unknown() {
        let (table, me) = (Table::system(), std::process::id());
        let process = table.process(me, 0).unwrap();
        assert!(table.all(0).iter().any(|p| p.pid == me && p.name == process.name));
        assert_eq!(table.cwd(me), std::env::current_dir().ok());
        assert!(!table.arguments(me).is_empty());
        assert_eq!(table.process(u32::MAX - 1, 0), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_listed = table.children(me, 0).iter().any(|process| process.pid == child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_listed);
        assert!(table.locks().is_none() && table.open_files(me).is_none() && table.boot_id().is_none());
    }
}
