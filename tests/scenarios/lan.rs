//! A server for the local network: encrypted with a key that links name, found by who looks for it, and
//! served with a certificate of its owner's.

use crate::home::{Home, Running};
use crate::wait::until;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use teamlamp_client::{Client, Http, Trust};
use teamlamp_clock::{Chance, Clock};

/// A server of a new team for the local network, and its ready line.
async fn serve_lan(home: &Home) -> (Running, Value) {
    let data = home.data();
    let words = ["serve", "--data", &data, "--lan", "--listen", "0.0.0.0:0", "--json"];
    let first = ["--init-team", "Acme", "--as", "Owner", "--machine", "first-laptop", "--name", "Büro"];
    let server = home.start(&[&words[..], &first].concat());
    let ready = server.ready().await;
    (server, ready)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

#[tokio::test]
async fn two_homes_meet_over_tls_by_the_key_in_the_link_and_only_by_that() {
    let (a, b) = (Home::new(), Home::new());
    let (server, ready) = serve_lan(&a).await;
    let (origin, key) = (text(&ready, "origin").to_owned(), text(&ready, "fingerprint").to_owned());
    assert!(origin.starts_with("https://") && !origin.contains("0.0.0.0"), "{origin}");
    let invited = a.run(&["invite", "--json"]).await.json();
    let link = text(&invited, "link").to_owned();
    assert!(link.contains(&format!("&fp={key}")), "{link}");
    let words = ["--as", "Mate", "--machine", "second-laptop", "--yes"];
    let forged = link.replace(&key, &"0a".repeat(32));
    b.run(&[&["join", &forged][..], &words].concat()).await.refused(3, &["key"]);
    b.run(&[&["join", &link][..], &words].concat()).await.done();

    let (_first, second) = (a.connect().await, b.connect().await);
    a.sees(&[("first-laptop", "online"), ("second-laptop", "online")]).await;
    let reader = b.start(&["events", "--follow", "--json"]);
    until("a whole snapshot", async || reader.frames().iter().any(|f| f["type"] == "snapshot_end")).await;
    a.run(&["events", "publish", "custom.cli.mark", "--data", "{\"number\":1}"]).await.done();
    let marked = |number: i64| reader.frames().iter().any(|f| f["data"]["data"]["number"] == number);
    until("the event came", async || marked(1)).await;

    // The key outlives a restart, so that the pin holds.
    assert_eq!(server.stop().await, 0);
    let port = origin.rsplit(':').next().expect("a port");
    let (data, listen) = (a.data(), format!("0.0.0.0:{port}"));
    let again = ["serve", "--data", &data, "--lan", "--listen", &listen, "--json"];
    let server = a.start(&again);
    let ready = server.ready().await;
    assert_eq!((text(&ready, "origin"), text(&ready, "fingerprint")), (&origin[..], &key[..]));
    a.sees(&[("first-laptop", "online"), ("second-laptop", "online")]).await;
    a.run(&["events", "publish", "custom.cli.mark", "--data", "{\"number\":2}"]).await.done();
    until("the next event came", async || marked(2)).await;

    // Another key at the same address is somebody else.
    assert_eq!(server.stop().await, 0);
    std::fs::remove_file(Path::new(&data).join("tls-key.pem")).expect("the key is there");
    let server = a.start(&again);
    assert_ne!(text(&server.ready().await, "fingerprint"), key);
    b.run(&["machines"]).await.refused(3, &["key", "new invitation"]);
    until("the connector says so", async || b.run(&["status"]).await.out.contains("key")).await;
    assert_eq!(second.stop().await, 0);
}

/// Whether this computer has a network besides itself, without which nobody is near.
fn has_network() -> bool {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect("192.0.2.1:9").is_ok()
        && socket.local_addr().is_ok_and(|address| !address.ip().is_loopback())
}

#[tokio::test]
async fn who_looks_for_servers_finds_one_and_joins_with_its_code() {
    if !has_network() {
        eprintln!("not tried: this computer has no network besides itself");
        return;
    }
    let (a, b) = (Home::new(), Home::new());
    let (server, ready) = serve_lan(&a).await;
    let id = text(&ready, "server_id").to_owned();
    let listed = async || {
        let list = b.run(&["join", "--nearby", "--json"]).await.json();
        let items = list["items"].as_array().expect("a list").clone();
        items.into_iter().find(|it| it["server_id"] == *id)
    };
    let found = crate::wait::eventually("the server is found", listed).await;
    assert_eq!((&found["name"], &found["fingerprint"]), (&json!("Büro"), &ready["fingerprint"]));
    let code = text(&a.run(&["invite", "--json"]).await.json(), "code").to_owned();
    let words = ["join", "--nearby", "--server", &id, "--as", "Mate", "--machine", "second-laptop", "--yes"];
    b.run(&[&words[..], &["00000-00000"]].concat()).await.refused(1, &[]);
    b.run(&[&words[..], &[&code]].concat()).await.done();
    let saved = b.run(&["status", "--json"]).await.out;
    assert!(saved.contains("\"https://"), "{saved}");
    b.run(&["machines"]).await.done();
    b.run(&["join", "--nearby", "--server", "srv_nobody", "--yes", &code]).await.refused(3, &["srv_nobody"]);
    // It says goodbye.
    assert_eq!(server.stop().await, 0);
    until("the server is no longer found", async || listed().await.is_none()).await;
}

/// A certificate for this computer, put in place; its key's fingerprint.
fn put_certificate(folder: &Path) -> String {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    std::fs::write(folder.join("c.pem"), certificate).expect("it can be written");
    std::fs::write(folder.join("k.pem"), key.serialize_pem()).expect("it can be written");
    let digest = <sha2::Sha256 as sha2::Digest>::digest(key.subject_public_key_info());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a new connection to a server gets this key.
async fn serves(origin: &str, fingerprint: &str) -> bool {
    let trust = Trust { fingerprint: Some(fingerprint.to_owned()), ca_file: None };
    let http = Http::to_server(origin, &trust).expect("an origin");
    let client = Client::new(Arc::new(http), Clock::system(), Chance::system(), "test");
    client.capabilities().await.is_ok()
}

#[tokio::test]
async fn a_certificate_of_the_owners_is_changed_without_a_restart() {
    let a = Home::new();
    let first = put_certificate(a.path());
    let data = a.data();
    let words = ["serve", "--data", &data, "--listen", "127.0.0.1:0", "--tls-cert", "c.pem"];
    a.run(&words).await.refused(2, &["tls_key"]);
    let server = a.start(&[&words[..], &["--tls-key", "k.pem", "--json"]].concat());
    let ready = server.ready().await;
    assert_eq!(ready["fingerprint"], Value::Null, "the platform's trust store decides");
    let origin = text(&ready, "origin");
    assert!(serves(origin, &first).await);
    std::fs::write(a.path().join("c.pem"), "nonsense").expect("it can be written");
    until("it says what is wrong", async || server.messages().contains("c.pem")).await;
    assert!(serves(origin, &first).await);
    let second = put_certificate(a.path());
    until("the new one is served", async || serves(origin, &second).await).await;
    assert!(!serves(origin, &first).await);
    assert_eq!(server.stop().await, 0);
    std::fs::write(a.path().join("k.pem"), "nonsense").expect("it can be written");
    a.run(&[&words[..], &["--tls-key", "k.pem"]].concat()).await.refused(2, &["k.pem"]);
}

#[tokio::test]
async fn nobody_is_let_in_in_clear_by_mistake() {
    let a = Home::new();
    let data = a.data();
    let serve = ["serve", "--data", &data];
    let refused = async |words: &[&str], told: &[&str]| {
        a.run(&[&serve[..], words].concat()).await.refused(2, told);
    };
    refused(&["--listen", "0.0.0.0:0"], &["plain http", "--lan"]).await;
    refused(&["--lan", "--listen", "127.0.0.1:0"], &["this one alone"]).await;
    refused(&["--cors-origins", "*"], &["cors_origins"]).await;
    refused(&["--trusted-proxies", "proxy"], &["trusted_proxies"]).await;
    let mut b = Home::new();
    b.environment.push(("TEAMLAMP_METRICS_TOKEN".into(), "short".into()));
    b.run(&serve).await.refused(2, &["metrics_token"]);
}
