//! Enrollment in all its cases: the same machine again, a new one, and names that are another's.

use crate::world::{Person, World, enrolled, fresh};
use serde_json::{Value, json};

async fn is_valid(world: &World, token: &str) -> bool {
    world.get("/v1/me").by(token).send().await.status == 200
}

/// The kinds of the team's events about a machine, in order.
async fn told(world: &World, team: &str, machine: &str) -> Vec<String> {
    let (team, machine) = (team.to_owned(), machine.to_owned());
    let read = world.server.app().store.read(move |db| {
        let mut rows =
            db.prepare("SELECT kind FROM events WHERE team_id = ?1 AND resource_id = ?2 ORDER BY sequence")?;
        Ok(rows.query_map([team, machine], |row| row.get(0))?.collect::<Result<_, _>>()?)
    });
    read.await.unwrap()
}

#[tokio::test]
async fn a_new_machine_has_a_source_and_a_credential_for_thirty_days() {
    let world = World::new().await;
    let owner = world.owner().await;
    let answer = world.enroll_with(&owner, " Laptop ", &fresh("key")).await;
    assert_eq!(answer.status, 201);
    let (machine, source) = (&answer.data()["machine"], &answer.data()["source"]);
    assert_eq!(
        *machine,
        json!({
            "id": machine["id"], "name": "Laptop", "custodian_id": owner.id, "enrollment": "active",
            "connection": "offline", "last_seen_at": null, "incarnation_id": null, "host_key_id": null,
            "revision": 1, "away": null,
        })
    );
    assert_eq!(
        *source,
        json!({
            "id": source["id"], "name": "Laptop connector", "kind": "connector", "state": "active",
            "machine_id": machine["id"], "custodian_id": owner.id, "default_visibility": "restricted",
            "revision": 1, "last_received_at": null, "decoder": null,
        })
    );
    let credential = &answer.data()["credential"];
    assert_eq!(credential["kind"], "machine");
    let days = (credential["expires_at"].as_i64().unwrap() - world.clock.now_ms()) / 86_400_000;
    assert!((29..=30).contains(&days), "{days}");
    assert!(is_valid(&world, credential["token"].as_str().unwrap()).await);
    let id = machine["id"].as_str().unwrap();
    assert_eq!(told(&world, &owner.team, id).await, ["machine.enrolled"]);
}

#[tokio::test]
async fn the_same_key_is_the_same_machine_and_ends_its_older_credentials() {
    let world = World::new().await;
    let owner = world.owner().await;
    let first = world.enroll(&owner, "laptop").await;
    let same = world.enroll_with(&owner, "laptop", &first.key).await;
    assert_eq!((same.status, &same.data()["machine"]["id"]), (200, &json!(first.id)));
    assert_eq!(same.data()["machine"]["revision"], 1, "nothing of the machine changed");
    assert!(!is_valid(&world, &first.token).await);
    // Another name: the machine takes it.
    let renamed = world.enroll_with(&owner, "desk", &first.key).await;
    assert_eq!((renamed.status, &renamed.data()["machine"]["name"]), (200, &json!("desk")));
    assert_eq!(renamed.data()["machine"]["revision"], 2);
    assert_eq!(renamed.data()["source"]["name"], "desk connector");
    assert_eq!(told(&world, &owner.team, &first.id).await, ["machine.enrolled", "machine.renamed"]);
}

#[tokio::test]
async fn the_same_name_of_the_same_person_is_the_same_machine_with_a_new_key() {
    let world = World::new().await;
    let owner = world.owner().await;
    let first = world.enroll(&owner, "Laptop").await;
    let key = fresh("key");
    let again = enrolled(&world.enroll_with(&owner, "LAPTOP", &key).await, &key);
    assert_eq!(again.id, first.id);
    assert_eq!(again.revision, 2);
    // The old key means nothing any more; the new one finds it.
    let by_key = world.enroll_with(&owner, "other", &key).await;
    assert_eq!(by_key.data()["machine"]["id"], first.id.as_str());
    let old_key = world.enroll_with(&owner, "third", &first.key).await;
    assert_eq!(old_key.status, 201);
}

