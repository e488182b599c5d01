//! TLS: the server's own key or its owner's certificate, and the handshake of each connection. Which of
//! the two is in use may change its certificate while the server runs; new connections get the new one.

mod files;
mod handshake;
mod own;

pub(crate) use handshake::handshake;
pub use own::{CERTIFICATE, KEY};

use crate::config::{Config, Encryption};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use teamlamp_clock::Clock;

/// How often it is looked whether the owner's files changed.
const LOOK: Duration = Duration::from_secs(2);
/// How often it is looked whether the own certificate ends soon.
const RENEW: Duration = Duration::from_secs(86_400);

/// Why connections can't be encrypted, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsFault(pub(crate) String);

impl TlsFault {
    fn new(what: impl std::fmt::Display) -> Self {
        Self(what.to_string())
    }
}

/// The server's side of TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    /// What the handshake takes.
    pub(crate) config: Arc<ServerConfig>,
    /// The SHA-256 of the own key's SubjectPublicKeyInfo, in hex; `None` with the owner's certificate.
    pub(crate) fingerprint: Option<String>,
    current: Arc<Current>,
    source: Source,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

/// Where certificates come from.
#[derive(Clone)]
enum Source {
    Own(Arc<own::Own>),
    Files(files::Files),
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    fn set(&self, certified: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Tls {
    /// Makes ready what the configuration asks for; `None` where that is plain HTTP. `names` are the host
    /// names and addresses that an own certificate is for.
    ///
    /// # Errors
    /// A key or certificate that can't be read, made or kept.
    pub(crate) fn open(config: &Config, folder: &Path, names: Vec<String>) -> Result<Option<Self>, TlsFault> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (source, certified, fingerprint) = match &config.encryption {
            Encryption::Plain => return Ok(None),
            Encryption::OwnKey => {
                let own = own::Own::open(folder, names, config.chance.clone())?;
                let certified = own.certify(config.clock.now_ms(), &provider)?;
                let fingerprint = Some(own.fingerprint());
                (Source::Own(Arc::new(own)), certified, fingerprint)
            }
            Encryption::Files { certificate, key } => {
                let files = files::Files::new(certificate, key);
                let certified = files.read(&provider)?;
                (Source::Files(files), certified, None)
            }
        };
        let current = Arc::new(Current(RwLock::new(Arc::new(certified))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsFault::new)?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Some(Self { config: Arc::new(config), fingerprint, current, source }))
    }

    fn provider(&self) -> &CryptoProvider {
        self.config.crypto_provider()
    }

    /// Keeps the certificate current until the server ends. A pair of files that is broken, or only half
    /// written, changes nothing; what is wrong with it is logged once.
    pub(crate) async fn watch(self, clock: Clock) {
        match &self.source {
            Source::Own(own) => loop {
                clock.sleep(RENEW).await;
                if own.ends_soon(clock.now_ms()) {
                    match own.certify(clock.now_ms(), self.provider()) {
                        Ok(certified) => self.current.set(certified),
                        Err(fault) => tracing::warn!(%fault, "the server's certificate could not be renewed"),
                    }
                }
            },
            Source::Files(files) => {
                let (mut seen, mut told) = (files.first, None);
                loop {
                    clock.sleep(LOOK).await;
                    let now = files.identity();
                    // What could not be read may be whole by now without having changed again.
                    if now == seen && told.is_none() {
                        continue;
                    }
                    match files.read(self.provider()) {
                        Ok(certified) => {
                            self.current.set(certified);
                            tracing::info!("new connections get the certificate that was put in place");
                            (seen, told) = (now, None);
                        }
                        Err(fault) if told.as_ref() == Some(&fault) => {}
                        Err(fault) => {
                            tracing::warn!(%fault, "the changed certificate can't be used; the old one stays");
                            told = Some(fault);
                        }
                    }
                }
            }
        }
    }
}

/// The fingerprint of a key as invitations bear it: the SHA-256 of its SubjectPublicKeyInfo in hex.
fn fingerprint(spki: &[u8]) -> String {
    Sha256::digest(spki).iter().map(|byte| format!("{byte:02x}")).collect()
}
