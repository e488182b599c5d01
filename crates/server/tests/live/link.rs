//! The link (spec 02).

use crate::kit::{Link, Live};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use teamlamp_clock::ms;
use tokio_tungstenite::tungstenite::Message;

async fn machine_of(live: &Live, id: &str) -> Value {
    live.get(&format!("machines/{id}")).await.data().clone()
}

#[tokio::test]
async fn a_link_makes_a_machine_that_is_heard_online() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.dial(machine.token(), machine.id()).await.unwrap();
    link.hello(&machine.run).await;
    let welcome = link.next().await.unwrap();
    assert_eq!((&welcome["type"], &welcome["heartbeat_ms"]), (&json!("welcome"), &json!(15_000)));
    assert!((live.clock().now_ms() - welcome["server_time"].as_i64().unwrap()).abs() < 5_000);
    assert_eq!(live.connection(&machine).await, "online");
    let told = live.told("machine.online").await;
    assert_eq!((&told[0]["data"]["from"], &told[0]["data"]["to"]), (&json!("unlinked"), &json!("online")));
    link.close().await;
    let mut presence = live.stream("machines/events?after=2").await;
    let transition = presence.next().await;
    assert_eq!((&transition.data["from"], &transition.data["to"]), (&json!("online"), &json!("unlinked")));
    assert_eq!(transition.data["linked"], false);
}

#[tokio::test]
async fn only_the_machines_own_credential_links_and_only_by_a_handshake() {
    let live = Live::real().await;
    let (machine, other) = (live.machine("one").await, live.machine("two").await);
    assert_eq!(live.dial(&live.owner.token, machine.id()).await.err(), Some(403));
    assert_eq!(live.dial(other.token(), machine.id()).await.err(), Some(403));
    assert_eq!(live.dial("nonsense", machine.id()).await.err(), Some(401));
    let plain = live.get_by(machine.token(), &format!("machines/{}/link", machine.id())).await;
    assert!(plain.refused(400, "invalid_request").contains("WebSocket"));
}

#[tokio::test(start_paused = true)]
async fn a_hello_must_come_first_and_within_five_seconds() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    let mut silent = live.dial(machine.token(), machine.id()).await.unwrap();
    let begun = live.clock().now_ms();
    assert_eq!(silent.closing().await, "protocol");
    assert!((5_000..6_500).contains(&(live.clock().now_ms() - begun)));
    for first in [
        json!({ "type": "ack", "id": "note_1" }),
        json!({ "type": "hello", "incarnation_id": "", "version": "1", "now": 1 }),
        json!({ "type": "hello" }),
        json!(["hello"]),
    ] {
        let mut link = live.dial(machine.token(), machine.id()).await.unwrap();
        link.say(&first).await;
        assert_eq!(link.closing().await, "protocol", "{first}");
    }
    let mut link = live.dial(machine.token(), machine.id()).await.unwrap();
    link.say(&json!({ "type": "sing", "song": 1 })).await;
    link.hello(&machine.run).await;
    assert_eq!(link.next().await.unwrap()["type"], "welcome", "unknown types are ignored");
    link.say(&json!({ "type": "sing" })).await;
    link.hello(&machine.run).await;
    assert_eq!(link.closing().await, "protocol", "a second hello is none of this protocol");
}

#[tokio::test]
async fn what_is_no_frame_of_this_protocol_closes() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    for bad in [
        Message::Text("not json".into()),
        Message::Binary(b"{}".to_vec().into()),
        Message::Text(format!("{{\"type\":\"sing\",\"x\":\"{}\"}}", "x".repeat(64 << 10)).into()),
    ] {
        let mut link = live.link(&machine).await;
        let _ = link.socket.send(bad).await;
        assert_eq!(link.closing().await, "protocol");
    }
    let mut link = live.link(&machine).await;
    let largest = format!("{{\"type\":\"sing\",\"x\":\"{}\"}}", "x".repeat((64 << 10) - 22));
    assert_eq!(largest.len(), 64 << 10);
    link.socket.send(Message::Text(largest.into())).await.unwrap();
    link.say(&json!({ "type": "away", "reason": "paused" })).await;
    while machine_of(&live, machine.id()).await["away"].is_null() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_newer_link_of_a_machine_wins() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut older = live.link(&machine).await;
    let newer = live.link(&machine).await;
    assert_eq!(older.closing().await, "replaced");
    drop(older);
    live.beat(&mut machine, &[], None).await;
    assert_eq!(live.connection(&machine).await, "online");
    assert_eq!(live.told("machine.unlinked,machine.online").await.len(), 2, "replacing changes nothing");
    drop(newer);
}

