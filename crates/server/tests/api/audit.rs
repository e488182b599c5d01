//! The audit: every change of access, every refusal of one.

use crate::world::{World, fresh};
use serde_json::{Value, json};

async fn rows(world: &World, team: &str, token: &str) -> Vec<Value> {
    let list = world.get(format!("/v1/teams/{team}/audit?limit=200")).by(token).send().await;
    assert_eq!(list.status, 200, "{}", list.text);
    list.items().clone()
}

#[tokio::test]
async fn changes_of_access_are_told_with_who_what_and_their_request() {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    let laptop = world.enroll(&member, "laptop").await;
    let path = format!("/v1/teams/{}/machines/{}", owner.team, laptop.id);
    let gone = world.ask("DELETE", &path).by(&owner.token).if_match(1).send().await;
    let there = format!("/v1/teams/{}/members/{}", owner.team, member.id);
    let revision = world.revision(&owner, &there).await;
    let viewer = json!({"role": "viewer"});
    world.ask("PATCH", &there).by(&owner.token).if_match(revision).json(&viewer).send().await;
    world.ask("DELETE", &there).by(&owner.token).if_match(revision + 1).send().await;
    let rows = rows(&world, &owner.team, &owner.token).await;
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row["operation"].as_str().unwrap(), row["actor"].as_str().unwrap(), &row["outcome"]))
        .collect();
    let (owner_id, member_id, allowed) = (owner.id.as_str(), member.id.as_str(), &json!("allowed"));
    assert_eq!(
        told,
        [
            ("members.remove", owner_id, allowed),
            ("members.change", owner_id, allowed),
            ("machines.revoke", owner_id, allowed),
            ("machines.enroll", member_id, allowed),
            ("invitations.accept", member_id, allowed),
            ("invitations.create", owner_id, allowed),
            ("invitations.accept", owner_id, allowed),
        ]
    );
    assert_eq!(rows[2]["target_id"], laptop.id.as_str());
    assert_eq!(rows[2]["revision"], 2);
    assert_eq!(rows[2]["request_id"], gone.header("x-request-id"));
    assert!(rows.iter().all(|row| row["id"].as_str().unwrap().starts_with("aud_") && row["count"] == 1));
}

#[tokio::test]
async fn refusals_are_told_and_folded_by_the_minute() {
    let world = World::new().await;
    let owner = world.owner().await;
    let viewer = world.join(&owner, "viewer", "Vi").await;
    for _ in 0..5 {
        world.enroll_with(&viewer, "laptop", &fresh("key")).await.refused(403, "forbidden");
    }
    let denied = async || {
        let rows = rows(&world, &owner.team, &owner.token).await;
        rows.into_iter().filter(|row| row["outcome"] == "denied").collect::<Vec<_>>()
    };
    let rows = denied().await;
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["operation"], &rows[0]["count"]), (&json!("machines.enroll"), &json!(5)));
    assert_eq!(rows[0]["actor"], viewer.id.as_str());
    world.clock.jump(61_000);
    world.enroll_with(&viewer, "laptop", &fresh("key")).await.refused(403, "forbidden");
    assert_eq!(denied().await.len(), 2);
    // Targets that somebody makes up are bounded.
    for number in 0..40 {
        let path = format!("/v1/teams/{}/members/prin_{number}", owner.team);
        world.ask("DELETE", path).by(&viewer.token).if_match(1).send().await.refused(403, "forbidden");
    }
    let rows = denied().await;
    assert!(rows.len() <= 33, "{}", rows.len());
    assert_eq!(rows.iter().map(|row| row["count"].as_i64().unwrap()).sum::<i64>(), 46);
}

#[tokio::test]
async fn of_a_target_that_somebody_makes_up_no_more_is_kept_than_of_an_id() {
    let world = World::new().await;
    let owner = world.owner().await;
    let viewer = world.join(&owner, "viewer", "Vi").await;
    let path = format!("/v1/teams/{}/members/{}", owner.team, "%C3%BC".repeat(300));
    world.ask("DELETE", path).by(&viewer.token).if_match(1).send().await.refused(403, "forbidden");
    let rows = rows(&world, &owner.team, &owner.token).await;
    assert_eq!(rows[0]["target_id"], "ü".repeat(80));
}

