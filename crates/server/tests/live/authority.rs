//! Who may read on: authority is looked at again for every event (spec 03, rules 6 and 8).

use crate::kit::{Live, Stream};
use serde_json::{Value, json};
use std::time::Duration;

async fn settled(live: &Live, token: &str, rest: &str) -> Stream {
    let mut stream = live.stream_by(token, rest, &[]).await;
    stream.settled().await;
    stream
}

async fn change_member(live: &Live, who: &str, body: Value) {
    let path = format!("members/{who}");
    let revision = live.get(&path).await.data()["revision"].as_i64().unwrap();
    let ask = live.world.ask("PATCH", live.path(&path)).json(&body).by(&live.owner.token).if_match(revision);
    let answer = ask.send().await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

/// So that losing one membership does not end the credential too.
pub(crate) async fn join_another_team(live: &Live, token: &str) {
    let other = live.ask("POST", "/v1/teams", &live.owner.token, Some(&json!({ "name": "Other" }))).await;
    let path = format!("/v1/teams/{}/invitations", other.data()["team"]["id"].as_str().unwrap());
    let made = live.ask("POST", &path, &live.owner.token, Some(&json!({ "role": "member" }))).await;
    let body = json!({ "code": made.data()["code"], "name": "Mia" });
    assert_eq!(live.ask("POST", "/v1/invitations/accept", token, Some(&body)).await.status, 201);
}

#[tokio::test]
async fn a_change_of_what_anyone_may_do_asks_readers_to_come_back() {
    let live = Live::real().await;
    let (member, other) = (live.join("member", "Mia").await, live.join("member", "Bob").await);
    let mut stream = settled(&live, &member.token, "events").await;
    live.publish("before", json!({})).await;
    let cursor = stream.next().await.cursor().to_owned();
    change_member(&live, &other.id, json!({ "role": "viewer" })).await;
    let end = stream.next().await;
    let expected = json!({ "type": "resync_required", "reason": "authorization_changed", "cursor": cursor, "terminal": true });
    assert_eq!(end.data, expected);
    assert_eq!(stream.try_next().await, None);
    let mut resumed = live.stream_by(&member.token, &format!("events?after={cursor}"), &[]).await;
    let frames = resumed.settled().await;
    assert_eq!(frames[0].event()["kind"], "member.changed", "no snapshot, and nothing was lost");
}

#[tokio::test]
async fn a_lost_membership_ends_every_stream_and_tells_nothing_more() {
    let live = Live::real().await;
    let member = live.join("member", "Mia").await;
    join_another_team(&live, &member.token).await;
    let mut machine = live.machine_of(&member, "hers").await;
    live.beat(&mut machine, &[], None).await;
    let mut streams = [
        settled(&live, &member.token, "events").await,
        settled(&live, machine.token(), "events").await,
        live.stream_by(&member.token, "machines/events?after=1", &[]).await,
    ];
    change_member(&live, &member.id, json!({ "active": false })).await;
    let mut reasons = Vec::new();
    for stream in &mut streams {
        let end = stream.next().await;
        assert_eq!((end.kind(), &end.data["terminal"], &end.id), ("access_revoked", &json!(true), &None));
        reasons.push(end.data["reason"].as_str().unwrap().to_owned());
        assert_eq!(stream.try_next().await, None);
    }
    assert_eq!(reasons, ["membership_ended", "machine_revoked", "membership_ended"]);
}

#[tokio::test]
async fn signing_out_ends_the_streams_of_that_credential_alone() {
    let live = Live::real().await;
    let member = live.join("member", "Mia").await;
    let mut hers = settled(&live, &member.token, "events").await;
    let mut presence = live.stream_by(&member.token, "machines/events", &[]).await;
    presence.until("snapshot_end").await;
    let mut others = settled(&live, &live.owner.token, "events").await;
    assert_eq!(live.ask("DELETE", "/v1/credentials/current", &member.token, None).await.status, 204);
    for stream in [&mut hers, &mut presence] {
        let end = stream.next().await;
        assert_eq!((end.kind(), &end.data["reason"]), ("access_revoked", &json!("credential_ended")));
    }
    live.publish("x", json!({})).await;
    assert_eq!(others.until("event").await.event()["kind"], "custom.cli.x");
}

#[tokio::test]
async fn revoking_a_machine_ends_the_streams_of_its_credential() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    let mut stream = settled(&live, machine.token(), "events").await;
    let revision = live.get(&format!("machines/{}", machine.id())).await.data()["revision"].as_i64().unwrap();
    live.delete(&format!("machines/{}", machine.id()), revision).await;
    let end = stream.next().await;
    assert_eq!((end.kind(), &end.data["reason"]), ("access_revoked", &json!("machine_revoked")));
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_expires_ends_a_quiet_stream() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    let mut stream = live.stream_by(machine.token(), "events", &[]).await;
    stream.settled().await;
    live.clock().jump(30 * 86_400_000 + 1);
    let end = stream.next().await;
    assert_eq!((end.kind(), &end.data["reason"]), ("access_revoked", &json!("credential_ended")));
}

