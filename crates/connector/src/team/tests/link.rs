//! The link is lost, refused, replaced.

use super::*;
use teamlamp_wire::link::{ClosingReason, FromServer};

#[tokio::test(start_paused = true)]
async fn a_lost_link_is_dialled_again_at_once_and_nobody_hears_of_it() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.pass(120).await;
    let dials = world.server.state().dials;
    let changes = connector.status().contexts[0].changes.len();
    world.server.say.send(None).unwrap();
    world.clock.sleep(Duration::from_millis(50)).await;
    assert_eq!(world.server.state().dials, dials + 1);
    assert_eq!(connector.status().contexts[0].changes.len(), changes);
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_closed_again_and_again_is_dialled_ever_more_slowly() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    let before = world.server.state().dials;
    for _ in 0..6_000 {
        let _ = world.server.say.send(Some(FromServer::Closing { reason: ClosingReason::Unavailable }));
        world.clock.sleep(Duration::from_millis(100)).await;
    }
    let dials = world.server.state().dials - before;
    assert!((20..=90).contains(&dials), "{dials} dials in ten minutes");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn after_replaced_it_does_not_dial_before_a_report_was_answered() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.pass(1).await;
    let dials = world.server.state().dials;
    let beats = world.server.count("heartbeat");
    world.server.say.send(Some(FromServer::Closing { reason: ClosingReason::Replaced })).unwrap();
    world.until(&connector, "degraded").await;
    world.clock.sleep(Duration::from_millis(500)).await;
    if world.server.count("heartbeat") == beats {
        assert_eq!(world.server.state().dials, dials);
    }
    world.until(&connector, "online").await;
    assert!(world.server.count("heartbeat") > beats);
    assert_eq!(world.server.state().dials, dials + 1);
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_greet_is_no_link() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().silent = true;
    world.server.say.send(None).unwrap();
    world.until(&connector, "degraded").await;
    world.pass(60).await;
    let word = connector.status().contexts[0].state.word();
    assert_eq!(word, "offline", "neither heartbeat nor link is answered");
    world.server.state().silent = false;
    world.until(&connector, "online").await;
    connector.shutdown().await;
}
