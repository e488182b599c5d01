//! Invitations: who makes which, previews, accepting, and what a code may not tell.

use crate::world::{Answer, Person, World, person};
use serde_json::{Value, json};
use teamlamp_wire::invitation::{Code, JoinLink};

const ACCEPT: &str = "/v1/invitations/accept";
const PREVIEW: &str = "/v1/invitations/preview";

fn path(of: &Person) -> String {
    format!("/v1/teams/{}/invitations", of.team)
}

async fn accept(world: &World, code: &str, name: &str) -> Answer {
    world.post(ACCEPT, json!({"code": code, "name": name})).send().await
}

#[tokio::test]
async fn the_owners_code_makes_person_team_and_ownership_once() {
    let world = World::new().await;
    let link = world.server.owner_link().unwrap();
    assert_eq!(link.server, world.server.origin());
    let file = world.folder.path().join("data/first-owner-link");
    assert_eq!(JoinLink::parse(&std::fs::read_to_string(&file).unwrap()).unwrap(), link);
    let code = link.code.to_string();
    let seen = world.post(PREVIEW, json!({"code": code})).send().await;
    assert_eq!((&seen.data()["team"], &seen.data()["inviter"]), (&Value::Null, &Value::Null));
    assert_eq!(seen.data()["role"], "owner");
    let refusal = accept(&world, &code, "Olga").await;
    assert!(refusal.refused(400, "invalid_request").contains("team_name"));
    let body = json!({"code": code.to_lowercase().replace('-', ""), "name": " Olga ", "team_name": "Acme"});
    let accepted = world.post(ACCEPT, body.clone()).send().await;
    assert_eq!(accepted.status, 201);
    assert_eq!(accepted.data()["principal"]["name"], "Olga");
    assert_eq!(accepted.data()["team"]["name"], "Acme");
    assert_eq!(accepted.data()["membership"], json!({"role": "owner", "active": true}));
    assert_eq!(accepted.data()["credential"]["kind"], "user");
    assert!(!file.exists() && world.server.owner_link().is_none());
    world.post(ACCEPT, body).send().await.refused(410, "gone");
}

#[tokio::test]
async fn the_owners_link_survives_a_restart_until_it_is_used() {
    let world = World::new().await;
    let code = world.server.owner_link().unwrap().code;
    let world = world.restart().await;
    assert_eq!(world.server.owner_link().unwrap().code, code);
    world.owner().await;
    let world = world.restart().await;
    assert!(world.server.owner_link().is_none());
}

#[tokio::test]
async fn an_invitation_is_told_once_and_used_as_often_as_it_says() {
    let world = World::new().await;
    let owner = world.owner().await;
    let asked = json!({"role": "member", "expires_in_seconds": 60, "max_uses": 2, "note": "for the interns"});
    let made = world.post(path(&owner), asked).by(&owner.token).send().await;
    assert_eq!(made.status, 201);
    let invitation = &made.data()["invitation"];
    assert_eq!(invitation["max_uses"], 2);
    assert_eq!(invitation["uses"], 0);
    assert_eq!(invitation["note"], "for the interns");
    assert_eq!(invitation["created_by"], owner.id.as_str());
    let code = made.data()["code"].as_str().unwrap();
    let link = JoinLink::parse(made.data()["link"].as_str().unwrap()).unwrap();
    assert_eq!(link.code.to_string(), code);
    assert_eq!((link.server.as_str(), link.team.as_deref()), (world.server.origin(), Some("Acme")));
    let seen = world.post(PREVIEW, json!({"code": code})).send().await;
    assert_eq!(seen.data()["team"], json!({"id": owner.team, "name": "Acme"}));
    assert_eq!(seen.data()["server"]["id"], world.server.server_id().as_str());
    assert_eq!(seen.data()["inviter"], json!({"name": "Olga"}));
    assert_eq!(seen.data()["role"], "member");
    assert_eq!(seen.data()["expires_at"], invitation["expires_at"]);
    assert_eq!(accept(&world, code, "Ada").await.status, 201);
    let list = world.get(path(&owner)).by(&owner.token).send().await;
    assert_eq!(list.items()[0]["uses"], 1);
    assert!(!list.text.contains(code), "a list tells no code");
    assert_eq!(accept(&world, code, "Bob").await.status, 201);
    assert!(accept(&world, code, "Cy").await.refused(410, "gone").contains("new one"));
    world.post(PREVIEW, json!({"code": code})).send().await.refused(410, "gone");
}