#[tokio::test]
async fn what_a_reader_may_not_see_shows_only_as_time_that_went_on() {
    let live = Live::real().await;
    let (custodian, bystander) = (live.join("member", "Mia").await, live.join("member", "Bob").await);
    let mut old = live.machine_of(&custodian, "clone").await;
    let mut new = old.restarted();
    live.beat(&mut old, &[], None).await;
    live.beat(&mut new, &[], None).await;
    let mut sees = settled(&live, &custodian.token, "events").await;
    let mut admin = settled(&live, &live.owner.token, "events").await;
    let mut blind = settled(&live, &bystander.token, "events").await;
    let body = old.report(&[], None);
    live.send(&old, &body).await.refused(409, "conflict");
    let event = sees.next().await;
    assert_eq!(event.event()["kind"], "machine.cloned");
    assert_eq!(admin.next().await.event()["kind"], "machine.cloned");
    let checkpoint = blind.next().await;
    assert_eq!(checkpoint.kind(), "checkpoint");
    assert_eq!(checkpoint.cursor(), event.cursor(), "how far, and not what");
    let mut fresh = live.stream_by(&bystander.token, "events", &[]).await;
    let snapshot = fresh.settled().await;
    assert!(!snapshot.iter().any(|f| f.data.to_string().contains("cloned")));
    let shown = snapshot.iter().filter(|f| f.kind() == "snapshot_item");
    let shown: Vec<_> = shown.filter(|f| f.event()["resource"]["id"] == old.id()).collect();
    assert_eq!(shown.len(), 1, "the machine is as much there as before");
    let id = event.event()["id"].as_str().unwrap();
    live.get_by(&bystander.token, &format!("events/{id}")).await.refused(404, "not_found");
    assert_eq!(live.get_by(&custodian.token, &format!("events/{id}")).await.status, 200);
}

#[tokio::test]
async fn another_teams_events_appear_nowhere() {
    let live = Live::real().await;
    let other = live.ask("POST", "/v1/teams", &live.owner.token, Some(&json!({ "name": "Other" }))).await;
    let other = other.data()["team"]["id"].as_str().unwrap().to_owned();
    let mut here = settled(&live, &live.owner.token, "events").await;
    let event = json!({ "events": [{ "kind": "custom.cli.secret", "id": "evt_1" }] });
    let path = format!("/v1/teams/{other}/events");
    assert_eq!(live.ask("POST", &path, &live.owner.token, Some(&event)).await.status, 201);
    live.get("events/evt_1").await.refused(404, "not_found");
    assert_eq!(live.told("custom.cli.*").await, Vec::<Value>::new());
    let mine = live.post("events", &event).await;
    assert_eq!(mine.status, 201, "an id is unique in its team alone");
    assert_eq!(here.next().await.event()["org"], json!(live.team));
}

