//! `me` and teams.

use crate::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn me_says_who_asks_with_what_and_where_they_belong() {
    let world = World::new().await;
    let owner = world.owner().await;
    let me = world.get("/v1/me").by(&owner.token).send().await;
    let data = me.data();
    assert_eq!(data["principal"], json!({"id": owner.id, "name": "Olga", "kind": "person"}));
    assert_eq!(data["credential"]["kind"], "user");
    let days = (data["credential"]["expires_at"].as_i64().unwrap() - world.clock.now_ms()) / 86_400_000;
    assert!((89..=90).contains(&days), "{days}");
    assert_eq!(
        data["memberships"],
        json!([{"team": {"id": owner.team, "name": "Acme"}, "role": "owner", "active": true}])
    );
}

#[tokio::test]
async fn a_machine_sees_its_own_team_alone() {
    let world = World::new().await;
    let owner = world.owner().await;
    world.post("/v1/teams", json!({"name": "Second"})).by(&owner.token).send().await;
    let machine = world.enroll(&owner, "laptop").await;
    let me = world.get("/v1/me").by(&machine.token).send().await;
    assert_eq!(me.data()["credential"]["kind"], "machine");
    assert_eq!(me.data()["principal"]["name"], "Olga");
    assert_eq!(me.data()["memberships"].as_array().unwrap().len(), 1);
    let person = world.get("/v1/me").by(&owner.token).send().await;
    assert_eq!(person.data()["memberships"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_owner_makes_another_team_and_others_do_not() {
    let world = World::new().await;
    let owner = world.owner().await;
    let made = world.post("/v1/teams", json!({"name": "  Beta "})).by(&owner.token).send().await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.data()["team"]["name"], "Beta");
    assert_eq!(made.data()["membership"], json!({"role": "owner", "active": true}));
    assert_eq!(made.body["context"]["team_id"], made.data()["team"]["id"]);
    let admin = world.join(&owner, "admin", "Ada").await;
    let refusal = world.post("/v1/teams", json!({"name": "Mine"})).by(&admin.token).send().await;
    refusal.refused(403, "forbidden");
    let machine = world.enroll(&owner, "laptop").await;
    let refusal = world.post("/v1/teams", json!({"name": "Mine"})).by(&machine.token).send().await;
    refusal.refused(403, "forbidden");
}

#[tokio::test]
async fn a_server_may_keep_teams_to_itself() {
    let world = World::with(|config| config.owners_make_teams = false).await;
    let owner = world.owner().await;
    let refusal = world.post("/v1/teams", json!({"name": "Beta"})).by(&owner.token).send().await;
    refusal.refused(403, "forbidden");
}

#[tokio::test]
async fn a_team_tells_its_settings_and_counts() {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    world.enroll(&member, "laptop").await;
    let team = world.get(format!("/v1/teams/{}", owner.team)).by(&member.token).send().await;
    assert_eq!(
        team.data()["settings"],
        json!({"members_may_invite": true, "retention_days": 7, "attention_minutes": 15})
    );
    assert_eq!(team.data()["counts"], json!({"members": 2, "machines": 1, "online": 0}));
}

#[tokio::test]
async fn admins_name_and_set_a_team() {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    let path = format!("/v1/teams/{}", owner.team);
    let patch = |body: Value| world.ask("PATCH", &path).json(&body);
    let change = json!({"name": "Beta", "settings": {"retention_days": 30, "members_may_invite": false}});
    patch(change.clone()).by(&member.token).if_match(1).send().await.refused(403, "forbidden");
    let changed = patch(change).by(&owner.token).if_match(1).send().await;
    assert_eq!(changed.data()["name"], "Beta");
    assert_eq!(
        changed.data()["settings"],
        json!({"members_may_invite": false, "retention_days": 30, "attention_minutes": 15})
    );
    assert_eq!(changed.data()["revision"], 2);
    for (settings, named) in [
        (json!({"retention_days": 0}), "retention_days"),
        (json!({"retention_days": 366}), "retention_days"),
        (json!({"attention_minutes": 0}), "attention_minutes"),
        (json!({"attention_minutes": 1441}), "attention_minutes"),
        (json!({"colour": 1}), "colour"),
    ] {
        let refusal = patch(json!({"settings": settings})).by(&owner.token).if_match(2).send().await;
        assert!(refusal.refused(400, "invalid_request").contains(named));
    }
}
