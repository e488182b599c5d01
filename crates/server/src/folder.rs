//! The data folder: made private, held by one server at a time, its small files written whole.

use crate::store::copy::Carried;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The database's file in the data folder.
pub const DATABASE: &str = "teamlamp.db";
const LOCK: &str = "server.lock";

/// Stands in the folder while a restore puts its files in place.
pub const UNFINISHED: &str = "restore-unfinished";
/// When a backup was last made, and how large it was.
pub const LAST_BACKUP: &str = "last-backup.json";
/// Small files whose names end so belong to the server: keys, certificates, settings.
const CARRIED: [&str; 5] = ["json", "pem", "key", "crt", "der"];
/// The largest file that a backup carries, and how many.
const CARRIED_BYTES: u64 = 64 << 10;
const CARRIED_FILES: usize = 64;

/// A data folder that this process alone serves, until it is dropped.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    _lock: File,
}

/// Why a folder can't be held.
#[derive(Debug, thiserror::Error)]
pub enum HoldFault {
    /// It can't be made or written.
    #[error("the data folder can't be written ({0}): name another, or mend its permissions")]
    Unwritable(#[from] io::Error),
    /// Another server holds it.
    #[error("a server is running with this data: stop it first")]
    InUse,
    /// A restore was cut off.
    #[error("a restore into the data folder was cut off: run `teamlamp server restore --force` again")]
    Unfinished,
}

impl Held {
    /// Makes the folder where it is missing, private to its owner, and takes its lock, to serve its database.
    ///
    /// # Errors
    /// A folder that can't be made or written, that another server holds, or whose restore was cut off.
    pub fn take(path: &Path) -> Result<Self, HoldFault> {
        let held = Self::lock(path)?;
        if path.join(UNFINISHED).exists() {
            return Err(HoldFault::Unfinished);
        }
        // SQLite gives its side files the mode of the database, so that one is made private first.
        private_file().write(true).truncate(false).open(path.join(DATABASE))?;
        Ok(held)
    }

    /// Makes the folder where it is missing and takes its lock; its database stays as it is, or missing.
    ///
    /// # Errors
    /// A folder that can't be made or written, or that another server holds.
    pub fn lock(path: &Path) -> Result<Self, HoldFault> {
        std::fs::create_dir_all(path)?;
        // A folder that was somebody's before keeps the mode that they gave it; its files are private.
        let ours = path.join(DATABASE).exists() || std::fs::read_dir(path)?.next().is_none();
        if ours {
            make_private(path, 0o700)?;
        }
        let lock = private_file().write(true).truncate(false).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(HoldFault::InUse),
            Err(TryLockError::Error(fault)) => Err(fault.into()),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The small files of a data folder that a backup carries: those without which a restored server would not
/// be the same to its clients.
///
/// # Errors
/// What the file system says.
pub fn carried(folder: &Path) -> io::Result<Vec<Carried>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let fits = std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= CARRIED_BYTES);
        if may_carry(name) && fits {
            files.push(Carried { name: name.to_owned(), bytes: std::fs::read(&path)? });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.truncate(CARRIED_FILES);
    Ok(files)
}

/// Whether a backup may carry a file of this name: also what a restore writes is held to it.
pub fn may_carry(name: &str) -> bool {
    let is_plain = !name.starts_with('.') && !name.contains(['/', '\\', ':']);
    let known = name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && CARRIED.contains(&end));
    is_plain && known && name != LAST_BACKUP
}

/// The network file system that holds a folder, where it is one: locks and shared memory, on which SQLite
/// relies, often fail there.
pub fn network_file_system(folder: &Path) -> Option<&'static str> {
    #[cfg(target_os = "linux")]
    {
        let found = rustix::fs::statfs(folder).ok()?;
        network_by_magic(found.f_type)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        None
    }
}

/// By the number that Linux's `statfs` gives each kind (`linux/magic.h`).
#[cfg_attr(not(any(target_os = "linux", test)), expect(dead_code, reason = "only Linux tells"))]
fn network_by_magic(magic: impl TryInto<i64>) -> Option<&'static str> {
    Some(match magic.try_into().ok()? & 0xffff_ffff {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x0102_1997 => "9P",
        0x786f_4256 => "a folder that VirtualBox shares",
        _ => return None,
    })
}

/// Options that make a file with mode 0600.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg_attr(not(unix), expect(clippy::unnecessary_wraps, reason = "only unix has modes"))]
pub(crate) fn make_private(path: &Path, mode: u32) -> io::Result<()> {
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
    settle(path)
}

/// Makes sure that what was renamed to `path`, or removed there, stays so if the power fails.
///
/// # Errors
/// What the file system says.
pub fn settle(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        // A bare name lies in the current folder.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
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
    fn a_backup_carries_keys_and_certificates_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "server-keys.json",
            "tls.pem",
            "tls.key",
            ".hidden.json",
            LAST_BACKUP,
            "teamlamp.db",
            "notes.txt",
        ];
        for name in names {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::write(folder.path().join("large.pem"), vec![0; 65 << 10]).unwrap();
        let carried: Vec<String> =
            carried(folder.path()).unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(carried, ["server-keys.json", "tls.key", "tls.pem"]);
        for bad in ["../x.json", "a/b.json", "C:x.json", ".json", "x", "teamlamp.db"] {
            assert!(!may_carry(bad), "{bad}");
        }
    }

    #[test]
    fn network_file_systems_are_told_by_their_number() {
        assert_eq!(network_by_magic(0x6969_i64), Some("NFS"));
        assert_eq!(network_by_magic(0xff53_4d42_u32), Some("SMB"));
        // The same number as a 32-bit system gives it.
        assert_eq!(network_by_magic(-11_317_950_i32), Some("SMB"));
        for local in [0xef53_i64, 0x0102_1994, 0x794c_7630, 0x9123_683e, 0x5846_5342] {
            assert_eq!(network_by_magic(local), None, "ext4, tmpfs, overlayfs, btrfs, XFS");
        }
        assert_eq!(network_file_system(&std::env::temp_dir()), None);
    }

    #[test]
    fn a_folder_that_is_a_file_is_refused() {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("file"), "x").unwrap();
        assert!(matches!(Held::take(&top.path().join("file")), Err(HoldFault::Unwritable(_))));
    }
}
