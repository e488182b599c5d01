//! What must not be seen: other teams, secrets in logs, more than a machine may.

use crate::world::{Person, World, fresh};
use serde_json::{Value, json};

#[tokio::test]
async fn ids_of_other_teams_answer_as_ids_that_nobody_has() {
    let world = World::new().await;
    let owner = world.owner().await;
    let made = world.post("/v1/teams", json!({"name": "Secret"})).by(&owner.token).send().await;
    let secret = Person { team: made.data()["team"]["id"].as_str().unwrap().into(), ..owner.clone() };
    let member = world.join(&owner, "admin", "Ada").await;
    let their_machine = world.enroll(&secret, "hidden").await;
    let code = world.invite(&secret, "member").await;
    let hidden = crate::world::person(
        &world.post("/v1/invitations/accept", json!({"code": code, "name": "Hidden"})).send().await,
    );
    let list = world.get(format!("/v1/teams/{}/invitations", secret.team)).by(&owner.token).send().await;
    let invitation = list.items()[0]["id"].as_str().unwrap().to_owned();
    let (own, theirs) = (&member.team, &secret.team);
    for (method, real, made_up) in [
        ("GET", format!("/v1/teams/{theirs}"), "/v1/teams/team_0".to_owned()),
        ("PATCH", format!("/v1/teams/{theirs}"), "/v1/teams/team_0".to_owned()),
        ("GET", format!("/v1/teams/{theirs}/members"), "/v1/teams/team_0/members".into()),
        ("GET", format!("/v1/teams/{theirs}/machines"), "/v1/teams/team_0/machines".into()),
        ("GET", format!("/v1/teams/{theirs}/audit"), "/v1/teams/team_0/audit".into()),
        ("GET", format!("/v1/teams/{theirs}/invitations"), "/v1/teams/team_0/invitations".into()),
        (
            "GET",
            format!("/v1/teams/{own}/machines/{}", their_machine.id),
            format!("/v1/teams/{own}/machines/mach_0"),
        ),
        (
            "DELETE",
            format!("/v1/teams/{own}/machines/{}", their_machine.id),
            format!("/v1/teams/{own}/machines/mach_0"),
        ),
        ("GET", format!("/v1/teams/{own}/members/{}", hidden.id), format!("/v1/teams/{own}/members/prin_0")),
        (
            "DELETE",
            format!("/v1/teams/{own}/members/{}", hidden.id),
            format!("/v1/teams/{own}/members/prin_0"),
        ),
        (
            "DELETE",
            format!("/v1/teams/{own}/invitations/{invitation}"),
            format!("/v1/teams/{own}/invitations/inv_0"),
        ),
    ] {
        let ask = |path: &str| {
            let ask = world.ask(method, path).by(&member.token).if_match(1);
            if method == "PATCH" { ask.json(&json!({"name": "x"})) } else { ask }.send()
        };
        let (real_answer, made_up_answer) = (ask(&real).await, ask(&made_up).await);
        real_answer.refused(404, "not_found");
        assert_eq!(real_answer.body, made_up_answer.body, "{method} {real}");
    }
    // Nor does anything of it show in what they may see.
    for path in ["", "/members", "/machines", "/audit", "/invitations"] {
        let seen = world.get(format!("/v1/teams/{own}{path}")).by(&member.token).send().await;
        for text in ["Secret", "hidden", "Hidden", theirs.as_str()] {
            assert!(!seen.text.contains(text), "{path} tells {text}");
        }
    }
    // A name that another team uses is free here.
    assert_eq!(world.enroll_with(&member, "hidden", &fresh("key")).await.status, 201);
}

#[tokio::test]
async fn a_machines_token_changes_nothing_but_what_is_its_own() {
    let world = World::new().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    let team = format!("/v1/teams/{}", owner.team);
    let machine = format!("{team}/machines/{}", laptop.id);
    let member = format!("{team}/members/{}", owner.id);
    for (method, path, body) in [
        ("POST", "/v1/teams".to_owned(), Some(json!({"name": "B"}))),
        ("PATCH", team.clone(), Some(json!({"name": "B"}))),
        ("PATCH", member.clone(), Some(json!({"role": "viewer"}))),
        ("DELETE", member, None),
        ("POST", format!("{team}/invitations"), Some(json!({"role": "member"}))),
        ("DELETE", format!("{team}/invitations/inv_0"), None),
        ("GET", format!("{team}/invitations"), None),
        ("GET", format!("{team}/audit"), None),
        ("POST", format!("{team}/machines"), Some(json!({"name": "b", "enrollment_key": fresh("key")}))),
        ("PATCH", machine.clone(), Some(json!({"name": "b"}))),
        ("DELETE", machine.clone(), None),
    ] {
        let ask = world.ask(method, &path).by(&laptop.token).if_match(1);
        let ask = match &body {
            Some(body) => ask.json(body),
            None => ask,
        };
        ask.send().await.refused(403, "forbidden");
    }
    for path in [
        "/v1/me".to_owned(),
        team.clone(),
        format!("{team}/machines"),
        machine.clone(),
        format!("{machine}/roots"),
    ] {
        assert_eq!(world.get(&path).by(&laptop.token).send().await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_log_at_its_loudest_holds_no_secret_and_says_what_happened() {
    let world = World::new().await;
    let owner_code = world.server.owner_link().unwrap().code.to_string();
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let body = json!({"code": code, "name": "Mia"});
    let member =
        crate::world::person(&world.post("/v1/invitations/accept", body).key("idem-key-77").send().await);
    let laptop = world.enroll(&member, "laptop").await;
    let rotated = world.ask("POST", "/v1/credentials/rotate").by(&laptop.token).send().await;
    let rotated = rotated.data()["credential"]["token"].as_str().unwrap().to_owned();
    world.get(format!("/v1/me?token={}", owner.token)).by(&owner.token).send().await;
    world.get(format!("/v1/{}", owner.token)).by(&owner.token).send().await;
    world.get("/v1/me").by(&owner.token.to_lowercase()).send().await;
    world.post("/v1/invitations/preview", json!({"code": "00000-00000", "x": code})).send().await;
    world.post("/v1/teams", json!({"name": 1, "secret": laptop.key})).by(&owner.token).send().await;
    world.get("/v1/me").by(&rotated).header("x-supercode-caller", "script main.py").send().await;
    let text = crate::world::logged();
    let secrets = [&owner_code, &owner.token, &code, &member.token, &laptop.token, &laptop.key, &rotated];
    for secret in secrets {
        let part = secret.rsplit_once('.').map_or(secret.as_str(), |(_, part)| part);
        assert!(!text.contains(part), "the log holds {secret}");
    }
    for told in ["invitations.accept", "req_", "script main.py", "status=401", "cred_"] {
        assert!(text.contains(told), "the log does not say {told}");
    }
    assert_eq!(world.get("/v1/me").by(&owner.token).send().await.body["error"], Value::Null);
}
