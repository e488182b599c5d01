//! Every event that the server writes has the `data` of its row in the catalogue: what other programs read
//! it by (spec 03).

use crate::kit::{Live, activity};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use teamlamp_wire::event::{CATALOGUE, Kind, KindOf, kind_of};

/// Kinds of what this server does not do yet.
const LATER: [&str; 5] =
    ["session.published", "session.deleted", "app.installed", "app.removed", "webhook.disabled"];

/// A change of something that has a revision.
async fn change(live: &Live, method: &str, path: &str, body: Option<Value>) {
    let shown = live.ask("GET", path, &live.owner.token, None).await;
    let revision = shown.data()["revision"].as_i64().unwrap();
    let mut ask = live.world.ask(method, path).by(&live.owner.token).if_match(revision).from("127.0.0.1");
    if let Some(body) = body {
        ask = ask.json(&body);
    }
    let answer = ask.send().await;
    assert!(matches!(answer.status, 200 | 204), "{method} {path}: {}", answer.text);
}

/// Everything that there is to tell, once.
async fn story(live: &Live) {
    change(live, "PATCH", &format!("/v1/teams/{}", live.team), Some(json!({ "name": "Acme 2" }))).await;
    let mia = live.join("member", "Mia").await;
    let member = live.path(&format!("members/{}", mia.id));
    change(live, "PATCH", &member, Some(json!({ "role": "viewer" }))).await;
    let mut machine = live.machine("one").await;
    let path = live.path(&format!("machines/{}", machine.id()));
    change(live, "PATCH", &path, Some(json!({ "name": "uno" }))).await;
    live.register(&machine, &["n", "m"]).await;
    let bindings = [machine.binding("b", "n"), machine.binding("c", "m")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 1)])).await;
    let link = live.link(&machine).await;
    live.beat(&mut machine, &bindings, Some(&[activity("n", "waiting_input", 2)])).await;
    let waiting = live.get("sessions?turn=waiting_input").await.items()[0]["id"].as_str().unwrap().to_owned();
    let mine = live.path(&format!("sessions/{waiting}/attention"));
    assert_eq!(live.ask("POST", &mine, &live.owner.token, None).await.status, 200);
    assert_eq!(live.ask("DELETE", &mine, &live.owner.token, None).await.status, 204);
    let note = json!({ "text": "lunch?" });
    assert_eq!(live.post(&format!("machines/{}/notes", machine.id()), &note).await.status, 201);
    // Without a turn that anybody knows, and published by the machine itself.
    let started = json!({ "turn": "unknown" });
    let other = live.register(&machine, &["o"]).await.remove(0);
    for (kind, data) in [
        ("session.started", started),
        ("session.turn", json!({ "to": "idle" })),
        ("session.ended", json!({ "reason": "ended" })),
    ] {
        let event = json!({ "kind": kind, "resource": { "kind": "session", "id": other }, "data": data });
        let answer = live.post_by(machine.token(), "events", &json!({ "events": [event] })).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    live.beat(&mut machine, &[], Some(&[activity("n", "ended", 3)])).await;
    link.close().await;
    let mut again = machine.restarted();
    live.beat(&mut again, &[], None).await;
    let body = machine.report(&[], None);
    live.send(&machine, &body).await.refused(409, "conflict");
    live.pass(120_000).await;
    change(live, "DELETE", &path, None).await;
    change(live, "DELETE", &member, None).await;
}

fn fits(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        other => panic!("a type that nobody knows: {other}"),
    }
}

fn check(row: &Kind, event: &Value) {
    let data = event["data"].as_object().unwrap();
    assert_eq!(event["resource"]["kind"], row.resource, "{event}");
    for (name, kind, always) in row.data {
        match data.get(*name) {
            Some(value) => assert!(fits(value, kind), "`{name}` of {event}"),
            None => assert!(!always, "no `{name}` in {event}"),
        }
    }
    for name in data.keys() {
        assert!(row.data.iter().any(|(listed, _, _)| listed == name), "`{name}` is not listed: {event}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_event_of_a_teams_story_has_the_data_of_the_catalogue() {
    let live = Live::paused().await;
    story(&live).await;
    let history = live.get("events/history?limit=200").await;
    let mut told = BTreeSet::new();
    for item in history.items() {
        let kind = item["event"]["kind"].as_str().unwrap();
        let Some(KindOf::Listed(row)) = kind_of(kind) else { panic!("{kind} is not listed") };
        check(row, &item["event"]);
        told.insert(row.name);
    }
    let untold: Vec<_> = CATALOGUE.iter().map(|row| row.name).filter(|name| !told.contains(name)).collect();
    assert_eq!(untold, LATER, "each kind was told");
}
