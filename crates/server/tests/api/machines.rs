//! Machines: lists, roots, renaming, revoking, configuration.

use crate::world::{Answer, Enrolled, Person, World};
use serde_json::{Value, json};

fn path(person: &Person, machine: &Enrolled) -> String {
    format!("/v1/teams/{}/machines/{}", person.team, machine.id)
}

async fn revoke(world: &World, by: &Person, machine: &Enrolled) -> Answer {
    let revision = world.revision(by, &path(by, machine)).await;
    world.ask("DELETE", path(by, machine)).by(&by.token).if_match(revision).send().await
}

fn names(list: &Answer) -> Vec<&str> {
    list.items().iter().map(|m| m["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn revoked_machines_are_seen_by_their_custodian_and_admins_alone() {
    let world = World::new().await;
    let owner = world.owner().await;
    let (mia, max) = (world.join(&owner, "member", "Mia").await, world.join(&owner, "member", "Max").await);
    let gone = world.enroll(&mia, "alpha").await;
    let stays = world.enroll(&mia, "beta").await;
    assert_eq!(revoke(&world, &mia, &gone).await.status, 204);
    let list = format!("/v1/teams/{}/machines", owner.team);
    for (who, seen) in [(&mia, vec!["alpha", "beta"]), (&owner, vec!["alpha", "beta"]), (&max, vec!["beta"])]
    {
        assert_eq!(names(&world.get(&list).by(&who.token).send().await), seen);
    }
    world.get(path(&max, &gone)).by(&max.token).send().await.refused(404, "not_found");
    let seen = world.get(path(&mia, &gone)).by(&mia.token).send().await;
    assert_eq!(seen.data()["enrollment"], "revoked");
    // A machine reads what its custodian would.
    assert_eq!(names(&world.get(&list).by(&stays.token).send().await), ["alpha", "beta"]);
}

#[tokio::test]
async fn machines_answer_all_and_pages_where_asked() {
    let world = World::new().await;
    let owner = world.owner().await;
    for number in 0..60 {
        world.enroll(&owner, &format!("m{number:02}")).await;
    }
    let list = format!("/v1/teams/{}/machines", owner.team);
    assert_eq!(world.get(&list).by(&owner.token).send().await.items().len(), 60);
    let first = world.get(format!("{list}?limit=40")).by(&owner.token).send().await;
    let cursor = first.body["next_cursor"].as_str().unwrap();
    let second = world.get(format!("{list}?limit=40&cursor={cursor}")).by(&owner.token).send().await;
    assert_eq!((names(&second)[0], second.items().len()), ("m40", 20));
    assert_eq!(second.body["next_cursor"], Value::Null);
    let refusal = world.get(format!("{list}?limit=201")).by(&owner.token).send().await;
    refusal.refused(400, "invalid_request");
}

#[tokio::test]
async fn the_offset_of_a_clock_is_for_custodian_and_admins() {
    let world = World::new().await;
    let owner = world.owner().await;
    let (mia, max) = (world.join(&owner, "member", "Mia").await, world.join(&owner, "member", "Max").await);
    let laptop = world.enroll(&mia, "laptop").await;
    let id = laptop.id.clone();
    let note =
        world.server.app().store.write(move |tx| {
            Ok(tx.execute("UPDATE machines SET clock_offset_ms = 1234 WHERE id = ?1", [id])?)
        });
    note.await.unwrap();
    for (who, offset) in [(&mia, json!(1234)), (&owner, json!(1234)), (&max, Value::Null)] {
        let one = world.get(path(who, &laptop)).by(&who.token).send().await;
        assert_eq!(one.data()["clock_offset_ms"], offset);
        let list = world.get(format!("/v1/teams/{}/machines", who.team)).by(&who.token).send().await;
        assert_eq!(list.items()[0]["clock_offset_ms"], offset);
    }
}

#[tokio::test]
async fn roots_are_for_custodian_and_admins() {
    let world = World::new().await;
    let owner = world.owner().await;
    let (mia, max) = (world.join(&owner, "member", "Mia").await, world.join(&owner, "member", "Max").await);
    let laptop = world.enroll(&mia, "laptop").await;
    let id = laptop.id.clone();
    let note = world.server.app().store.write(move |tx| {
        for (root, name) in [("r2", "beta"), ("r1", "alpha")] {
            tx.execute(
                "INSERT INTO machine_roots (machine_id, id, name, harnesses) VALUES (?1, ?2, ?3, '[\"codex\"]')",
                [id.as_str(), root, name],
            )?;
        }
        Ok(())
    });
    note.await.unwrap();
    let roots = format!("{}/roots", path(&mia, &laptop));
    for who in [&mia.token, &owner.token, &laptop.token] {
        let list = world.get(&roots).by(who).send().await;
        assert_eq!(
            list.items()[0],
            json!({"id": "r1", "machine_id": laptop.id, "name": "alpha", "harnesses": ["codex"]})
        );
        assert_eq!(list.items().len(), 2);
    }
    world.get(&roots).by(&max.token).send().await.refused(404, "not_found");
    // A machine reads its own alone, whoever its custodian is.
    let second = world.enroll(&mia, "second").await;
    world.get(&roots).by(&second.token).send().await.refused(403, "forbidden");
}

#[tokio::test]
async fn renaming_takes_the_source_along() {
    let world = World::new().await;
    let owner = world.owner().await;
    let (mia, max) = (world.join(&owner, "member", "Mia").await, world.join(&owner, "member", "Max").await);
    let laptop = world.enroll(&mia, "laptop").await;
    world.enroll(&max, "Desk").await;
    let rename = |by: &str, revision: i64, name: &str| {
        world.ask("PATCH", path(&mia, &laptop)).by(by).if_match(revision).json(&json!({"name": name})).send()
    };
    rename(&max.token, 1, "mine").await.refused(403, "forbidden");
    rename(&laptop.token, 1, "mine").await.refused(403, "forbidden");
    rename(&mia.token, 1, "DESK").await.refused(409, "conflict");
    rename(&mia.token, 7, "bench").await.refused(409, "revision_mismatch");
    rename(&mia.token, 1, "").await.refused(400, "invalid_request");
    let done = rename(&mia.token, 1, "Laptop").await;
    assert_eq!((&done.data()["name"], &done.data()["revision"]), (&json!("Laptop"), &json!(2)));
    assert_eq!(done.header("etag"), "\"2\"");
    assert_eq!(rename(&owner.token, 2, "bench").await.status, 200);
    let configuration = world.get(format!("{}/configuration", path(&mia, &laptop)));
    let configuration = configuration.by(&laptop.token).send().await;
    assert_eq!(configuration.data()["source"]["name"], "bench connector");
}

#[tokio::test]
async fn revoking_ends_everything_of_a_machine_at_once() {
    let world = World::new().await;
    let owner = world.owner().await;
    let (mia, max) = (world.join(&owner, "member", "Mia").await, world.join(&owner, "member", "Max").await);
    let laptop = world.enroll(&mia, "laptop").await;
    revoke(&world, &max, &laptop).await.refused(403, "forbidden");
    let by_itself = world.ask("DELETE", path(&mia, &laptop)).by(&laptop.token).if_match(1);
    by_itself.send().await.refused(403, "forbidden");
    world.ask("DELETE", path(&mia, &laptop)).by(&mia.token).send().await.refused(400, "invalid_request");
    let stale = world.ask("DELETE", path(&mia, &laptop)).by(&mia.token).if_match(9);
    stale.send().await.refused(409, "revision_mismatch");
    assert_eq!(revoke(&world, &owner, &laptop).await.status, 204);
    world.get("/v1/me").by(&laptop.token).send().await.refused(401, "authentication_required");
    assert!(revoke(&world, &mia, &laptop).await.refused(409, "conflict").contains("already"));
    let id = laptop.id.clone();
    let state = world.server.app().store.read(move |db| {
        Ok(db.query_row("SELECT state, revision FROM sources WHERE machine_id = ?1", [id], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })?)
    });
    assert_eq!(state.await.unwrap(), ("revoked".into(), 2));
}

#[tokio::test]
async fn configuration_is_for_exactly_that_machine() {
    let world = World::new().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    let other = world.enroll(&owner, "other").await;
    let configuration = format!("{}/configuration", path(&owner, &laptop));
    let own = world.get(&configuration).by(&laptop.token).send().await;
    assert_eq!(own.data()["machine"]["id"], laptop.id.as_str());
    assert_eq!(own.data()["sync_rules"], json!([]));
    assert_eq!(
        own.data()["intervals"],
        json!({"heartbeat_ms": 15_000, "report_min_ms": 1_000, "link_ping_ms": 15_000})
    );
    world.get(&configuration).by(&other.token).send().await.refused(404, "not_found");
    world.get(&configuration).by(&owner.token).send().await.refused(403, "forbidden");
    let elsewhere = format!("/v1/teams/team_0/machines/{}/configuration", laptop.id);
    world.get(elsewhere).by(&laptop.token).send().await.refused(404, "not_found");
}