#[tokio::test]
async fn a_replaced_run_may_not_link_and_its_link_ends() {
    let live = Live::real().await;
    let mut old = live.machine("one").await;
    live.beat(&mut old, &[], None).await;
    let mut link = live.link(&old).await;
    let mut new = old.restarted();
    live.beat(&mut new, &[], None).await;
    assert_eq!(link.closing().await, "incarnation_superseded");
    assert_eq!(live.told("machine.cloned").await.len(), 0, "a link that was left over is no clone");
    let mut again = live.dial(old.token(), old.id()).await.unwrap();
    again.hello(&old.run).await;
    assert_eq!(again.closing().await, "incarnation_superseded");
    assert_eq!(live.told("machine.cloned").await.len(), 1);
    let _link = live.link(&new).await;
    assert_eq!(live.connection(&new).await, "online");
    live.beat(&mut new, &[], None).await;
}

#[tokio::test]
async fn a_new_run_that_links_before_it_reports_keeps_its_link() {
    let live = Live::real().await;
    let mut old = live.machine("one").await;
    live.beat(&mut old, &[], None).await;
    let mut new = old.restarted();
    let mut link = live.link(&new).await;
    live.beat(&mut new, &[], None).await;
    link.say(&json!({ "type": "away", "reason": "asleep" })).await;
    while machine_of(&live, new.id()).await["away"].is_null() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn revoking_and_enrolling_again_end_the_link() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    let body = json!({ "name": "one", "enrollment_key": machine.enrolled.key });
    assert_eq!(live.post("machines", &body).await.status, 200);
    assert_eq!(link.closing().await, "machine_revoked", "its credential was replaced");
    let mut machine = live.machine("two").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    let revision = machine_of(&live, machine.id()).await["revision"].as_i64().unwrap();
    assert_eq!(live.delete(&format!("machines/{}", machine.id()), revision).await.status, 204);
    assert_eq!(link.closing().await, "machine_revoked");
    assert_eq!(live.connection(&machine).await, "offline");
    let mut machine = live.machine("three").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    assert_eq!(live.ask("DELETE", "/v1/credentials/current", machine.token(), None).await.status, 204);
    assert_eq!(link.closing().await, "machine_revoked", "signed out");
}

#[tokio::test(start_paused = true)]
async fn a_link_ends_with_its_credential_unless_that_was_renewed() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    let ends_at = live.clock().now_ms() + 30 * 86_400_000;
    live.clock().jump(30 * 86_400_000 - 20_000);
    link.live_for(19_000).await;
    assert!(live.clock().now_ms() < ends_at);
    assert_eq!(link.closing().await, "credential_expired");
    assert!(live.clock().now_ms() - ends_at < 16_000);
}

#[tokio::test(start_paused = true)]
async fn pings_go_both_ways_and_silence_of_40_seconds_ends_it() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    let begun = live.clock().now_ms();
    let mut pings = Vec::new();
    while pings.len() < 4 {
        let Some(Ok(Message::Ping(_))) = link.socket.next().await else { continue };
        pings.push((live.clock().now_ms() - begun) / 1_000);
    }
    assert_eq!(pings, [15, 30, 45, 60], "who answers stays");
    link.socket.send(Message::Ping(vec![7].into())).await.unwrap();
    while !matches!(link.socket.next().await, Some(Ok(Message::Pong(data))) if data[..] == [7]) {}
    // From here on the machine reads nothing, so it answers nothing.
    live.beat(&mut machine, &[], None).await;
    let quiet_from = live.clock().now_ms();
    while live.connection(&machine).await == "online" {
        live.clock().sleep(ms(500)).await;
        if (live.clock().now_ms() - quiet_from) % 15_000 < 500 {
            live.beat(&mut machine, &[], None).await;
        }
    }
    let took = live.clock().now_ms() - quiet_from;
    assert!((39_000..=41_500).contains(&took), "{took}");
    assert_eq!(live.connection(&machine).await, "unlinked");
}

