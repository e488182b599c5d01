//! One connector per home: a lock that lives as long as its process, and the stale socket of a process
//! that died. Whoever comes second reads through the local door instead.

use crate::home::Home;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};

const FILE: &str = "connector.lock";
/// The local door's socket, in the home.
pub const SOCKET: &str = "door.sock";

/// The right to run the connector of a home; given back when dropped, or when the process ends in
/// whatever way.
#[derive(Debug)]
pub struct Claim {
    file: File,
}

/// Why a home can't be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimFault {
    /// Another process has it.
    #[error("Another process (pid {pid}) already runs the connector of this home: this one reads from it.")]
    Held {
        /// Which; 0 where it did not say yet.
        pid: u32,
    },
    /// The system refuses.
    #[error("The file connector.lock in {folder} can't be used ({cause}): mend its owner and permissions.")]
    Io {
        /// The home.
        folder: std::path::PathBuf,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
}

impl Claim {
    /// Claims a home and removes the socket of an owner that died.
    pub fn take(home: &Home) -> Result<Self, ClaimFault> {
        let io = |cause| ClaimFault::Io { folder: home.folder().to_owned(), cause };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(home.path(FILE)).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                return Err(ClaimFault::Held { pid: pid.trim().parse().unwrap_or(0) });
            }
            Err(TryLockError::Error(cause)) => return Err(io(cause)),
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        home.remove(SOCKET).map_err(io)?;
        Ok(Self { file })
    }
}

/// Which process runs the connector of a home, if one does; 0 where it did not say yet.
///
/// # Errors
/// Where the lock can't be looked at.
pub fn holder(home: &Home) -> Result<Option<u32>, ClaimFault> {
    let io = |cause| ClaimFault::Io { folder: home.folder().to_owned(), cause };
    let mut file = match File::open(home.path(FILE)) {
        Ok(file) => file,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(io(cause)),
    };
    match file.try_lock_shared() {
        // Given back at once; a claim that is taken in this moment is refused, and taken on the next try.
        Ok(()) => Ok(None),
        Err(TryLockError::Error(cause)) => Err(io(cause)),
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            Ok(Some(pid.trim().parse().unwrap_or(0)))
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing would do; a process forked meanwhile by somebody else's library could hold it open.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_owner_is_told_who_the_first_is_and_may_follow_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let first = Claim::take(&home).unwrap();
        let told = Claim::take(&home).unwrap_err();
        assert!(matches!(told, ClaimFault::Held { pid } if pid == std::process::id()), "{told}");
        assert_eq!(holder(&home).unwrap(), Some(std::process::id()));
        drop(first);
        assert_eq!(holder(&home).unwrap(), None);
        std::fs::write(home.path(SOCKET), b"left behind").unwrap();
        let _second = Claim::take(&home).unwrap();
        assert!(!home.path(SOCKET).exists(), "the socket of a dead owner is removed");
    }
}
