//! No reader keeps the others waiting, and no team keeps a reader for ever (spec 03, rules 2 and 3). On
//! one thread, so that who runs after whom is no matter of luck.

use crate::kit::Live;
use serde_json::{Value, json};

/// Publishes so many events, each with a resource of its own and a text of this length.
async fn publish(live: &Live, count: usize, bytes: usize) {
    let text = "x".repeat(bytes);
    for part in 0..count.div_ceil(50) {
        let events: Vec<Value> = (part * 50..count.min(part * 50 + 50))
            .map(|i| {
                let resource = json!({ "kind": "thing", "id": format!("{i:05}") });
                json!({ "kind": "custom.cli.n", "resource": resource, "data": { "text": text } })
            })
            .collect();
        let answer = live.post("events", &json!({ "events": events })).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_read_a_page_at_a_time_and_others_come_in_between() {
    let live = Live::paused().await;
    publish(&live, 320, 0).await;
    let mut stream = live.stream("events").await;
    let mut chunks = Vec::new();
    loop {
        let chunk = String::from_utf8(stream.bytes().await.unwrap().to_vec()).unwrap();
        chunks.push(chunk.matches("snapshot_item").count());
        if chunk.contains("snapshot_end") {
            break;
        }
    }
    assert!(chunks.iter().sum::<usize>() >= 320, "{chunks:?}");
    assert!(chunks.iter().all(|items| *items <= 64), "the connection writes between two pages: {chunks:?}");
}

#[tokio::test(start_paused = true)]
async fn a_team_that_never_stops_keeps_nobody_in_an_endless_replay() {
    let live = Live::paused().await;
    let at = live.stream("events").await.settled().await.last().unwrap().cursor().to_owned();
    publish(&live, 200, 15 << 10).await;
    let mut stream = live.stream(&format!("events?after={at}")).await;
    let mut replayed = 0;
    while stream.next().await.kind() != "checkpoint" {
        replayed += 1;
        assert!(replayed <= 200, "what is published meanwhile is for the next round");
        if replayed % 10 == 0 {
            publish(&live, 20, 15 << 10).await;
        }
    }
    assert_eq!(replayed, 200);
    // The next round tells the rest.
    for _ in 0..400 {
        stream.until("event").await;
    }
}