#[tokio::test]
async fn a_revoked_machine_is_revived_and_does_not_hold_its_name_for_ever() {
    let world = World::new().await;
    let owner = world.owner().await;
    for by_key in [true, false] {
        let name = format!("laptop {by_key}");
        let first = world.enroll(&owner, &name).await;
        let path = format!("/v1/teams/{}/machines/{}", owner.team, first.id);
        let gone = world.ask("DELETE", &path).by(&owner.token).if_match(first.revision).send().await;
        assert_eq!(gone.status, 204);
        let key = if by_key { first.key.clone() } else { fresh("key") };
        let back = world.enroll_with(&owner, &name, &key).await;
        assert_eq!((back.status, &back.data()["machine"]["id"]), (200, &json!(first.id)));
        assert_eq!(back.data()["machine"]["enrollment"], "active");
        assert_eq!(back.data()["source"]["state"], "active");
        assert!(is_valid(&world, back.data()["credential"]["token"].as_str().unwrap()).await);
        assert!(!is_valid(&world, &first.token).await);
        let kinds = told(&world, &owner.team, &first.id).await;
        assert_eq!(kinds, ["machine.enrolled", "machine.revoked", "machine.enrolled"]);
    }
}

#[tokio::test]
async fn a_name_that_is_anothers_is_refused_revoked_or_not() {
    let world = World::new().await;
    let owner = world.owner().await;
    let member = world.join(&owner, "member", "Mia").await;
    let theirs = world.enroll(&owner, "Laptop").await;
    let refuse = async |who: &Person, name: &str, key: &str| {
        world.enroll_with(who, name, key).await.refused(409, "conflict").to_owned()
    };
    let sentence = refuse(&member, "laptop", &fresh("key")).await;
    assert!(sentence.contains("another name"), "{sentence}");
    // Case 0: my key finds my machine, and the name is another's, mine or not.
    let mine = world.enroll(&member, "desk").await;
    let second = world.enroll(&member, "bench").await;
    assert_eq!(refuse(&member, "LAPTOP", &mine.key).await, sentence);
    assert_eq!(refuse(&member, "bench", &mine.key).await, sentence);
    let path = format!("/v1/teams/{}/machines/{}", owner.team, theirs.id);
    world.ask("DELETE", &path).by(&owner.token).if_match(theirs.revision).send().await;
    assert_eq!(refuse(&member, "laptop", &fresh("key")).await, sentence);
    // What was refused changed nothing.
    assert!(is_valid(&world, &mine.token).await && is_valid(&world, &second.token).await);
    // Another person's key is no way to their machine.
    let own = world.enroll_with(&member, "third", &theirs.key).await;
    assert_eq!(own.status, 201);
    // Another team is another world.
    let second = world.post("/v1/teams", json!({"name": "Second"})).by(&owner.token).send().await;
    let there = Person { team: second.data()["team"]["id"].as_str().unwrap().into(), ..owner };
    assert_eq!(world.enroll_with(&there, "Laptop", &theirs.key).await.status, 201);
}

#[tokio::test]
async fn who_may_not_enroll_and_what_is_no_key() {
    let world = World::new().await;
    let owner = world.owner().await;
    let viewer = world.join(&owner, "viewer", "Vi").await;
    let refusal = world.enroll_with(&viewer, "laptop", &fresh("key")).await;
    assert!(refusal.refused(403, "forbidden").contains("viewer"));
    let laptop = world.enroll(&owner, "laptop").await;
    let by_machine = Person { token: laptop.token, ..owner.clone() };
    world.enroll_with(&by_machine, "second", &fresh("key")).await.refused(403, "forbidden");
    let stranger = Person { team: "team_0".into(), ..owner.clone() };
    world.enroll_with(&stranger, "second", &fresh("key")).await.refused(404, "not_found");
    for key in ["short", &"k".repeat(129), "with a space in it", "ümlaut-ümlaut-ümlaut"] {
        let refusal = world.enroll_with(&owner, "second", key).await;
        assert!(refusal.refused(400, "invalid_request").contains("enrollment_key"), "{key}");
    }
    for name in ["", " ", "a\nb", &"x".repeat(65)] {
        world.enroll_with(&owner, name, &fresh("key")).await.refused(400, "invalid_request");
    }
    let list = world.get(format!("/v1/teams/{}/machines", owner.team)).by(&owner.token).send().await;
    assert_eq!(list.items().len(), 1);
    assert_eq!(list.body["next_cursor"], Value::Null);
}