#[tokio::test]
async fn admins_read_it_in_pages_and_export_it_as_lines() {
    let world = World::new().await;
    let owner = world.owner().await;
    for number in 0..7 {
        world.enroll(&owner, &format!("m{number}")).await;
    }
    let path = format!("/v1/teams/{}/audit", owner.team);
    let all = rows(&world, &owner.team, &owner.token).await;
    assert_eq!(all.len(), 8);
    let first = world.get(format!("{path}?limit=5")).by(&owner.token).send().await;
    let cursor = first.body["next_cursor"].as_str().unwrap();
    let second = world.get(format!("{path}?limit=5&cursor={cursor}")).by(&owner.token).send().await;
    let pages: Vec<_> = first.items().iter().chain(second.items()).cloned().collect();
    assert_eq!(pages, all);
    let lines = world.get(&path).by(&owner.token).header("accept", "application/x-ndjson").send().await;
    assert_eq!(lines.header("content-type"), "application/x-ndjson");
    let lines: Vec<Value> = lines.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, all);
    let member = world.join(&owner, "member", "Mia").await;
    world.get(&path).by(&member.token).send().await.refused(403, "forbidden");
    let export = world.get(&path).by(&member.token).header("accept", "application/x-ndjson");
    export.send().await.refused(403, "forbidden");
    let laptop = world.enroll(&owner, "laptop").await;
    world.get(&path).by(&laptop.token).send().await.refused(403, "forbidden");
}

