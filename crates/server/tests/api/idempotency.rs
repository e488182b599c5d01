//! Requests that are sent again.

use crate::world::{World, fresh, person};
use serde_json::{Value, json};

const ACCEPT: &str = "/v1/invitations/accept";

#[tokio::test]
async fn the_same_request_again_does_nothing_twice_and_tells_no_secret_twice() {
    let world = World::new().await;
    let owner = world.owner().await;
    let path = format!("/v1/teams/{}/invitations", owner.team);
    let key = fresh("key");
    let body = json!({"role": "member", "note": "x"});
    let ask = || world.post(&path, body.clone()).by(&owner.token).key(&key).send();
    let (first, again) = (ask().await, ask().await);
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.data()["invitation"], again.data()["invitation"]);
    assert_eq!(first.header("etag"), again.header("etag"));
    assert!(first.data()["code"].is_string() && first.data().get("redacted").is_none());
    assert_eq!((&again.data()["code"], &again.data()["link"]), (&Value::Null, &Value::Null));
    assert_eq!(again.data()["redacted"], true);
    let list = world.get(&path).by(&owner.token).send().await;
    assert_eq!(list.items().len(), 1);
    // The same body written otherwise is the same request.
    let spaced =
        world.ask("POST", &path).by(&owner.token).key(&key).header("content-type", "application/json");
    let spaced = spaced.bytes("{ \"note\": \"x\",\n \"role\": \"member\" }").send().await;
    assert_eq!(spaced.data()["invitation"], first.data()["invitation"]);
}