#[tokio::test]
async fn what_is_asked_of_an_invitation_has_its_bounds() {
    let world = World::new().await;
    let owner = world.owner().await;
    for (body, named) in [
        (json!({"role": "member", "expires_in_seconds": 59}), "expires_in_seconds"),
        (json!({"role": "member", "expires_in_seconds": 604_801}), "expires_in_seconds"),
        (json!({"role": "member", "max_uses": 0}), "max_uses"),
        (json!({"role": "member", "max_uses": 101}), "max_uses"),
        (json!({"role": "member", "note": "x".repeat(201)}), "note"),
        (json!({"role": "member", "note": "a\u{7}b"}), "note"),
        (json!({"role": "member", "note": "a\u{202e}b"}), "note"),
        (json!({"role": "king"}), "king"),
        (json!({}), "role"),
    ] {
        let refusal = world.post(path(&owner), body).by(&owner.token).send().await;
        assert!(refusal.refused(400, "invalid_request").contains(named), "{}", refusal.text);
    }
}

#[tokio::test]
async fn who_may_invite_whom() {
    let world = World::new().await;
    let owner = world.owner().await;
    let admin = world.join(&owner, "admin", "Ada").await;
    let member = world.join(&owner, "member", "Mia").await;
    let viewer = world.join(&owner, "viewer", "Vi").await;
    let laptop = world.enroll(&owner, "laptop").await;
    let by_machine = Person { token: laptop.token, ..owner.clone() };
    let table = [
        (&owner, "owner", 201),
        (&admin, "owner", 403),
        (&admin, "admin", 201),
        (&admin, "viewer", 201),
        (&member, "member", 201),
        (&member, "admin", 403),
        (&member, "viewer", 403),
        (&viewer, "viewer", 403),
        (&by_machine, "member", 403),
    ];
    for (who, role, status) in table {
        let answer = world.post(path(who), json!({"role": role})).by(&who.token).send().await;
        assert_eq!(answer.status, status, "{role}: {}", answer.text);
    }
    let team = format!("/v1/teams/{}", owner.team);
    let closed = json!({"settings": {"members_may_invite": false}});
    world.ask("PATCH", team).by(&owner.token).if_match(1).json(&closed).send().await;
    let refusal = world.post(path(&member), json!({"role": "member"})).by(&member.token).send().await;
    refusal.refused(403, "forbidden");
    for who in [&member, &viewer, &by_machine] {
        world.get(path(who)).by(&who.token).send().await.refused(403, "forbidden");
    }
}

#[tokio::test]
async fn a_revoked_or_expired_code_is_gone_and_later_unknown() {
    let world = World::new().await;
    let owner = world.owner().await;
    let made = world.post(path(&owner), json!({"role": "member"})).by(&owner.token).send().await;
    let code = made.data()["code"].as_str().unwrap().to_owned();
    let one = format!("{}/{}", path(&owner), made.data()["invitation"]["id"].as_str().unwrap());
    assert_eq!(world.ask("DELETE", &one).by(&owner.token).send().await.status, 204);
    world.ask("DELETE", &one).by(&owner.token).send().await.refused(410, "gone");
    accept(&world, &code, "Ada").await.refused(410, "gone");
    assert!(world.get(path(&owner)).by(&owner.token).send().await.items().is_empty());
    let short = world.post(path(&owner), json!({"role": "member", "expires_in_seconds": 60}));
    let short = short.by(&owner.token).send().await.data()["code"].as_str().unwrap().to_owned();
    world.clock.jump(60_000);
    accept(&world, &short, "Ada").await.refused(410, "gone");
    world.clock.jump(30 * 86_400_000);
    accept(&world, &short, "Ada").await.refused(404, "not_found");
    accept(&world, &code, "Ada").await.refused(404, "not_found");
}

