//! Members: roles, the last owner, and what ends when somebody leaves.

use crate::world::{Answer, Person, World, person};
use serde_json::{Value, json};

fn path(of: &Person) -> String {
    format!("/v1/teams/{}/members/{}", of.team, of.id)
}

async fn patch(world: &World, by: &Person, of: &Person, body: Value) -> Answer {
    let revision = world.revision(by, &path(of)).await;
    world.ask("PATCH", path(of)).by(&by.token).if_match(revision).json(&body).send().await
}

async fn remove(world: &World, by: &Person, of: &Person) -> Answer {
    let revision = world.revision(by, &path(of)).await;
    world.ask("DELETE", path(of)).by(&by.token).if_match(revision).send().await
}

#[tokio::test]
async fn members_see_each_other_and_strangers_see_nothing() {
    let world = World::new().await;
    let owner = world.owner().await;
    let viewer = world.join(&owner, "viewer", "Vi").await;
    let seen = world.get(path(&owner)).by(&viewer.token).send().await;
    assert_eq!(seen.data()["principal"]["name"], "Olga");
    assert_eq!((&seen.data()["role"], &seen.data()["active"]), (&json!("owner"), &json!(true)));
    assert_eq!(seen.header("etag"), "\"1\"");
    let nobody = format!("/v1/teams/{}/members/prin_0", owner.team);
    world.get(nobody).by(&viewer.token).send().await.refused(404, "not_found");
    let list = format!("/v1/teams/{}/members", owner.team);
    let machine = world.enroll(&owner, "laptop").await;
    assert_eq!(world.get(&list).by(&viewer.token).send().await.items().len(), 2);
    world.get(&list).by(&machine.token).send().await.refused(403, "forbidden");
    world.get(path(&owner)).by(&machine.token).send().await.refused(403, "forbidden");
}

#[tokio::test]
async fn only_admins_change_members_and_only_owners_touch_owners() {
    let world = World::new().await;
    let owner = world.owner().await;
    let admin = world.join(&owner, "admin", "Ada").await;
    let member = world.join(&owner, "member", "Mia").await;
    patch(&world, &member, &admin, json!({"role": "viewer"})).await.refused(403, "forbidden");
    let seen = world.revision(&admin, &path(&member)).await;
    let changed = patch(&world, &admin, &member, json!({"role": "admin"})).await;
    assert_eq!(
        (changed.data()["role"].as_str(), changed.data()["revision"].as_i64()),
        (Some("admin"), Some(seen + 1))
    );
    patch(&world, &admin, &member, json!({"role": "owner"})).await.refused(403, "forbidden");
    patch(&world, &admin, &owner, json!({"role": "member"})).await.refused(403, "forbidden");
    remove(&world, &admin, &owner).await.refused(403, "forbidden");
    let machine = world.enroll(&owner, "laptop").await;
    let by_machine = world.ask("PATCH", path(&member)).by(&machine.token).if_match(seen + 1);
    by_machine.json(&json!({"role": "viewer"})).send().await.refused(403, "forbidden");
    let stale =
        world.ask("PATCH", path(&member)).by(&owner.token).if_match(seen).json(&json!({"role": "viewer"}));
    stale.send().await.refused(409, "revision_mismatch");
    patch(&world, &owner, &member, json!({"role": "boss"})).await.refused(400, "invalid_request");
    assert_eq!(patch(&world, &owner, &member, json!({"role": "owner"})).await.status, 200);
}

#[tokio::test]
async fn the_last_owner_stays() {
    let world = World::new().await;
    let owner = world.owner().await;
    for body in [json!({"role": "admin"}), json!({"active": false})] {
        let refusal = patch(&world, &owner, &owner, body).await;
        assert!(refusal.refused(409, "conflict").contains("owner"));
    }
    remove(&world, &owner, &owner).await.refused(409, "conflict");
    // An inactive owner is none.
    let second = world.join(&owner, "owner", "Otto").await;
    assert_eq!(patch(&world, &owner, &second, json!({"active": false})).await.status, 200);
    remove(&world, &owner, &owner).await.refused(409, "conflict");
    assert_eq!(patch(&world, &owner, &second, json!({"active": true})).await.status, 200);
    assert_eq!(remove(&world, &owner, &owner).await.status, 204);
    world.get("/v1/me").by(&owner.token).send().await.refused(401, "authentication_required");
}

/// What a member with a machine and a second team still reaches after `leave`.
async fn leave_with_two_teams(leave: impl AsyncFn(&World, &Person, &Person)) {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    let second = world.post("/v1/teams", json!({"name": "Second"})).by(&owner.token).send().await;
    let elsewhere = Person { team: second.data()["team"]["id"].as_str().unwrap().into(), ..owner.clone() };
    let code = world.invite(&elsewhere, "member").await;
    let accept = json!({"code": code, "name": "Mia"});
    let joined = world.post("/v1/invitations/accept", accept).by(&member.token).send().await;
    assert_eq!(person(&joined).id, member.id);
    let laptop = world.enroll(&member, "laptop").await;
    let other = world.enroll(&Person { team: elsewhere.team.clone(), ..member.clone() }, "laptop").await;
    leave(&world, &owner, &member).await;
    let team = format!("/v1/teams/{}", owner.team);
    world.get(&team).by(&member.token).send().await.refused(404, "not_found");
    assert_eq!(world.get("/v1/me").by(&member.token).send().await.status, 200);
    world.get("/v1/me").by(&laptop.token).send().await.refused(401, "authentication_required");
    assert_eq!(world.get("/v1/me").by(&other.token).send().await.status, 200);
    let machine = world.get(format!("{team}/machines/{}", laptop.id)).by(&owner.token).send().await;
    assert_eq!(machine.data()["enrollment"], "revoked");
}