#[tokio::test]
async fn an_install_has_ten_places_which_come_back_however_a_stream_ends() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    let header = [("x-supercode-machine", machine.id())];
    let mut held = Vec::new();
    for i in 0..10 {
        let rest = if i % 2 == 0 { "events" } else { "machines/events" };
        held.push(live.stream_by(&live.owner.token, rest, &header).await);
    }
    let refused = |rest: &'static str| {
        let ask = live.world.get(live.path(rest)).by(&live.owner.token).header(header[0].0, header[0].1);
        async move { ask.header("accept", "application/json").send().await }
    };
    let answer = refused("events?wait=0").await;
    answer.refused(429, "rate_limited");
    assert_eq!(answer.header("retry-after"), "30");
    let expected = json!({ "retry_after_seconds": 30, "streams_per_install": 10, "machine": machine.id() });
    assert_eq!(answer.body["error"]["details"], expected);
    refused("machines/events").await.refused(429, "rate_limited");
    // Another install of the same person has places of its own; a strange header names no install.
    let mut none =
        live.stream_by(&live.owner.token, "events", &[("x-supercode-machine", "mach_strange")]).await;
    none.settled().await;
    let mut own = live.stream_by(machine.token(), "events", &[]).await;
    own.settled().await;
    assert_eq!(live.world.server.app().streams.open(), 12);
    drop((held, none, own));
    while live.world.server.app().streams.open() > 0 {
        tokio::time::timeout(Duration::from_secs(5), tokio::task::yield_now()).await.unwrap();
    }
    let mut again = live.stream_by(&live.owner.token, "events", &header).await;
    again.settled().await;
}

#[tokio::test]
async fn a_credential_has_forty_places() {
    let live = Live::real().await;
    let mut machines = Vec::new();
    for i in 0..5 {
        machines.push(live.machine(&format!("m-{i}")).await);
    }
    let mut held = Vec::new();
    for machine in &machines[..4] {
        for _ in 0..10 {
            held.push(
                live.stream_by(&live.owner.token, "events", &[("x-supercode-machine", machine.id())]).await,
            );
        }
    }
    let io = live.connect().await;
    let header = [("x-supercode-machine", machines[4].id())];
    let refused = live.open_stream(io, &live.owner.token, "events", &header).await;
    assert_eq!(refused.status, 429);
}

#[tokio::test]
async fn a_machine_of_another_team_or_a_revoked_one_is_no_install() {
    let live = Live::real().await;
    let other = live.ask("POST", "/v1/teams", &live.owner.token, Some(&json!({ "name": "Other" }))).await;
    let path = format!("/v1/teams/{}/machines", other.data()["team"]["id"].as_str().unwrap());
    let body = json!({ "name": "far", "enrollment_key": crate::world::fresh("key") });
    let far = live.ask("POST", &path, &live.owner.token, Some(&body)).await;
    let far = far.data()["machine"]["id"].as_str().unwrap().to_owned();
    let gone = live.machine("gone").await;
    let revision = live.get(&format!("machines/{}", gone.id())).await.data()["revision"].as_i64().unwrap();
    assert_eq!(live.delete(&format!("machines/{}", gone.id()), revision).await.status, 204);
    let mut held = Vec::new();
    for named in [&far as &str, gone.id()].into_iter().cycle().take(10) {
        held.push(live.stream_by(&live.owner.token, "events", &[("x-supercode-machine", named)]).await);
    }
    for named in [&far as &str, gone.id(), "mach_none"] {
        let ask =
            live.world.get(live.path("events")).by(&live.owner.token).header("x-supercode-machine", named);
        let answer = ask.header("accept", "application/json").send().await;
        answer.refused(429, "rate_limited");
        assert_eq!(answer.body["error"]["details"]["machine"], Value::Null, "{named}");
    }
}
