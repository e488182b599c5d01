//! Readers that do not keep up (spec 03, rule 7).

use crate::kit::Live;
use serde_json::json;
use teamlamp_clock::ms;

/// Publishes about `kib` KiB of events.
async fn flood(live: &Live, kib: usize) {
    for _ in 0..kib.div_ceil(120) {
        let event = json!({ "kind": "custom.cli.big", "data": { "text": "x".repeat(15 << 10) } });
        let answer = live.post("events", &json!({ "events": vec![event; 8] })).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_for_ten_seconds_is_ended_with_a_cursor() {
    let live = Live::paused().await;
    let mut slow = live.stream("events").await;
    slow.settled().await;
    let mut quick = live.stream("events").await;
    quick.settled().await;
    flood(&live, 2_000).await;
    // One slow reader delays no other, and no publisher.
    let mut got = 0;
    while got < 136 {
        quick.until("event").await;
        got += 1;
    }
    let waited = live.clock().now_ms() - crate::kit::BEGIN;
    assert!(waited < 5_000, "{waited}");
    assert_eq!(live.world.server.app().streams.open(), 2);
    live.pass(10_100).await;
    let mut frames = Vec::new();
    let end = loop {
        let frame = slow.next().await;
        if frame.kind() == "resync_required" {
            break frame;
        }
        frames.push(frame);
    };
    assert_eq!(end.data["reason"], "slow_reader");
    assert_eq!(slow.try_next().await, None);
    let bytes: usize = frames.iter().map(|f| f.data.to_string().len()).sum();
    assert!(
        (1 << 20..(1 << 20) + (700 << 10)).contains(&bytes),
        "a mebibyte, and what the pipe holds: {bytes}"
    );
    let cursor = end.cursor();
    assert_eq!(cursor, frames.last().unwrap().cursor(), "from there on it goes on");
    let mut resumed = live.stream(&format!("events?after={cursor}")).await;
    assert_eq!(resumed.next().await.sequence(), frames.last().unwrap().sequence() + 1);
    live.pass(100).await;
    assert_eq!(live.world.server.app().streams.open(), 2, "its place was given back");
}

/// Publishes a thousand resources of two KiB each.
async fn many_resources(live: &Live) {
    for part in 0..10 {
        let events: Vec<_> = (0..100)
            .map(|i| {
                let resource = json!({ "kind": "thing", "id": format!("{:04}", part * 100 + i) });
                json!({ "kind": "custom.cli.n", "data": { "t": "x".repeat(2_000) }, "resource": resource })
            })
            .collect();
        assert_eq!(live.post("events", &json!({ "events": events })).await.status, 201);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_slow_in_a_large_snapshot_goes_on_within_it() {
    let live = Live::paused().await;
    many_resources(&live).await;
    let (mut items, mut path, mut ends) = (Vec::new(), "events".to_owned(), 0);
    let last = loop {
        let mut slow = live.open_stream(live.pipe(4 << 10), &live.owner.token, &path, &[]).await;
        let begun = slow.next().await;
        assert_eq!(begun.kind(), if ends == 0 { "snapshot_begin" } else { "snapshot_item" });
        let mut frames = if ends == 0 { Vec::new() } else { vec![begun] };
        // What is published meanwhile is live, wherever the reader stands.
        live.publish("meanwhile", json!({ "n": ends })).await;
        live.pass(10_100).await;
        let end = loop {
            let frame = slow.next().await;
            if !matches!(frame.kind(), "snapshot_item") {
                break frame;
            }
            frames.push(frame);
        };
        items.extend(frames.iter().map(|frame| frame.event()["resource"].to_string()));
        if end.kind() == "snapshot_end" {
            break slow.settled().await;
        }
        assert_eq!((end.kind(), &end.data["reason"]), ("resync_required", &json!("slow_reader")));
        path = format!("events?after={}", end.cursor());
        ends += 1;
    };
    assert!(ends > 0);
    let mut distinct = items.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((items.len(), distinct.len()), (1_002, 1_002), "each once, over {ends} ends");
    let told: Vec<_> = last.iter().filter(|f| f.kind() == "event").map(|f| &f.event()["data"]["n"]).collect();
    assert_eq!(told, (0..=ends).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_what_anyone_may_do_under_a_snapshot_has_a_cursor() {
    let live = Live::paused().await;
    many_resources(&live).await;
    let mut stream = live.open_stream(live.pipe(4 << 10), &live.owner.token, "events", &[]).await;
    assert_eq!(stream.next().await.kind(), "snapshot_begin");
    live.join("member", "Mia").await;
    let end = stream.until("resync_required").await;
    assert_eq!(end.data["reason"], "authorization_changed");
    let mut resumed = live.stream(&format!("events?after={}", end.cursor())).await;
    assert_eq!(resumed.next().await.kind(), "snapshot_item");
}

async fn rename(live: &Live, sql: &'static str) {
    live.world.server.app().store.write(move |tx| Ok(tx.execute_batch(sql)?)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_asks_to_come_back_with_the_cursor() {
    let live = Live::paused().await;
    let mut stream = live.stream("events").await;
    let cursor = stream.settled().await.last().unwrap().cursor().to_owned();
    rename(&live, "ALTER TABLE events RENAME TO hidden").await;
    let team = live.team.as_str().into();
    live.world
        .server
        .app()
        .hub
        .wake(teamlamp_server::store::Effects { events: [team].into(), ..Default::default() });
    let end = stream.next().await;
    assert_eq!((&end.data["reason"], end.cursor()), (&json!("unavailable"), cursor.as_str()));
    assert_eq!(stream.try_next().await, None);
    live.pass(100).await;
    assert_eq!(live.world.server.app().streams.open(), 0, "its place was given back");
    rename(&live, "ALTER TABLE hidden RENAME TO events").await;
    let mut resumed = live.stream(&format!("events?after={cursor}")).await;
    assert_eq!(resumed.next().await.kind(), "checkpoint");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_under_a_new_stream_leaves_a_place_to_come_back_to() {
    let live = Live::paused().await;
    rename(&live, "ALTER TABLE events RENAME TO hidden").await;
    let mut stream = live.stream("events").await;
    assert_eq!(stream.next().await.kind(), "snapshot_begin");
    let end = stream.next().await;
    assert_eq!(end.data["reason"], "unavailable");
    rename(&live, "ALTER TABLE hidden RENAME TO events").await;
    let sequence = live.publish("meanwhile", json!({})).await;
    let mut resumed = live.stream(&format!("events?after={}", end.cursor())).await;
    let frames = resumed.settled().await;
    let kinds: Vec<_> = frames.iter().map(crate::kit::Frame::kind).collect();
    assert_eq!(kinds, ["snapshot_item", "snapshot_item", "snapshot_item", "snapshot_end", "checkpoint"]);
    assert_eq!(frames[0].sequence(), sequence, "the snapshot is of now");
    let path = live.path(&format!("events?after={}", end.cursor()));
    let polled = live.world.get(path).by(&live.owner.token).header("accept", "application/json");
    let polled = polled.from("127.0.0.1").send().await;
    let types: Vec<_> = polled.body["frames"].as_array().unwrap().iter().map(|f| f["type"].clone()).collect();
    assert_eq!(types, kinds[..4]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_even_take_the_end_loses_its_connection() {
    let live = Live::paused().await;
    let mut stuck = live.stream("events").await;
    stuck.settled().await;
    flood(&live, 2_000).await;
    let connections = || {
        let running = live.world.server.app().tasks.running();
        running.into_iter().filter(|name| *name == "connection").count()
    };
    live.pass(19_000).await;
    assert_eq!(connections(), 1, "it has ten seconds for room and ten for the end");
    live.pass(1_500).await;
    assert_eq!(connections(), 0);
    assert_eq!(live.world.server.app().streams.open(), 0);
    drop(stuck);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_makes_room_in_time_goes_on() {
    let live = Live::paused().await;
    let mut stream = live.stream("events").await;
    stream.settled().await;
    flood(&live, 2_000).await;
    for _ in 0..8 {
        live.pass(9_000).await;
        for _ in 0..8 {
            assert_eq!(stream.next().await.kind(), "event");
        }
    }
    for _ in 0..72 {
        assert_eq!(stream.next().await.kind(), "event");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_revoked_while_it_is_slow_gets_no_more_events() {
    let live = Live::paused().await;
    let member = live.join("member", "Mia").await;
    let mut stream = live.stream_by(&member.token, "events", &[]).await;
    stream.settled().await;
    flood(&live, 2_000).await;
    live.pass(1_000).await;
    assert_eq!(live.ask("DELETE", "/v1/credentials/current", &member.token, None).await.status, 204);
    let mut events = 0;
    let end = loop {
        let frame = stream.next().await;
        if frame.kind() != "event" {
            break frame;
        }
        events += 1;
    };
    assert_eq!((end.kind(), &end.data["reason"]), ("access_revoked", &json!("credential_ended")));
    assert!(events < 120, "what waited was on its way; nothing was added: {events}");
}

#[tokio::test(start_paused = true)]
async fn a_presence_reader_with_more_than_a_mebibyte_waiting_is_closed() {
    let live = Live::paused().await;
    let io = live.pipe(1 << 10);
    let machine = live.machine("one").await;
    let id: teamlamp_wire::id::MachineId = machine.id().into();
    let mut stream = live.open_stream(io, &live.owner.token, "machines/events", &[]).await;
    stream.until("snapshot_end").await;
    let app = live.world.server.app().clone();
    for _ in 0..60 {
        let id = id.clone();
        app.store
            .write(move |tx| {
                let known = teamlamp_server::store::presence::known(tx, &id)?.unwrap();
                for i in 0..200 {
                    let to = if i % 2 == 0 { "online" } else { "offline" };
                    let to = teamlamp_wire::machine::Connection::parse(to).unwrap();
                    teamlamp_server::store::presence::record_transition(tx, &known, false, to)?;
                }
                tx.after_commit(|effects| {
                    effects.presence.insert(known.team_id.clone());
                });
                Ok(())
            })
            .await
            .unwrap();
        live.clock().sleep(ms(10)).await;
    }
    let mut last = 0;
    while let Some(frame) = stream.try_next().await {
        assert_eq!(frame.kind(), "transition");
        last = frame.sequence();
    }
    assert!((1..12_000).contains(&last), "the stream broke off at {last}");
    live.pass(10).await;
    assert_eq!(app.streams.open(), 0);
    let mut resumed = live.stream(&format!("machines/events?after={last}")).await;
    assert_eq!(resumed.next().await.sequence(), last + 1);
}