#[tokio::test]
async fn a_removed_member_keeps_only_what_belongs_elsewhere() {
    leave_with_two_teams(async |world, owner, member| {
        assert_eq!(remove(world, owner, member).await.status, 204);
        world.get(path(member)).by(&owner.token).send().await.refused(404, "not_found");
    })
    .await;
}

#[tokio::test]
async fn a_deactivated_member_keeps_only_what_belongs_elsewhere() {
    leave_with_two_teams(async |world, owner, member| {
        let gone = patch(world, owner, member, json!({"active": false})).await;
        assert_eq!((gone.status, &gone.data()["active"]), (200, &json!(false)));
        // Reactivation gives back the membership alone.
        assert_eq!(patch(world, owner, member, json!({"active": true})).await.status, 200);
        assert_eq!(world.get(path(owner)).by(&member.token).send().await.status, 200);
        assert_eq!(patch(world, owner, member, json!({"active": false})).await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn with_the_last_membership_the_persons_credential_ends() {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    assert_eq!(remove(&world, &owner, &member).await.status, 204);
    world.get("/v1/me").by(&member.token).send().await.refused(401, "authentication_required");
}

#[tokio::test]
async fn every_change_of_access_raises_the_epoch_by_one() {
    let world = World::new().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    let team = format!("/v1/teams/{}", owner.team);
    let configuration = format!("{team}/machines/{}/configuration", laptop.id);
    let epoch = async || {
        let answer = world.get(&configuration).by(&laptop.token).send().await;
        answer.data()["auth_epoch"].as_i64().unwrap()
    };
    let mut last = epoch().await;
    let mut rose = async |what: &str| {
        last += 1;
        assert_eq!(epoch().await, last, "{what}");
    };
    let member = world.join(&owner, "member", "Mia").await;
    rose("a member joined").await;
    let desk = world.enroll_with(&member, "desk", "enrollment-key-of-desk").await;
    let desk = format!("{team}/machines/{}", desk.data()["machine"]["id"].as_str().unwrap());
    let revision = world.revision(&owner, &desk).await;
    assert_eq!(world.ask("DELETE", &desk).by(&owner.token).if_match(revision).send().await.status, 204);
    rose("a machine was revoked").await;
    let revived = world.enroll_with(&member, "desk", "enrollment-key-of-desk").await;
    assert_eq!(revived.status, 200);
    rose("a machine was revived").await;
    let again = world.enroll_with(&member, "desk", "enrollment-key-of-desk").await;
    rose("its older credentials were revoked").await;
    let token = again.data()["credential"]["token"].as_str().unwrap();
    assert_eq!(world.ask("DELETE", "/v1/credentials/current").by(token).send().await.status, 204);
    rose("a machine signed out").await;
    for (what, body) in [
        ("a role changed", json!({"role": "viewer"})),
        ("a member was deactivated", json!({"active": false})),
        ("a member was reactivated", json!({"active": true})),
    ] {
        assert_eq!(patch(&world, &owner, &member, body).await.status, 200);
        rose(what).await;
    }
    let revision = world.revision(&owner, &team).await;
    let setting = json!({"settings": {"members_may_invite": false}});
    let changed = world.ask("PATCH", &team).by(&owner.token).if_match(revision).json(&setting).send().await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    rose("members may no longer invite").await;
    assert_eq!(remove(&world, &owner, &member).await.status, 204);
    rose("a member left").await;
}

#[tokio::test]
async fn a_later_membership_does_not_fit_what_was_seen_of_an_earlier_one() {
    let world = World::new().await;
    let owner = world.owner().await;
    let second = world.post("/v1/teams", json!({"name": "Second"})).by(&owner.token).send().await;
    let elsewhere = Person { team: second.data()["team"]["id"].as_str().unwrap().into(), ..owner.clone() };
    let member = world.join(&elsewhere, "member", "Mia").await;
    let here = Person { team: owner.team.clone(), ..member.clone() };
    let join = async || {
        let body = json!({"code": world.invite(&owner, "member").await, "name": "Mia"});
        let joined = world.post("/v1/invitations/accept", body).by(&member.token).send().await;
        assert_eq!(joined.status, 201, "{}", joined.text);
    };
    join().await;
    assert_eq!(patch(&world, &owner, &here, json!({"role": "viewer"})).await.status, 200);
    let seen = world.revision(&owner, &path(&here)).await;
    assert_eq!(remove(&world, &owner, &here).await.status, 204);
    join().await;
    for stale in [seen - 1, seen] {
        let late = world.ask("DELETE", path(&here)).by(&owner.token).if_match(stale).send().await;
        late.refused(409, "revision_mismatch");
    }
}

#[tokio::test]
async fn the_codes_of_who_may_no_longer_invite_end() {
    let world = World::new().await;
    let owner = world.owner().await;
    let admin = world.join(&owner, "admin", "Ada").await;
    let preview =
        async |code: &str| world.post("/v1/invitations/preview", json!({"code": code})).send().await.status;
    let (as_admin, as_member) = (world.invite(&admin, "admin").await, world.invite(&admin, "member").await);
    assert_eq!(patch(&world, &owner, &admin, json!({"role": "member"})).await.status, 200);
    assert_eq!((preview(&as_admin).await, preview(&as_member).await), (410, 200));
    assert_eq!(patch(&world, &owner, &admin, json!({"role": "viewer"})).await.status, 200);
    assert_eq!(preview(&as_member).await, 410);
    assert_eq!(patch(&world, &owner, &admin, json!({"role": "admin"})).await.status, 200);
    let last = world.invite(&admin, "admin").await;
    assert_eq!(remove(&world, &owner, &admin).await.status, 204);
    assert_eq!(preview(&last).await, 410);
}
