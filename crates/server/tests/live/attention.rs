//! 'Mine': who attends to a session that waits (spec 03).

use crate::kit::{Frame, Live, Machine, activity};
use crate::world::Person;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ATTENTION: &str = "attention.claimed,attention.released";

/// A team with a machine whose one session waits for an approval.
struct Waiting {
    live: Live,
    machine: Machine,
    session: String,
}

impl Waiting {
    async fn in_team(live: Live) -> Self {
        let mut machine = live.machine("one").await;
        let session = live.register(&machine, &["n"]).await.remove(0);
        let bindings = [machine.binding("b", "n")];
        live.beat(&mut machine, &bindings, Some(&[activity("n", "waiting_approval", 5)])).await;
        Self { live, machine, session }
    }
    fn path(&self) -> String {
        format!("sessions/{}/attention", self.session)
    }
    async fn claim(&self, token: &str) -> crate::world::Answer {
        self.live.ask("POST", &self.live.path(&self.path()), token, None).await
    }
    async fn release(&self, token: &str) -> crate::world::Answer {
        self.live.ask("DELETE", &self.live.path(&self.path()), token, None).await
    }
    async fn turn(&mut self, turn: &str, since: i64) {
        let bindings = [self.machine.binding("b", "n")];
        self.live.beat(&mut self.machine, &bindings, Some(&[activity("n", turn, since)])).await;
    }
    async fn claimed_by(&self) -> Value {
        self.live.get(&format!("sessions/{}", self.session)).await.data()["claimed_by"].clone()
    }
    async fn told(&self) -> Vec<String> {
        let told = self.live.told(ATTENTION).await;
        let brief = |event: &Value| {
            assert_eq!(event["resource"], json!({ "kind": "session", "id": self.session }));
            let (kind, by, actor) = (&event["kind"], &event["data"]["by"], &event["actor"]["name"]);
            let words = [kind, by, actor].map(|word| word.as_str().unwrap().to_owned());
            words.join(" ").replace("attention.", "")
        };
        told.iter().map(brief).collect()
    }
}

#[tokio::test]
async fn one_person_takes_a_waiting_session_and_all_others_see_who() {
    let waiting = Waiting::in_team(Live::real().await).await;
    let live = &waiting.live;
    let (mia, vera) = (live.join("member", "Mia").await, live.join("viewer", "Vera").await);
    let mut stream = live.stream("events?kinds=attention.claimed,attention.released").await;
    stream.until("checkpoint").await;
    let claimed = waiting.claim(&mia.token).await;
    assert_eq!((claimed.status, &claimed.data()["claimed_by"]), (200, &json!(mia.id)), "{}", claimed.text);
    let revision = claimed.data()["revision"].as_i64().unwrap();
    assert_eq!(claimed.header("etag"), format!("\"{revision}\""));
    let seen = stream.until("event").await;
    assert_eq!(seen.data["data"]["data"], json!({ "by": "Mia" }));
    assert_eq!(seen.data["data"]["actor"]["principal_id"], json!(mia.id));
    let again = waiting.claim(&mia.token).await;
    assert_eq!(
        (again.status, again.data()["revision"].as_i64()),
        (200, Some(revision)),
        "said twice is said once"
    );
    let refused = waiting.claim(&live.owner.token).await;
    refused.refused(409, "conflict");
    assert!(refused.text.contains("Mia"), "{}", refused.text);
    for token in [&vera.token, waiting.machine.token()] {
        waiting.claim(token).await.refused(403, "forbidden");
        waiting.release(token).await.refused(403, "forbidden");
    }
    assert_eq!(waiting.claimed_by().await, json!(mia.id));
    assert_eq!(waiting.release(&mia.token).await.status, 204);
    assert_eq!(waiting.release(&mia.token).await.status, 204);
    assert_eq!(waiting.claimed_by().await, Value::Null);
    assert_eq!(waiting.told().await, ["claimed Mia Mia", "released Mia Mia"]);
    let elsewhere = live.path("sessions/sess_none/attention");
    live.ask("POST", &elsewhere, &mia.token, None).await.refused(404, "not_found");
    live.ask("DELETE", &elsewhere, &mia.token, None).await.refused(404, "not_found");
}

