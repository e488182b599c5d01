//! Processes, their identity and their locks, from `/proc`. Reads only; takes no lock, for a probe could
//! refuse a program that starts just then.

use super::{HeldLock, Process};
use std::fs;
use std::path::PathBuf;
use teamlamp_wire::Millis;

/// Ticks of `/proc/<pid>/stat` in a second: `USER_HZ`, which is 100 on every platform that Rust builds for.
const TICKS_PER_SECOND: i64 = 100;

/// A folder in the form of `/proc`.
#[derive(Debug)]
pub(super) struct Table(PathBuf);

impl Table {
    pub(super) fn system() -> Self {
        Self("/proc".into())
    }

    #[cfg(test)]
    pub(super) fn of_folder(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(super) fn process(&self, pid: u32, now: Millis) -> Option<Process> {
        let text = fs::read(self.0.join(pid.to_string()).join("stat")).ok()?;
        parse_stat(pid, &String::from_utf8_lossy(&text), self.booted_at(now))
    }

    pub(super) fn all(&self, now: Millis) -> Vec<Process> {
        let booted_at = self.booted_at(now);
        let names = fs::read_dir(&self.0).into_iter().flatten().flatten();
        names
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let text = fs::read(entry.path().join("stat")).ok()?;
                parse_stat(pid, &String::from_utf8_lossy(&text), booted_at)
            })
            .collect()
    }

    pub(super) fn children(&self, pid: u32, now: Millis) -> Vec<Process> {
        let Some(pids) = self.children_by_thread(pid) else {
            return self.all(now).into_iter().filter(|process| process.parent == pid).collect();
        };
        pids.into_iter().filter_map(|child| self.process(child, now)).collect()
    }

    /// The kernel's own list, a file for each thread; `None` where it was built without.
    fn children_by_thread(&self, pid: u32) -> Option<Vec<u32>> {
        let mut pids = Vec::new();
        for thread in fs::read_dir(self.0.join(pid.to_string()).join("task")).ok()?.flatten() {
            let text = match fs::read_to_string(thread.path().join("children")) {
                Ok(text) => text,
                // A thread that ended meanwhile has no children; a kernel without the file has it for none.
                Err(_) if !thread.path().exists() => continue,
                Err(_) => return None,
            };
            pids.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
        Some(pids)
    }

    pub(super) fn cwd(&self, pid: u32) -> Option<PathBuf> {
        fs::read_link(self.0.join(pid.to_string()).join("cwd")).ok()
    }

    pub(super) fn arguments(&self, pid: u32) -> Vec<String> {
        let bytes = fs::read(self.0.join(pid.to_string()).join("cmdline")).unwrap_or_default();
        let words = bytes.split(|b| *b == 0).filter(|word| !word.is_empty());
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    pub(super) fn open_files(&self, pid: u32) -> Option<Vec<PathBuf>> {
        let links = fs::read_dir(self.0.join(pid.to_string()).join("fd")).ok()?;
        Some(links.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).collect())
    }

    pub(super) fn locks(&self) -> Option<Vec<HeldLock>> {
        let text = fs::read_to_string(self.0.join("locks")).ok()?;
        Some(text.lines().filter_map(parse_lock).collect())
    }

    pub(super) fn boot_id(&self) -> Option<String> {
        let text = fs::read_to_string(self.0.join("sys/kernel/random/boot_id")).ok()?;
        Some(text.trim().to_owned())
    }

    /// The moment of boot by the wall clock, to ten milliseconds; the kernel's own `btime` is whole seconds.
    fn booted_at(&self, now: Millis) -> Millis {
        let text = fs::read_to_string(self.0.join("uptime")).unwrap_or_default();
        let seconds: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
        now - (seconds * 1_000.0) as Millis
    }
}

/// `pid (name) state parent … start …`: the name may hold spaces and brackets, so the last one ends it.
fn parse_stat(pid: u32, text: &str, booted_at: Millis) -> Option<Process> {
    let (name, rest) = (text.split_once('(')?.1, text.rsplit_once(')')?.1);
    let name = name.rsplit_once(')')?.0.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Field 3 of proc_pid_stat(5) is the first after the name, so field 22 has index 19.
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    let start_ticks: u64 = fields.get(19)?.parse().ok()?;
    let since_boot = Millis::try_from(start_ticks).ok()?.checked_mul(1_000 / TICKS_PER_SECOND)?;
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        name,
        start_ticks: Some(start_ticks),
        started_at: booted_at.checked_add(since_boot)?,
    })
}

