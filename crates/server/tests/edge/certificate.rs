//! A certificate of the owner's: what is put in place is served to new connections, what is broken is not.

use crate::tls::client;
use crate::world::World;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PublicKeyData};
use std::path::Path;
use std::time::Duration;
use teamlamp_client::Trust;
use teamlamp_server::config::Encryption;
use teamlamp_server::{Server, StartError};

/// A certificate for this computer's address by an authority of its own; the key's fingerprint.
struct Made {
    chain: String,
    key: String,
    fingerprint: String,
    authority: String,
}

fn made() -> Made {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let digest = <sha2::Sha256 as sha2::Digest>::digest(key.subject_public_key_info());
    Made {
        chain: certificate.pem(),
        key: key.serialize_pem(),
        fingerprint: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        authority,
    }
}

fn put(folder: &Path, made: &Made) {
    std::fs::write(folder.join("c.pem"), &made.chain).unwrap();
    std::fs::write(folder.join("k.pem"), &made.key).unwrap();
}

/// Whether a new connection gets the certificate with this key.
async fn serves(server: &Server, made: &Made) -> bool {
    let trust = Trust { fingerprint: Some(made.fingerprint.clone()), ca_file: None };
    client(server.origin(), &trust).capabilities().await.is_ok()
}

async fn serves_soon(world: &World, made: &Made) {
    for _ in 0..300 {
        if serves(&world.server, made).await {
            return;
        }
        world.clock.sleep(Duration::from_millis(100)).await;
    }
    panic!("the certificate was not taken");
}

#[tokio::test]
async fn a_changed_certificate_is_served_without_a_restart_and_a_broken_one_never() {
    let (folder, first, second, third) = (tempfile::tempdir().unwrap(), made(), made(), made());
    put(folder.path(), &first);
    let files = [folder.path().join("c.pem"), folder.path().join("k.pem")];
    let world = World::with(|config| {
        let [certificate, key] = files.clone();
        config.encryption = Encryption::Files { certificate, key };
    })
    .await;
    // The platform decides, so links name no key.
    assert_eq!((world.server.fingerprint(), &world.server.owner_link().unwrap().fingerprint), (None, &None));
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, &first.authority).unwrap();
    let trust = Trust { fingerprint: None, ca_file: Some(ca_file) };
    client(world.server.origin(), &trust).capabilities().await.unwrap();
    let kept = client(world.server.origin(), &trust);
    kept.capabilities().await.unwrap();

    put(folder.path(), &second);
    serves_soon(&world, &second).await;
    assert!(!serves(&world.server, &first).await);
    // A connection that was open goes on.
    kept.capabilities().await.unwrap();

    // Half of a pair, then the other half: the old one is served in between, and the whole then.
    std::fs::write(&files[0], &third.chain).unwrap();
    world.clock.sleep(Duration::from_secs(5)).await;
    assert!(serves(&world.server, &second).await);
    std::fs::write(&files[1], "nonsense").unwrap();
    world.clock.sleep(Duration::from_secs(3)).await;
    assert!(serves(&world.server, &second).await);
    std::fs::write(&files[1], &third.key).unwrap();
    serves_soon(&world, &third).await;
    std::fs::remove_file(&files[0]).unwrap();
    world.clock.sleep(Duration::from_secs(3)).await;
    assert!(serves(&world.server, &third).await);
    let log = crate::world::logged();
    assert!(log.contains("c.pem") && log.contains("the old one stays"));
    assert!(!log.contains("PRIVATE KEY"));
}

#[tokio::test]
async fn a_server_does_not_start_with_a_pair_that_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (made(), made());
    put(folder.path(), &Made { key: other.key, ..one });
    let mut config = crate::world::config(&folder, &teamlamp_clock::Clock::system());
    config.encryption =
        Encryption::Files { certificate: folder.path().join("c.pem"), key: folder.path().join("k.pem") };
    let fault = Server::start(config).await.unwrap_err();
    assert!(matches!(&fault, StartError::Tls(_)), "{fault:?}");
    assert!(fault.to_string().contains("k.pem is not that of the certificate"), "{fault}");
}
