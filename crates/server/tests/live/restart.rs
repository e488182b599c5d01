//! A server that ends under open streams and comes back on the same data.

use crate::kit::Live;
use serde_json::json;

#[tokio::test]
async fn streams_resume_with_nothing_lost_and_nothing_twice() {
    let mut live = Live::real().await;
    let mut seen = Vec::new();
    let mut cursor = String::new();
    for round in 0..4 {
        let path = if round == 0 { "events".to_owned() } else { format!("events?after={cursor}") };
        let mut stream = live.stream(&path).await;
        if round == 0 {
            cursor = stream.settled().await.last().unwrap().cursor().to_owned();
        }
        for i in 0..10 {
            live.publish("n", json!({ "n": round * 11 + i })).await;
            // Every third round the reader is behind when the server ends.
            if round % 3 == 2 && i > 5 {
                continue;
            }
            let frame = stream.until("event").await;
            seen.push(frame.event()["data"]["n"].as_i64().unwrap());
            cursor = frame.cursor().to_owned();
        }
        live.publish("n", json!({ "n": round * 11 + 10 })).await;
        live = live.restart().await;
    }
    let mut stream = live.stream(&format!("events?after={cursor}")).await;
    for frame in stream.settled().await {
        if frame.kind() == "event" {
            seen.push(frame.event()["data"]["n"].as_i64().unwrap());
        }
    }
    assert_eq!(seen, (0..44).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_database_of_another_folder_asks_for_a_new_beginning() {
    let live = Live::real().await;
    let mut stream = live.stream("events").await;
    let cursor = stream.settled().await.last().unwrap().cursor().to_owned();
    let app = live.world.server.app().clone();
    app.store
        .write(|tx| {
            tx.execute("UPDATE meta SET value = 'of another folder' WHERE name = 'mark'", [])?;
            Ok(())
        })
        .await
        .unwrap();
    drop((stream, app));
    let live = live.restart().await;
    let mut stream = live.stream(&format!("events?after={cursor}")).await;
    let end = stream.next().await;
    assert_eq!(end.data, json!({ "type": "resync_required", "reason": "server_restored", "terminal": true }));
    assert_eq!((end.id, stream.try_next().await), (None, None));
    let mut fresh = live.stream("events").await;
    fresh.settled().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_say_that_everybody_left() {
    let live = Live::paused().await;
    let (mut stays, mut leaves) = (live.machine("stays").await, live.machine("leaves").await);
    for machine in [&mut stays, &mut leaves] {
        live.beat(machine, &[], None).await;
    }
    let mut links = (live.link(&stays).await, live.link(&leaves).await);
    assert_eq!(
        (live.connection(&stays).await, live.connection(&leaves).await),
        ("online".into(), "online".into())
    );
    tokio::join!(links.0.live_for(30_000), links.1.live_for(30_000));
    let began = live.clock().now_ms();
    let live = live.restart().await;
    drop(links);
    let started = live.clock().now_ms();
    assert!(started - began < 12_000);
    live.pass(started + 44_000 - live.clock().now_ms()).await;
    assert_eq!(live.connection(&leaves).await, "online", "its link may be dialling back");
    let before = live.told("machine.online,machine.unlinked,machine.offline").await.len();
    live.beat(&mut stays, &[], None).await;
    let _link = live.link(&stays).await;
    live.pass(1_100).await;
    assert_eq!(
        (live.connection(&stays).await, live.connection(&leaves).await),
        ("online".into(), "offline".into())
    );
    let told = live.told("machine.online,machine.unlinked,machine.offline").await;
    assert_eq!(told.len(), before + 1, "who dialled back in time was never away");
    let last = told.last().unwrap();
    assert_eq!((&last["kind"], &last["data"]["name"]), (&json!("machine.offline"), &json!("leaves")));
    let seen = last["data"]["last_seen_at"].as_i64().unwrap();
    assert!(seen < began, "last_seen_at itself stays true");
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_one_without_a_link_is_unlinked() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let link = live.link(&machine).await;
    let live = live.restart().await;
    drop(link);
    live.pass(30_000).await;
    live.beat(&mut machine, &[], None).await;
    assert_eq!(live.connection(&machine).await, "online");
    live.pass(15_100).await;
    assert_eq!(live.connection(&machine).await, "unlinked");
}
