//! A server whose data was put back from a backup, as its clients see it, and a log that stays bounded.

use crate::kit::Live;
use crate::world::{World, config};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use teamlamp_client::{Client, FollowQuery, Followed, Http, Trust};
use teamlamp_clock::{Chance, Clock};
use teamlamp_server::{Server, backup};
use teamlamp_wire::frame::{Frame, ResyncReason};

/// The next thing that a follower is told, connections aside.
async fn told(stream: &mut (impl futures_util::Stream<Item = Followed> + Unpin)) -> Frame {
    let clock = Clock::system();
    loop {
        let next = clock.within(std::time::Duration::from_secs(30), stream.next()).await;
        if let Followed::Frame { frame, .. } = next.expect("something comes").expect("it is endless") {
            return frame;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_told_of_a_restore_and_follows_on_by_itself() {
    let live = Live::real().await;
    let data = live.world.folder.path().join("data");
    let file = live.world.folder.path().join("team.backup");
    live.publish("kept", json!({})).await;
    backup::make(&data, &file, false, 1).unwrap();
    for _ in 0..3 {
        live.publish("lost", json!({})).await;
    }
    let address = live.world.server.local_addr().unwrap();
    let http = Http::to_server(&format!("http://{address}"), &Trust::default()).unwrap();
    let client = Client::new(Arc::new(http), Clock::system(), Chance::system(), "restore test")
        .with_token(live.owner.token.clone().into());
    let mut follow = client.follow(&FollowQuery::all(live.team.as_str().into()), None);
    let mut last = 0;
    while last < 6 {
        match told(&mut follow).await {
            Frame::SnapshotItem { sequence, .. } | Frame::Event { sequence, .. } => last = last.max(sequence),
            _ => {}
        }
    }
    let Live { world: World { server, clock, folder }, owner, team, tasks } = live;
    server.shutdown().await;
    backup::restore(&file, &data, true, &Chance::system(), 2).unwrap();
    let mut config = config(&folder, &clock);
    config.listen = Some(address);
    let server = Server::start(config).await.unwrap();
    let live = Live { world: World { server, clock, folder }, owner, team, tasks };
    // The cursor of the lost events does not fit; the same numbers will be given again.
    loop {
        if let Frame::ResyncRequired { reason, cursor, .. } = told(&mut follow).await {
            assert_eq!((reason, cursor), (ResyncReason::ServerRestored, None));
            break;
        }
    }
    let mut snapshot = Vec::new();
    loop {
        match told(&mut follow).await {
            Frame::SnapshotItem { data, .. } => snapshot.push(data.kind),
            Frame::SnapshotEnd { .. } => break,
            _ => {}
        }
    }
    assert_eq!(snapshot, ["custom.cli.kept", "member.joined", "team.created"]);
    let again = live.publish("again", json!({})).await;
    assert_eq!(again, 4, "a number that was another event's");
    loop {
        if let Frame::Event { sequence, data, .. } = told(&mut follow).await {
            assert_eq!((sequence, data.kind.as_str()), (again, "custom.cli.again"));
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_bounded_while_many_streams_read_and_somebody_publishes() {
    let live = Live::real().await;
    let machine = live.machine("reader").await;
    let mut streams = Vec::new();
    for number in 0..20 {
        // Half of them by the machine's credential: one may not open so many.
        let token = if number % 2 == 0 { live.owner.token.as_str() } else { machine.token() };
        let mut stream = live.stream_by(token, "events", &[]).await;
        stream.settled().await;
        streams.push(stream);
    }
    let store = live.world.server.app().store.clone();
    let (mut largest, events) = (0, 1_500);
    let reading = futures_util::future::join_all(streams.iter_mut().map(async |stream| {
        for _ in 0..events {
            stream.until("event").await;
        }
    }));
    let publishing = async {
        for _ in 0..events / 100 {
            let event = json!({ "kind": "custom.cli.big", "data": { "text": "x".repeat(9 << 10) } });
            assert_eq!(live.post("events", &json!({ "events": vec![event; 100] })).await.status, 201);
            largest = largest.max(store.log_bytes());
        }
    };
    tokio::join!(reading, publishing);
    // About 14 MiB of rows, and their pages again for each index, went through the log.
    assert!(largest < 12 << 20, "{largest} bytes");
    store.checkpoint().await.unwrap();
    assert!(store.log_bytes() < 12 << 20);
}
