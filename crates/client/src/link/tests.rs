//! Links over a pipe in memory and paused time; the other side is the same library.

use super::*;
use crate::scripted::{HTML, Part, Script, Step};
use teamlamp_wire::link::ClosingReason;
use tokio::io::DuplexStream;

type Server = WebSocketStream<DuplexStream>;

async fn linked() -> (Link, Server, Clock) {
    let (here, there) = tokio::io::duplex(1 << 20);
    let script = Script::of([]);
    script.will_upgrade(here);
    let client = script.client();
    let link = client.link(&"team_1".into(), &"mach_1".into()).await.unwrap();
    assert_eq!(script.asked()[0].path_and_query, "/v1/teams/team_1/machines/mach_1/link");
    assert_eq!(script.header(0, "upgrade").as_deref(), Some("websocket"));
    (link, WebSocketStream::from_raw_socket(there, Role::Server, None).await, client.clock.clone())
}

#[tokio::test(start_paused = true)]
async fn frames_go_both_ways_and_strange_ones_are_passed_over() {
    let (mut link, mut server, _) = linked().await;
    let hello = FromMachine::Hello { incarnation_id: "i".into(), version: "1".into(), now: 5 };
    link.send(&hello).await.unwrap();
    let got = server.next().await.unwrap().unwrap().into_text().unwrap();
    assert_eq!(serde_json::from_str::<FromMachine>(&got).unwrap(), hello);
    for text in [r#"{"type":"sing","x":1}"#, r#"{"type":"closing","reason":"replaced"}"#] {
        server.send(Message::text(text)).await.unwrap();
    }
    assert_eq!(link.next().await, Ok(FromServer::Closing { reason: ClosingReason::Replaced }));
    server.close(None).await.unwrap();
    assert_eq!(link.next().await, Err(LinkEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_link_pings_every_15_seconds_and_40_of_silence_end_it() {
    let (mut link, mut server, clock) = linked().await;
    let began = clock.now_ms();
    let (end, pings) = tokio::join!(link.next(), async {
        let mut pings = Vec::new();
        while pings.len() < 2 {
            // The library would answer the ping with the next read; this peer falls silent instead.
            if let Message::Ping(_) = server.next().await.unwrap().unwrap() {
                pings.push(clock.now_ms() - began);
            }
        }
        pings
    });
    assert_eq!(end, Err(LinkEnd::Silent));
    assert_eq!(pings, [15_000, 30_000]);
    assert!((40_000..56_000).contains(&(clock.now_ms() - began)));
}

#[tokio::test(start_paused = true)]
async fn an_answered_ping_keeps_a_quiet_link_and_next_may_be_dropped() {
    let (mut link, mut server, clock) = linked().await;
    let reads = async {
        for _ in 0..300 {
            assert!(clock.within(Duration::from_secs(1), link.next()).await.is_none());
        }
    };
    tokio::select! {
        biased;
        () = reads => {}
        _ = async { while server.next().await.is_some() {} } => panic!("the link ended"),
    }
}

#[tokio::test(start_paused = true)]
async fn frames_above_64_kib_and_frames_that_are_no_json_end_it() {
    let (mut link, mut server, _) = linked().await;
    let big =
        FromMachine::Hello { incarnation_id: "i".repeat(LINK_FRAME_BYTES), version: "1".into(), now: 5 };
    assert!(matches!(link.send(&big).await, Err(LinkEnd::Rules(_))));
    let strange = format!(r#"{{"type":"sing","x":"{}"}}"#, "a".repeat(LINK_FRAME_BYTES));
    server.send(Message::text(strange)).await.unwrap();
    assert!(matches!(link.next().await, Err(LinkEnd::Rules(_))));
    for message in [Message::text("hello"), Message::binary(vec![1])] {
        let (mut link, mut server, _) = linked().await;
        server.send(message).await.unwrap();
        assert!(matches!(link.next().await, Err(LinkEnd::Rules(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_told_from_a_closed_one() {
    let (mut link, server, _) = linked().await;
    drop(server);
    assert!(matches!(link.next().await, Err(LinkEnd::Broken(_))));
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_ends_within_a_second() {
    let (link, server, clock) = linked().await;
    let began = clock.now_ms();
    link.close().await;
    assert!(clock.now_ms() - began <= 1_000);
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_or_a_web_page_in_place_of_a_link_is_named() {
    let html = Step::Answer(200, HTML, vec![Part::Bytes("<html>".into())]);
    let script =
        Script::of([Step::refusal(401, "authentication_required"), html, Step::data("{}"), Step::Hang]);
    let (client, team, machine) = (script.client(), "team_1".into(), "mach_1".into());
    assert_eq!(client.link(&team, &machine).await.unwrap_err().status(), Some(401));
    for _ in 0..2 {
        assert!(matches!(client.link(&team, &machine).await, Err(ClientError::Garbled(_))));
    }
    assert!(matches!(client.link(&team, &machine).await, Err(ClientError::Unreachable(_))));
}
