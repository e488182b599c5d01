//! Whoever may not read on is told so within a second, on whatever they have open, and hears nothing more
//! (specs 01 and 03).

use crate::authority::join_another_team;
use crate::kit::{Link, Live, Machine, Stream};
use crate::world::{Answer, Person};
use serde_json::json;
use std::time::Duration;
use teamlamp_clock::ms;

/// Everything that someone can have open.
struct Open {
    /// With the credential that is to end, and what ends it.
    events: Stream,
    presence: Stream,
    session: Stream,
}

impl Open {
    async fn of(live: &Live, token: &str, session: &str) -> Self {
        let mut events = live.stream_by(token, "events", &[]).await;
        events.settled().await;
        let mut presence = live.stream_by(token, "machines/events", &[]).await;
        presence.until("snapshot_end").await;
        let mut session = live.stream_by(token, &format!("sessions/{session}/follow"), &[]).await;
        session.until("session").await;
        Self { events, presence, session }
    }

    /// Each is told its end by then, and nothing after it.
    async fn ends(self, live: &Live, by: i64, reason: &str) {
        for (name, mut stream) in
            [("events", self.events), ("presence", self.presence), ("session", self.session)]
        {
            let rest = ms((by - live.clock().now_ms()).max(0));
            let told = async {
                loop {
                    let frame = stream.next().await;
                    if frame.kind() == "access_revoked" {
                        break frame;
                    }
                    // What was committed before may still come; of what came after, nothing.
                    assert!(!frame.data.to_string().contains("custom.cli.after"), "{name}: {frame:?}");
                }
            };
            let end = live.clock().within(rest, told).await;
            let end = end.unwrap_or_else(|| panic!("{reason}: {name} was not told within a second"));
            assert_eq!(
                (&end.data["reason"], &end.data["terminal"]),
                (&json!(reason), &json!(true)),
                "{name}"
            );
            assert_eq!(stream.try_next().await, None, "{name}");
        }
    }
}

/// Waits for the answer to a poll that waited while the access ended.
async fn poll(live: &Live, token: &str) -> Answer {
    let ask = |query: String| {
        let ask = live.world.get(live.path(&format!("events?{query}"))).by(token).from("127.0.0.1");
        ask.header("accept", "application/json").send()
    };
    let mut at = ask("wait=0".into()).await.body["cursor"].as_str().unwrap().to_owned();
    loop {
        let page = ask(format!("after={at}&wait=0")).await;
        let next = page.body["cursor"].as_str().unwrap().to_owned();
        if next == at {
            break;
        }
        at = next;
    }
    ask(format!("after={at}&wait=25")).await
}

struct Scene {
    live: Live,
    mia: Person,
    machine: Machine,
    session: String,
    link: Link,
}

impl Scene {
    async fn new() -> Self {
        let live = Live::paused().await;
        let mia = live.join("member", "Mia").await;
        let mut machine = live.machine_of(&mia, "hers").await;
        let session = live.register(&machine, &["n"]).await.remove(0);
        live.beat(&mut machine, &[], None).await;
        let link = live.link(&machine).await;
        Self { live, mia, machine, session, link }
    }

    /// Ends an access while everything is open that a token opens, and sees everything end.
    async fn run(self, token: &str, end: Ending, reason: &str, closing: Option<&str>) {
        let Self { live, mia, machine, session, mut link } = self;
        let open = Open::of(&live, token, &session).await;
        let waiting = live.world.server.app().streams.open();
        let ending = async {
            while live.world.server.app().streams.open() == waiting {
                live.pass(10).await;
            }
            live.pass(2_000).await;
            let answer = end.happen(&live, &mia, &machine, token).await;
            assert!(matches!(answer.status, 200 | 204), "{end:?}: {}", answer.text);
            let by = live.clock().now_ms() + 1_000;
            live.publish("after", json!({})).await;
            by
        };
        let polled = async { (poll(&live, token).await, live.clock().now_ms()) };
        let ((polled, polled_at), by) = tokio::join!(polled, ending);
        assert!(polled_at < by, "{end:?}: the poll was answered {} ms late", polled_at - by);
        assert!(!polled.text.contains("custom.cli.after"), "{end:?}: {}", polled.text);
        let frames = polled.body["frames"].as_array().cloned().unwrap_or_default();
        let told = frames.iter().any(|f| f["type"] == "access_revoked" && f["reason"] == reason);
        assert!(told || matches!(polled.status, 401 | 404), "{end:?}: {}", polled.text);
        open.ends(&live, by, reason).await;
        match closing {
            Some(closing) => {
                let rest = ms((by - live.clock().now_ms()).max(0));
                let reason = live.clock().within(rest, link.closing()).await;
                assert_eq!(reason.as_deref(), Some(closing), "{end:?}");
            }
            None => {
                // It hears that nobody follows the session any more, and goes on.
                while let Some(told) = live.clock().within(Duration::from_millis(1_500), link.next()).await {
                    assert_eq!(
                        told.expect("closed")["type"],
                        "watched",
                        "{end:?}: its own credential is fine"
                    );
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Deactivated,
    Removed,
    MachineRevoked,
    SignedOut,
}

impl Ending {
    async fn happen(self, live: &Live, mia: &Person, machine: &Machine, token: &str) -> Answer {
        let path = match self {
            Self::SignedOut => return live.ask("DELETE", "/v1/credentials/current", token, None).await,
            Self::MachineRevoked => format!("machines/{}", machine.id()),
            Self::Deactivated | Self::Removed => format!("members/{}", mia.id),
        };
        let revision = live.get(&path).await.data()["revision"].as_i64().unwrap();
        if self != Self::Deactivated {
            return live.delete(&path, revision).await;
        }
        let ask = live.world.ask("PATCH", live.path(&path)).json(&json!({ "active": false }));
        ask.by(&live.owner.token).if_match(revision).from("127.0.0.1").send().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_who_may_not_read_on_is_told_within_a_second_and_hears_nothing_more() {
    for (end, reason, closing) in [
        (Ending::Deactivated, "membership_ended", Some("machine_revoked")),
        (Ending::Removed, "membership_ended", Some("machine_revoked")),
        (Ending::SignedOut, "credential_ended", None),
    ] {
        let scene = Scene::new().await;
        let token = scene.mia.token.clone();
        join_another_team(&scene.live, &token).await;
        scene.run(&token, end, reason, closing).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_may_not_read_on_is_told_within_a_second_and_hears_nothing_more() {
    for (end, reason) in [
        (Ending::Deactivated, "machine_revoked"),
        (Ending::Removed, "machine_revoked"),
        (Ending::MachineRevoked, "machine_revoked"),
        (Ending::SignedOut, "credential_ended"),
    ] {
        let scene = Scene::new().await;
        let token = scene.machine.token().to_owned();
        scene.run(&token, end, reason, Some("machine_revoked")).await;
    }
}
