//! How often, how many, how long: rates, wrong codes, connections, slow heads, slow answers.

use crate::world::{World, config};
use serde_json::{Value, json};
use std::sync::mpsc;
use std::time::Duration;
use teamlamp_clock::Clock;
use teamlamp_server::Server;
use teamlamp_server::store::Run;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

const PREVIEW: &str = "/v1/invitations/preview";

#[tokio::test(start_paused = true)]
async fn a_credential_has_a_burst_and_its_refusal_says_who_spent_the_minute() {
    let world = World::paused().await;
    let owner = world.owner().await;
    let other = world.join(&owner, "member", "Mia").await;
    world.clock.sleep(Duration::from_secs(60)).await;
    let me = |caller: &'static str| {
        world.get("/v1/me").by(&owner.token).header("x-supercode-caller", caller).send()
    };
    for number in 0..120 {
        let caller = if number % 3 == 0 { "script main.py" } else { "teamlamp/0.1 status" };
        assert_eq!(me(caller).await.status, 200);
    }
    let refusal = me("script main.py").await;
    refusal.refused(429, "rate_limited");
    assert_eq!(refusal.header("retry-after"), "1");
    let callers = json!([
        {"name": "teamlamp/0.1 status", "count": 80},
        {"name": "script main.py", "count": 40},
    ]);
    let routes = json!([{"name": "GET /v1/me", "count": 120}]);
    let spent = json!({"requests": 120, "by_caller": callers, "by_route": routes});
    assert_eq!(
        refusal.body["error"]["details"],
        json!({"retry_after_seconds": 1, "spent_last_minute": spent})
    );
    // The neighbour is not concerned, and ten a second come back.
    assert_eq!(world.get("/v1/me").by(&other.token).send().await.status, 200);
    world.clock.sleep(Duration::from_secs(1)).await;
    for _ in 0..10 {
        assert_eq!(me("x").await.status, 200);
    }
    assert_eq!(me("x").await.status, 429);
}

#[tokio::test(start_paused = true)]
async fn rotating_a_credential_gives_no_new_burst() {
    let world = World::paused().await;
    let owner = world.owner().await;
    for _ in 0..119 {
        assert_eq!(world.get("/v1/me").by(&owner.token).send().await.status, 200);
    }
    let rotated = world.ask("POST", "/v1/credentials/rotate").by(&owner.token).send().await;
    let token = rotated.data()["credential"]["token"].as_str().unwrap().to_owned();
    assert_eq!(world.get("/v1/me").by(&token).send().await.status, 429);
}

