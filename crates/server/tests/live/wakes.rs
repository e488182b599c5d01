//! A wake-up of the streams may be lost or late without harm: the table is the truth (spec 03).

use crate::kit::Live;
use serde_json::json;
use std::time::Duration;
use teamlamp_server::events::append::{NewEvent, append, system};
use teamlamp_server::maintenance::Upkeep;
use teamlamp_wire::id::TeamId;

const DAY_MS: i64 = 86_400_000;

/// Writes an event whose wake-up is lost, as between the commit and the wake-up; its sequence.
async fn publish_unheard(live: &Live) -> i64 {
    let (app, team) = (live.world.server.app().clone(), TeamId::from(live.team.as_str()));
    let chance = app.chance.clone();
    let written = app.store.write(move |tx| {
        let event = NewEvent::new(system(), "custom.cli.unheard", "custom", "unheard", json!({}));
        let (_, sequence) = append(tx, &chance, &team, event)?;
        tx.after_commit(|effects| effects.events.clear());
        Ok(sequence)
    });
    written.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_wake_up_is_lost_comes_with_the_next_comment() {
    let live = Live::paused().await;
    let mut stream = live.stream("events").await;
    stream.settled().await;
    for _ in 0..3 {
        let sequence = publish_unheard(&live).await;
        let frame = live.clock().within(Duration::from_secs(16), stream.until("event")).await;
        assert_eq!(frame.expect("nothing came in 16 s").sequence(), sequence);
        live.pass(3_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_what_nobody_was_woken_for_goes_on_to_live() {
    let live = Live::paused().await;
    let mut first = live.stream("events").await;
    first.settled().await;
    // The first reader has looked a moment ago; the second sees more in the table than it.
    let sequence = publish_unheard(&live).await;
    let mut second = live.stream("events").await;
    let frames = second.settled().await;
    assert!(frames.iter().any(|f| f.kind() == "snapshot_item" && f.sequence() == sequence));
    let cursor = frames.last().unwrap().cursor().to_owned();
    let mut resumed = live.stream(&format!("events?after={cursor}")).await;
    assert_eq!(resumed.next().await.kind(), "checkpoint");
}

#[tokio::test(start_paused = true)]
async fn a_stream_and_a_poll_that_begin_see_what_nobody_was_woken_for() {
    let live = Live::paused().await;
    let mut first = live.stream("events").await;
    let cursor = first.settled().await.last().unwrap().cursor().to_owned();
    live.pass(1_100).await;
    let sequence = publish_unheard(&live).await;
    let mut resumed = live.stream(&format!("events?after={cursor}")).await;
    assert_eq!(resumed.next().await.sequence(), sequence);
    live.pass(1_100).await;
    publish_unheard(&live).await;
    let ask = live.world.get(live.path(&format!("events?after={cursor}"))).by(&live.owner.token);
    let answer = ask.header("accept", "application/json").from("127.0.0.1").send().await;
    let sequences: Vec<_> = answer.body["frames"].as_array().unwrap().iter().collect();
    assert_eq!(sequences[1]["sequence"], json!(sequence + 1), "{}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_nobody_wakes_looks_once_more_before_it_answers() {
    let live = Live::paused().await;
    let mut reading = live.stream("events").await;
    let cursor = reading.settled().await.last().unwrap().cursor().to_owned();
    let query = format!("events?after={cursor}&wait=10");
    let ask = live.world.get(live.path(&query)).by(&live.owner.token);
    let poll = ask.header("accept", "application/json").from("127.0.0.1").send();
    let publish = async {
        live.pass(4_000).await;
        publish_unheard(&live).await
    };
    let (answer, sequence) = tokio::join!(poll, publish);
    assert_eq!(answer.body["frames"][1]["sequence"], json!(sequence), "{}", answer.text);
    assert_eq!(answer.body["frames"][0]["type"], "checkpoint", "it had waited: the past ended before");
}

#[tokio::test(start_paused = true)]
async fn the_floor_holds_while_somebody_reads() {
    let live = Live::paused().await;
    let mut reading = live.stream("events").await;
    let old = reading.settled().await.last().unwrap().cursor().to_owned();
    for i in 0..5 {
        live.publish("n", json!({ "n": i })).await;
        reading.until("event").await;
    }
    let app = live.world.server.app().clone();
    live.clock().jump(8 * DAY_MS);
    while Upkeep::default().run(&app).await {}
    let mut below = live.stream(&format!("events?after={old}")).await;
    let end = below.next().await;
    assert_eq!(end.data["reason"], "retention", "what was deleted is served: {end:?}");
    assert!(reading.is_silent(Duration::from_secs(20)).await, "who has seen everything goes on");
    live.publish("later", json!({})).await;
    assert_eq!(reading.next().await.event()["kind"], "custom.cli.later");
}