#[tokio::test]
async fn each_change_of_access_is_one_row_with_its_operation() {
    let world = World::new().await;
    let owner = world.owner().await;
    let team = format!("/v1/teams/{}", owner.team);
    let told = async || {
        let rows = rows(&world, &owner.team, &owner.token).await;
        rows.iter().map(|row| row["operation"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut before = told().await;
    let mut is = async |expected: &[&str]| {
        let now = told().await;
        let fresh = &now[..now.len() - before.len()];
        assert_eq!(fresh.iter().rev().map(String::as_str).collect::<Vec<_>>(), expected);
        before = now;
    };
    let member = world.join(&owner, "member", "Mia").await;
    is(&["invitations.create", "invitations.accept"]).await;
    let invited = world.post(format!("{team}/invitations"), json!({"role": "viewer"})).by(&owner.token);
    let invitation = invited.send().await.data()["invitation"]["id"].as_str().unwrap().to_owned();
    is(&["invitations.create"]).await;
    world.ask("DELETE", format!("{team}/invitations/{invitation}")).by(&owner.token).send().await;
    is(&["invitations.revoke"]).await;
    let revision = world.revision(&owner, &team).await;
    let change = world.ask("PATCH", &team).by(&owner.token).if_match(revision).json(&json!({"name": "Ltd"}));
    assert_eq!(change.send().await.status, 200);
    is(&["teams.change"]).await;
    let laptop = world.enroll(&member, "laptop").await;
    is(&["machines.enroll"]).await;
    let machine = format!("{team}/machines/{}", laptop.id);
    let revision = world.revision(&owner, &machine).await;
    let rename = world.ask("PATCH", &machine).by(&owner.token).if_match(revision).json(&json!({"name": "l"}));
    assert_eq!(rename.send().await.status, 200);
    is(&["machines.rename"]).await;
    let rotated = world.ask("POST", "/v1/credentials/rotate").by(&laptop.token).send().await;
    is(&["credentials.rotate"]).await;
    let rotated = rotated.data()["credential"]["token"].as_str().unwrap();
    assert_eq!(world.ask("DELETE", "/v1/credentials/current").by(rotated).send().await.status, 204);
    is(&["credentials.sign_out"]).await;
    // A person's own credential concerns each team that they are in.
    assert_eq!(world.ask("POST", "/v1/credentials/rotate").by(&member.token).send().await.status, 200);
    is(&["credentials.rotate"]).await;
    // What an end of membership brings with it is told too.
    world.invite(&member, "member").await;
    is(&["invitations.create"]).await;
    let there = format!("{team}/members/{}", member.id);
    let revision = world.revision(&owner, &there).await;
    assert_eq!(world.ask("DELETE", &there).by(&owner.token).if_match(revision).send().await.status, 204);
    is(&["invitations.revoke", "machines.revoke", "members.remove"]).await;
    let made = world.post("/v1/teams", json!({"name": "Second"})).by(&owner.token).send().await;
    let second = made.data()["team"]["id"].as_str().unwrap();
    is(&[]).await;
    assert_eq!(rows(&world, second, &owner.token).await[0]["operation"], "teams.create");
}

#[tokio::test]
async fn refusals_that_the_path_does_not_show_reach_the_admins_too() {
    let world = World::new().await;
    let owner = world.owner().await;
    let denied = async || {
        let rows = rows(&world, &owner.team, &owner.token).await;
        let denied = rows.into_iter().filter(|row| row["outcome"] == "denied");
        denied.map(|row| (row["operation"].clone(), row["actor"].clone())).collect::<Vec<_>>()
    };
    let there = format!("/v1/teams/{}/members/{}", owner.team, owner.id);
    let revision = world.revision(&owner, &there).await;
    world.ask("DELETE", &there).by(&owner.token).if_match(revision).send().await.refused(409, "conflict");
    assert_eq!(denied().await, [(json!("members.remove"), json!(owner.id))], "the last owner");
    let made = world.post("/v1/teams", json!({"name": "Second"})).by(&owner.token).send().await;
    let second = made.data()["team"]["id"].as_str().unwrap().to_owned();
    let elsewhere = crate::world::Person { team: second, ..owner.clone() };
    let member = world.join(&elsewhere, "member", "Mia").await;
    let join = async || {
        let body = json!({"code": world.invite(&owner, "member").await, "name": "Mia"});
        world.post("/v1/invitations/accept", body).by(&member.token).send().await
    };
    assert_eq!(join().await.status, 201);
    let there = format!("/v1/teams/{}/members/{}", owner.team, member.id);
    let revision = world.revision(&owner, &there).await;
    let off = world.ask("PATCH", &there).by(&owner.token).if_match(revision).json(&json!({"active": false}));
    assert_eq!(off.send().await.status, 200);
    join().await.refused(403, "forbidden");
    assert_eq!(denied().await[0], (json!("invitations.accept"), json!(member.id)));
}

#[tokio::test]
async fn what_is_folded_keeps_the_time_of_its_first_and_the_list_its_order() {
    let world = World::new().await;
    let owner = world.owner().await;
    let viewer = world.join(&owner, "viewer", "Vi").await;
    for _ in 0..4 {
        world.enroll_with(&viewer, "laptop", &fresh("key")).await.refused(403, "forbidden");
        world.clock.jump(50_000);
    }
    let told = rows(&world, &owner.team, &owner.token).await;
    let denied: Vec<_> = told.iter().filter(|row| row["outcome"] == "denied").collect();
    assert_eq!(denied.iter().map(|row| row["count"].as_i64().unwrap()).collect::<Vec<_>>(), [2, 2]);
    let times: Vec<i64> = told.iter().map(|row| row["at"].as_i64().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    // A target that was told apart before stays so, however many came since.
    let delete = async |number: u8| {
        let path = format!("/v1/teams/{}/members/prin_{number}", owner.team);
        world.ask("DELETE", path).by(&viewer.token).if_match(1).send().await.refused(403, "forbidden");
    };
    for number in 0..32 {
        delete(number).await;
    }
    delete(0).await;
    let told = rows(&world, &owner.team, &owner.token).await;
    let first = told.iter().find(|row| row["target_id"] == "prin_0").unwrap();
    assert_eq!(first["count"], 2);
}

#[tokio::test]
async fn an_export_goes_over_many_pages() {
    let world = World::new().await;
    let owner = world.owner().await;
    let team = owner.team.clone();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 450)
        INSERT INTO audit (id, team_id, at, operation, outcome) SELECT 'aud_' || i, ?1, ?2, 'x', 'allowed' FROM n";
    world.server.app().store.write(move |tx| Ok(tx.execute(many, (team, tx.now_ms))?)).await.unwrap();
    let path = format!("/v1/teams/{}/audit", owner.team);
    let export = world.get(&path).by(&owner.token).header("accept", "application/x-ndjson").send().await;
    let lines: Vec<Value> = export.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(format!("{path}?limit=100{cursor}")).by(&owner.token).send().await;
        pages.extend(page.items().clone());
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((lines.len(), pages.len()), (451, 451));
    assert_eq!(lines, pages);
}