#[tokio::test(start_paused = true)]
async fn an_address_without_a_credential_has_sixty_a_minute() {
    let world = World::paused().await;
    let owner = world.owner().await;
    for number in 0..60 {
        let ask = match number % 3 {
            0 => world.get("/v1/capabilities"),
            1 => world.get("/v1/me"),
            _ => world.get("/v1/me").by("cred_0.nonsense"),
        };
        assert!(matches!(ask.from("192.0.2.7").send().await.status, 200 | 401));
    }
    for ask in [world.get("/v1/capabilities"), world.get("/v1/me"), world.get("/v1/nothing")] {
        let over = ask.from("192.0.2.7").send().await;
        over.refused(429, "rate_limited");
        assert_eq!(over.header("retry-after"), "1");
    }
    // A valid credential is never refused for its neighbours, and the probes are exempt.
    assert_eq!(world.get("/v1/me").by(&owner.token).from("192.0.2.7").send().await.status, 200);
    assert_eq!(world.get("/healthz").from("192.0.2.7").send().await.status, 200);
    assert_eq!(world.get("/v1/capabilities").from("192.0.2.8").send().await.status, 200);
    world.clock.sleep(Duration::from_secs(1)).await;
    assert_eq!(world.get("/v1/capabilities").from("192.0.2.7").send().await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn ten_wrong_codes_an_hour_and_then_no_code_from_there() {
    let world = World::paused().await;
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let preview = |code: &str, from: &str| world.post(PREVIEW, json!({"code": code})).from(from).send();
    let accept = |code: &str, from: &str| {
        world.post("/v1/invitations/accept", json!({"code": code, "name": "Ada"})).from(from).send()
    };
    for number in 0..5 {
        // A right code counts for nothing.
        assert_eq!(preview(&code, "2001:db8::1").await.status, 200);
        preview(&format!("00000-0000{number}"), "2001:db8::1").await.refused(404, "not_found");
        accept(&format!("00000-1000{number}"), "2001:db8::2").await.refused(404, "not_found");
    }
    for answer in [preview(&code, "2001:db8::3").await, accept(&code, "2001:db8::1").await] {
        assert!(answer.refused(429, "rate_limited").contains("60 min"));
        assert_eq!(answer.body["error"]["details"]["retry_after_seconds"], 3600);
    }
    // Only codes are refused, and only there, for an hour.
    assert_eq!(world.get("/v1/capabilities").from("2001:db8::1").send().await.status, 200);
    assert_eq!(preview(&code, "2001:db8:0:1::1").await.status, 200);
    world.clock.sleep(Duration::from_secs(3600)).await;
    assert_eq!(accept(&code, "2001:db8::1").await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn tries_at_once_are_no_way_around_the_limit_of_codes() {
    let world = World::paused().await;
    let tries = (0..40).map(|number| {
        let code = format!("00000-000{number:02}");
        world.post(PREVIEW, json!({"code": code})).from("192.0.2.1").send()
    });
    let answers = futures_util::future::join_all(tries).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 404).count(), 10);
}

#[tokio::test]
async fn a_try_that_is_broken_off_counts_and_a_key_is_no_oracle() {
    let world = World::new().await;
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let accept = |code: &str, from: &str| {
        let body = json!({"code": code, "name": "Ada"});
        world.post("/v1/invitations/accept", body).key("one-key").from(from).send()
    };
    let (release, hold) = mpsc::channel::<()>();
    let (store, flights) = (&world.server.app().store, &world.server.app().flights);
    let blocked = async { store.write(move |_| Ok(hold.recv().is_ok())).await };
    let broken_off = async {
        for number in 0..10 {
            let wrong = format!("00000-0000{number}");
            let mut pending = Box::pin(accept(&wrong, "192.0.2.1"));
            while flights.under_way() == 0 {
                if let std::task::Poll::Ready(answer) = futures_util::poll!(&mut pending) {
                    panic!("{number}: {}", answer.text);
                }
                tokio::task::yield_now().await;
            }
            drop(pending);
            while flights.under_way() > 0 {
                tokio::task::yield_now().await;
            }
        }
        release.send(()).unwrap();
    };
    let _ = tokio::join!(blocked, broken_off);
    accept(&code, "192.0.2.1").await.refused(429, "rate_limited");
    // Another body under a key that was right once would tell that it was right.
    assert_eq!(accept(&code, "192.0.2.2").await.status, 201);
    for number in 0..10 {
        accept(&format!("00000-1000{number}"), "192.0.2.3").await.refused(409, "idempotency_conflict");
    }
    accept("00000-20000", "192.0.2.3").await.refused(429, "rate_limited");
}

#[tokio::test]
async fn an_office_that_joins_at_once_waits_a_moment_at_most() {
    let world = World::new().await;
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let previews = (0..30).map(|_| world.post(PREVIEW, json!({"code": code})).from("192.0.2.1").send());
    for answer in futures_util::future::join_all(previews).await {
        if answer.status != 200 {
            answer.refused(429, "rate_limited");
            assert_eq!(answer.header("retry-after"), "5");
        }
    }
    assert_eq!(world.post(PREVIEW, json!({"code": code})).from("192.0.2.1").send().await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_counts_and_what_needs_no_credential_has_the_addresss_bucket() {
    let world = World::paused().await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    for _ in 0..119 {
        assert_eq!(world.get("/v1/me").by(&laptop.token).send().await.status, 200);
    }
    let path = format!("/v1/teams/{}/machines/{}/heartbeat", owner.team, laptop.id);
    let body = json!({"incarnation_id": "run", "sequence": 1, "bindings": [], "roots": []});
    assert_eq!(world.post(path, body).by(&laptop.token).send().await.status, 200);
    assert_eq!(world.get("/v1/me").by(&laptop.token).send().await.status, 429);
    for _ in 0..60 {
        world
            .post(PREVIEW, json!({"code": "?"}))
            .from("192.0.2.9")
            .send()
            .await
            .refused(400, "invalid_request");
    }
    for path in [PREVIEW, "/v1/invitations/accept"] {
        let over = world.post(path, json!({"code": "?", "name": "A"})).from("192.0.2.9").send().await;
        over.refused(429, "rate_limited");
        assert_eq!(over.body["error"]["details"].get("spent_last_minute"), None);
    }
}

#[tokio::test]
async fn a_machine_header_that_means_nothing_is_ignored() {
    let world = World::new().await;
    let owner = world.owner().await;
    for header in ["mach_1", "nonsense", "mach_ä", ""] {
        let ask = world.get("/v1/me").by(&owner.token).header("x-supercode-machine", header);
        assert_eq!(ask.send().await.status, 200, "{header}");
    }
}

#[tokio::test]
async fn connections_have_a_bound() {
    let world = World::with(|config| config.connections = 2).await;
    let address = world.server.local_addr().unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut first = [0; 12];
        socket.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        held.push(socket);
    }
    let mut third = tokio::net::TcpStream::connect(address).await.unwrap();
    let _ = third.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(third.read(&mut [0; 16]).await.unwrap_or(0), 0, "closed without a word");
    drop(held);
    // The places come back.
    loop {
        let mut again = tokio::net::TcpStream::connect(address).await.unwrap();
        let _ = again.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
        if again.read(&mut [0; 16]).await.unwrap_or(0) > 0 {
            break;
        }
    }
}

#[tokio::test]
async fn a_head_has_a_bound() {
    let world = World::new().await;
    let answer = world.get("/v1/me").header("x-long", &"x".repeat(70_000)).send().await;
    assert_eq!(answer.status, 431);
    let mut ask = world.get("/v1/me");
    for number in 0..200 {
        ask = ask.header(&format!("x-{number}"), "1");
    }
    assert_eq!(ask.send().await.status, 431);
}

/// A server without a socket, in paused time.
async fn paused(run: Run) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder, &Clock::starting_at(1_700_000_000_000));
    (config.listen, config.run) = (None, run);
    (Server::start(config).await.unwrap(), folder)
}

fn connect(server: &Server) -> DuplexStream {
    let (near, far) = tokio::io::duplex(1 << 16);
    server.serve_io(far, [192, 0, 2, 1].into());
    near
}

async fn read_some(stream: &mut DuplexStream) -> String {
    let mut bytes = vec![0; 4096];
    let count = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_is_cut_after_ten_seconds_and_an_idle_connection_is_kept() {
    let (server, _folder) = paused(Run::Inline).await;
    for begun in [&b""[..], b"GET /healthz HT"] {
        let mut slow = connect(&server);
        slow.write_all(begun).await.unwrap();
        let began = Instant::now();
        read_some(&mut slow).await;
        assert_eq!(began.elapsed().as_secs(), 10);
    }
    let mut kept = connect(&server);
    for wait in [0, 30, 80] {
        server.app().clock.sleep(Duration::from_secs(wait)).await;
        kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(read_some(&mut kept).await.starts_with("HTTP/1.1 200"), "after {wait} s");
    }
    // Its next head has its ten seconds again, however it trickles.
    let began = Instant::now();
    kept.write_all(b"GET /healthz").await.unwrap();
    let trickle = async {
        loop {
            server.app().clock.sleep(Duration::from_secs(3)).await;
            if kept.write_all(b"x").await.is_err() {
                return;
            }
        }
    };
    trickle.await;
    assert!((10..=15).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_and_an_answer_that_is_not_taken_have_an_end() {
    let (server, _folder) = paused(Run::Inline).await;
    let mut slow = connect(&server);
    let head = "POST /v1/invitations/preview HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\ncontent-length: 20\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let began = Instant::now();
    let answer = read_some(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("30 s"), "{answer}");
    assert_eq!(began.elapsed().as_secs(), 30);
    let (mut deaf, far) = tokio::io::duplex(256);
    server.serve_io(far, [192, 0, 2, 1].into());
    deaf.write_all(b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    server.app().clock.sleep(Duration::from_secs(29)).await;
    assert!(deaf.write_all(b"x").await.is_ok());
    server.app().clock.sleep(Duration::from_secs(2)).await;
    assert!(deaf.write_all(b"x").await.is_err(), "the connection is gone");
}

#[tokio::test(start_paused = true)]
async fn asking_whether_it_is_ready_does_not_wear_the_disk() {
    let (server, _folder) = paused(Run::Inline).await;
    // What the start itself writes is over by then, and the next upkeep is not due.
    server.app().clock.sleep(Duration::from_secs(5)).await;
    let before = server.app().store.commits();
    for looks in 1..=2 {
        for _ in 0..20 {
            let mut stream = connect(&server);
            stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200"));
        }
        assert_eq!(server.app().store.commits() - before, looks);
        server.app().clock.sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_too_long_is_a_refusal_that_says_so() {
    let (server, _folder) = paused(Run::Blocking).await;
    let (release, hold) = mpsc::channel::<()>();
    let store = server.app().store.clone();
    let blocked = async { store.write(move |_| Ok(hold.recv().is_ok())).await };
    let asked = async {
        let mut stream = connect(&server);
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        // Time does not pass by itself while a thread works for the runtime.
        tokio::task::yield_now().await;
        for _ in 0..40 {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let answer = read_some(&mut stream).await;
        release.send(()).unwrap();
        answer
    };
    let (_, answer) = tokio::join!(blocked, asked);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((&body["error"]["code"], &body["error"]["retryable"]), (&json!("unavailable"), &json!(true)));
}
