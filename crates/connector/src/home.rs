//! The folder in which this install keeps what it knows, private to its person, and how files in it are
//! written whole or not at all. What the files say belongs to their own modules.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a lock of another process is waited for: 2 s, looked at each 20 ms.
const LOCK_TRIES: usize = 100;
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// The folder of one install (spec 06). Clones are the same folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

/// Why the home can't be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeFault {
    /// The platform names no folder for data.
    #[error("This system names no folder for a program's data: set TEAMLAMP_HOME to one.")]
    Nowhere,
    /// It can't be made, or made private.
    #[error(
        "The folder {path} can't be made private to you ({cause}): mend its owner, or set TEAMLAMP_HOME to another folder."
    )]
    Unusable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
}

impl Home {
    /// `chosen` (what `TEAMLAMP_HOME` says), else the platform's data folder.
    pub fn locate(chosen: Option<&OsStr>) -> Result<Self, HomeFault> {
        if let Some(folder) = chosen.filter(|f| !f.is_empty()) {
            return Ok(Self(PathBuf::from(folder)));
        }
        let name = if cfg!(target_os = "macos") { "dev.teamlamp" } else { "teamlamp" };
        let base = directories::BaseDirs::new().ok_or(HomeFault::Nowhere)?;
        Ok(Self(base.data_local_dir().join(name)))
    }

    /// The home in a folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Makes the folder where it is missing, and private (0700) where it is not.
    pub fn prepare(&self) -> Result<(), HomeFault> {
        make_private(&self.0).map_err(|cause| HomeFault::Unusable { path: self.0.clone(), cause })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Where a file of this name is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file's bytes; `None` where there is none.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Replaces a file (0600) so that a crash leaves the old or the new one whole: written beside it,
    /// flushed to the disk, renamed over it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let write = WRITES.fetch_add(1, Ordering::Relaxed);
        let beside = self.path(&format!("{name}.new-{}-{write}", std::process::id()));
        let written = private_file(&beside).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, self.path(name))?;
            sync_folder(&self.0)
        });
        if written.is_err() {
            // The old file still stands; what is left of the new one is of no use to anybody.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// Removes what a process that was killed while it wrote left beside `<name>.json`, which may hold
    /// secrets: who holds `<name>.lock` knows that nobody writes it now.
    pub(crate) fn sweep(&self, name: &str) -> io::Result<()> {
        let beside = format!("{name}.json.new-");
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&beside) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Waits until no other process holds this lock file, and holds it for as long as it is kept. One that
    /// is held for long (by a process that was stopped) is a fault rather than a wait without an end.
    #[expect(
        clippy::disallowed_methods,
        reason = "files are changed by blocking calls of a few milliseconds"
    )]
    pub fn lock(&self, name: &str) -> io::Result<fs::File> {
        let file = private_file(&self.path(name))?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::Error(cause)) => return Err(cause),
                Err(fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            }
        }
        let why = format!("another process of Teamlamp holds {name} for long: end it");
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    }

    /// A text that stays the same for this install and is told to nobody; made when it is first asked for.
    pub fn salt(&self, chance: &teamlamp_clock::Chance) -> io::Result<String> {
        if let Some(bytes) = self.read("salt")?
            && let Ok(salt) = String::from_utf8(bytes)
            && salt.len() == 32
        {
            return Ok(salt);
        }
        let salt = format!("{:032x}", chance.bits());
        self.write("salt", salt.as_bytes())?;
        Ok(salt)
    }

    /// Removes a file; one that is not there is no fault.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => Err(fault),
            _ => Ok(()),
        }
    }
}

/// Opens a file for writing from its beginning, readable by its owner alone.
pub(crate) fn private_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

/// Makes a file readable by its owner alone, and keeps what it holds.
pub(crate) fn private_file_kept(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(|_| ())
}

fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if fs::metadata(folder)?.permissions().mode() & 0o777 != 0o700 {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

/// A rename is durable only once its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_environment_chooses_the_home() {
        assert_eq!(Home::locate(Some(OsStr::new("/x/y"))).unwrap().folder(), Path::new("/x/y"));
        let platform = Home::locate(Some(OsStr::new(""))).unwrap();
        assert!(platform.folder().ends_with("teamlamp"), "{platform:?}");
    }

    #[test]
    fn the_home_and_its_files_are_private_even_where_they_were_not() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("a/b"));
        fs::create_dir_all(home.folder()).unwrap();
        fs::set_permissions(home.folder(), fs::Permissions::from_mode(0o755)).unwrap();
        home.prepare().unwrap();
        assert_eq!(mode(home.folder()), 0o700);
        fs::write(home.path("f"), b"old").unwrap();
        home.write("f", b"new").unwrap();
        assert_eq!(home.read("f").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(mode(&home.path("f")), 0o600);
        assert_eq!(fs::read_dir(home.folder()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_a_killed_process_left_beside_a_file_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        for name in ["secrets.json", "secrets.json.new-5-0", "contexts.json.new-5-0"] {
            fs::write(home.path(name), b"x").unwrap();
        }
        home.sweep("secrets").unwrap();
        let kept = |name: &str| home.path(name).exists();
        assert!(kept("secrets.json") && !kept("secrets.json.new-5-0") && kept("contexts.json.new-5-0"));
    }

    #[test]
    fn a_lock_that_nobody_gives_back_is_told_and_not_waited_for_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let held = home.lock("x.lock").unwrap();
        let said = home.lock("x.lock").unwrap_err().to_string();
        assert!(said.contains("x.lock") && said.contains("end it"), "{said}");
        drop(held);
        home.lock("x.lock").unwrap();
    }

    #[test]
    fn a_home_that_is_a_file_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("taken"), b"").unwrap();
        let said = Home::at(dir.path().join("taken")).prepare().unwrap_err().to_string();
        assert!(said.contains("TEAMLAMP_HOME"), "{said}");
    }
}
