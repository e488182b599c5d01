//! The server's own key, made once and kept private in the data folder, and a certificate for it that is
//! made anew at each start. Clients pin the key, so that the certificate's names and dates bind nobody.

use super::{TlsFault, fingerprint};
use crate::folder::write_private;
use rcgen::{CertificateParams, DnType, KeyPair, PublicKeyData, SerialNumber};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use teamlamp_clock::Chance;
use teamlamp_wire::Millis;
use time::OffsetDateTime;

/// The file of the key in the data folder.
pub const KEY: &str = "tls-key.pem";
/// The file of the certificate in the data folder: for who wants to give it to another program.
pub const CERTIFICATE: &str = "tls-certificate.pem";

const DAY_MS: i64 = 86_400_000;
/// How long a certificate is good; browsers take none that is good for longer.
const LIFETIME_MS: i64 = 397 * DAY_MS;
/// It begins this long before it is made: the clocks of clients differ.
const BEFORE_MS: i64 = DAY_MS;
/// It is renewed this long before its end.
const RENEW_MS: i64 = 60 * DAY_MS;

/// The own key and what its certificates say.
pub(super) struct Own {
    key: KeyPair,
    names: Vec<String>,
    certificate: PathBuf,
    chance: Chance,
    ends_at: AtomicI64,
}

impl Own {
    /// Reads the key of a data folder, or makes it where there is none. A key that can't be read is not
    /// replaced: everyone has pinned it.
    pub(super) fn open(folder: &Path, names: Vec<String>, chance: Chance) -> Result<Self, TlsFault> {
        let path = folder.join(KEY);
        let shown = path.display();
        let key = match std::fs::read_to_string(&path) {
            Ok(pem) => KeyPair::from_pem(&pem).map_err(|fault| {
                TlsFault::new(format!(
                    "the server's TLS key in {shown} can't be read ({fault}): restore it from a backup, or remove it and invite everyone again"
                ))
            })?,
            Err(fault) if fault.kind() == ErrorKind::NotFound => {
                let key = KeyPair::generate().map_err(TlsFault::new)?;
                write_private(&path, key.serialize_pem().as_bytes())
                    .map_err(|fault| TlsFault::new(format!("{shown} can't be written ({fault})")))?;
                key
            }
            Err(fault) => return Err(TlsFault::new(format!("{shown} can't be read ({fault})"))),
        };
        let certificate = folder.join(CERTIFICATE);
        Ok(Self { key, names, certificate, chance, ends_at: AtomicI64::new(0) })
    }

    pub(super) fn fingerprint(&self) -> String {
        fingerprint(&self.key.subject_public_key_info())
    }

    /// A certificate that begins a day ago, written beside the key.
    pub(super) fn certify(&self, now: Millis, provider: &CryptoProvider) -> Result<CertifiedKey, TlsFault> {
        let ends_at = now + LIFETIME_MS;
        let mut params = CertificateParams::new(self.names.clone()).map_err(TlsFault::new)?;
        params.not_before = moment(now - BEFORE_MS)?;
        params.not_after = moment(ends_at)?;
        params.distinguished_name.push(DnType::CommonName, "Teamlamp team server");
        // Browsers refuse two certificates of one issuer that bear the same number.
        let mut number = self.chance.bytes::<16>();
        number[0] = number[0] & 0x7f | 1;
        params.serial_number = Some(SerialNumber::from_slice(&number));
        let made = params.self_signed(&self.key).map_err(TlsFault::new)?;
        let shown = self.certificate.display();
        write_private(&self.certificate, made.pem().as_bytes())
            .map_err(|fault| TlsFault::new(format!("{shown} can't be written ({fault})")))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let certified =
            CertifiedKey::from_der(vec![made.der().clone()], key, provider).map_err(TlsFault::new)?;
        self.ends_at.store(ends_at, Ordering::Relaxed);
        Ok(certified)
    }

    pub(super) fn ends_soon(&self, now: Millis) -> bool {
        self.ends_at.load(Ordering::Relaxed) - RENEW_MS <= now
    }
}

fn moment(at: Millis) -> Result<OffsetDateTime, TlsFault> {
    OffsetDateTime::from_unix_timestamp(at.div_euclid(1000)).map_err(TlsFault::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn own(folder: &Path) -> Own {
        Own::open(folder, vec!["localhost".into(), "192.168.1.4".into()], Chance::system()).unwrap()
    }

    #[test]
    fn the_key_stays_and_its_certificate_is_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let first = own(folder.path());
        let day = |days: i64| 1_700_000_000_000 + days * DAY_MS;
        let one = first.certify(day(0), &provider).unwrap();
        assert!(!first.ends_soon(day(300)) && first.ends_soon(day(340)));
        let two = first.certify(day(340), &provider).unwrap();
        assert!(!first.ends_soon(day(340)));
        assert_ne!(one.cert, two.cert, "another number and other dates");
        assert_eq!(own(folder.path()).fingerprint(), first.fingerprint());
        assert_eq!(first.fingerprint().len(), 64);
        #[cfg(unix)]
        for file in [KEY, CERTIFICATE] {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }

    #[test]
    fn a_damaged_key_is_refused_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(KEY), "nonsense").unwrap();
        let fault = Own::open(folder.path(), Vec::new(), Chance::system()).err().unwrap();
        assert!(fault.to_string().contains("restore it"), "{fault}");
        assert_eq!(std::fs::read(folder.path().join(KEY)).unwrap(), b"nonsense");
    }
}
