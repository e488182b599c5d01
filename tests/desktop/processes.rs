//! Programs that end with the test, and what runs below one, read from `/proc`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// The folder that holds the built programs.
pub(crate) fn built() -> PathBuf {
    let this = std::env::current_exe().expect("this test has a path");
    this.parent().and_then(Path::parent).expect("tests lie in deps").to_owned()
}

/// A folder below `target` that is kept after the run.
pub(crate) fn kept(folder: &str) -> PathBuf {
    let path = built().parent().expect("a profile lies in target").join(folder);
    fs::create_dir_all(&path).expect("target can be written");
    path
}

/// A program that is killed when its test ends.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a program; what it says is appended to a log that is kept.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).expect("the log can be written");
        let also = log.try_clone().expect("the log can be shared");
        let name = command.get_program().to_owned();
        command.stdout(log).stderr(also);
        if command.get_args().len() == 0 || name != "gnome-keyring-daemon" {
            command.stdin(Stdio::null());
        }
        let child = command.spawn();
        Self { child: child.unwrap_or_else(|fault| panic!("{} starts: {fault}", name.display())) }
    }

    /// A program that was started elsewhere.
    pub(crate) fn of(child: Child) -> Self {
        Self { child }
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, once it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Ends it at once, as a crash or a power loss would.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process and its parent, by name.
pub(crate) struct Process {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
}

/// Everything that runs.
pub(crate) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (head, tail) = stat.rsplit_once(')')?;
            let mut fields = tail.split_whitespace();
            let is_dead = fields.next()? == "Z";
            let parent = fields.next()?.parse().ok()?;
            let name = head.split_once('(')?.1.to_owned();
            (!is_dead).then_some(Process { pid, parent, name })
        })
        .collect()
}

/// The programs below one whose names begin with `name` (the system cuts names to 15 characters).
pub(crate) fn below(top: u32, name: &str) -> Vec<u32> {
    let all = all();
    let mut family = vec![top];
    let mut found = Vec::new();
    while let Some(parent) = family.pop() {
        for process in all.iter().filter(|p| p.parent == parent) {
            family.push(process.pid);
            if process.name.starts_with(&name[..name.len().min(15)]) {
                found.push(process.pid);
            }
        }
    }
    found
}

/// The memory of a program and all that it started, where what is shared counts in parts (PSS), in KiB.
pub(crate) fn memory_kib(top: u32) -> u64 {
    let family = below(top, "").into_iter().chain([top]);
    let pss = |pid: u32| {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    family.filter_map(pss).sum()
}

/// Whether a process runs.
pub(crate) fn runs(pid: u32) -> bool {
    all().iter().any(|process| process.pid == pid)
}

/// Asks a process to end (SIGTERM), or ends it at once (SIGKILL).
pub(crate) fn signal(pid: u32, signal: &str) {
    // It may have ended by itself meanwhile.
    let _ = Command::new("kill")
        .args([signal, &pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .expect("kill runs");
}
