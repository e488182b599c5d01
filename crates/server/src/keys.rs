//! The server's secret keys, in one private file beside the database: the key of invitation codes, the
//! key of stream cursors, and the mark by which a database knows its own folder.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::path::Path;
use teamlamp_clock::Chance;
use teamlamp_wire::invitation::Code;

/// The file's name in the data folder.
pub const FILE: &str = "server-keys.json";

/// The secret keys of one server.
#[derive(Clone)]
pub struct Keys {
    codes: [u8; 32],
    cursors: [u8; 32],
    mark: String,
}

/// The keys are no text for logs.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(***)")
    }
}

#[derive(Serialize, Deserialize)]
struct Kept {
    codes: String,
    cursors: String,
    mark: String,
}

impl Keys {
    /// Reads the keys of a data folder, or makes them where it has none.
    ///
    /// # Errors
    /// A file that can't be read or written, or that holds something else.
    pub fn open(folder: &Path, chance: &Chance) -> std::io::Result<Self> {
        let path = folder.join(FILE);
        match std::fs::read(&path) {
            Ok(bytes) => Self::read(&bytes).ok_or_else(|| {
                std::io::Error::new(std::io::ErrorKind::InvalidData, "it does not hold the keys of a server")
            }),
            Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => {
                let keys = Self::fresh(chance);
                crate::folder::write_private(&path, keys.to_json().as_bytes())?;
                Ok(keys)
            }
            Err(fault) => Err(fault),
        }
    }

    fn fresh(chance: &Chance) -> Self {
        Self { codes: chance.bytes(), cursors: chance.bytes(), mark: hex(&chance.bytes::<16>()) }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let kept: Kept = serde_json::from_slice(bytes).ok()?;
        Some(Self { codes: unhex(&kept.codes)?, cursors: unhex(&kept.cursors)?, mark: kept.mark })
    }

    fn to_json(&self) -> String {
        let kept = Kept { codes: hex(&self.codes), cursors: hex(&self.cursors), mark: self.mark.clone() };
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// What is stored of an invitation's code: an HMAC under a key that is not in the database, so that
    /// 50 bits can't be tried out by whoever reads the table.
    pub fn code_mac(&self, code: &Code) -> [u8; 32] {
        mac(&self.codes, "code", code.canonical().as_bytes())
    }

    /// The digest of a request with an idempotency key. Keyed too: bodies hold codes.
    pub fn request_digest(&self, request: &[u8]) -> [u8; 32] {
        mac(&self.codes, "request", request)
    }

    /// Authenticates what a cursor says.
    pub fn cursor_mac(&self, cursor: &[u8]) -> [u8; 32] {
        mac(&self.cursors, "cursor", cursor)
    }

    /// What a database of this folder is marked with; another mark in it says that it was copied here.
    pub fn mark(&self) -> &str {
        &self.mark
    }
}

fn mac(key: &[u8; 32], purpose: &str, bytes: &[u8]) -> [u8; 32] {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of 32 bytes");
    mac.update(purpose.as_bytes());
    mac.update(&[0]);
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(i * 2..i * 2 + 2)?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_the_same_and_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let first = Keys::open(folder.path(), &Chance::system()).unwrap();
        let again = Keys::open(folder.path(), &Chance::system()).unwrap();
        let code = Code::parse("7K3QF-9XW2M").unwrap();
        assert_eq!(first.code_mac(&code), again.code_mac(&code));
        assert_eq!(first.cursor_mac(b"x"), again.cursor_mac(b"x"));
        assert_ne!(first.request_digest(b"7K3QF9XW2M"), first.code_mac(&code));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(format!("{first:?}"), "Keys(***)");
    }

    #[test]
    fn a_damaged_file_is_refused_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        assert!(Keys::open(folder.path(), &Chance::system()).is_err());
        assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), b"{}");
    }
}
