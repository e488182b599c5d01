//! The network goes and comes back.

use super::*;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn what_happened_offline_is_told_in_order_with_its_own_times_before_the_next_report() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().down = true;
    world.server.say.send(None).unwrap();
    world.server.stream.send(None).unwrap();
    world.find(&[("a", session("acme", Turn::WaitingApproval, 100))]);
    world.until(&connector, "offline").await;
    world.find(&[("a", session("acme", Turn::Working, 200)), ("b", session("acme", Turn::Working, 210))]);
    world.pass(30).await;
    world.find(&[("a", session("acme", Turn::Ended, 300)), ("b", session("acme", Turn::Working, 210))]);
    world.pass(30).await;
    {
        let mut state = world.server.state();
        state.down = false;
        state.calls.clear();
    }
    world.until(&connector, "online").await;
    {
        let state = world.server.state();
        let told: Vec<_> = state
            .published
            .iter()
            .map(|e| (e.kind.as_str(), e.resource.as_ref().unwrap().id.as_str(), e.at))
            .collect();
        let expected = [
            ("session.turn", "sess_a", Some(100)),
            ("session.turn", "sess_a", Some(200)),
            ("session.started", "sess_b", Some(210)),
            ("session.turn", "sess_a", Some(300)),
            ("session.ended", "sess_a", Some(300)),
        ];
        assert_eq!(told, expected);
        assert_eq!(state.published[0].data["from"], json!("working"));
        let place = |call: &str| state.calls.iter().position(|c| c == call).unwrap();
        assert!(place("events") < place("heartbeat"), "{:?}", state.calls);
        let beat = state.beats.last().unwrap();
        assert_eq!(beat.bindings.len(), 1);
    }
    world.pass(60).await;
    assert_eq!(world.server.state().published.len(), 5, "told once");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_is_never_taken_keeps_a_report_waiting_for_ten_seconds_at_most() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().down = true;
    world.server.say.send(None).unwrap();
    world.server.stream.send(None).unwrap();
    world.find(&[("a", session("acme", Turn::WaitingApproval, 100))]);
    world.until(&connector, "offline").await;
    world.pass(30).await;
    {
        let mut state = world.server.state();
        (state.down, state.mute) = (false, true);
        state.calls.clear();
    }
    let until = async |call: &str| {
        while world.server.count(call) == 0 {
            world.clock.sleep(Duration::from_millis(10)).await;
        }
        world.clock.now_ms()
    };
    let begun = until("events").await;
    assert_eq!(world.server.count("heartbeat"), 0, "what waits goes first");
    let waited = until("heartbeat").await - begun;
    assert!((9_000..11_000).contains(&waited), "{waited} ms");
    let turn = world.server.state().beats.last().unwrap().activity.as_ref().unwrap()[0].turn.clone();
    assert_eq!(turn, "waiting_approval", "the report says how it is now");
    {
        let mut state = world.server.state();
        state.mute = false;
    }
    world.pass(30).await;
    let told: Vec<_> = world.server.state().published.iter().map(|event| event.kind.clone()).collect();
    assert_eq!(told, ["session.turn"], "what is left goes out before the next report");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_whose_answer_was_lost_is_not_told_again() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    {
        let mut state = world.server.state();
        state.lose_answers = 1;
        state.sessions = vec![known("a", Turn::WaitingApproval, 100)];
    }
    world.find(&[("a", session("acme", Turn::WaitingApproval, 100))]);
    world.pass(60).await;
    {
        let state = world.server.state();
        assert!(state.published.is_empty(), "{:?}", state.published);
        assert_eq!(state.beats.last().unwrap().activity.as_ref().unwrap()[0].turn, "waiting_approval");
    }
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn once_one_connection_works_again_the_others_wait_no_longer() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    for gone_s in [120, 140, 160, 180] {
        world.server.state().down = true;
        world.server.say.send(None).unwrap();
        world.server.stream.send(None).unwrap();
        world.until(&connector, "offline").await;
        world.pass(gone_s).await;
        {
            let mut state = world.server.state();
            state.calls.clear();
            state.down = false;
        }
        let made = |call: &str| world.server.count(call) > 0;
        while !(made("heartbeat") || made("hello") || made("get events")) {
            world.clock.sleep(Duration::from_millis(50)).await;
        }
        // A report may still have to wait for the second between two reports.
        world.clock.sleep(Duration::from_millis(1_100)).await;
        let calls = world.server.state().calls.clone();
        assert!(made("heartbeat") && made("hello") && made("get events"), "{calls:?}");
    }
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn connecting_now_skips_every_wait() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().down = true;
    world.server.say.send(None).unwrap();
    world.server.stream.send(None).unwrap();
    world.until(&connector, "offline").await;
    world.pass(120).await;
    world.server.state().calls.clear();
    world.server.state().down = false;
    connector.act(Action::ConnectNow).await.unwrap();
    world.clock.sleep(Duration::from_millis(1_100)).await;
    for call in ["heartbeat", "hello", "get events"] {
        assert!(world.server.count(call) > 0, "{call}: {:?}", world.server.state().calls);
    }
    connector.shutdown().await;
}

