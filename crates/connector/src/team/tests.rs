//! The loop of a context against a scripted server, in paused time.

mod identity;
mod link;
mod offline;

use crate::connector::Action;
use crate::privacy::tests::session;
use crate::scripted::World;
use std::time::Duration;
use teamlamp_wire::link::FromMachine;
use teamlamp_wire::machine::AwayReason;
use teamlamp_wire::session::Turn;

#[tokio::test(start_paused = true)]
async fn a_machine_that_joined_comes_online_with_its_sessions() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let status = connector.status();
    let context = &status.contexts[0];
    assert!(context.heartbeat_at.is_some() && context.linked_at.is_some());
    assert_eq!(context.clock_offset_ms, Some(-500), "the server's clock is half a second ahead");
    assert_eq!(status.sessions.len(), 1);
    {
        let state = world.server.state();
        let place = |call: &str| state.calls.iter().position(|c| c == call).unwrap();
        assert!(
            place("sessions") < place("heartbeat"),
            "a session is registered before it is bound: {:?}",
            state.calls
        );
        let beat = &state.beats[0];
        assert_eq!(
            (beat.sequence, beat.bindings.len(), &beat.incarnation_id),
            (1, 1, &status.incarnation_id)
        );
        assert!(state.registered["a"].title.is_none(), "a title is not shared by itself");
    }
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn reports_come_each_fifteen_seconds_and_for_changes_at_once_but_at_most_one_a_second() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.pass(2).await;
    let before = world.server.count("heartbeat");
    world.pass(150).await;
    let regular = world.server.count("heartbeat") - before;
    assert!((9..=11).contains(&regular), "{regular}");
    let before = world.server.count("heartbeat");
    for n in 0..50 {
        let turn = if n % 2 == 0 { Turn::Working } else { Turn::Idle };
        world.find(&[("a", session("acme", turn, n))]);
        world.clock.sleep(Duration::from_millis(100)).await;
    }
    let changed = world.server.count("heartbeat") - before;
    assert!((4..=7).contains(&changed), "{changed} for fifty changes in five seconds");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_server_does_not_know_is_registered_again_once() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let unbound = vec![teamlamp_wire::heartbeat::Unbound {
        id: "b".into(),
        harness: "codex".into(),
        native_session_id: "a".into(),
        reason: "no_session".into(),
    }];
    world.server.state().unbound = [unbound.clone(), unbound.clone(), unbound].into();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.pass(10).await;
    assert_eq!(world.server.count("sessions"), 2, "at once, and then with the regular report");
    world.pass(60).await;
    assert_eq!(world.server.count("sessions"), 4, "and no more once it is known");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_in_the_report_in_which_its_binding_is_gone() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.find(&[("a", session("acme", Turn::Ended, 77))]);
    world.pass(3).await;
    {
        let state = world.server.state();
        let beat = state.beats.iter().find(|b| b.bindings.is_empty()).unwrap();
        let activity = beat.activity.as_ref().unwrap();
        assert_eq!((activity[0].turn.as_str(), activity[0].since), ("ended", Some(77)));
    }
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn leaving_says_so_in_order_and_within_three_seconds() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let before = world.clock.now_ms();
    connector.shutdown().await;
    assert!(world.clock.now_ms() - before <= 3_000);
    let state = world.server.state();
    let last = state.beats.last().unwrap();
    assert!(last.bindings.is_empty() && last.activity.is_none());
    assert_eq!(state.calls[state.calls.len() - 2..], ["heartbeat", "away"]);
    assert!(matches!(state.heard.last(), Some(FromMachine::Away { reason: AwayReason::Shutdown })));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_does_not_hold_up_the_end() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().silent = true;
    let before = world.clock.now_ms();
    connector.shutdown().await;
    assert!(world.clock.now_ms() - before <= 3_000);
}

#[tokio::test(start_paused = true)]
async fn a_pause_says_so_stops_everything_that_tells_and_is_remembered() {
    let world = World::new();
    world.find(&[("a", session("acme", Turn::Working, 5))]);
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    connector.act(Action::Pause { for_ms: None }).await.unwrap();
    world.until(&connector, "paused").await;
    world.pass(5).await;
    assert!(matches!(
        world.server.state().heard.last(),
        Some(FromMachine::Away { reason: AwayReason::Paused })
    ));
    let calls = world.server.state().calls.len();
    world.find(&[("a", session("acme", Turn::Idle, 50)), ("b", session("acme", Turn::Working, 60))]);
    world.pass(600).await;
    assert_eq!(world.server.state().calls.len(), calls, "nothing is said while it is paused");
    connector.shutdown().await;
    let again = world.start(false).await;
    world.pass(60).await;
    assert_eq!(again.status().contexts[0].state.word(), "paused");
    assert!(again.status().paused.is_some());
    again.act(Action::Resume).await.unwrap();
    world.until(&again, "online").await;
    assert!(world.server.state().published.is_empty(), "nothing of the pause is told later");
    again.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_for_a_while_ends_by_itself() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    connector.act(Action::Pause { for_ms: Some(900_000) }).await.unwrap();
    world.pass(890).await;
    assert_eq!(connector.status().contexts[0].state.word(), "paused");
    world.until(&connector, "online").await;
    assert_eq!(connector.status().paused, None);
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_are_asked_for_show_in_the_status_until_streams_come_again() {
    let world = World::new();
    world.server.state().held_back = true;
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let shown = |connector: &crate::connector::Connector| {
        let context = &connector.status().contexts[0];
        (context.streaming, context.polls)
    };
    assert_eq!(shown(&connector), (true, true));
    world.server.state().held_back = false;
    world.pass(3_500).await;
    assert_eq!(shown(&connector), (true, true));
    world.pass(200).await;
    assert_eq!(shown(&connector), (true, false), "streaming is tried again after an hour");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_viewer_reads_and_reports_nothing() {
    let world = World::new();
    world.server.state().role = Some("viewer");
    let connector = world.connected().await;
    world.until(&connector, "read_only").await;
    world.pass(120).await;
    assert_eq!((world.server.count("heartbeat"), world.server.count("link")), (0, 0));
    assert_eq!(world.server.count("get events"), 1);
    connector.shutdown().await;
}
