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

#[tokio::test(start_paused = true)]
async fn the_first_run_comes_before_the_grace_of_links_ends_and_says_what_it_did() {
    let live = Live::paused().await;
    let ask = live.world.post(live.path("events"), json!({ "events": [{ "kind": "custom.cli.x" }] }));
    ask.by(&live.owner.token).key("k-1").from("127.0.0.1").send().await;
    assert_eq!(count(&live, "SELECT count(*) FROM idempotency").await, 1);
    live.clock().jump(2 * DAY_MS);
    let live = live.restart().await;
    live.pass(44_000).await;
    assert_eq!(count(&live, "SELECT count(*) FROM idempotency").await, 0);
    let steps = live.world.server.app().metrics.steps();
    for name in ["idempotency", "presence", "backfill", "checkpoint", "events"] {
        assert!(
            steps.get(name).is_some_and(|step| step.runs >= 1 && step.failures == 0),
            "{name}: {steps:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_backlog_is_seen_and_the_next_run_comes_soon() {
    let live = Live::paused().await;
    let insert =
        "INSERT INTO idempotency (team_id, principal_id, route, key, digest, status, body, expires_at)
        SELECT 't', 'p', 'r', 'k' || n, x'00', 200, '', 1
        FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 1200) SELECT n FROM c)";
    live.pass(1_000).await;
    let app = live.world.server.app().clone();
    app.store.write(move |tx| Ok(tx.execute(insert, [])?)).await.unwrap();
    let database = app.store.path().to_owned();
    let stats = teamlamp_server::store::stats::of(&database, live.clock().now_ms()).unwrap();
    let backlog: Vec<_> = stats.backlog.iter().map(|step| (step.name.as_str(), step.rows)).collect();
    assert_eq!(backlog, [("idempotency", 1200)]);
    live.pass(60_000).await;
    assert_eq!(count(&live, "SELECT count(*) FROM idempotency").await, 700);
    assert!(app.metrics.steps()["idempotency"].backlog);
    assert!(
        teamlamp_server::metrics::page(&app)
            .contains("teamlamp_maintenance_backlog{step=\"idempotency\"} 1\n")
    );
    live.pass(3_000).await;
    assert_eq!(count(&live, "SELECT count(*) FROM idempotency").await, 200);
    live.pass(3_000).await;
    assert_eq!(count(&live, "SELECT count(*) FROM idempotency").await, 0);
    assert!(!app.metrics.steps()["idempotency"].backlog);
}

#[tokio::test(start_paused = true)]
async fn presence_is_reconciled_with_the_links_that_are_held() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    let link = live.link(&machine).await;
    live.beat(&mut machine, &[], None).await;
    assert_eq!(live.connection(&machine).await, "online");
    // A row that says otherwise, as no code of ours leaves it.
    let spoil = "UPDATE machine_presence SET linked = 0, connection = 'offline'";
    live.world.server.app().store.write(move |tx| Ok(tx.execute(spoil, [])?)).await.unwrap();
    Upkeep::default().run(live.world.server.app()).await;
    assert_eq!(live.connection(&machine).await, "online");
    assert_eq!(count(&live, "SELECT linked FROM machine_presence").await, 1);
    drop(link);
}

#[tokio::test(start_paused = true)]
async fn a_walk_is_done_by_the_job_and_the_history_of_a_machine_reads_its_own_events() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let team = live.team.clone();
    let app = live.world.server.app().clone();
    // Twelve thousand events of others: more than one request looks through without the lookup.
    app.store
        .write(move |tx| {
            let many = "INSERT INTO events SELECT team_id, t.last_sequence + n, 'evt_' || n, e.at, e.kind, e.resource_kind,
                  e.resource_id, NULL, NULL, NULL, e.actor, 'prin_other', e.data, e.written_at
                FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 12000) SELECT n FROM c)
                JOIN teams t ON t.id = ?1 JOIN events e ON e.team_id = ?1 AND e.sequence = 1";
            tx.execute(many, [&team])?;
            tx.execute("UPDATE teams SET last_sequence = last_sequence + 12000 WHERE id = ?1", [&team])?;
            tx.execute("DELETE FROM event_lookup", [])?;
            Ok(tx.execute("UPDATE maintain_backfill SET done = 0", [])?)
        })
        .await
        .unwrap();
    let path = format!("events/history?machine={}", machine.id());
    let before = live.get(&path).await;
    assert_eq!(before.items().len(), 0, "a bounded look does not reach them");
    assert!(before.body["next_cursor"].is_string(), "and says so");
    live.pass(130_000).await;
    assert!(!app.metrics.steps()["backfill"].backlog);
    let after = live.get(&path).await;
    let kinds: Vec<_> = after.items().iter().map(|item| item["event"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["machine.offline", "machine.unlinked", "machine.enrolled"]);
    assert_eq!(after.body["next_cursor"], Value::Null);
}