#[tokio::test]
async fn the_key_of_another_request_is_a_conflict() {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    let path = format!("/v1/teams/{}/invitations", owner.team);
    let ask = |role: &str, token: &str| world.post(&path, json!({"role": role})).by(token).key("k").send();
    assert_eq!(ask("member", &owner.token).await.status, 201);
    let refusal = ask("viewer", &owner.token).await;
    assert!(refusal.refused(409, "idempotency_conflict").contains("new key"));
    // Another person, and another route, have keys of their own.
    assert_eq!(ask("member", &member.token).await.status, 201);
    assert_eq!(
        world.post("/v1/teams", json!({"name": "B"})).by(&owner.token).key("k").send().await.status,
        201
    );
    // If-Match is part of the request.
    let team = format!("/v1/teams/{}", owner.team);
    let patch = |revision: i64| {
        world
            .ask("PATCH", &team)
            .by(&owner.token)
            .key("p")
            .if_match(revision)
            .json(&json!({"name": "C"}))
            .send()
    };
    assert_eq!(patch(1).await.status, 200);
    assert_eq!(patch(1).await.data()["revision"], 2, "the stored answer, though the revision is another now");
    patch(2).await.refused(409, "idempotency_conflict");
    for bad in ["", "with space", &"k".repeat(129)] {
        let ask = world.post("/v1/teams", json!({"name": "B"})).by(&owner.token).key(bad);
        ask.send().await.refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn authority_comes_before_a_stored_answer_and_refusals_are_not_stored() {
    let world = World::new().await;
    let owner = world.owner().await;
    let admin = world.join(&owner, "admin", "Ada").await;
    let path = format!("/v1/teams/{}/invitations", owner.team);
    let ask = || world.post(&path, json!({"role": "admin"})).by(&admin.token).key("k").send();
    assert_eq!(ask().await.status, 201);
    let there = format!("/v1/teams/{}/members/{}", owner.team, admin.id);
    let set = async |role: &str| {
        let revision = world.revision(&owner, &there).await;
        let body = json!({"role": role});
        world.ask("PATCH", &there).by(&owner.token).if_match(revision).json(&body).send().await
    };
    set("member").await;
    ask().await.refused(403, "forbidden");
    set("admin").await;
    assert_eq!(ask().await.data()["redacted"], true);
    // A refusal is not an answer to keep.
    let enroll = |key: &str| {
        let body = json!({"name": "desk", "enrollment_key": key});
        world.post(format!("/v1/teams/{}/machines", owner.team), body).by(&admin.token).key("e").send()
    };
    let taken = world.enroll(&owner, "desk").await;
    let mine = fresh("key");
    enroll(&mine).await.refused(409, "conflict");
    let machine = format!("/v1/teams/{}/machines/{}", owner.team, taken.id);
    let rename = world.ask("PATCH", machine).by(&owner.token).if_match(1).json(&json!({"name": "other"}));
    assert_eq!(rename.send().await.status, 200);
    assert_eq!(enroll(&mine).await.status, 201);
}

#[tokio::test]
async fn answers_without_a_body_come_again_too() {
    let world = World::new().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    let path = format!("/v1/teams/{}/machines/{}", owner.team, laptop.id);
    for _ in 0..2 {
        let gone = world.ask("DELETE", &path).by(&owner.token).key("d").if_match(1).send().await;
        assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    }
    let other = world.ask("DELETE", &path).by(&owner.token).key("e").if_match(1).send().await;
    other.refused(409, "conflict");
}

#[tokio::test]
async fn of_two_at_once_one_does_the_work() {
    let world = World::new().await;
    let owner = world.owner().await;
    let path = format!("/v1/teams/{}/invitations", owner.team);
    let ask = || world.post(&path, json!({"role": "member"})).by(&owner.token).key("k").send();
    let (a, b, c) = tokio::join!(ask(), ask(), ask());
    let told = [&a, &b, &c].into_iter().filter(|answer| answer.data()["code"].is_string()).count();
    assert_eq!(told, 1);
    assert!([&a, &b, &c].iter().all(|answer| answer.status == 201));
    assert_eq!(a.data()["invitation"]["id"], b.data()["invitation"]["id"]);
    assert_eq!(world.get(&path).by(&owner.token).send().await.items().len(), 1);
}

#[tokio::test]
async fn an_answer_is_kept_for_a_day() {
    let world = World::new().await;
    let owner = world.owner().await;
    let ask = || world.post("/v1/teams", json!({"name": "B"})).by(&owner.token).key("k").send();
    let first = ask().await;
    world.clock.jump(86_400_000 - 60_000);
    assert_eq!(ask().await.data()["team"], first.data()["team"]);
    world.clock.jump(60_000);
    assert_ne!(ask().await.data()["team"], first.data()["team"]);
}

#[tokio::test]
async fn a_lost_answer_loses_nobody() {
    let world = World::new().await;
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let key = fresh("accept");
    let accept = |body: Value| world.post(ACCEPT, body).key(&key).send();
    let body = json!({"code": code, "name": "Ada"});
    let lost = person(&accept(body.clone()).await);
    // Another body under the key is another request, also with the right code.
    let other = accept(json!({"code": code, "name": "Eve"})).await;
    other.refused(409, "idempotency_conflict");
    let again = accept(body.clone()).await;
    assert_eq!(again.data()["credential"].get("redacted"), None);
    let ada = person(&again);
    assert_eq!((&ada.id, &ada.team), (&lost.id, &lost.team));
    assert_ne!(ada.token, lost.token);
    assert_eq!(world.get("/v1/me").by(&ada.token).send().await.status, 200);
    world.get("/v1/me").by(&lost.token).send().await.refused(401, "authentication_required");
    // Once it was used, nobody else gets a token for it.
    let late = accept(body).await;
    assert_eq!((late.status, &late.data()["credential"]["token"]), (201, &Value::Null));
    assert_eq!(late.data()["credential"]["redacted"], true);
    assert_eq!(world.get("/v1/me").by(&ada.token).send().await.status, 200);
    // One person, one use.
    let members = world.get(format!("/v1/teams/{}/members", owner.team)).by(&owner.token).send().await;
    assert_eq!(members.items().len(), 2);
    // Without a key a lost answer is lost: the code is used up.
    let code = world.invite(&owner, "member").await;
    let bare = json!({"code": code, "name": "Bob"});
    assert_eq!(world.post(ACCEPT, bare.clone()).send().await.status, 201);
    world.post(ACCEPT, bare).send().await.refused(410, "gone");
}

#[tokio::test]
async fn the_owners_lost_answer_loses_no_server() {
    let world = World::new().await;
    let code = world.server.owner_link().unwrap().code.to_string();
    let body = json!({"code": code, "name": "Olga", "team_name": "Acme"});
    let ask = || world.post(ACCEPT, body.clone()).key("first").send();
    let (lost, found) = (person(&ask().await), person(&ask().await));
    assert_eq!(lost.team, found.team);
    assert_eq!(world.get("/v1/me").by(&found.token).send().await.status, 200);
}

#[tokio::test]
async fn two_equal_acceptances_at_once_make_one_person_who_gets_in_with_either_answer() {
    let world = World::new().await;
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let ask = || world.post(ACCEPT, json!({"code": code, "name": "Ada"})).key("both").send();
    let (a, b) = tokio::join!(ask(), ask());
    let (a, b) = (person(&a), person(&b));
    assert_eq!(a.id, b.id);
    // Whichever of them its client kept: the first that was answered is not dead before the second is used.
    assert_eq!(world.get("/v1/me").by(&a.token).send().await.status, 200);
    assert_eq!(world.get("/v1/me").by(&b.token).send().await.status, 200);
    let members = world.get(format!("/v1/teams/{}/members", owner.team)).by(&owner.token).send().await;
    assert_eq!(members.items().len(), 2);
}

#[tokio::test]
async fn a_stored_answer_is_for_who_might_still_do_it() {
    let world = World::new().await;
    let owner = world.owner().await;
    let (second, member) =
        (world.join(&owner, "owner", "Otto").await, world.join(&owner, "member", "Mia").await);
    let path = |who: &str| format!("/v1/teams/{}/members/{who}", owner.team);
    let revision = world.revision(&owner, &path(&member.id)).await;
    let promote = || {
        let ask = world.ask("PATCH", path(&member.id)).by(&second.token).key("p").if_match(revision);
        ask.json(&json!({"role": "owner"})).send()
    };
    let invited = world.post(format!("/v1/teams/{}/invitations", owner.team), json!({"role": "owner"}));
    let invited = invited.by(&owner.token).send().await;
    let invitation = invited.data()["invitation"]["id"].as_str().unwrap().to_owned();
    let revoke = || {
        let path = format!("/v1/teams/{}/invitations/{invitation}", owner.team);
        world.ask("DELETE", path).by(&second.token).key("r").send()
    };
    assert_eq!((promote().await.status, revoke().await.status), (200, 204));
    assert_eq!((promote().await.status, revoke().await.status), (200, 204), "the same request once more");
    let revision = world.revision(&owner, &path(&second.id)).await;
    let demoted = world.ask("PATCH", path(&second.id)).by(&owner.token).if_match(revision);
    assert_eq!(demoted.json(&json!({"role": "admin"})).send().await.status, 200);
    promote().await.refused(403, "forbidden");
    revoke().await.refused(403, "forbidden");
}

#[tokio::test]
async fn with_one_key_each_credential_signs_out_itself() {
    let world = World::new().await;
    let owner = world.owner().await;
    let mia = world.join(&owner, "member", "Mia").await;
    let laptop = world.enroll(&mia, "laptop").await;
    let sign_out = |token: &str| world.ask("DELETE", "/v1/credentials/current").by(token).key("k").send();
    assert_eq!(sign_out(&laptop.token).await.status, 204);
    sign_out(&mia.token).await.refused(409, "idempotency_conflict");
    world.get("/v1/me").by(&laptop.token).send().await.refused(401, "authentication_required");
}

#[tokio::test]
async fn an_answer_that_can_not_be_kept_undoes_its_change() {
    let world = World::new().await;
    let owner = world.owner().await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON idempotency BEGIN SELECT RAISE(ABORT, 'no'); END";
    let store = world.server.app().store.clone();
    store.write(|tx| Ok(tx.execute_batch(refuse)?)).await.unwrap();
    let path = format!("/v1/teams/{}/invitations", owner.team);
    let ask = || world.post(&path, json!({"role": "member"})).by(&owner.token).key("k").send();
    assert_eq!(ask().await.status, 500);
    assert_eq!(world.get(&path).by(&owner.token).send().await.items().len(), 0);
    store.write(|tx| Ok(tx.execute_batch("DROP TRIGGER refuse")?)).await.unwrap();
    assert_eq!(ask().await.status, 201);
}

#[tokio::test]
async fn a_restart_between_the_change_and_its_answer_does_nothing_twice() {
    let world = World::new().await;
    let owner = world.owner().await;
    let path = format!("/v1/teams/{}/machines", owner.team);
    let body = json!({"name": "laptop", "enrollment_key": fresh("key")});
    let first = world.post(&path, body.clone()).by(&owner.token).key("k").send().await;
    let world = world.restart().await;
    let again = world.post(&path, body).by(&owner.token).key("k").send().await;
    assert_eq!((again.status, again.header("etag")), (201, first.header("etag")));
    assert_eq!(again.data()["machine"]["id"], first.data()["machine"]["id"]);
    assert_eq!(again.data()["credential"]["token"], Value::Null);
    assert_eq!(again.data()["credential"]["redacted"], true);
    let told = world.get(format!("/v1/teams/{}/events/history", owner.team)).by(&owner.token).send().await;
    let enrolled = told.items().iter().filter(|item| item["event"]["kind"] == "machine.enrolled");
    assert_eq!(enrolled.count(), 1);
}

#[tokio::test]
async fn a_rotation_sent_again_tells_no_token() {
    let world = World::new().await;
    let owner = world.owner().await;
    let rotate = || world.ask("POST", "/v1/credentials/rotate").by(&owner.token).key("k").send();
    assert!(rotate().await.data()["credential"]["token"].is_string());
    let again = rotate().await;
    let credential = &again.data()["credential"];
    assert_eq!((&credential["token"], &credential["redacted"]), (&Value::Null, &json!(true)));
}

#[tokio::test]
async fn heartbeats_and_previews_are_not_recorded() {
    let world = World::new().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    let code = world.invite(&owner, "member").await;
    let count = async || {
        let store = &world.server.app().store;
        store
            .read(|db| Ok(db.query_row("SELECT count(*) FROM idempotency", [], |r| r.get::<_, i64>(0))?))
            .await
    };
    let before = count().await.unwrap();
    let path = format!("/v1/teams/{}/machines/{}/heartbeat", owner.team, laptop.id);
    for sequence in 1..=2 {
        let body = json!({"incarnation_id": "run", "sequence": sequence, "bindings": [], "roots": []});
        assert_eq!(world.post(&path, body).by(&laptop.token).key("same").send().await.status, 200);
    }
    for code in [code.as_str(), &code.to_lowercase()] {
        let preview = world.post("/v1/invitations/preview", json!({"code": code})).key("same");
        assert_eq!(preview.send().await.status, 200);
    }
    assert_eq!(count().await.unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn who_waits_half_a_minute_for_an_equal_request_is_told_to_ask_again() {
    let world = World::paused().await;
    let owner = world.owner().await;
    let app = world.server.app();
    let path = format!("/v1/teams/{}/invitations", owner.team);
    let scope = teamlamp_server::store::idempotency::Scope {
        team: owner.team.clone(),
        principal: owner.id.clone(),
        route: "invitations.create".into(),
        key: "k".into(),
    };
    let _under_way = app.flights.enter(&scope, &world.clock).await.unwrap();
    let began = world.clock.monotonic();
    let late = world.post(&path, json!({"role": "member"})).by(&owner.token).key("k").send().await;
    late.refused(409, "conflict");
    assert_eq!((late.body["error"]["retryable"].clone(), began.elapsed().as_secs()), (json!(true), 30));
}
