//! The owner's certificate and key: read as a pair that fits, and told from what was there before.

use super::TlsFault;
use rustls::InconsistentKeys;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The largest file that is read: a chain of certificates has a few kilobytes.
const LARGEST_BYTES: u64 = 1 << 20;

/// Where the pair is.
#[derive(Clone, Debug)]
pub(super) struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// What they were before they were first read: a change in between is none that goes unseen.
    pub(super) first: [Identity; 2],
}

/// What tells a file from the one that was there before, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(Option<(u64, Option<SystemTime>, u64)>);

impl Files {
    pub(super) fn new(certificate: &Path, key: &Path) -> Self {
        let first = [certificate, key].map(identity);
        Self { certificate: certificate.to_owned(), key: key.to_owned(), first }
    }

    /// What both files are now. Links are followed: a tool that renews certificates changes where one
    /// leads.
    pub(super) fn identity(&self) -> [Identity; 2] {
        [&self.certificate, &self.key].map(|path| identity(path))
    }

    /// Reads the pair.
    pub(super) fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsFault> {
        let (shown, key_shown) = (self.certificate.display(), self.key.display());
        let chain = CertificateDer::pem_slice_iter(&bytes(&self.certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|fault| TlsFault::new(format!("the certificate in {shown} can't be read ({fault})")))?;
        if chain.is_empty() {
            return Err(TlsFault::new(format!("{shown} holds no certificate in PEM form")));
        }
        let key = PrivateKeyDer::from_pem_slice(&bytes(&self.key)?)
            .map_err(|fault| TlsFault::new(format!("the key in {key_shown} can't be read ({fault})")))?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|fault| TlsFault::new(format!("the key in {key_shown} can't be used ({fault})")))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // A key whose public half its library does not tell can't be compared.
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
            Err(rustls::Error::InconsistentKeys(_)) => Err(TlsFault::new(format!(
                "the key in {key_shown} is not that of the certificate in {shown}: put both in place"
            ))),
            Err(fault) => Err(TlsFault::new(format!("the certificate in {shown} can't be used ({fault})"))),
        }
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, TlsFault> {
    let shown = path.display();
    let unread = |fault: std::io::Error| TlsFault::new(format!("{shown} can't be read ({fault})"));
    if std::fs::metadata(path).map_err(unread)?.len() > LARGEST_BYTES {
        return Err(TlsFault::new(format!("{shown} is too large for a certificate or key")));
    }
    std::fs::read(path).map_err(unread)
}

fn identity(path: &Path) -> Identity {
    Identity(std::fs::metadata(path).ok().map(|it| (it.len(), it.modified().ok(), inode(&it))))
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_metadata: &std::fs::Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn only_a_pair_that_fits_is_taken_and_each_fault_has_its_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(&folder.path().join("c.pem"), &folder.path().join("k.pem"));
        let provider = rustls::crypto::ring::default_provider();
        let told = |files: &Files| files.read(&provider).unwrap_err().to_string();
        assert!(told(&files).contains("c.pem can't be read"), "{}", told(&files));
        let ((certificate, key), (_, other)) = (pair(), pair());
        std::fs::write(&files.certificate, "").unwrap();
        assert!(told(&files).contains("holds no certificate"));
        std::fs::write(&files.certificate, &certificate[..certificate.len() / 2]).unwrap();
        assert!(told(&files).contains("c.pem"), "{}", told(&files));
        std::fs::write(&files.certificate, &certificate).unwrap();
        std::fs::write(&files.key, &other).unwrap();
        assert!(told(&files).contains("not that of"), "{}", told(&files));
        std::fs::write(&files.key, &key[..40]).unwrap();
        assert!(told(&files).contains("k.pem"), "{}", told(&files));
        std::fs::write(&files.key, "x".repeat(2 << 20)).unwrap();
        assert!(told(&files).contains("too large"));
        std::fs::write(&files.key, &key).unwrap();
        let before = files.identity();
        assert!(files.read(&provider).is_ok());
        assert_eq!(files.identity(), before);
        std::fs::remove_file(&files.key).unwrap();
        assert_ne!(files.identity(), before);
    }
}
