//! The event stream as long polls (spec 03).

use crate::kit::Live;
use crate::world::Answer;
use serde_json::{Value, json};
use teamlamp_clock::ms;

async fn poll(live: &Live, query: &str) -> Answer {
    poll_by(live, &live.owner.token, query, "").await
}

/// A poll of somebody, with this `Last-Event-ID`.
async fn poll_by(live: &Live, token: &str, query: &str, last: &str) -> Answer {
    let mut ask = live.world.get(live.path(&format!("events?{query}"))).by(token);
    ask = ask.header("accept", "application/json").header("last-event-id", last);
    if live.world.server.local_addr().is_none() {
        ask = ask.from("127.0.0.1");
    }
    let answer = ask.send().await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

fn kinds(answer: &Answer) -> Vec<&str> {
    answer.body["frames"].as_array().unwrap().iter().map(|f| f["type"].as_str().unwrap()).collect()
}
fn cursor(answer: &Answer) -> String {
    answer.body["cursor"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_snapshot_comes_in_pages_whose_cursor_carries_the_place() {
    let live = Live::real().await;
    for part in 0..2 {
        let events: Vec<_> = (0..40)
            .map(|i| json!({ "kind": "custom.cli.n", "resource": { "kind": "thing", "id": format!("{:03}", part * 40 + i) } }))
            .collect();
        live.post("events", &json!({ "events": events })).await;
    }
    let first = poll(&live, "wait=0").await;
    assert_eq!(first.header("content-type"), "application/json; charset=utf-8");
    assert_eq!(first.body.as_object().unwrap().len(), 2, "bare: frames and cursor");
    assert_eq!((kinds(&first)[0], kinds(&first).len()), ("snapshot_begin", 33));
    // What is published meanwhile comes after the snapshot.
    live.publish("meanwhile", json!({})).await;
    let mut items: Vec<Value> = first.body["frames"].as_array().unwrap()[1..].to_vec();
    let mut at = cursor(&first);
    let last = loop {
        let page = poll(&live, &format!("after={at}")).await;
        at = cursor(&page);
        let frames = page.body["frames"].as_array().unwrap();
        items.extend(frames.iter().filter(|f| f["type"] == "snapshot_item").cloned());
        if let Some(end) = frames.iter().find(|f| f["type"] == "snapshot_end") {
            break end.clone();
        }
    };
    let mut stream = live.stream("events").await;
    let whole: Vec<Value> = stream
        .settled()
        .await
        .into_iter()
        .map(|f| f.data)
        .filter(|f| f["type"] == "snapshot_item" && f["data"]["kind"] != "custom.cli.meanwhile")
        .collect();
    assert_eq!(items, whole, "the same items in the same order as on a stream");
    assert_eq!(last["cursor"], json!(at));
    let live_page = poll(&live, &format!("after={at}&wait=5")).await;
    assert_eq!(kinds(&live_page), ["event", "checkpoint"], "there was something at once: the past ends here");
    assert_eq!(live_page.body["frames"][0]["data"]["kind"], "custom.cli.meanwhile");
    assert_eq!(live_page.body["frames"][0]["cursor"], json!(cursor(&live_page)));
}

#[tokio::test]
async fn a_stream_goes_on_from_a_place_in_a_snapshot() {
    let live = Live::real().await;
    let events: Vec<_> = (0..40)
        .map(|i| json!({ "kind": "custom.cli.n", "resource": { "kind": "thing", "id": format!("{i:03}") } }))
        .collect();
    live.post("events", &json!({ "events": events })).await;
    let first = poll(&live, "").await;
    let mut stream = live.stream(&format!("events?after={}", cursor(&first))).await;
    let frames = stream.settled().await;
    let items = frames.iter().filter(|f| f.kind() == "snapshot_item").count();
    assert_eq!(items + 32, 42);
    assert_eq!(frames[0].kind(), "snapshot_item", "it does not begin again");
}

#[tokio::test(start_paused = true)]
async fn a_poll_is_answered_when_there_is_something_or_after_the_wait() {
    let live = Live::paused().await;
    let at = cursor(&poll(&live, "").await);
    let begun = live.clock().now_ms();
    let empty = poll(&live, &format!("after={at}&wait=7")).await;
    assert_eq!((kinds(&empty).len(), live.clock().now_ms() - begun), (0, 7_000));
    assert_eq!(cursor(&empty), at);
    let publish = async {
        live.clock().sleep(ms(3_000)).await;
        live.publish("x", json!({})).await
    };
    let begun = live.clock().now_ms();
    let query = format!("after={at}&wait=25");
    let (answer, sequence) = tokio::join!(poll(&live, &query), publish);
    assert_eq!(live.clock().now_ms() - begun, 3_000);
    assert_eq!(kinds(&answer), ["checkpoint", "event"], "the poll had waited: the past ended before");
    assert_eq!(answer.body["frames"][1]["sequence"], json!(sequence));
    // What is not asked for moves the cursor and answers nothing.
    let quiet = cursor(&poll(&live, "kinds=session.turn").await);
    live.publish("y", json!({})).await;
    let moved = poll(&live, &format!("kinds=session.turn&after={quiet}&wait=0")).await;
    assert_eq!(kinds(&moved).len(), 0);
    assert_ne!(cursor(&moved), quiet);
}

#[tokio::test]
async fn a_poll_that_waits_has_a_place_and_ends_with_the_server() {
    let live = Live::real().await;
    let at = cursor(&poll(&live, "").await);
    let waiting = async {
        let answer = poll(&live, &format!("after={at}&wait=25")).await;
        kinds(&answer).len()
    };
    let app = live.world.server.app().clone();
    let ending = async {
        while app.streams.open() == 0 {
            tokio::task::yield_now().await;
        }
        app.tasks.token().cancel();
    };
    let begun = live.clock().monotonic();
    let (frames, ()) = tokio::join!(waiting, ending);
    assert_eq!(frames, 0);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    assert_eq!(app.streams.open(), 0);
}

#[tokio::test]
async fn waits_are_bounded_and_other_accepts_are_streams() {
    let live = Live::real().await;
    for bad in ["wait=26", "wait=-1", "wait=x", "wait=", "after=nonsense"] {
        let ask = live.world.get(live.path(&format!("events?{bad}"))).by(&live.owner.token);
        ask.header("accept", "application/json").send().await.refused(400, "invalid_request");
    }
    for accept in ["text/event-stream", "*/*", "application/json, text/event-stream", "text/html"] {
        let mut stream = live.stream_by(&live.owner.token, "events", &[("accept", accept)]).await;
        stream.settled().await;
    }
}

#[tokio::test]
async fn a_poll_is_told_what_a_stream_is_told() {
    let live = Live::real().await;
    let member = live.join("member", "Mia").await;
    let at = cursor(&poll(&live, "").await);
    let change = async {
        while live.world.server.app().streams.open() == 0 {
            tokio::task::yield_now().await;
        }
        let path = format!("members/{}", member.id);
        let revision = live.get(&path).await.data()["revision"].as_i64().unwrap();
        let ask = live.world.ask("PATCH", live.path(&path)).json(&json!({ "role": "viewer" }));
        assert_eq!(ask.by(&live.owner.token).if_match(revision).send().await.status, 200);
    };
    let query = format!("after={at}&wait=20");
    let (answer, ()) = tokio::join!(poll(&live, &query), change);
    assert_eq!(answer.body["frames"][0]["reason"], "authorization_changed");
    assert_eq!(answer.body["frames"][0]["cursor"], json!(at));
    assert_eq!(cursor(&answer), at);
}

#[tokio::test]
async fn a_poll_resumes_from_the_header_before_the_query() {
    let live = Live::real().await;
    let at = cursor(&poll(&live, "").await);
    live.publish("a", json!({})).await;
    let after_a = cursor(&poll(&live, &format!("after={at}")).await);
    live.publish("b", json!({})).await;
    let answer = poll_by(&live, &live.owner.token, &format!("after={at}"), &after_a).await;
    assert_eq!(kinds(&answer), ["event", "checkpoint"]);
    assert_eq!(answer.body["frames"][0]["data"]["kind"], "custom.cli.b");
}

#[tokio::test(start_paused = true)]
async fn a_poll_ends_with_access_and_with_what_is_gone() {
    let live = Live::paused().await;
    let member = live.join("member", "Mia").await;
    let at = cursor(&poll(&live, "").await);
    let query = format!("after={at}&wait=20");
    let leave = async {
        live.pass(1_000).await;
        assert_eq!(live.ask("DELETE", "/v1/credentials/current", &member.token, None).await.status, 204);
    };
    let (answer, ()) = tokio::join!(poll_by(&live, &member.token, &query, ""), leave);
    assert_eq!(
        answer.body,
        json!({ "frames": [{ "type": "access_revoked", "reason": "credential_ended", "terminal": true }],
                "cursor": null })
    );
    for i in 0..3 {
        live.publish("n", json!({ "n": i })).await;
    }
    live.clock().jump(8 * 86_400_000);
    while teamlamp_server::maintenance::Upkeep::default().run(live.world.server.app()).await {}
    let gone = poll(&live, &query).await;
    assert_eq!((kinds(&gone), &gone.body["cursor"]), (vec!["resync_required"], &Value::Null));
    assert_eq!(gone.body["frames"][0]["reason"], "retention");
    assert_eq!(gone.body["frames"][0]["details"], json!({ "pruned_through": 6, "events_missed": 2 }));
    let app = live.world.server.app().clone();
    let mark = "UPDATE meta SET value = 'of another folder' WHERE name = 'mark'";
    app.store.write(move |tx| Ok(tx.execute_batch(mark)?)).await.unwrap();
    drop(app);
    let live = live.restart().await;
    let restored = poll(&live, &query).await;
    let frame = json!({ "type": "resync_required", "reason": "server_restored", "terminal": true });
    assert_eq!(restored.body, json!({ "frames": [frame], "cursor": null }));
}

#[tokio::test]
async fn a_poll_shows_nobody_what_is_not_theirs() {
    let live = Live::real().await;
    let (custodian, bystander) = (live.join("member", "Mia").await, live.join("member", "Bob").await);
    let mut old = live.machine_of(&custodian, "clone").await;
    let mut new = old.restarted();
    live.beat(&mut old, &[], None).await;
    live.beat(&mut new, &[], None).await;
    let at = cursor(&poll(&live, "").await);
    let body = old.report(&[], None);
    live.send(&old, &body).await.refused(409, "conflict");
    let query = format!("after={at}&wait=0");
    for token in [&custodian.token, &live.owner.token] {
        let sees = poll_by(&live, token, &query, "").await;
        assert_eq!(sees.body["frames"][0]["data"]["kind"], "machine.cloned");
    }
    let blind = poll_by(&live, &bystander.token, &query, "").await;
    assert_eq!(kinds(&blind), Vec::<&str>::new(), "time went on, and nothing else");
    assert_ne!(cursor(&blind), at);
    let page = poll_by(&live, &bystander.token, "", "").await;
    assert!(!page.text.contains("cloned"), "{}", page.text);
}