fn known(id: &str, turn: Turn, since: i64) -> teamlamp_wire::session::Session {
    let shape = json!({
        "id": format!("sess_{id}"), "harness": "codex", "native_id": id, "machine_id": "mach_1", "root": null,
        "title": null, "model": null, "turn": turn, "turn_since": since, "confirmed": true, "live": true,
        "started_at": null, "updated_at": 0, "visibility": "restricted", "revision": 1, "claimed_by": null,
    });
    serde_json::from_value(shape).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_waits_survives_a_crash_and_is_told_by_the_next_run_without_the_beginnings_again() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().down = true;
    world.find(&[("a", session("acme", Turn::Idle, 100))]);
    world.pass(60).await;
    connector.kill();
    drop(connector);
    let again = world.start(false).await;
    world.find(&[("a", session("acme", Turn::Working, 200))]);
    world.pass(60).await;
    world.server.state().down = false;
    world.until(&again, "online").await;
    let told: Vec<_> = world.server.state().published.iter().map(|e| (e.kind.clone(), e.at)).collect();
    assert_eq!(told, [("session.turn".into(), Some(100)), ("session.turn".into(), Some(200))]);
    again.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_shows_since_when_and_when_it_is_tried_again_and_everything_returns() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let lost_at = world.clock.now_ms();
    world.server.state().down = true;
    world.server.say.send(None).unwrap();
    world.server.stream.send(None).unwrap();
    let state = world.until(&connector, "offline").await;
    let teamlamp_wire::local::State::Offline { why, since, next_try_at } = state else { panic!("{state:?}") };
    assert!(why.contains("may not be running"), "{why}");
    assert!(since >= lost_at && next_try_at.is_some());
    world.pass(3_600).await;
    let tried = world.server.count("heartbeat");
    world.server.state().down = false;
    world.until(&connector, "online").await;
    assert!(world.clock.now_ms() - lost_at < 3_600_000 + 60_000);
    assert!(tried < 10, "what never reached the server was not counted by it");
    let changes: Vec<_> = connector.status().contexts[0].changes.iter().map(|c| c.to.clone()).collect();
    assert_eq!(changes.last().map(String::as_str), Some("online"));
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn connect_now_skips_the_wait() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().down = true;
    world.server.say.send(None).unwrap();
    world.server.stream.send(None).unwrap();
    world.pass(600).await;
    world.server.state().down = false;
    connector.act(Action::ConnectNow).await.unwrap();
    let before = world.clock.now_ms();
    world.until(&connector, "online").await;
    assert!(
        world.clock.now_ms() - before <= 6_000,
        "heartbeat and link at once, the stream within its backoff"
    );
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn after_sleep_everything_is_dialled_again_at_once() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.pass(3).await;
    let (links, streams) = (world.server.count("link"), world.server.count("get events"));
    let beats = world.server.count("heartbeat");
    world.clock.jump(8 * 3_600_000);
    world.pass(3).await;
    assert_eq!(world.server.count("heartbeat"), beats + 1, "a report at once, not with the next interval");
    assert_eq!(world.server.count("link"), links + 1);
    assert_eq!(world.server.count("get events"), streams + 1);
    world.until(&connector, "online").await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_that_was_under_way_when_the_computer_fell_asleep_is_made_anew_at_once() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.pass(3).await;
    world.server.state().silent = true;
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    world.pass(3).await;
    let beats = world.server.count("heartbeat");
    world.server.state().silent = false;
    world.clock.jump(8 * 3_600_000);
    world.pass(3).await;
    assert!(world.server.count("heartbeat") > beats, "{:?}", world.server.state().calls);
    connector.shutdown().await;
}

/// Goes offline with a change that waits, and comes back.
async fn with_something_waiting(world: &World, back: impl FnOnce()) -> crate::Connector {
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().down = true;
    world.server.say.send(None).unwrap();
    world.server.stream.send(None).unwrap();
    world.find(&[("a", session("acme", Turn::Idle, 100))]);
    world.until(&connector, "offline").await;
    back();
    world.server.state().down = false;
    connector
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_under_the_outbox_does_not_hold_up_the_reports() {
    let world = World::new();
    let connector = with_something_waiting(&world, || {
        world.server.state().sessions = vec![known("a", Turn::Idle, 100)];
        let outbox = rusqlite::Connection::open(world.install.home.path("outbox.db")).unwrap();
        let full = "CREATE TRIGGER full BEFORE DELETE ON rows BEGIN SELECT RAISE(ABORT, 'disk full'); END";
        outbox.execute_batch(full).unwrap();
    })
    .await;
    world.until(&connector, "online").await;
    assert!(world.server.state().published.is_empty(), "the team had heard of it");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_is_refused_for_now_does_not_hold_up_the_reports_and_waits_as_it_is_told() {
    for busy in [(503, "unavailable", Some("60")), (429, "rate_limited", Some("60"))] {
        let world = World::new();
        let connector = with_something_waiting(&world, || {
            world.server.state().refuse.insert("events", busy);
        })
        .await;
        world.until(&connector, "online").await;
        world.pass(30).await;
        assert!(world.server.count("events") <= 1, "{:?}", world.server.state().calls);
        world.server.state().refuse.clear();
        world.pass(60).await;
        assert_eq!(world.server.state().published.len(), 1, "told once the server takes it");
        connector.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_that_cannot_be_registered_for_now_do_not_hold_up_the_reports() {
    for busy in [(503, "unavailable", Some("60")), (429, "rate_limited", Some("60"))] {
        let world = World::new();
        world.server.state().refuse.insert("sessions", busy);
        world.find(&[("a", session("acme", Turn::Working, 5))]);
        let connector = world.connected().await;
        world.until(&connector, "online").await;
        world.pass(20).await;
        assert_eq!(world.server.count("sessions"), 1, "{:?}", world.server.state().calls);
        world.server.state().refuse.clear();
        world.pass(80).await;
        assert_eq!(world.server.state().registered.len(), 1);
        connector.shutdown().await;
    }
}