#[tokio::test]
async fn away_is_kept_and_a_hello_or_a_heartbeat_clears_it() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    for reason in ["asleep", "shutdown", "paused"] {
        let before = live.clock().now_ms();
        let mut link = live.link(&machine).await;
        assert_eq!(machine_of(&live, machine.id()).await["away"], Value::Null, "a hello clears it");
        link.say(&json!({ "type": "away", "reason": reason })).await;
        link.close().await;
        let shown = machine_of(&live, machine.id()).await;
        assert_eq!(shown["away"]["reason"], reason);
        assert!(shown["away"]["since"].as_i64().unwrap() >= before);
        assert_eq!(shown["connection"], "unlinked", "it never changes the connection");
    }
    let told = live.told("machine.unlinked").await;
    assert_eq!(told.last().unwrap()["data"]["away"]["reason"], "paused");
    live.beat(&mut machine, &[], None).await;
    assert_eq!(machine_of(&live, machine.id()).await["away"], Value::Null);
}

#[tokio::test]
async fn a_hello_tells_the_clocks_offset_to_custodian_and_admins() {
    let live = Live::real().await;
    let member = live.join("member", "Mia").await;
    let machine = live.machine("one").await;
    let mut link = live.dial(machine.token(), machine.id()).await.unwrap();
    let now = live.clock().now_ms() + 90_000;
    link.say(&json!({ "type": "hello", "incarnation_id": machine.run, "version": "1", "now": now })).await;
    link.next().await.unwrap();
    let offset = machine_of(&live, machine.id()).await["clock_offset_ms"].as_i64().unwrap();
    assert!((80_000..=90_000).contains(&offset));
    let other = live.get_by(&member.token, &format!("machines/{}", machine.id())).await;
    assert_eq!(other.data().get("clock_offset_ms"), None);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_floods_its_link_is_read_slowly_and_still_pinged() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    let mut link = live.link(&machine).await;
    let store = live.world.server.app().store.clone();
    let before = store.commits();
    for number in 0..400 {
        link.say(&json!({ "type": "ack", "id": format!("note_{number}") })).await;
    }
    live.pass(2_000).await;
    let read = store.commits() - before;
    assert!((120..=145).contains(&read), "{read} of 400 at once and in two seconds");
    while !matches!(link.socket.next().await, Some(Ok(Message::Ping(_)))) {}
    live.pass(60_000).await;
    assert!(store.commits() - before >= 400, "what waited is read in the end");
}

#[tokio::test]
async fn a_hello_of_no_run_or_of_one_with_a_name_too_long_is_against_the_protocol() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    for run in [String::new(), "r".repeat(129)] {
        let mut link = live.dial(machine.token(), machine.id()).await.unwrap();
        link.hello(&run).await;
        assert_eq!(link.next().await.unwrap(), json!({ "type": "closing", "reason": "protocol" }));
    }
    let mut link = live.dial(machine.token(), machine.id()).await.unwrap();
    link.hello(&"r".repeat(128)).await;
    assert_eq!(link.next().await.unwrap()["type"], "welcome");
}

#[tokio::test]
async fn a_changed_configuration_is_told() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    let mut link = live.link(&machine).await;
    let ask = live.world.ask("PATCH", live.path(&format!("machines/{}", machine.id())));
    let revision = machine_of(&live, machine.id()).await["revision"].as_i64().unwrap();
    let renamed = ask.json(&json!({ "name": "uno" })).by(&live.owner.token).if_match(revision).send().await;
    assert_eq!(renamed.status, 200, "{}", renamed.text);
    assert_eq!(link.next().await.unwrap(), json!({ "type": "configuration_changed" }));
}

#[tokio::test]
async fn a_server_that_ends_says_so() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link: Link = live.link(&machine).await;
    let (closing, ()) = tokio::join!(link.closing(), live.world.server.shutdown());
    assert_eq!(closing, "shutdown");
}
