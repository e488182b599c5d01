//! A server that encrypts with its own key, and the real client that pins it.

use crate::world::{World, config};
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Method};
use std::sync::Arc;
use std::time::Duration;
use teamlamp_client::{
    Client, ClientError, FaultKind, FollowQuery, Followed, Http, Request, Transport, Trust,
};
use teamlamp_clock::{Chance, Clock};
use teamlamp_server::Server;
use teamlamp_server::config::Encryption;
use teamlamp_server::store::Run;
use teamlamp_wire::account::Role;
use teamlamp_wire::frame::Frame;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::invitation::{AcceptInvitation, CreateInvitation, JoinLink};
use teamlamp_wire::link::{FromMachine, FromServer};
use teamlamp_wire::machine::Enroll;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn encrypted() -> World {
    World::with(|config| config.encryption = Encryption::OwnKey).await
}

pub(crate) fn client(origin: &str, trust: &Trust) -> Client {
    let http = Http::to_server(origin, trust).unwrap();
    Client::new(Arc::new(http), Clock::system(), Chance::system(), "test")
}

fn pinned(fingerprint: &str) -> Trust {
    Trust { fingerprint: Some(fingerprint.to_owned()), ca_file: None }
}

/// The owner of a new team, by what the link says and nothing else.
async fn owner(link: &JoinLink) -> (Client, TeamId) {
    let client = client(&link.server, &pinned(link.fingerprint.as_deref().unwrap()));
    let accept =
        AcceptInvitation { code: link.code.to_string(), name: "Olga".into(), team_name: Some("Acme".into()) };
    let accepted = client.accept(&accept).await.unwrap();
    (client.with_token(accepted.credential.token.unwrap().into()), accepted.team.id)
}

#[tokio::test]
async fn everything_a_client_does_works_over_tls() {
    let world = encrypted().await;
    let link = world.server.owner_link().unwrap();
    assert!(link.server.starts_with("https://127.0.0.1:"), "{link:?}");
    assert_eq!(link.fingerprint.as_deref(), world.server.fingerprint());
    let (client, team) = owner(&link).await;
    let wish = CreateInvitation { role: Role::Member, expires_in_seconds: None, max_uses: None, note: None };
    let invited = client.invite(&team, &wish).await.unwrap().link.unwrap();
    assert_eq!(JoinLink::parse(&invited).unwrap().fingerprint.as_deref(), world.server.fingerprint());

    // A stream of events.
    let mut events = client.follow(&FollowQuery::all(team.clone()), None);
    let cursor = loop {
        if let Followed::Frame { frame: Frame::SnapshotEnd { cursor }, .. } = events.next().await.unwrap() {
            break cursor;
        }
    };
    // The link, a WebSocket.
    let enroll = Enroll { name: "laptop".into(), enrollment_key: "0123456789abcdef".into() };
    let enrolled = client.enroll(&team, &enroll).await.unwrap();
    let token = enrolled.credential.token.unwrap();
    let machine = client.with_token(token.clone().into());
    let mut link = machine.link(&team, &enrolled.machine.id).await.unwrap();
    let now = world.clock.now_ms();
    link.send(&FromMachine::Hello { incarnation_id: "run-1".into(), version: "1".into(), now })
        .await
        .unwrap();
    assert!(matches!(link.next().await.unwrap(), FromServer::Welcome { .. }));
    loop {
        if let Followed::Frame { frame: Frame::Event { data, .. }, .. } = events.next().await.unwrap()
            && data.kind == "machine.enrolled"
        {
            break;
        }
    }
    // A long poll, which waits for what comes next.
    let http = Http::to_server(world.server.origin(), &pinned(world.server.fingerprint().unwrap())).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    headers.insert("accept", "application/json".parse().unwrap());
    let path_and_query = format!("/v1/teams/{team}/events?after={cursor}&wait=20");
    let poll = http.send(Request { method: Method::GET, path_and_query, headers, body: Bytes::new() }).await;
    let page = poll.unwrap().read(1 << 20).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&page).contains("machine.enrolled"), "{page:?}");
    link.close().await;
}

#[tokio::test]
async fn another_key_is_refused_by_every_way() {
    let world = encrypted().await;
    let other = client(world.server.origin(), &pinned(&"0a".repeat(32)));
    let is_pin = |fault: ClientError| match fault {
        ClientError::Unreachable(fault) => assert_eq!(fault.kind, FaultKind::Pin, "{fault:?}"),
        fault => panic!("{fault:?}"),
    };
    is_pin(other.capabilities().await.unwrap_err());
    is_pin(other.link(&"team_1".into(), &"mach_1".into()).await.unwrap_err());
    let nobodys = client(world.server.origin(), &Trust::default()).capabilities().await.unwrap_err();
    assert!(matches!(nobodys, ClientError::Unreachable(fault) if fault.kind == FaultKind::Tls));
}

#[tokio::test]
async fn the_key_outlives_the_server_and_capabilities_say_lan() {
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let mut config = config(&folder, &Clock::system());
        (config.encryption, config.lan) = (Encryption::OwnKey, true);
        Server::start(config).await.unwrap()
    };
    let server = start().await;
    let key = server.fingerprint().unwrap().to_owned();
    let said = client(server.origin(), &pinned(&key)).capabilities().await.unwrap();
    assert!(said.lan);
    server.shutdown().await;
    let server = start().await;
    assert_eq!(server.fingerprint(), Some(key.as_str()));
    client(server.origin(), &pinned(&key)).capabilities().await.unwrap();
}

/// What a server answers to these bytes until it closes.
async fn told(server: &Server, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(server.local_addr().unwrap()).await.unwrap();
    let _ = socket.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = Clock::system().within(Duration::from_secs(15), socket.read_to_end(&mut answer)).await;
    let _ = read.expect("the server closes");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn who_speaks_plain_http_to_it_is_told_and_tls_to_a_plain_port_is_closed() {
    let world = encrypted().await;
    let body = "x".repeat(100_000);
    let request = format!("POST /v1/me HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{body}");
    let answer = told(&world.server, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("https"), "{body}");

    let plain = World::new().await;
    let mut hello = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    hello.resize(517, 0);
    let answer = told(&plain.server, &hello).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(plain.get("/healthz").send().await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_come_gives_its_place_back_after_ten_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder, &Clock::starting_at(1_700_000_000_000));
    (config.encryption, config.run, config.connections) = (Encryption::OwnKey, Run::Inline, 1);
    let server = Server::start(config).await.unwrap();
    for begun in [&b""[..], &[22, 3, 1]] {
        let mut socket = TcpStream::connect(server.local_addr().unwrap()).await.unwrap();
        socket.write_all(begun).await.unwrap();
        let before = tokio::time::Instant::now();
        // With one place in all, the second comes in only where the first gave its own back.
        assert_eq!(socket.read(&mut [0; 64]).await.unwrap_or(0), 0);
        assert_eq!(before.elapsed().as_secs(), 10, "{begun:?}");
    }
}