/// `1: FLOCK  ADVISORY  WRITE 708 00:13:11452 0 EOF`; lines with `->` are those who wait.
fn parse_lock(line: &str) -> Option<HeldLock> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, "WRITE", pid, place, ..] = fields[..] else { return None };
    let mut place = place.split(':');
    let major = u32::from_str_radix(place.next()?, 16).ok()?;
    let minor = u32::from_str_radix(place.next()?, 16).ok()?;
    // Older kernels write -1 for a process that can't be seen from here.
    let pid = pid.parse::<i64>().ok()?.max(0);
    Some(HeldLock {
        pid: u32::try_from(pid).ok()?,
        device: (major, minor),
        inode: place.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "42 (my (odd) name) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 8123456 99 1 2";
        let process = parse_stat(42, text, 1_000).unwrap();
        assert_eq!((process.name.as_str(), process.parent), ("my (odd) name", 7));
        assert_eq!((process.start_ticks, process.started_at), (Some(8_123_456), 81_235_560));
    }

    #[test]
    fn a_dead_process_that_nobody_collected_is_dead() {
        let text = "42 (claude) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 8123456 99 1 2";
        assert_eq!(parse_stat(42, text, 0), None);
    }

    #[test]
    fn locks_held_are_told_from_locks_waited_for() {
        let lock = parse_lock("1: FLOCK  ADVISORY  WRITE 708 fe:0a:11452 0 EOF");
        assert_eq!(lock, Some(HeldLock { pid: 708, device: (0xfe, 10), inode: 11_452 }));
        assert_eq!(parse_lock("1: -> FLOCK  ADVISORY  WRITE 709 fe:0a:11452 0 EOF"), None);
        assert_eq!(parse_lock("2: POSIX  ADVISORY  READ  708 fe:0a:11452 0 EOF"), None);
        assert_eq!(parse_lock("1: FLOCK  ADVISORY  WRITE -1 fe:0a:5 0 EOF").unwrap().pid, 0);
    }

    #[test]
    fn this_test_finds_itself_with_its_folder_and_arguments() {
        let (table, me) = (Table::system(), std::process::id());
        let now = teamlamp_clock::Clock::system().now_ms();
        let process = table.process(me, now).unwrap();
        assert!((0..3_600_000).contains(&(now - process.started_at)), "{process:?}");
        assert!(table.all(now).iter().any(|p| p.pid == me && p.start_ticks == process.start_ticks));
        assert_eq!(table.cwd(me), std::env::current_dir().ok());
        assert!(!table.arguments(me).is_empty() && table.open_files(me).is_some());
        assert_eq!(table.process(u32::MAX, now), None);
    }

    #[test]
    fn a_lock_that_this_test_takes_is_seen_as_its_own() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        let inode = file.metadata().unwrap().ino();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let locks = Table::system().locks().unwrap();
        let mine = locks.iter().find(|lock| lock.inode == inode).expect("the lock is listed");
        assert_eq!(mine.pid, std::process::id());
    }

    #[test]
    fn a_child_is_found_under_its_parent_whichever_way_the_kernel_tells() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (table, me, now) =
            (Table::system(), std::process::id(), teamlamp_clock::Clock::system().now_ms());
        let by_list =
            table.all(now).into_iter().any(|process| process.parent == me && process.pid == child.id());
        let by_thread = table.children(me, now).iter().any(|process| process.pid == child.id());
        child.kill().unwrap();
        // Waits for its end without collecting it: it is still listed, and dead.
        let pid = rustix::process::Pid::from_child(&child);
        let until_its_end = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), until_its_end).unwrap();
        assert!(table.children(me, now).iter().all(|process| process.pid != child.id()));
        child.wait().unwrap();
        assert!(by_list && by_thread);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            parse_stat(1, &text, 0);
            parse_lock(&text);
        }
    }
}
