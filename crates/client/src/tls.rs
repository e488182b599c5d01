//! One TLS policy for every call, stream and link: exactly the pinned key where one is pinned, else what
//! this computer's own trust store says, with one more authority where a file names it.

use crate::error::{FaultKind, TransportFault};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Whom to believe that they are the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The SHA-256 of the SubjectPublicKeyInfo of the server's key, in hex: exactly that key is accepted,
    /// whatever name or time its certificate bears. Absent: the platform decides.
    pub fingerprint: Option<String>,
    /// A PEM file of authorities that are believed besides the platform's: a company proxy's.
    pub ca_file: Option<PathBuf>,
}

/// The server showed another key than the pinned one.
#[derive(Debug, Error)]
#[error("the server's key is not the pinned one")]
pub(crate) struct OtherKey;

/// The configuration of a policy. `needs_tls` is false where the origin is plain `http`: no trust store
/// is read then, so that a computer without one can still speak to itself.
pub(crate) fn config(peer: &str, trust: &Trust, needs_tls: bool) -> Result<ClientConfig, TransportFault> {
    let fault = |detail: String| TransportFault::new(FaultKind::Tls, peer, detail);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| fault(e.to_string()))?;
    if !needs_tls {
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    let verifier: Arc<dyn ServerCertVerifier> = match &trust.fingerprint {
        Some(fingerprint) => {
            let key = unhex(fingerprint).ok_or_else(|| fault("the pinned fingerprint is damaged".into()))?;
            Arc::new(Pinned { key, provider })
        }
        None => platform(trust, provider).map_err(fault)?,
    };
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn platform(trust: &Trust, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let mut extra = Vec::new();
    if let Some(file) = &trust.ca_file {
        let shown = file.display();
        let certificates = CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| format!("the authorities in {shown} can't be read ({e})"))?;
        if certificates.is_empty() {
            return Err(format!("{shown} holds no certificate"));
        }
        extra = certificates;
    }
    rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider)
        .map(|verifier| Arc::new(verifier) as Arc<dyn ServerCertVerifier>)
        .map_err(|e| format!("this computer has no list of authorities: install `ca-certificates` ({e})"))
}

/// The fingerprint of a key, as invitations bear it.
pub(crate) fn fingerprint(spki: &[u8]) -> [u8; 32] {
    Sha256::digest(spki).into()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[i * 2..i * 2 + 2], 16).ok()?;
    }
    Some(key)
}

/// Accepts exactly one key. The handshake's signature is checked as ever, which proves that the server
/// holds it.
#[derive(Debug)]
struct Pinned {
    key: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let key = ParsedCertificate::try_from(end_entity)?.subject_public_key_info();
        if fingerprint(&key) == self.key {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::Other(OtherError(Arc::new(OtherKey))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What a failure of TLS is to a person.
pub(crate) fn told(fault: &rustls::Error) -> (FaultKind, String) {
    if let rustls::Error::InvalidCertificate(reason) = fault {
        let sentence = match reason {
            CertificateError::Other(OtherError(cause)) if cause.is::<OtherKey>() => {
                return (FaultKind::Pin, OtherKey.to_string());
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "nobody that this computer believes vouches for its certificate (a company's proxy needs \
                 its authority's file)"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired, or this computer's clock is wrong"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet, or this computer's clock is wrong"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name"
            }
            _ => return (FaultKind::Tls, fault.to_string()),
        };
        return (FaultKind::Tls, sentence.to_owned());
    }
    (FaultKind::Tls, fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_fingerprint_is_no_pin() {
        assert_eq!(unhex(&"0a".repeat(32)), Some([10; 32]));
        for bad in ["", "0a", &"zz".repeat(32), &"+a".repeat(32)[..63], &"é".repeat(32)] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
        let trust = Trust { fingerprint: Some("short".into()), ca_file: None };
        assert_eq!(config("https://x", &trust, true).unwrap_err().kind, FaultKind::Tls);
    }

    #[test]
    fn an_authority_file_must_hold_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        let trust = Trust { fingerprint: None, ca_file: Some(file.clone()) };
        assert!(config("https://x", &trust, true).unwrap_err().detail.contains("can't be read"));
        std::fs::write(&file, "nothing").unwrap();
        assert!(config("https://x", &trust, true).unwrap_err().detail.contains("no certificate"));
    }
}
