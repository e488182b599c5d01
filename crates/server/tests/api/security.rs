//! What must not be seen: other teams, secrets in logs, more than a machine may.

use crate::world::{Answer, Enrolled, Person, World, fresh};
use serde_json::{Value, json};
use teamlamp_server::router::{Needs, ROUTES, Route};

#[tokio::test]
async fn nothing_of_another_team_shows_in_lists() {
    let world = World::new().await;
    let owner = world.owner().await;
    let made = world.post("/v1/teams", json!({"name": "Secret"})).by(&owner.token).send().await;
    let secret = Person { team: made.data()["team"]["id"].as_str().unwrap().into(), ..owner.clone() };
    let member = world.join(&owner, "admin", "Ada").await;
    world.enroll(&secret, "hidden").await;
    let code = world.invite(&secret, "member").await;
    let joined = world.post("/v1/invitations/accept", json!({"code": code, "name": "Hidden"})).send().await;
    assert_eq!(joined.status, 201);
    let (own, theirs) = (&member.team, &secret.team);
    for path in ["", "/members", "/machines", "/audit", "/invitations", "/sessions", "/events/history"] {
        let seen = world.get(format!("/v1/teams/{own}{path}")).by(&member.token).send().await;
        for text in ["Secret", "hidden", "Hidden", theirs.as_str()] {
            assert!(!seen.text.contains(text), "{path} tells {text}");
        }
    }
    // A name that another team uses is free here.
    assert_eq!(world.enroll_with(&member, "hidden", &fresh("key")).await.status, 201);
}

/// A team with one of each thing that a path can name.
struct Things {
    owner: Person,
    machine: Enrolled,
    ids: Vec<(&'static str, String)>,
}

impl Things {
    async fn of(world: &World, owner: Person, machine: &str) -> Self {
        let team = format!("/v1/teams/{}", owner.team);
        let machine = world.enroll(&owner, machine).await;
        let member = world.join(&owner, "member", "Hidden").await;
        world.invite(&owner, "member").await;
        let invitations = world.get(format!("{team}/invitations")).by(&owner.token).send().await;
        let body = json!({"sessions": [{"harness": "codex", "native_id": "n"}]});
        let registered = world.post(format!("{team}/sessions"), body).by(&machine.token).send().await;
        let event = json!({"events": [{"kind": "custom.cli.x", "data": {"word": "hidden"}}]});
        let published = world.post(format!("{team}/events"), event).by(&owner.token).send().await;
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        let ids = vec![
            ("{team}", owner.team.clone()),
            ("{principal}", member.id),
            ("{machine}", machine.id.clone()),
            ("{invitation}", id(&invitations.items()[0]["id"])),
            ("{session}", id(&registered.data()["sessions"][0]["id"])),
            ("{event}", id(&published.data()["events"][0]["id"])),
        ];
        Self { owner, machine, ids }
    }

