//! What ends a stream for good or for a moment: what is told of it, and that its place comes back
//! (spec 03, rules 4, 5, 6 and 8).

use crate::kit::{Live, Stream};
use serde_json::{Value, json};
use std::time::Duration;
use teamlamp_server::maintenance::Upkeep;

const DAY_MS: i64 = 86_400_000;

async fn settled(live: &Live, token: &str, rest: &str) -> (Stream, String) {
    let mut stream = live.stream_by(token, rest, &[]).await;
    let cursor = stream.settled().await.last().unwrap().cursor().to_owned();
    (stream, cursor)
}

/// Lets retention take what was published until now, but for current events.
async fn forget_the_past(live: &Live) {
    live.clock().jump(8 * DAY_MS);
    while Upkeep::default().run(live.world.server.app()).await {}
}

async fn sql(live: &Live, sql: &'static str) {
    live.world.server.app().store.write(move |tx| Ok(tx.execute_batch(sql)?)).await.unwrap();
}

/// The answer of a long poll.
async fn poll(live: &Live, query: &str) -> Value {
    let ask = live.world.get(live.path(&format!("events?{query}"))).by(&live.owner.token);
    let answer = ask.header("accept", "application/json").from("127.0.0.1").send().await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// Every place was given back.
async fn no_place_is_taken(live: &Live) {
    live.pass(100).await;
    assert_eq!(live.world.server.app().streams.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_is_counted_for_who_would_have_seen_all_of_it() {
    let live = Live::paused().await;
    let member = live.join("member", "Mia").await;
    let readers = [(&live.owner.token, ""), (&live.owner.token, "kinds=custom.cli.n"), (&member.token, "")];
    let mut cursors = Vec::new();
    for (token, query) in readers {
        cursors.push(settled(&live, token, &format!("events?{query}")).await.1);
    }
    for i in 0..5 {
        live.publish("n", json!({ "n": i })).await;
    }
    forget_the_past(&live).await;
    for ((token, query), cursor) in readers.into_iter().zip(cursors) {
        let mut stream = live.stream_by(token, &format!("events?{query}&after={cursor}"), &[]).await;
        let end = stream.next().await;
        let counted = (query.is_empty() && *token == live.owner.token).then_some(4);
        assert_eq!(end.data["reason"], "retention");
        assert_eq!(end.data["details"].get("events_missed").and_then(Value::as_i64), counted, "{query}");
        assert_eq!(end.data["details"]["pruned_through"], json!(8));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_above_the_last_sequence_begins_again() {
    let live = Live::paused().await;
    live.publish("x", json!({})).await;
    let (stream, cursor) = settled(&live, &live.owner.token, "events").await;
    drop(stream);
    sql(
        &live,
        "DELETE FROM event_resources WHERE sequence = (SELECT last_sequence FROM teams);
         DELETE FROM events WHERE sequence = (SELECT last_sequence FROM teams);
         UPDATE teams SET last_sequence = last_sequence - 1",
    )
    .await;
    let live = live.restart().await;
    let mut stream = live.stream(&format!("events?after={cursor}")).await;
    let end = stream.next().await;
    assert_eq!((&end.data["reason"], end.data.get("cursor"), end.id), (&json!("retention"), None, None));
    assert_eq!(stream.try_next().await, None);
    let polled = poll(&live, &format!("after={cursor}")).await;
    assert_eq!(polled["frames"][0]["reason"], "retention");
    assert_eq!((polled["frames"].as_array().unwrap().len(), &polled["cursor"]), (1, &Value::Null));
    no_place_is_taken(&live).await;
}

#[tokio::test(start_paused = true)]
async fn a_place_comes_back_after_each_terminal_frame() {
    let live = Live::paused().await;
    let member = live.join("member", "Mia").await;
    let ends = async |mut stream: Stream, kind: &str, reason: &str| {
        let end = stream.next().await;
        assert_eq!((end.kind(), &end.data["reason"]), (kind, &json!(reason)));
        assert_eq!(stream.try_next().await, None);
        no_place_is_taken(&live).await;
    };
    let (stream, cursor) = settled(&live, &live.owner.token, "events").await;
    live.join("member", "Bob").await;
    ends(stream, "resync_required", "authorization_changed").await;
    let (stream, _) = settled(&live, &member.token, "events").await;
    assert_eq!(live.ask("DELETE", "/v1/credentials/current", &member.token, None).await.status, 204);
    ends(stream, "access_revoked", "credential_ended").await;
    for i in 0..3 {
        live.publish("n", json!({ "n": i })).await;
    }
    forget_the_past(&live).await;
    ends(live.stream(&format!("events?after={cursor}")).await, "resync_required", "retention").await;
    sql(&live, "UPDATE meta SET value = 'of another folder' WHERE name = 'mark'").await;
    let live = live.restart().await;
    let mut restored = live.stream(&format!("events?after={cursor}")).await;
    assert_eq!(restored.next().await.data["reason"], "server_restored");
    assert_eq!(restored.try_next().await, None);
    no_place_is_taken(&live).await;
}

#[tokio::test(start_paused = true)]
async fn a_place_comes_back_after_a_poll_that_is_refused_or_given_up() {
    let live = Live::paused().await;
    let (stream, cursor) = settled(&live, &live.owner.token, "events").await;
    drop(stream);
    live.pass(100).await;
    let ask = live.world.get(live.path("events?after=none&wait=5")).by(&live.owner.token);
    ask.header("accept", "application/json").from("127.0.0.1").send().await.refused(400, "invalid_request");
    no_place_is_taken(&live).await;
    let query = format!("after={cursor}&wait=25");
    let waited = async {
        live.pass(1_000).await;
        live.world.server.app().streams.open()
    };
    tokio::select! {
        biased;
        _ = poll(&live, &query) => panic!("there was nothing to answer"),
        open = waited => assert_eq!(open, 1),
    }
    no_place_is_taken(&live).await;
    assert!(live.clock().within(Duration::from_secs(1), poll(&live, "")).await.is_some());
}
