//! Presence: transitions, timers, and their stream (spec 02).

use crate::kit::{Frame, Live, Stream};
use serde_json::{Value, json};
use std::time::Duration;
use teamlamp_server::store::Effects;

const KINDS: &str = "machine.online,machine.unlinked,machine.offline";

fn steps(frames: &[Frame]) -> Vec<(String, String)> {
    let word = |f: &Frame, name: &str| f.data[name].as_str().unwrap().to_owned();
    frames.iter().filter(|f| f.kind() == "transition").map(|f| (word(f, "from"), word(f, "to"))).collect()
}

async fn snapshot(stream: &mut Stream) -> (Vec<Value>, i64) {
    assert_eq!(stream.next().await.data, json!({ "type": "snapshot_begin" }));
    let mut machines = Vec::new();
    loop {
        let frame = stream.next().await;
        if frame.kind() == "snapshot_end" {
            let sequence = frame.sequence();
            assert_eq!(frame.id, Some(sequence.to_string()));
            return (machines, sequence);
        }
        assert_eq!((frame.kind(), &frame.id), ("machine", &None));
        machines.push(frame.data["machine"].clone());
    }
}

#[tokio::test(start_paused = true)]
async fn offline_falls_due_45_seconds_after_the_last_heartbeat_without_any_request() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    let mut stream = live.stream("machines/events").await;
    snapshot(&mut stream).await;
    live.beat(&mut machine, &[], None).await;
    let beaten = live.clock().now_ms();
    let mut link = live.link(&machine).await;
    link.live_for(44_900).await;
    let before = stream.until_silent(Duration::from_millis(1)).await;
    assert_eq!(steps(&before), [("offline".into(), "unlinked".into()), ("unlinked".into(), "online".into())]);
    let offline = stream.next().await;
    assert_eq!((&offline.data["from"], &offline.data["to"]), (&json!("online"), &json!("offline")));
    assert_eq!(
        (offline.data["at"].as_i64().unwrap(), &offline.data["linked"]),
        (beaten + 45_000, &json!(true))
    );
    assert_eq!(offline.data["machine_id"], json!(machine.id()));
    assert_eq!(offline.id.as_deref(), Some(offline.sequence().to_string().as_str()));
    let told = live.told("machine.offline").await;
    assert_eq!(told[0]["at"], json!(beaten + 45_000), "written with its event");
    assert_eq!(told[0]["data"]["last_seen_at"], json!(beaten));
    assert_eq!(live.connection(&machine).await, "offline");
    live.beat(&mut machine, &[], None).await;
    assert_eq!(live.connection(&machine).await, "online", "its link was held all the time");
}

#[tokio::test(start_paused = true)]
async fn who_reports_every_15_seconds_stays() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    for _ in 0..40 {
        link.live_for(15_000).await;
        live.beat(&mut machine, &[], None).await;
    }
    let kinds: Vec<_> = live.told(KINDS).await.iter().map(|e| e["kind"].clone()).collect();
    assert_eq!(kinds, ["machine.unlinked", "machine.online"]);
}

#[tokio::test]
async fn a_link_alone_changes_nothing_and_never_heard_is_offline() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    let link = live.link(&machine).await;
    let shown = live.get(&format!("machines/{}", machine.id())).await;
    assert_eq!(
        (&shown.data()["connection"], &shown.data()["last_seen_at"]),
        (&json!("offline"), &Value::Null)
    );
    link.close().await;
    assert_eq!(live.told(KINDS).await, Vec::<Value>::new());
    let mut stream = live.stream("machines/events").await;
    let (machines, sequence) = snapshot(&mut stream).await;
    let expected = json!({ "id": machine.id(), "name": "one", "connection": "offline", "away": null, "last_seen_at": null });
    assert_eq!((machines, sequence), (vec![expected], 0));
}

