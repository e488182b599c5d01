//! Credentials: alike refusals, rotation, sliding, signing out.

use crate::world::World;
use serde_json::{Value, json};

const DAY_MS: i64 = 86_400_000;

async fn is_valid(world: &World, token: &str) -> bool {
    world.get("/v1/me").by(token).send().await.status == 200
}

async fn rotate(world: &World, token: &str) -> String {
    let answer = world.ask("POST", "/v1/credentials/rotate").by(token).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.data()["credential"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn bad_credentials_are_all_alike() {
    let world = World::new().await;
    let owner = world.owner().await;
    let (id, secret) = owner.token.split_once('.').unwrap();
    let revoked = world.join(&owner, "member", "Mia").await;
    world.ask("DELETE", "/v1/credentials/current").by(&revoked.token).send().await;
    let mut bodies = vec![world.get("/v1/me").send().await.body];
    for header in [
        "Bearer".to_owned(),
        format!("Basic {}", owner.token),
        format!("Bearer {id}"),
        format!("Bearer {id}.{}", secret.to_lowercase()),
        format!("Bearer {id}.{}", &secret[1..]),
        format!("Bearer cred_0.{secret}"),
        format!("Bearer {}", revoked.token),
        format!("Bearer {} {}", owner.token, owner.token),
        format!("Bearer {}", "x".repeat(5000)),
    ] {
        let answer = world.get("/v1/me").header("authorization", &header).send().await;
        answer.refused(401, "authentication_required");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        bodies.push(answer.body);
    }
    // Never in the URL.
    let answer = world.get(format!("/v1/me?access_token={}", owner.token)).send().await;
    bodies.push(answer.body);
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    world.clock.jump(91 * DAY_MS);
    assert_eq!(world.get("/v1/me").by(&owner.token).send().await.body, bodies[0]);
}

#[tokio::test]
async fn a_rotation_leaves_the_old_token_until_the_new_one_is_used() {
    let world = World::new().await;
    let owner = world.owner().await;
    let second = rotate(&world, &owner.token).await;
    assert_eq!(second.split('.').next(), owner.token.split('.').next(), "the credential keeps its id");
    assert!(is_valid(&world, &owner.token).await);
    // Asked again before its first use: that one is replaced.
    let third = rotate(&world, &owner.token).await;
    assert!(!is_valid(&world, &second).await);
    assert!(is_valid(&world, &owner.token).await);
    assert!(is_valid(&world, &third).await);
    assert!(!is_valid(&world, &owner.token).await, "the new one was used");
    // The rotation is over: using it goes on without a write.
    let before = world.server.app().store.commits();
    assert!(is_valid(&world, &third).await);
    assert_eq!(world.server.app().store.commits(), before);
}

#[tokio::test]
async fn the_day_of_the_old_token_is_counted_from_the_first_rotation() {
    let world = World::new().await;
    let owner = world.owner().await;
    rotate(&world, &owner.token).await;
    world.clock.jump(23 * 3_600_000);
    let third = rotate(&world, &owner.token).await;
    world.clock.jump(2 * 3_600_000);
    assert!(!is_valid(&world, &owner.token).await);
    assert!(is_valid(&world, &third).await);
}

#[tokio::test]
async fn the_old_token_of_a_rotation_lives_a_day_at_most() {
    let world = World::new().await;
    let owner = world.owner().await;
    let second = rotate(&world, &owner.token).await;
    world.clock.jump(DAY_MS - 60_000);
    assert!(is_valid(&world, &owner.token).await);
    world.clock.jump(120_000);
    assert!(!is_valid(&world, &owner.token).await);
    assert!(is_valid(&world, &second).await);
}

#[tokio::test]
async fn a_rotated_credential_lives_as_long_as_a_new_one() {
    let world = World::new().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    world.clock.jump(29 * DAY_MS);
    let fresh = rotate(&world, &laptop.token).await;
    assert!(is_valid(&world, &fresh).await);
    world.clock.jump(29 * DAY_MS);
    assert!(is_valid(&world, &fresh).await);
    world.clock.jump(2 * DAY_MS);
    assert!(!is_valid(&world, &fresh).await, "a machine's credential does not slide");
}

#[tokio::test]
async fn a_persons_credential_slides_with_its_use() {
    let world = World::new().await;
    let owner = world.owner().await;
    for _ in 0..4 {
        world.clock.jump(60 * DAY_MS);
        assert!(is_valid(&world, &owner.token).await);
    }
    // Using it again on the same day writes nothing.
    let before = world.server.app().store.commits();
    for _ in 0..5 {
        assert!(is_valid(&world, &owner.token).await);
    }
    assert_eq!(world.server.app().store.commits(), before);
    world.clock.jump(91 * DAY_MS);
    assert!(!is_valid(&world, &owner.token).await);
}

#[tokio::test]
async fn signing_out_ends_that_credential_alone() {
    let world = World::new().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    let out = world.ask("DELETE", "/v1/credentials/current").by(&laptop.token).send().await;
    assert_eq!((out.status, out.text.as_str()), (204, ""));
    assert!(!is_valid(&world, &laptop.token).await);
    assert!(is_valid(&world, &owner.token).await);
    // The machine is enrolled still; enrolling again gives it a credential.
    let again = world.enroll_with(&owner, "laptop", &laptop.key).await;
    assert_eq!((again.status, &again.data()["machine"]["id"]), (200, &json!(laptop.id)));
}

#[tokio::test]
async fn credentials_survive_a_restart() {
    let world = World::new().await;
    let owner = world.owner().await;
    let id = world.server.server_id().clone();
    let world = world.restart().await;
    assert_eq!(world.server.server_id(), &id);
    assert!(is_valid(&world, &owner.token).await);
    let me = world.get("/v1/me").by(&owner.token).send().await;
    assert_ne!(me.data()["memberships"], Value::Null);
}
