//! The data folder: made private, held by one server at a time, its small files written whole.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The database's file in the data folder.
pub const DATABASE: &str = "teamlamp.db";
const LOCK: &str = "server.lock";

/// A data folder that this process alone serves, until it is dropped.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    _lock: File,
}

/// Why a folder can't be held.
#[derive(Debug)]
pub enum HoldFault {
    /// It can't be made or written.
    Unwritable(io::Error),
    /// Another server holds it.
    InUse,
}

impl From<io::Error> for HoldFault {
    fn from(fault: io::Error) -> Self {
        Self::Unwritable(fault)
    }
}

impl Held {
    /// Makes the folder where it is missing, private to its owner, and takes its lock.
    ///
    /// # Errors
    /// A folder that can't be made or written, or that another server holds.
    pub fn take(path: &Path) -> Result<Self, HoldFault> {
        std::fs::create_dir_all(path)?;
        // A folder that was somebody's before keeps the mode that they gave it; its files are private.
        let ours = path.join(DATABASE).exists() || std::fs::read_dir(path)?.next().is_none();
        if ours {
            make_private(path, 0o700)?;
        }
        let lock = private_file().write(true).truncate(false).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(HoldFault::InUse),
            Err(TryLockError::Error(fault)) => return Err(fault.into()),
        }
        // SQLite gives its side files the mode of the database, so that one is made private first.
        private_file().write(true).truncate(false).open(path.join(DATABASE))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Options that make a file with mode 0600.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg_attr(not(unix), expect(clippy::unnecessary_wraps, reason = "only unix has modes"))]
fn make_private(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    #[cfg(not(unix))]
    let _ = (path, mode);
    Ok(())
}

/// Writes a file that only its owner may read, whole or not at all.
///
/// # Errors
/// What the file system says.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let half = path.with_extension("half");
    let mut file = private_file().write(true).truncate(true).open(&half)?;
    make_private(&half, 0o600)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&half, path)?;
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_held_once() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b");
        let held = Held::take(&path).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&path), 0o700);
            assert_eq!(mode(&path.join(DATABASE)), 0o600);
        }
        assert!(matches!(Held::take(&path), Err(HoldFault::InUse)));
        drop(held);
        Held::take(&path).unwrap();
    }

    #[test]
    fn a_folder_that_is_a_file_is_refused() {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("file"), "x").unwrap();
        assert!(matches!(Held::take(&top.path().join("file")), Err(HoldFault::Unwritable(_))));
    }
}