#[tokio::test]
async fn a_known_person_joins_with_their_credential() {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    let second = world.post("/v1/teams", json!({"name": "Second"})).by(&owner.token).send().await;
    let elsewhere = Person { team: second.data()["team"]["id"].as_str().unwrap().into(), ..owner.clone() };
    let code = world.invite(&elsewhere, "viewer").await;
    let body = json!({"code": code, "name": "ignored"});
    let joined = world.post(ACCEPT, body.clone()).by(&member.token).send().await;
    assert_eq!(person(&joined).id, member.id);
    assert_eq!(joined.data()["principal"]["name"], "Mia");
    assert_eq!(joined.data()["membership"]["role"], "viewer");
    // Already active: no use is spent.
    let code = world.invite(&elsewhere, "viewer").await;
    let again = json!({"code": code, "name": "Mia"});
    world.post(ACCEPT, again.clone()).by(&member.token).send().await.refused(409, "conflict");
    assert_eq!(world.post(PREVIEW, json!({"code": code})).send().await.status, 200);
    // Inactive: only an admin reactivates.
    let there = format!("/v1/teams/{}/members/{}", elsewhere.team, member.id);
    let revision = world.revision(&owner, &there).await;
    let off = world.ask("PATCH", &there).by(&owner.token).if_match(revision).json(&json!({"active": false}));
    assert_eq!(off.send().await.status, 200);
    let refusal = world.post(ACCEPT, again.clone()).by(&member.token).send().await;
    assert!(refusal.refused(403, "forbidden").contains("admin"));
    // A machine's credential joins nothing, though its custodian might.
    let other = world.join(&owner, "member", "Max").await;
    let laptop = world.enroll(&other, "laptop").await;
    world.post(ACCEPT, again.clone()).by(&laptop.token).send().await.refused(403, "forbidden");
    // None of that spent the use.
    assert_eq!(world.post(ACCEPT, again).send().await.status, 201);
}

#[tokio::test]
async fn codes_are_read_as_typed_and_impossible_ones_are_told_apart() {
    let world = World::new().await;
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let typed = format!(" {} ", code.to_lowercase().replace('0', "o").replace('1', "l"));
    assert_eq!(world.post(PREVIEW, json!({"code": typed})).send().await.status, 200);
    for bad in ["", "7K3QF-9XW2", "7K3QF-9XW2U", "7K3QF-9XW2MM"] {
        world.post(PREVIEW, json!({"code": bad})).send().await.refused(400, "invalid_request");
    }
    world
        .post(ACCEPT, json!({"code": code, "name": "Ada", "team_name": "Mine"}))
        .send()
        .await
        .refused(400, "invalid_request");
    accept(&world, &code, "\u{202e}").await.refused(400, "invalid_request");
    assert_eq!(accept(&world, &code, "Ada").await.status, 201, "what was refused spent nothing");
}

#[tokio::test]
async fn the_database_holds_no_code() {
    let world = World::new().await;
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let bare = Code::parse(&code).unwrap().canonical().to_owned();
    for entry in std::fs::read_dir(world.folder.path().join("data")).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        for secret in [&code, &bare, &owner.token] {
            assert!(!text.contains(secret.as_str()), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_credential_that_is_sent_must_hold_or_its_holder_would_join_as_somebody_new() {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    assert_eq!(world.ask("DELETE", "/v1/credentials/current").by(&member.token).send().await.status, 204);
    let code = world.invite(&owner, "member").await;
    let body = json!({ "code": code, "name": "Mia" });
    for sent in ["Bearer cred_0.nonsense", "Basic eDp5", "Bearer", "", &format!("Bearer {}", member.token)] {
        let ask = world.post("/v1/invitations/accept", body.clone()).header("authorization", sent);
        ask.send().await.refused(401, "authentication_required");
        // What anyone may see does not depend on who asks.
        let ask =
            world.post("/v1/invitations/preview", json!({ "code": code })).header("authorization", sent);
        assert_eq!(ask.send().await.status, 200);
        let ask = world.get("/v1/capabilities").header("authorization", sent);
        assert_eq!(ask.send().await.status, 200);
    }
    assert_eq!(world.post("/v1/invitations/accept", body).send().await.status, 201, "no use was spent");
}

#[tokio::test]
async fn only_an_owner_revokes_an_owners_invitation() {
    let world = World::new().await;
    let owner = world.owner().await;
    let admin = world.join(&owner, "admin", "Adam").await;
    let path = format!("/v1/teams/{}/invitations", owner.team);
    let made = world.post(&path, json!({ "role": "owner" })).by(&owner.token).send().await;
    let one = format!("{path}/{}", made.data()["invitation"]["id"].as_str().unwrap());
    let revoke = |token: &str| world.ask("DELETE", &one).by(token).send();
    let before = world.get(&path).by(&admin.token).send().await;
    assert!(revoke(&admin.token).await.refused(403, "forbidden").contains("owner"));
    assert_eq!(world.get(&path).by(&admin.token).send().await.items(), before.items());
    assert_eq!(revoke(&owner.token).await.status, 204);
}
