//! Upkeep, and retention as readers see it (specs 03 and 08).

use crate::kit::{BEGIN, Live};
use serde_json::{Value, json};
use teamlamp_server::maintenance::Upkeep;
use teamlamp_server::store::presence as presence_rows;

const DAY_MS: i64 = 86_400_000;

async fn count(live: &Live, sql: &'static str) -> i64 {
    let store = live.world.server.app().store.clone();
    store.read(move |db| Ok(db.query_row(sql, [], |row| row.get(0))?)).await.unwrap()
}

/// Lets the job run until nothing is left.
async fn keep_up(live: &Live) {
    let mut upkeep = Upkeep::default();
    while upkeep.run(live.world.server.app()).await {}
}

#[tokio::test(start_paused = true)]
async fn old_events_go_but_each_resources_current_one() {
    let live = Live::paused().await;
    let mut stream = live.stream("events").await;
    let start = stream.settled().await.last().unwrap().cursor().to_owned();
    for i in 0..5 {
        live.publish("n", json!({ "n": i })).await;
    }
    let kept = live.publish("other", json!({})).await;
    let mut reader = live.stream(&format!("events?after={start}")).await;
    let old = reader.settled().await.last().unwrap().cursor().to_owned();
    drop((stream, reader));
    live.clock().jump(7 * DAY_MS - 60_000);
    keep_up(&live).await;
    assert_eq!(live.told("custom.cli.*").await.len(), 6, "a week is not over yet");
    live.clock().jump(120_000);
    let young = live.publish("young", json!({})).await;
    keep_up(&live).await;
    let names: Vec<_> =
        live.told("custom.cli.*").await.iter().map(|e| e["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["custom.cli.n", "custom.cli.other", "custom.cli.young"]);
    let answer = live.get("events/history?kinds=custom.cli.n").await;
    assert_eq!(answer.items()[0]["event"]["data"], json!({ "n": 4 }), "the newest of its resource");
    // The mark: a cursor at it is fine, one below it must begin again and is told what is missing.
    let mut at = live.stream(&format!("events?after={old}")).await;
    assert_eq!(at.settled().await[0].sequence(), young);
    let mut below = live.stream(&format!("events?after={start}")).await;
    let end = below.next().await;
    let details = json!({ "pruned_through": kept, "events_missed": 4 });
    assert_eq!(
        end.data,
        json!({ "type": "resync_required", "reason": "retention", "details": details, "terminal": true })
    );
    assert_eq!(below.try_next().await, None);
    let mut fresh = live.stream("events").await;
    let frames = fresh.settled().await;
    let items = frames.iter().filter(|f| f.kind() == "snapshot_item").count();
    assert_eq!(items, 5, "team, member, and the three custom ones");
    // A kept one goes once a newer one replaces it.
    live.publish("other", json!({})).await;
    assert_eq!(count(&live, "SELECT count(*) FROM events").await, 5);
    let gone = live.get(&format!("events/history?before={}&kinds=custom.cli.other", kept + 1)).await;
    assert_eq!(gone.items().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_retention_walks_in_windows() {
    let live = Live::paused().await;
    let team: teamlamp_wire::id::TeamId = live.team.as_str().into();
    let app = live.world.server.app().clone();
    let chance = app.chance.clone();
    app.store
        .write(move |tx| {
            for _ in 0..3_500 {
                let actor = teamlamp_server::events::append::system();
                let event = teamlamp_server::events::append::NewEvent::new(
                    actor,
                    "custom.cli.n",
                    "custom",
                    "n",
                    Value::Null,
                );
                teamlamp_server::events::append::append(tx, &chance, &team, event)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    live.clock().jump(2 * DAY_MS);
    let path = format!("/v1/teams/{}", live.team);
    let shown = live.ask("GET", &path, &live.owner.token, None).await;
    let revision = shown.data()["revision"].as_i64().unwrap();
    let ask = live.world.ask("PATCH", path).json(&json!({ "settings": { "retention_days": 1 } }));
    assert_eq!(ask.by(&live.owner.token).if_match(revision).from("127.0.0.1").send().await.status, 200);
    let mut upkeep = Upkeep::default();
    let mut left = Vec::new();
    loop {
        let backlog = upkeep.run(&app).await;
        left.push(count(&live, "SELECT count(*) FROM events WHERE kind = 'custom.cli.n'").await);
        if !backlog {
            break;
        }
    }
    // Two older ones (team, member) are before them in the windows.
    assert_eq!(left, [2_502, 1_502, 502, 1]);
    let marks = count(&live, "SELECT pruned_through - deleted_through FROM teams").await;
    assert_eq!(marks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_retention_overtakes_ends_rather_than_skips() {
    let live = Live::paused().await;
    let mut stream = live.stream("events").await;
    let start = stream.settled().await.last().unwrap().cursor().to_owned();
    drop(stream);
    for _ in 0..20 {
        let event = json!({ "kind": "custom.cli.n", "data": { "t": "x".repeat(10_000) } });
        assert_eq!(live.post("events", &json!({ "events": vec![event; 100] })).await.status, 201);
    }
    let path = format!("events?after={start}");
    let mut behind = live.open_stream(live.pipe(4 << 10), &live.owner.token, &path, &[]).await;
    assert_eq!(behind.next().await.kind(), "event");
    live.clock().jump(8 * DAY_MS);
    keep_up(&live).await;
    let mut last = 3;
    let end = loop {
        let frame = behind.next().await;
        if frame.kind() != "event" {
            break frame;
        }
        last += 1;
        assert_eq!(frame.sequence(), last, "no gap before the end");
    };
    assert_eq!((&end.data["reason"], end.data.get("cursor")), (&json!("retention"), None));
    let missed = end.data["details"]["events_missed"].as_i64().unwrap();
    assert_eq!(missed, 2_002 - last - 1, "all but the current one");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_retention_takes_under_a_snapshot_ends_it() {
    let live = Live::paused().await;
    for part in 0..10 {
        let events: Vec<_> = (0..100)
            .map(|i| {
                json!({ "kind": "custom.cli.n", "data": { "t": "x".repeat(2_000) },
                             "resource": { "kind": "thing", "id": format!("{:04}", part * 100 + i) } })
            })
            .collect();
        assert_eq!(live.post("events", &json!({ "events": events })).await.status, 201);
    }
    live.clock().jump(8 * DAY_MS);
    keep_up(&live).await;
    // A small pipe: the snapshot is still being sent when the last resource is told of anew.
    let mut stream = live.open_stream(live.pipe(4 << 10), &live.owner.token, "events", &[]).await;
    assert_eq!(stream.next().await.kind(), "snapshot_begin");
    let event =
        json!({ "events": [{ "kind": "custom.cli.n", "resource": { "kind": "thing", "id": "0999" } }] });
    assert_eq!(live.post("events", &event).await.status, 201);
    let end = loop {
        let frame = stream.next().await;
        if frame.kind() != "snapshot_item" {
            break frame;
        }
    };
    assert_eq!(
        (&end.data["type"], &end.data["reason"]),
        (&json!("resync_required"), &json!("snapshot_retention"))
    );
    assert_eq!(end.data.get("cursor"), None);
    assert_eq!(stream.try_next().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_job_runs_by_itself_and_removes_what_is_over() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    live.post(&format!("machines/{}/notes", machine.id()), &json!({ "text": "hi" })).await;
    let ask = live
        .world
        .post(live.path("events"), json!({ "events": [{ "kind": "custom.cli.x" }] }))
        .by(&live.owner.token);
    ask.key("k-1").from("127.0.0.1").send().await;
    let made = live.post("invitations", &json!({ "role": "member" })).await;
    let revoked = format!("invitations/{}", made.data()["invitation"]["id"].as_str().unwrap());
    assert_eq!(live.ask("DELETE", &live.path(&revoked), &live.owner.token, None).await.status, 204);
    live.post("invitations", &json!({ "role": "member" })).await;
    let rows = async || {
        let mut rows = Vec::new();
        for sql in [
            "SELECT count(*) FROM idempotency",
            "SELECT count(*) FROM machine_notes",
            "SELECT count(*) FROM machine_presence_events",
            "SELECT count(*) FROM invitations WHERE team_id IS NOT NULL",
            "SELECT count(*) FROM credentials",
            "SELECT count(*) FROM audit",
        ] {
            rows.push(count(&live, sql).await);
        }
        rows
    };
    let before = rows().await;
    assert_eq!(before[..5], [1, 1, 1, 2, 2]);
    let audit = before[5];
    assert!(audit > 0);
    let mut at = 0;
    for (day, expected) in [
        // Since the first day it is offline, which is a transition too.
        (1, [0, 1, 2, 2, 2, audit]),
        (7, [0, 0, 1, 2, 2, audit]),
        (30, [0, 0, 0, 1, 2, audit]),
        (31, [0, 0, 0, 0, 1, audit]),
        (91, [0, 0, 0, 0, 0, audit]),
        (365, [0, 0, 0, 0, 0, 0]),
    ] {
        live.clock().jump((day - at) * DAY_MS);
        at = day;
        live.pass(125_000).await;
        assert_eq!(rows().await, expected, "after {day} days");
    }
    let pruned = count(&live, "SELECT presence_pruned_through FROM teams").await;
    assert_eq!(pruned, 2);
    assert!(live.clock().now_ms() > BEGIN);
}

#[tokio::test(start_paused = true)]
async fn a_presence_stream_below_what_is_kept_begins_again() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    live.pass(46_000).await;
    live.clock().jump(7 * DAY_MS);
    keep_up(&live).await;
    let mut at = live.stream("machines/events?after=2").await;
    live.beat(&mut machine, &[], None).await;
    assert_eq!(at.next().await.sequence(), 3);
    let mut below = live.stream("machines/events?after=1").await;
    assert_eq!(below.next().await.data["reason"], "retention");
    assert_eq!(below.try_next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_leaves_the_others_running() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let app = live.world.server.app().clone();
    app.store.write(|tx| Ok(tx.execute_batch("ALTER TABLE idempotency RENAME TO hidden")?)).await.unwrap();
    live.clock().jump(8 * DAY_MS);
    keep_up(&live).await;
    let id = machine.id().into();
    let known = app.store.read(move |db| presence_rows::known(db, &id)).await.unwrap();
    assert!(known.is_some());
    assert_eq!(count(&live, "SELECT count(*) FROM machine_presence_events").await, 0);
}