#[tokio::test]
async fn who_has_followed_holds_what_a_fresh_snapshot_shows() {
    let mut waiting = Waiting::in_team(Live::real().await).await;
    let owner = waiting.live.owner.token.clone();
    let mut stream = waiting.live.stream("events").await;
    let mut held = BTreeMap::new();
    // The newest event of each resource, as the connector's door keeps it.
    let take = |held: &mut BTreeMap<(String, String), (i64, Value)>, frame: Frame| {
        if matches!(frame.kind(), "snapshot_item" | "event") {
            let part = |name: &str| frame.event()["resource"][name].as_str().unwrap().to_owned();
            held.insert((part("kind"), part("id")), (frame.sequence(), frame.event().clone()));
        }
    };
    for frame in stream.settled().await {
        take(&mut held, frame);
    }
    assert_eq!(waiting.claim(&owner).await.status, 200);
    for (turn, kind) in [("", "attention.claimed"), ("working", "session.turn")] {
        if !turn.is_empty() {
            waiting.turn(turn, 7).await;
        }
        loop {
            let frame = stream.until("event").await;
            let last = frame.event()["kind"] == kind;
            take(&mut held, frame);
            if last {
                break;
            }
        }
        let mut fresh = BTreeMap::new();
        for frame in waiting.live.stream("events").await.settled().await {
            take(&mut fresh, frame);
        }
        assert_eq!(held, fresh);
        assert_eq!(fresh[&("session".to_owned(), waiting.session.clone())].1["kind"], kind);
    }
}

#[tokio::test]
async fn it_ends_with_the_wait_and_what_does_not_wait_can_not_be_taken() {
    let mut waiting = Waiting::in_team(Live::real().await).await;
    let owner = waiting.live.owner.token.clone();
    assert_eq!(waiting.claim(&owner).await.status, 200);
    waiting.turn("waiting_input", 6).await;
    assert_ne!(waiting.claimed_by().await, Value::Null, "it waits still");
    waiting.turn("working", 7).await;
    assert_eq!(waiting.claimed_by().await, Value::Null);
    waiting.claim(&owner).await.refused(409, "conflict");
    waiting.turn("waiting_input", 8).await;
    assert_eq!(waiting.claimed_by().await, Value::Null, "another wait is nobody's");
    assert_eq!(waiting.claim(&owner).await.status, 200);
    waiting.live.beat(&mut waiting.machine, &[], None).await;
    assert_eq!(waiting.claimed_by().await, Value::Null, "its reporter left");
    waiting.claim(&owner).await.refused(409, "conflict");
}

async fn patch(live: &Live, person: &Person, body: &Value) {
    let path = format!("members/{}", person.id);
    let revision = live.get(&path).await.data()["revision"].as_i64().unwrap();
    let ask = live.world.ask("PATCH", live.path(&path)).by(&live.owner.token).if_match(revision);
    assert_eq!(ask.json(body).send().await.status, 200);
}

#[tokio::test]
async fn who_leaves_or_only_reads_now_holds_nothing() {
    let waiting = Waiting::in_team(Live::real().await).await;
    let live = &waiting.live;
    let (mia, ben) = (live.join("member", "Mia").await, live.join("member", "Ben").await);
    assert_eq!(waiting.claim(&mia.token).await.status, 200);
    patch(live, &mia, &json!({ "role": "viewer" })).await;
    assert_eq!(waiting.claimed_by().await, Value::Null);
    assert_eq!(waiting.claim(&ben.token).await.status, 200);
    patch(live, &ben, &json!({ "active": false })).await;
    assert_eq!(waiting.claimed_by().await, Value::Null);
    let expected = ["claimed Mia Mia", "released Mia Olga", "claimed Ben Ben", "released Ben Olga"];
    assert_eq!(waiting.told().await, expected);
}

#[tokio::test(start_paused = true)]
async fn after_the_teams_minutes_it_is_said_once_more_on_time_and_also_after_a_restart() {
    let mut waiting = Waiting::in_team(Live::paused().await).await;
    let owner = waiting.live.owner.clone();
    assert_eq!(waiting.claim(&owner.token).await.status, 200);
    waiting.live.pass(15 * 60_000 - 100).await;
    assert_eq!(waiting.claimed_by().await, json!(owner.id));
    waiting.live.pass(200).await;
    assert_eq!(waiting.claimed_by().await, Value::Null);
    assert_eq!(waiting.told().await, ["claimed Olga Olga", "released Olga Teamlamp"]);
    let path = format!("/v1/teams/{}", waiting.live.team);
    let team = waiting.live.ask("GET", &path, &owner.token, None).await;
    let revision = team.data()["revision"].as_i64().unwrap();
    let change = waiting.live.world.ask("PATCH", path);
    let body = json!({ "settings": { "attention_minutes": 1 } });
    let changed = change.by(&owner.token).if_match(revision).json(&body).from("127.0.0.1").send().await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(waiting.claim(&owner.token).await.status, 200);
    waiting.live = waiting.live.restart().await;
    waiting.live.pass(59_000).await;
    assert_eq!(waiting.claimed_by().await, json!(owner.id));
    waiting.live.pass(1_500).await;
    assert_eq!(waiting.claimed_by().await, Value::Null);
}
