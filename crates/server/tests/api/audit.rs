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
    world.ask("PATCH", &there).by(&owner.token).if_match(1).json(&json!({"role": "viewer"})).send().await;
    world.ask("DELETE", &there).by(&owner.token).if_match(2).send().await;
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
