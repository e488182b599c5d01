//! Calls over scripted answers and paused time.

use super::*;
use crate::call::CHANGE_MS;
use crate::scripted::{HTML, JSON, Part, Script, Step, key};
use serde_json::json;
use teamlamp_wire::account::CreateTeam;
use teamlamp_wire::envelope::ErrorCode;
use teamlamp_wire::event::Publish;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::invitation::{AcceptInvitation, PreviewInvitation};
use teamlamp_wire::machine::Enroll;

const ME: &str = r#"{"principal":{"id":"prin_1","name":"Ada","kind":"person"},
    "credential":{"id":"cred_1","kind":"user","expires_at":1},"memberships":[]}"#;

fn team() -> TeamId {
    "team_1".into()
}

#[tokio::test(start_paused = true)]
async fn every_request_says_who_calls_and_with_what() {
    let script = Script::of([Step::data(ME), Step::refusal(403, "forbidden")]);
    let client = script.client().with_token("cred_1.x".into()).as_machine("mach_1".into()).at("feed");
    assert_eq!(client.me().await.unwrap().principal.name, "Ada");
    client.create_team(&CreateTeam { name: "T".into() }).await.unwrap_err();
    for n in [0, 1] {
        assert_eq!(script.header(n, "authorization").as_deref(), Some("Bearer cred_1.x"));
        assert_eq!(script.header(n, "x-supercode-caller").as_deref(), Some("test 1.0 feed"));
        assert_eq!(script.header(n, "x-supercode-machine").as_deref(), Some("mach_1"));
    }
    assert_eq!(script.header(0, "idempotency-key"), None);
    assert_eq!(script.header(1, "idempotency-key").unwrap().len(), 32);
    assert_eq!(script.header(1, "content-type").as_deref(), Some("application/json"));
    let shown = format!("{:?} {client:?}", script.asked());
    assert!(!shown.contains("cred_1.x"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_token_reaches_every_clone_and_a_new_one_none() {
    let script = Script::of([Step::data(ME), Step::data(ME)]);
    let client = script.client().with_token("old".into());
    let (clone, other) = (client.clone(), client.with_token("other".into()));
    client.replace_token("new".into());
    clone.me().await.unwrap();
    other.me().await.unwrap();
    assert_eq!(script.header(0, "authorization").as_deref(), Some("Bearer new"));
    assert_eq!(script.header(1, "authorization").as_deref(), Some("Bearer other"));
}

#[tokio::test(start_paused = true)]
async fn a_get_is_tried_five_times_and_no_more() {
    let faults = [
        Step::Fault(FaultKind::Refused),
        Step::refusal(500, "internal"),
        Step::Answer(502, HTML, vec![Part::Bytes("<html>".into())]),
        Step::json(409, r#"{"error":{"code":"conflict","message":"m","retryable":true}}"#),
    ];
    let script = Script::of(faults.clone().into_iter().chain([Step::data(ME)]));
    let client = script.client();
    client.me().await.unwrap();
    // Full jitter: this much for the seed, and never more than the four waits doubled from 250 ms.
    let waited = client.clock.now_ms() - 1_000_000;
    assert!((100..=250 + 500 + 1_000 + 2_000).contains(&waited), "{waited} ms");

    let script = Script::of(faults.into_iter().chain([Step::refusal(503, "unavailable"), Step::data(ME)]));
    let fault = script.client().me().await.unwrap_err();
    assert_eq!((fault.status(), script.asked().len()), (Some(503), 5));
}

#[tokio::test(start_paused = true)]
async fn what_asking_again_can_not_mend_is_asked_once() {
    let busy = Step::json(429, r#"{"error":{"code":"rate_limited","message":"m","retryable":true}}"#);
    for (step, code) in [
        (Step::refusal(404, "not_found"), Some(ErrorCode::NotFound)),
        (busy, Some(ErrorCode::RateLimited)),
        (Step::Answer(302, &[("location", "http://evil/")], vec![]), Some(ErrorCode::InvalidRequest)),
        (Step::Fault(FaultKind::Pin), None),
        (Step::Answer(200, HTML, vec![Part::Bytes("<html>".into())]), None),
        (Step::json(200, "[]"), None),
    ] {
        let script = Script::of([step.clone(), Step::data(ME)]);
        let fault = script.client().me().await.unwrap_err();
        assert_eq!((fault.code(), script.asked().len()), (code, 1), "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_tried_once_and_may_be_repeated_under_its_key() {
    let script = Script::of([Step::Fault(FaultKind::Reset), Step::refusal(409, "conflict")]);
    let client = script.client().with_key(key("kept"));
    let publish = Publish { events: vec![] };
    assert!(client.publish(&team(), &publish).await.unwrap_err().may_pass());
    client.publish(&team(), &publish).await.unwrap_err();
    assert_eq!(script.asked().len(), 2);
    assert_eq!(script.header(0, "idempotency-key"), script.header(1, "idempotency-key"));
    assert_eq!(script.header(0, "idempotency-key").as_deref(), Some("kept"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_accept_is_asked_for_again_under_the_same_key() {
    let accepted = r#"{"principal":{"id":"prin_1","name":"Ada","kind":"person"},
        "team":{"id":"team_1","name":"T"},"membership":{"role":"member","active":true},
        "credential":{"token":"cred_1.x","kind":"user","expires_at":1}}"#;
    let script = Script::of([Step::Fault(FaultKind::Reset), Step::Hang, Step::data(accepted)]);
    let body = AcceptInvitation { code: "7K3QF-9XW2M".into(), name: "Ada".into(), team_name: None };
    let done = script.client().accept(&body).await.unwrap();
    assert_eq!(done.credential.token.as_deref(), Some("cred_1.x"));
    let keys: Vec<_> = (0..3).map(|n| script.header(n, "idempotency-key").unwrap()).collect();
    assert!(keys.iter().all(|k| *k == keys[0]), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_without_an_end() {
    let script = Script::of([]);
    let client = script.client();
    let fault = client.create_team(&CreateTeam { name: "T".into() }).await.unwrap_err();
    assert!(matches!(&fault, ClientError::Unreachable(f) if f.kind == FaultKind::Timeout));
    assert_eq!(client.clock.now_ms() - 1_000_000, CHANGE_MS);
    let script = Script::of([Step::Answer(200, JSON, vec![Part::Bytes("{".into()), Part::Hang])]);
    script.client().create_team(&CreateTeam { name: "T".into() }).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_web_page_in_place_of_json_is_named() {
    for (headers, body) in [(HTML, "<!doctype html>"), (&[][..], "\n <html>sign in</html>")] {
        let script = Script::of([Step::Answer(200, headers, vec![Part::Bytes(body.into())])]);
        let fault = script.client().me().await.unwrap_err();
        assert!(matches!(&fault, ClientError::Garbled(Garbled::Html { status: 200, .. })), "{fault:?}");
        assert!(fault.sentence().contains("sign-in"), "{}", fault.sentence());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_load_says_how_long_to_wait() {
    let body = r#"{"error":{"code":"rate_limited","message":"m","details":{"retry_after_seconds":17}}}"#;
    let bare = Step::Answer(429, &[("retry-after", "9")], vec![Part::Bytes("busy".into())]);
    let script = Script::of([Step::json(429, body), bare]);
    let client = script.client();
    assert_eq!(client.me().await.unwrap_err().retry_after().unwrap().as_secs(), 17);
    let fault = client.me().await.unwrap_err();
    assert_eq!(fault.code(), Some(ErrorCode::RateLimited));
    assert_eq!(fault.retry_after().unwrap().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_page_after_page() {
    let page = |id: &str, next: &str| {
        let member = format!(
            r#"{{"principal":{{"id":"{id}","name":"n","kind":"person"}},"role":"member","active":true,
                "revision":1,"joined_at":1}}"#
        );
        let body = format!(r#"{{"version":1,"context":{{}},"items":[{member}],"next_cursor":{next}}}"#);
        Step::json(200, body)
    };
    let script = Script::of([page("prin_1", "\"a b\""), page("prin_2", "null")]);
    let members = script.client().members(&team()).await.unwrap();
    assert_eq!(members.len(), 2);
    assert_eq!(script.asked()[1].path_and_query, "/v1/teams/team_1/members?limit=200&cursor=a%20b");
}

#[tokio::test(start_paused = true)]
async fn what_looks_like_a_secret_stays_here_but_where_a_route_carries_one() {
    let secret = format!("cred_{}.{}", "0".repeat(32), "A".repeat(43));
    let script = Script::of([]);
    let client = script.client();
    let event = json!({"events": [{"kind": "custom.cli.x", "data": {"out": format!("\n{secret}"), "password": "hunter2"}}]});
    let _ = client.publish(&team(), &serde_json::from_value(event).unwrap()).await;
    let _ = client.enroll(&team(), &Enroll { name: secret.clone(), enrollment_key: "k".into() }).await;
    let _ = client.preview(&PreviewInvitation { code: secret.clone() }).await;
    let bodies: Vec<_> = script.asked().iter().map(|r| String::from_utf8(r.body.to_vec()).unwrap()).collect();
    assert!(!bodies[0].contains(&secret) && !bodies[0].contains("hunter2"), "{}", bodies[0]);
    assert!(bodies[0].contains(r#""out":"\n[redacted]""#) && bodies[1].contains(&secret));
    assert!(bodies[2].contains(&secret));
}

#[test]
fn the_caller_keeps_its_site_whole_and_has_120_characters() {
    assert_eq!(caller("teamlamp 0.1", ""), "teamlamp 0.1");
    assert_eq!(caller("tëamlamp\n", "a\u{1b}b"), "tamlamp ab");
    let long = caller(&"p".repeat(200), &"s".repeat(200));
    assert_eq!((long.len(), long.matches('s').count()), (120, 60));
}