#[tokio::test]
async fn list_and_stream_never_disagree_and_streams_resume() {
    let live = Live::real().await;
    let (mut b, mut a) = (live.machine("b").await, live.machine("a").await);
    live.beat(&mut a, &[], None).await;
    live.beat(&mut b, &[], None).await;
    let link = live.link(&a).await;
    let mut stream = live.stream("machines/events").await;
    let (machines, sequence) = snapshot(&mut stream).await;
    let list = live.get("machines").await;
    for (shown, listed) in machines.iter().zip(list.items()) {
        for field in ["id", "name", "connection", "away", "last_seen_at"] {
            assert_eq!(shown[field], listed[field]);
        }
    }
    assert_eq!(sequence, 3);
    link.close().await;
    assert_eq!(stream.next().await.sequence(), 4);
    let mut resumed = live.stream("machines/events?after=1").await;
    let sequences = [resumed.next().await, resumed.next().await, resumed.next().await].map(|f| f.sequence());
    assert_eq!(sequences, [2, 3, 4], "since it, and no snapshot");
    let mut header =
        live.stream_by(&live.owner.token, "machines/events?after=1", &[("last-event-id", "3")]).await;
    assert_eq!(header.next().await.sequence(), 4);
    let mut above = live.stream("machines/events?after=99").await;
    let end = above.next().await;
    assert_eq!(end.data, json!({ "type": "resync_required", "reason": "retention", "terminal": true }));
    assert_eq!(above.try_next().await, None);
    for bad in ["after=x", "after=-1", "after=", "kinds=a"] {
        live.get(&format!("machines/events?{bad}")).await.refused(400, "invalid_request");
    }
    live.ask("GET", "/v1/teams/team_none/machines/events", &live.owner.token, None)
        .await
        .refused(404, "not_found");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_slept_or_whose_clock_was_set_has_heard_nobody_leave() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    for jump in [3_600_000, -7_200_000] {
        live.clock().jump(jump);
        link.live_for(30_000).await;
        assert_eq!(live.connection(&machine).await, "online", "after a jump of {jump} ms");
        live.beat(&mut machine, &[], None).await;
        link.live_for(15_000).await;
        live.beat(&mut machine, &[], None).await;
    }
    assert_eq!(live.told("machine.offline").await.len(), 0);
    link.live_for(46_000).await;
    assert_eq!(live.connection(&machine).await, "offline", "silence counts again");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_changes_nobodys_presence() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    // Another program holds the database for writing: each write waits its 5 s of busy time in vain.
    let path = live.world.server.app().store.path().to_owned();
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("PRAGMA busy_timeout = 0; BEGIN IMMEDIATE").unwrap();
    link.live_for(40_000).await;
    let body = machine.report(&[], None);
    live.send(&machine, &body).await.refused(503, "unavailable");
    link.live_for(10_000).await;
    other.execute_batch("ROLLBACK").unwrap();
    link.live_for(3_000).await;
    assert_eq!(live.connection(&machine).await, "online", "its silence was the store's");
    live.beat(&mut machine, &[], None).await;
    assert_eq!(live.told("machine.offline").await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_a_reader_of_presence_without_a_word_of_its_membership() {
    let live = Live::paused().await;
    let mut stream = live.stream("machines/events").await;
    stream.until("snapshot_end").await;
    let other = rusqlite::Connection::open(live.world.server.app().store.path()).unwrap();
    let change = "UPDATE teams SET auth_epoch = auth_epoch + 1; ALTER TABLE memberships RENAME TO away;";
    other.execute_batch(change).unwrap();
    assert_eq!(stream.try_next().await, None, "it dials again with the sequence that it has");
    other.execute_batch("ALTER TABLE away RENAME TO memberships").unwrap();
    live.stream("machines/events?after=0").await;
}

#[tokio::test]
async fn a_revoked_machine_is_offline_before_it_is_told_to_be_revoked() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut stream = live.stream("machines/events?after=1").await;
    let revision = live.get(&format!("machines/{}", machine.id())).await.data()["revision"].as_i64().unwrap();
    live.delete(&format!("machines/{}", machine.id()), revision).await;
    assert_eq!(stream.next().await.data["to"], "offline");
    let told = live.told("machine.offline,machine.revoked").await;
    let kinds: Vec<_> = told.iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["machine.offline", "machine.revoked"]);
    let mut fresh = live.stream("machines/events").await;
    assert_eq!(snapshot(&mut fresh).await.0, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_presence_begins_and_lives_as_one_of_events_does() {
    let live = Live::paused().await;
    let mut stream = live.stream("machines/events").await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store, no-transform"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(stream.headers[name], value);
    }
    let first = stream.bytes().await.unwrap();
    let text = String::from_utf8(first.to_vec()).unwrap();
    assert!(text.starts_with(": ") && text.find('\n').unwrap() >= 2048, "{} bytes", text.len());
    assert!(text.contains("\nretry: 1000\n\n"));
    stream.text.push_str(&text);
    stream.until("snapshot_end").await;
    let before = stream.comments;
    assert!(stream.is_silent(Duration::from_millis(14_900)).await);
    assert_eq!(stream.comments, before);
    assert!(stream.is_silent(Duration::from_millis(15_200)).await);
    assert_eq!(stream.comments, before + 2);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_that_the_store_fails_to_take_make_nobody_offline() {
    let live = Live::paused().await;
    let (mut machine, mut silent) = (live.machine("one").await, live.machine("two").await);
    live.beat(&mut machine, &[], None).await;
    live.beat(&mut silent, &[], None).await;
    let mut link = live.link(&machine).await;
    let other = rusqlite::Connection::open(live.world.server.app().store.path()).unwrap();
    for (broken, mended) in [
        (
            "CREATE TRIGGER broken BEFORE UPDATE ON machine_heartbeat_state
             BEGIN SELECT RAISE(ABORT, 'on purpose'); END",
            "DROP TRIGGER broken",
        ),
        // Here the store can't even say whose heartbeat it is.
        ("ALTER TABLE credentials RENAME TO away", "ALTER TABLE away RENAME TO credentials"),
    ] {
        other.execute_batch(broken).unwrap();
        let forget = Effects { callers: true, ..Effects::default() };
        live.world.server.app().hub.wake(forget);
        for _ in 0..4 {
            link.live_for(15_000).await;
            let body = machine.report(&[], None);
            live.send(&machine, &body).await.refused(500, "internal");
        }
        other.execute_batch(mended).unwrap();
        assert_eq!(live.connection(&machine).await, "online", "it was heard: {broken}");
        live.beat(&mut machine, &[], None).await;
        if mended.starts_with("DROP") {
            assert_eq!(live.connection(&silent).await, "offline", "of others that says nothing");
        }
    }
    let told = live.told("machine.offline").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["resource"]["id"], json!(silent.id()));
}

#[tokio::test]
async fn a_rename_changes_nothing_of_presence() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let _link = live.link(&machine).await;
    let path = format!("machines/{}", machine.id());
    let revision = live.get(&path).await.data()["revision"].as_i64().unwrap();
    let ask = live.world.ask("PATCH", live.path(&path)).json(&json!({ "name": "uno" }));
    let renamed = ask.by(&live.owner.token).if_match(revision).send().await;
    assert_eq!((&renamed.data()["name"], &renamed.data()["connection"]), (&json!("uno"), &json!("online")));
    let listed = live.get("machines").await.items()[0].clone();
    assert_eq!((&listed["name"], &listed["connection"]), (&json!("uno"), &json!("online")));
    let mut stream = live.stream("machines/events").await;
    let (machines, _) = snapshot(&mut stream).await;
    assert_eq!((&machines[0]["name"], &machines[0]["connection"]), (&json!("uno"), &json!("online")));
}
