//! The credential is refused, rotated, lost; another computer has this identity; the keyring is closed.

use super::*;
use crate::custody::{Fault, Kind, Place};
use crate::scripted::World;
use secrecy::ExposeSecret;

async fn machine_token(world: &World) -> String {
    let id = world.install.contexts().unwrap().contexts[0].id.clone();
    let token = world.install.custody.read(Place::Keyring, &id, Kind::Machine).await.unwrap();
    token.unwrap().expose_secret().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_is_replaced_once_by_the_persons() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let before = machine_token(&world).await;
    world.server.state().machine_token = None;
    world.pass(30).await;
    world.until(&connector, "online").await;
    assert_ne!(machine_token(&world).await, before);
    assert_eq!(world.server.count("machines"), 2, "enrolled by joining, and once more");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_another_process_rotated_is_read_again() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let id = world.install.contexts().unwrap().contexts[0].id.clone();
    world.server.state().machine_token = Some("cred_9.rotated".into());
    world.install.custody.write(Place::Keyring, &id, Kind::Machine, "cred_9.rotated".into()).await.unwrap();
    world.pass(30).await;
    world.until(&connector, "online").await;
    assert_eq!(world.server.count("machines"), 1, "nothing was enrolled");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_revoked_machine_stays_revoked_until_its_person_enrolls_it_again() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    {
        let mut state = world.server.state();
        (state.machine_token, state.revoked) = (None, true);
    }
    world.pass(30).await;
    world.until(&connector, "revoked").await;
    let calls = world.server.state().calls.len();
    world.pass(3_000).await;
    assert!(world.server.state().calls.len() - calls < 5, "no hot loop: {:?}", world.server.state().calls);
    let context = connector.status().contexts[0].id.clone();
    connector.act(Action::EnrollAgain { context, as_new: None }).await.unwrap();
    world.until(&connector, "online").await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_is_refused_again_and_again_waits_for_the_person() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().refuse_heartbeats = [(401, "authentication_required", None); 4].into();
    world.pass(120).await;
    assert_eq!(connector.status().contexts[0].state.word(), "expired");
    assert_eq!(
        world.server.count("machines"),
        3,
        "two tries, then no more: {:?}",
        world.server.state().calls
    );
    connector.act(Action::ConnectNow).await.unwrap();
    world.until(&connector, "online").await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn without_any_good_credential_it_says_that_the_sign_in_ended() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    {
        let mut state = world.server.state();
        (state.machine_token, state.user_token) = (None, None);
    }
    world.pass(30).await;
    world.until(&connector, "expired").await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_another_computer_reports_as_is_not_enrolled_again() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    {
        let mut state = world.server.state();
        (state.machine_token, state.incarnation) = (None, Some("inc_of_another".into()));
    }
    world.pass(30).await;
    world.until(&connector, "cloned").await;
    assert_eq!(world.server.count("machines"), 1);
    let context = connector.status().contexts[0].id.clone();
    connector.act(Action::EnrollAgain { context, as_new: Some("second laptop".into()) }).await.unwrap();
    world.until(&connector, "online").await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_superseded_run_takes_its_place_back_once_and_then_asks() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let superseded = (409, "conflict", Some("incarnation_superseded"));
    world.server.state().refuse_heartbeats = [superseded].into();
    world.pass(30).await;
    world.until(&connector, "online").await;
    {
        let state = world.server.state();
        let (first, last) = (&state.beats[0], state.beats.last().unwrap());
        assert_ne!(first.incarnation_id, last.incarnation_id);
        assert!(last.sequence < 4, "a fresh run counts from one");
        assert_eq!(connector.status().incarnation_id, last.incarnation_id);
    }
    world.server.state().refuse_heartbeats = [superseded].into();
    world.pass(30).await;
    world.until(&connector, "cloned").await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn superseded_again_much_later_is_another_first_time() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    for _ in 0..3 {
        world.server.state().refuse_heartbeats = [(409, "conflict", Some("incarnation_superseded"))].into();
        world.pass(330).await;
        world.until(&connector, "online").await;
    }
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_keyring_is_waited_for_and_enrolls_nothing() {
    let world = World::new();
    world.install.join(world.wish()).await.unwrap();
    world.keyring.fail(Some(Fault::Locked));
    let connector = world.start(false).await;
    let state = world.until(&connector, "keyring_needed").await;
    assert!(state.sentence().contains("Unlock"), "{state:?}");
    world.pass(600).await;
    assert_eq!(world.server.count("machines"), 1);
    connector.act(Action::UnlockKeyring).await.unwrap();
    world.until(&connector, "online").await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_credential_is_renewed_in_time_kept_before_it_is_used_and_nothing_is_interrupted() {
    let world = World::new();
    world.server.state().expires_at = world.clock.now_ms() + 10 * 86_400_000 + 60_000;
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let (before, dials) = (machine_token(&world).await, world.server.state().dials);
    world.pass(120).await;
    let after = machine_token(&world).await;
    assert_ne!(after, before);
    assert_eq!(world.server.state().machine_token.as_deref(), Some(after.as_str()));
    assert_eq!(world.server.state().dials, dials, "the link goes on");
    let expires_at = connector.status().contexts[0].credential_expires_at.unwrap();
    assert!(expires_at > world.clock.now_ms() + 29 * 86_400_000);
    let saved = world.install.contexts().unwrap().contexts.remove(0).machine.unwrap();
    assert_eq!(saved.credential_expires_at, expires_at);
    assert_eq!(connector.status().contexts[0].state.word(), "online");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_cannot_be_renewed_warns_before_its_end_and_then_says_so_at_once() {
    let world = World::new();
    world.server.state().expires_at = world.clock.now_ms() + 5 * 86_400_000 + 3_600_000;
    world.server.state().refuse_rotate = Some((500, "internal"));
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.pass(3_700).await;
    let state = world.until(&connector, "degraded").await;
    assert!(state.sentence().contains("could not be renewed"), "{state:?}");
    let tries = world.server.count("rotate");
    assert!((1..=2).contains(&tries), "{tries} tries in an hour");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_keyring_that_is_closed_when_a_credential_is_refused_is_waited_for() {
    for fault in [Fault::Locked, Fault::Hung] {
        let world = World::new();
        let connector = world.connected().await;
        world.until(&connector, "online").await;
        world.keyring.fail(Some(fault.clone()));
        world.server.state().machine_token = None;
        world.until(&connector, "keyring_needed").await;
        world.pass(300).await;
        assert_eq!(connector.status().contexts[0].state.word(), "keyring_needed");
        assert_eq!(world.server.count("machines"), 1, "nothing was enrolled meanwhile");
        if fault == Fault::Hung {
            world.keyring.fail(None);
        }
        connector.act(Action::UnlockKeyring).await.unwrap();
        world.pass(5).await;
        assert_eq!(connector.status().contexts[0].state.word(), "online");
        connector.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_enroll_now_is_asked_again_and_is_no_refusal() {
    for busy in [(503, "unavailable", None), (429, "rate_limited", Some("60")), (502, "unavailable", None)] {
        let world = World::new();
        let connector = world.connected().await;
        world.until(&connector, "online").await;
        {
            let mut state = world.server.state();
            state.machine_token = None;
            state.refuse.insert("machines", busy);
        }
        let mut watch = connector.watch_status();
        let mut words = Vec::new();
        for _ in 0..300 {
            world.pass(1).await;
            words.push(watch.borrow_and_update().contexts[0].state.word());
        }
        assert!(!words.contains(&"expired"), "{busy:?}: {words:?}");
        assert!(world.server.count("heartbeat") < 30, "no hot loop: {:?}", world.server.state().calls);
        world.server.state().refuse.clear();
        world.until(&connector, "online").await;
        connector.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_refused_while_reports_are_answered_makes_no_hot_loop() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().refuse.insert("get events", (403, "forbidden", None));
    world.server.stream.send(None).unwrap();
    world.pass(3_000).await;
    assert!(world.server.count("machines") <= 3, "{}", world.server.count("machines"));
    connector.shutdown().await;
}
