//! Notes to machines (specs 01 and 02).

use crate::kit::Live;
use serde_json::{Value, json};
use teamlamp_clock::ms;

fn path(machine: &crate::kit::Machine) -> String {
    format!("machines/{}/notes", machine.id())
}

#[tokio::test]
async fn a_note_goes_over_the_link_until_it_is_acknowledged() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    let mut link = live.link(&machine).await;
    let sent = live.post(&path(&machine), &json!({ "text": "  lunch? 🍲\nnow  " })).await;
    assert_eq!(sent.status, 201, "{}", sent.text);
    let note = &sent.data()["note"];
    let expected = json!({ "type": "note", "id": note["id"], "from": "Olga", "text": "lunch? 🍲\nnow", "at": note["at"] });
    assert_eq!(link.next().await.unwrap(), expected);
    link.close().await;
    let second = live.post(&path(&machine), &json!({ "text": "and you?" })).await;
    let mut link = live.link(&machine).await;
    assert_eq!(link.next().await.unwrap(), expected, "sent again at the next link");
    assert_eq!(link.next().await.unwrap()["id"], second.data()["note"]["id"]);
    link.say(&json!({ "type": "ack", "id": note["id"] })).await;
    link.close().await;
    let mut link = live.link(&machine).await;
    assert_eq!(link.next().await.unwrap()["id"], second.data()["note"]["id"], "acknowledged ones are over");
    let told = live.told("note.sent").await;
    assert_eq!((&told[0]["data"], told.len()), (&json!({ "from": "Olga" }), 2));
    assert!(!live.get("events/history").await.text.contains("lunch"), "never the text");
    let other = live.machine("two").await;
    let mut theirs = live.link(&other).await;
    theirs.say(&json!({ "type": "ack", "id": second.data()["note"]["id"] })).await;
    theirs.close().await;
    link.close().await;
    let mut link = live.link(&machine).await;
    assert_eq!(
        link.next().await.unwrap()["id"],
        second.data()["note"]["id"],
        "only its machine acknowledges a note"
    );
}

#[tokio::test]
async fn who_may_send_what() {
    let live = Live::real().await;
    let viewer = live.join("viewer", "Vera").await;
    let machine = live.machine("one").await;
    let note = json!({ "text": "hi" });
    live.post_by(&viewer.token, &path(&machine), &note).await.refused(403, "forbidden");
    live.post_by(machine.token(), &path(&machine), &note).await.refused(403, "forbidden");
    live.post("machines/mach_none/notes", &note).await.refused(404, "not_found");
    for bad in [
        json!({ "text": "  " }),
        json!({ "text": "x".repeat(2001) }),
        json!({}),
        json!({ "text": "x", "to": 1 }),
    ] {
        live.post(&path(&machine), &bad).await.refused(400, "invalid_request");
    }
    assert_eq!(live.post(&path(&machine), &json!({ "text": "é".repeat(2000) })).await.status, 201);
    assert_eq!(live.told("note.sent").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn twenty_notes_an_hour_and_a_week_for_those_that_nobody_saw() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    for i in 0..20 {
        let sent = live.post(&path(&machine), &json!({ "text": format!("n{i}") })).await;
        assert_eq!(sent.status, 201, "{}", sent.text);
        live.pass(60_000).await;
    }
    let mut link = live.link(&machine).await;
    for _ in 0..20 {
        let id = link.next().await.unwrap()["id"].clone();
        link.say(&json!({ "type": "ack", "id": id })).await;
    }
    let refused = live.post(&path(&machine), &json!({ "text": "one more" })).await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), "2400", "when the first is an hour old, acknowledged or not");
    assert_eq!(refused.body["error"]["details"]["retry_after_seconds"], 2_400);
    link.close().await;
    live.pass(2_400_000).await;
    assert_eq!(live.post(&path(&machine), &json!({ "text": "late" })).await.status, 201);
    live.clock().jump(7 * 86_400_000 - 60_000);
    let mut link = live.link(&machine).await;
    assert_eq!(link.next().await.unwrap()["text"], "late");
    link.close().await;
    live.clock().jump(60_000);
    let mut link = live.link(&machine).await;
    live.clock().sleep(ms(100)).await;
    let none = live.clock().within(ms(5_000), link.next()).await;
    assert_eq!(none, None::<Option<Value>>);
}

#[tokio::test(start_paused = true)]
async fn a_note_reaches_a_link_though_the_servers_clock_was_set_back() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    let mut link = live.link(&machine).await;
    for (text, jump) in [("a", 0), ("b", -3_600_000), ("c", 0), ("d", -60_000), ("e", 7_200_000)] {
        live.clock().jump(jump);
        let sent = live.post(&path(&machine), &json!({ "text": text })).await;
        let told = live.clock().clone().within(ms(1_000), link.next()).await.expect("it never came");
        let expected = json!({ "type": "note", "id": sent.data()["note"]["id"], "from": "Olga", "text": text,
                               "at": live.clock().now_ms() });
        assert_eq!(told.unwrap(), expected);
    }
    link.close().await;
    let mut again = live.link(&machine).await;
    for text in ["a", "b", "c", "d", "e"] {
        assert_eq!(again.next().await.unwrap()["text"], text, "in the order in which they were sent");
    }
}

#[tokio::test(start_paused = true)]
async fn all_of_more_notes_than_go_at_once_arrive() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    let mia = live.join("member", "Mia").await;
    let mut sent = Vec::new();
    for number in 0..40 {
        let sender = if number % 2 == 0 { &mia.token } else { &live.owner.token };
        let note = live.post_by(sender, &path(&machine), &json!({ "text": format!("n{number}") })).await;
        assert_eq!(note.status, 201, "{}", note.text);
        sent.push(format!("n{number}"));
    }
    let mut link = live.link(&machine).await;
    for text in sent {
        assert_eq!(link.next().await.unwrap()["text"], json!(text));
    }
    let none = live.clock().clone().within(ms(5_000), link.next()).await;
    assert_eq!(none, None::<Option<Value>>, "each once");
}
