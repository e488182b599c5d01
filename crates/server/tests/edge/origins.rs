//! Web pages elsewhere: refused, unless their origin is listed.

use crate::world::World;

const APP: &str = "https://app.example";

async fn listing() -> World {
    World::with(|config| config.cors_origins = vec![APP.into()]).await
}

#[tokio::test]
async fn no_page_elsewhere_may_call_and_nothing_says_that_it_may() {
    let world = World::new().await;
    let owner = world.owner().await;
    for origin in [APP, "null", "http://localhost:5173", "http://evil.example"] {
        let answer = world.get("/v1/me").by(&owner.token).header("origin", origin).send().await;
        assert!(answer.refused(403, "forbidden").contains("`cors_origins`"));
        assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")));
        let asked = world.ask("OPTIONS", "/v1/me").header("origin", origin);
        assert_eq!(asked.header("access-control-request-method", "GET").send().await.status, 403);
    }
    // A page of its own may, a program that is no browser says nothing, and probes are for anyone.
    let own = format!("http://{}", world.server.local_addr().unwrap());
    for origin in [own.as_str(), "http://localhost"] {
        assert_eq!(world.get("/v1/me").by(&owner.token).header("origin", origin).send().await.status, 200);
    }
    let answer = world.get("/v1/me").by(&owner.token).send().await;
    assert_eq!((answer.status, answer.header("vary")), (200, ""));
    assert_eq!(world.get("/healthz").header("origin", APP).send().await.status, 200);
    // Nothing was done for the page, and the host is looked at before it.
    let elsewhere = world.get("/v1/me").header("origin", APP).header("host", "evil.example").send().await;
    assert!(elsewhere.refused(421, "misdirected").contains("`hosts`"));
}

#[tokio::test]
async fn a_link_is_not_opened_from_a_page_elsewhere() {
    let world = World::new().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    let ask = world.get(format!("/v1/teams/{}/machines/{}/link", owner.team, laptop.id)).by(&laptop.token);
    let ask = ask.header("connection", "upgrade").header("upgrade", "websocket");
    let ask =
        ask.header("sec-websocket-version", "13").header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
    ask.header("origin", APP).send().await.refused(403, "forbidden");
}

#[tokio::test]
async fn a_listed_page_may_call_and_read_also_what_is_refused() {
    let world = listing().await;
    let owner = world.owner().await;
    let asked = world.ask("OPTIONS", format!("/v1/teams/{}", owner.team)).header("origin", APP);
    let asked = asked
        .header("access-control-request-method", "PATCH")
        .header("access-control-request-headers", "authorization,if-match")
        .send()
        .await;
    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, APP));
    assert_eq!(asked.header("access-control-allow-methods"), "GET, PATCH");
    for name in ["authorization", "if-match", "idempotency-key", "content-type"] {
        assert!(asked.header("access-control-allow-headers").contains(name), "{name}");
    }
    let varies: Vec<_> = asked.headers.get_all("vary").iter().collect();
    assert!(varies.iter().any(|vary| *vary == "Origin"), "{varies:?}");

    let me = world.get("/v1/me").by(&owner.token).header("origin", APP).send().await;
    assert_eq!(
        (me.status, me.header("access-control-allow-origin"), me.header("vary")),
        (200, APP, "Origin")
    );
    assert!(me.header("access-control-expose-headers").contains("etag"));
    assert_eq!(me.header("access-control-allow-credentials"), "");
    let refused = world.get("/v1/me").header("origin", APP).send().await;
    refused.refused(401, "authentication_required");
    assert_eq!(refused.header("access-control-allow-origin"), APP);
    // Another's answer must not be kept for this one, so even those say what they depend on.
    let other = world.get("/v1/me").by(&owner.token).header("origin", "https://evil.example").send().await;
    other.refused(403, "forbidden");
    assert_eq!((other.header("access-control-allow-origin"), other.header("vary")), ("", "Origin"));
    assert_eq!(world.get("/v1/me").by(&owner.token).send().await.header("vary"), "Origin");
}

#[tokio::test]
async fn no_answer_is_a_page() {
    let world = World::new().await;
    for path in ["/healthz", "/v1/me", "/v1/nothing", "/v1/capabilities", "/v1/openapi.json"] {
        let answer = world.get(path).send().await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert!(answer.header("content-security-policy").contains("default-src 'none'"), "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
    }
}
