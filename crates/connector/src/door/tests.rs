//! The door over its real socket, read with the client library.

use crate::claim::{ClaimFault, SOCKET};
use crate::config::Config;
use crate::connector::{Connector, StartFault};
use crate::privacy::tests::session;
use crate::scripted::World;
use futures_util::StreamExt;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use teamlamp_client::{Door, Ending, Followed};
use teamlamp_clock::Clock;
use teamlamp_wire::frame::Frame;
use teamlamp_wire::local::PauseRequest;
use teamlamp_wire::session::Turn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

async fn opened() -> (World, Connector, Door) {
    let world = World::by(Clock::system());
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    world.install.join(world.wish()).await.unwrap();
    let connector = world.start(true).await;
    world.until(&connector, "online").await;
    let chance = world.install.chance.clone();
    let door = Door::at(&world.install.home.path(SOCKET), world.clock.clone(), chance, "test 1").unwrap();
    (world, connector, door)
}

/// The raw answer to a request by hand: its status and everything that comes within the bound.
async fn raw(world: &World, request: &str) -> String {
    let mut socket = UnixStream::connect(world.install.home.path(SOCKET)).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = world.clock.within(Duration::from_secs(20), socket.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: door\r\nConnection: close\r\n\r\n")
}

async fn frames(
    stream: &mut (impl futures_util::Stream<Item = Followed> + Unpin),
    clock: &Clock,
) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !frames.iter().any(|f| matches!(f, Frame::SnapshotEnd { .. } | Frame::Event { .. })) {
        match clock.within(Duration::from_secs(20), stream.next()).await.unwrap().unwrap() {
            Followed::Frame { frame, .. } => frames.push(frame),
            Followed::Ended { why } => panic!("{why:?}"),
            _ => {}
        }
    }
    frames
}

#[tokio::test]
async fn the_door_tells_the_status_pauses_and_connects() {
    let (world, connector, door) = opened().await;
    let mode = std::fs::metadata(world.install.home.path(SOCKET)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(door.status().await.unwrap(), *connector.status());
    let paused = door.pause(&PauseRequest { paused: true, for_seconds: Some(60) }).await.unwrap();
    assert!(paused.paused.unwrap().until.is_some());
    let resumed = door.pause(&PauseRequest { paused: false, for_seconds: None }).await.unwrap();
    assert_eq!(resumed.paused, None);
    door.connect_now().await.unwrap();
    world.until(&connector, "online").await;
    assert!(raw(&world, &get("/v1/machines")).await.contains("\"laptop\""));
    assert!(raw(&world, &get("/v1/other")).await.contains("not_found"));
    for body in [r#"{"paused":true,"for_seconds":0}"#, r#"{"paused":true,"x":1}"#, "{"] {
        let request = format!(
            "POST /v1/pause HTTP/1.1\r\nHost: door\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert!(raw(&world, &request).await.starts_with("HTTP/1.1 400"), "{body}");
    }
    connector.shutdown().await;
    assert!(door.status().await.is_err());
    assert!(!world.install.home.path(SOCKET).exists());
}

#[tokio::test]
async fn ten_readers_share_the_one_stream_and_each_resumes_by_its_cursor() {
    let (world, connector, door) = opened().await;
    let context = connector.status().contexts[0].id.clone();
    let mut readers: Vec<_> = (0..10).map(|_| door.follow(&context, None)).collect();
    for reader in &mut readers {
        let frames = frames(reader, &world.clock).await;
        assert!(matches!(frames[..], [Frame::SnapshotBegin, Frame::SnapshotEnd { .. }]), "{frames:?}");
    }
    let event = r#"{"type":"event","sequence":1,"cursor":"c1","data":{"id":"evt_1","org":"team_1","at":1,"actor":{"principal_id":null,"kind":"system","name":"x"},"kind":"machine.online","resource":{"kind":"machine","id":"mach_1"},"data":{}}}"#;
    world.server.stream.send(Some(format!("id: c1\ndata: {event}\n\n"))).unwrap();
    for reader in &mut readers {
        assert!(matches!(frames(reader, &world.clock).await[..], [Frame::Event { sequence: 1, .. }]));
    }
    let mut resumed = door.follow(&context, Some("c0".into()));
    assert!(matches!(frames(&mut resumed, &world.clock).await[..], [Frame::Event { sequence: 1, .. }]));
    assert_eq!(world.server.count("get events"), 1, "one stream on the server");
    connector.shutdown().await;
}

#[tokio::test]
async fn what_the_door_cannot_serve_is_told_so_that_the_reader_goes_to_the_server() {
    let (world, connector, door) = opened().await;
    for query in ["kinds=machine.online", "source=src_1", "context=other", "after=unknown", "wait=5"] {
        let answer = raw(&world, &get(&format!("/v1/events?{query}"))).await;
        assert!(
            answer.starts_with("HTTP/1.1 404") && answer.contains("\"unsupported\""),
            "{query}: {answer}"
        );
    }
    let mut elsewhere = door.follow("other", None);
    let ended = world.clock.within(Duration::from_secs(20), async {
        loop {
            if let Some(Followed::Ended { why }) = elsewhere.next().await {
                return why;
            }
        }
    });
    assert!(matches!(ended.await, Some(Ending::Refused(_))));
    connector.shutdown().await;
}

#[tokio::test]
async fn a_second_connector_of_a_home_is_told_who_runs_it() {
    let (world, connector, _door) = opened().await;
    let sessions = world.found.subscribe();
    let second =
        Connector::start(Config { install: world.install.clone(), sessions, only: None, door: true }).await;
    let Err(StartFault::Claim(ClaimFault::Held { pid })) = second else { panic!("{second:?}") };
    assert_eq!(pid, std::process::id());
    assert!(world.install.home.path(SOCKET).exists(), "the first one's door stays open");
    connector.shutdown().await;
    let again = world.start(true).await;
    again.shutdown().await;
}

#[tokio::test]
async fn closing_ends_idle_readers_at_once() {
    let (world, connector, door) = opened().await;
    let context = connector.status().contexts[0].id.clone();
    let mut reader = door.follow(&context, None);
    frames(&mut reader, &world.clock).await;
    let before = world.clock.monotonic();
    connector.shutdown().await;
    assert!(world.clock.monotonic() - before < Duration::from_secs(3));
    let lost = world.clock.within(Duration::from_secs(20), async {
        loop {
            if let Some(Followed::Dropped { .. }) = reader.next().await {
                return;
            }
        }
    });
    assert!(lost.await.is_some());
}