    /// A route's path with these ids.
    fn path(&self, route: &Route) -> String {
        self.ids.iter().fold(route.path.to_owned(), |path, (name, id)| path.replace(name, id))
    }
}

/// A path with ids that nobody has, but for its team where that is given.
fn made_up(route: &Route, team: &str) -> String {
    let path = route.path.replace("{team}", team);
    ["{principal}", "{machine}", "{invitation}", "{session}", "{event}"]
        .iter()
        .fold(path, |path, name| path.replace(name, "none_0"))
}

/// A body that a route takes.
fn body_of(route: &Route) -> Option<Value> {
    Some(match route.operation {
        "teams.create" | "teams.change" | "machines.rename" => json!({"name": "x"}),
        "members.change" | "invitations.create" => json!({"role": "viewer"}),
        "machines.enroll" => json!({"name": "fresh", "enrollment_key": fresh("key")}),
        "machines.notes.send" => json!({"text": "hi"}),
        "machines.heartbeat" => json!({"incarnation_id": "r", "sequence": 1, "bindings": [], "roots": []}),
        "sessions.register" => json!({"sessions": []}),
        "events.publish" => json!({"events": [{"kind": "custom.cli.x", "data": {}}]}),
        _ => return None,
    })
}

async fn ask(world: &World, route: &Route, path: &str, token: &str) -> Answer {
    let ask = world.ask(route.method.as_str(), path).by(token);
    let ask = if route.revised { ask.if_match(1) } else { ask };
    let ask = if route.operation == "events.stream" { ask.header("accept", "application/json") } else { ask };
    let ask = match body_of(route) {
        Some(body) => ask.json(&body),
        None => ask,
    };
    ask.from("192.0.2.1").send().await
}

#[tokio::test]
async fn no_route_tells_a_stranger_whether_a_team_or_a_thing_of_it_exists() {
    let world = World::new().await;
    let first = world.owner().await;
    let made = world.post("/v1/teams", json!({"name": "Secret"})).by(&first.token).send().await;
    let secret = Person { team: made.data()["team"]["id"].as_str().unwrap().into(), ..first.clone() };
    let theirs = Things::of(&world, secret, "hidden").await;
    // Somebody of another team, who is no member of theirs, with a machine.
    let ours = Things::of(&world, world.join(&first, "owner", "Ada").await, "open").await;
    for route in ROUTES.iter().filter(|route| route.path.contains("{team}")) {
        for token in [&ours.owner.token, &ours.machine.token] {
            let real = ask(&world, route, &theirs.path(route), token).await;
            let none = ask(&world, route, &made_up(route, "team_0"), token).await;
            real.refused(404, "not_found");
            let context = |answer: &Answer| answer.body["error"].clone();
            assert_eq!(context(&real), context(&none), "{}", route.operation);
        }
        if route.path.matches('{').count() > 1 {
            // Their things in the path of one's own team.
            let team = &ours.owner.team;
            let mixed = theirs.path(route).replace(&theirs.owner.team, team);
            let real = ask(&world, route, &mixed, &ours.owner.token).await;
            let none = ask(&world, route, &made_up(route, team), &ours.owner.token).await;
            assert!(matches!(real.status, 403 | 404), "{}: {}", route.operation, real.text);
            assert_eq!((real.status, &real.body), (none.status, &none.body), "{}", route.operation);
        }
    }
    let team = format!("/v1/teams/{}", ours.owner.team);
    for filter in ["machine", "session", "actor"] {
        let named = format!("{{{}}}", if filter == "actor" { "principal" } else { filter });
        let id = &theirs.ids.iter().find(|(name, _)| *name == named).unwrap().1;
        let path = format!("{team}/events/history?{filter}={id}");
        assert!(!world.get(path).by(&ours.owner.token).send().await.text.contains("hidden"), "{filter}");
    }
}

#[tokio::test]
async fn a_machines_token_may_what_is_its_own_and_read_and_nothing_else() {
    let world = World::new().await;
    let owner = world.owner().await;
    let things = Things::of(&world, owner.clone(), "laptop").await;
    let may = [
        "me.read",
        "teams.read",
        "machines.list",
        "machines.read",
        "machines.roots",
        "machines.configuration",
        "machines.heartbeat",
        "machines.events",
        "machines.link",
        "sessions.register",
        "sessions.list",
        "sessions.read",
        "sessions.follow",
        "events.stream",
        "events.history",
        "events.read",
        // In the end: they change the token itself.
        "credentials.rotate",
        "credentials.sign_out",
    ];
    let mut routes: Vec<&Route> = ROUTES.iter().filter(|route| route.needs == Needs::Credential).collect();
    routes.sort_by_key(|route| (route.operation == "credentials.sign_out", route.operation));
    for route in routes {
        // A stream would not end; what it needs to begin is what the long poll needs.
        if matches!(route.operation, "machines.events" | "sessions.follow") {
            continue;
        }
        let answer = ask(&world, route, &things.path(route), &things.machine.token).await;
        if may.contains(&route.operation) {
            let fine = if route.operation == "machines.link" { 400 } else { answer.status };
            assert!(answer.status == fine && !matches!(fine, 401 | 403 | 404), "{}", route.operation);
        } else {
            assert_eq!(answer.status, 403, "{}: {}", route.operation, answer.text);
        }
    }
    let again = Things::of(&world, owner.clone(), "desk").await;
    let code = world.invite(&owner, "member").await;
    let accept = world.post("/v1/invitations/accept", json!({"code": code, "name": "A"}));
    accept.by(&again.machine.token).send().await.refused(403, "forbidden");
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
