//! A folder in the form of `/proc` that tests fill: processes, folders, open files and locks as they choose.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use teamlamp_wire::Millis;

/// A folder in the form of `/proc` that a test fills.
pub(super) struct FakeProc {
    pub(super) path: PathBuf,
    booted_at: Millis,
    locks: BTreeMap<PathBuf, u32>,
}

impl FakeProc {
    pub(super) fn new(path: PathBuf, booted_at: Millis) -> Self {
        fs::create_dir_all(path.join("sys/kernel/random")).unwrap();
        fs::write(path.join("sys/kernel/random/boot_id"), "00000000-0000-4000-8000-000000000000\n").unwrap();
        fs::write(path.join("locks"), "").unwrap();
        Self { path, booted_at, locks: BTreeMap::new() }
    }
    pub(super) fn ticks(&self, at: Millis) -> i64 {
        (at - self.booted_at) / 10
    }
    pub(super) fn set_now(&self, now: Millis) {
        let up = now - self.booted_at;
        fs::write(self.path.join("uptime"), format!("{}.{:02} 0.00\n", up / 1_000, up % 1_000 / 10)).unwrap();
    }
    pub(super) fn start(&self, pid: u32, parent: u32, arguments: &[&str], cwd: &Path, at: Millis) {
        let folder = self.path.join(pid.to_string());
        fs::create_dir_all(folder.join("fd")).unwrap();
        let name = Path::new(arguments[0]).file_name().unwrap().to_str().unwrap();
        let zeros = "0 ".repeat(17);
        fs::write(folder.join("stat"), format!("{pid} ({name}) S {parent} {zeros}{} 0 0\n", self.ticks(at)))
            .unwrap();
        fs::write(folder.join("cmdline"), arguments.join("\0")).unwrap();
        if let Ok(children) = fs::read_to_string(self.children(parent)) {
            fs::write(self.children(parent), format!("{children}{pid} ")).unwrap();
        }
        fs::create_dir_all(self.children(pid).parent().unwrap()).unwrap();
        fs::write(self.children(pid), "").unwrap();
        let _ = fs::remove_file(folder.join("cwd"));
        std::os::unix::fs::symlink(cwd, folder.join("cwd")).unwrap();
    }
    fn children(&self, pid: u32) -> PathBuf {
        self.path.join(format!("{pid}/task/{pid}/children"))
    }
    pub(super) fn end(&mut self, pid: u32) {
        let _ = fs::remove_dir_all(self.path.join(pid.to_string()));
        self.locks.retain(|_, holder| *holder != pid);
        self.write_locks();
    }
    pub(super) fn lock(&mut self, file: &Path, pid: u32) {
        self.locks.insert(file.to_owned(), pid);
        self.write_locks();
    }
    pub(super) fn unlock(&mut self, file: &Path) {
        self.locks.remove(file);
        self.write_locks();
    }
    fn write_locks(&self) {
        use std::os::unix::fs::MetadataExt;
        let lines = self.locks.iter().enumerate().map(|(at, (file, pid))| {
            let meta = fs::metadata(file).unwrap();
            let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
            format!("{at}: FLOCK  ADVISORY  WRITE {pid} {major:02x}:{minor:02x}:{} 0 EOF\n", meta.ino())
        });
        fs::write(self.path.join("locks"), lines.collect::<String>()).unwrap();
    }
}

/// Sets when a file was written, as far as its times show.
pub(super) fn written_at(file: &Path, at: Millis) {
    let time = UNIX_EPOCH + Duration::from_millis(at.unsigned_abs());
    File::options().append(true).open(file).unwrap().set_modified(time).unwrap();
}

/// The names of the files in `folders` that were opened while `act` ran.
pub(super) fn opened_during(folders: &[PathBuf], act: impl FnOnce()) -> Vec<String> {
    use notify::Watcher;
    let (told, tells) = std::sync::mpsc::channel();
    let mut watcher = notify::recommended_watcher(move |event| {
        let _ = told.send(event);
    })
    .unwrap();
    for folder in folders {
        watcher.watch(folder, notify::RecursiveMode::NonRecursive).unwrap();
    }
    act();
    // Events come in their order: when this file's has come, all before it have.
    fs::write(folders[0].join("last.mark"), "").unwrap();
    let mut opened = Vec::new();
    while let Ok(event) = tells.recv_timeout(Duration::from_secs(10)) {
        let event: notify::Event = event.unwrap();
        let names = event.paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        if names.clone().any(|name| name == "last.mark") {
            return opened;
        }
        if event.kind.is_access() {
            opened.extend(names);
        }
    }
    panic!("the system tells nothing of these folders");
}
