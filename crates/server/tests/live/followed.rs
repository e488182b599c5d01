//! Sessions that someone follows live, and what their machines are told of it (specs 02 and 04).

use crate::kit::{Live, Stream, activity};
use serde_json::{Value, json};
use teamlamp_clock::ms;

async fn follow(live: &Live, token: &str, session: &str) -> Stream {
    live.stream_by(token, &format!("sessions/{session}/follow"), &[]).await
}

fn turn(frame: &crate::kit::Frame) -> (&Value, &Value) {
    assert_eq!(frame.kind(), "session");
    (&frame.data["session"]["turn"], &frame.data["session"]["live"])
}

#[tokio::test]
async fn a_follower_sees_each_change_and_the_machine_is_told_that_it_is_watched() {
    let live = Live::real().await;
    let viewer = live.join("viewer", "Vera").await;
    let mut machine = live.machine("one").await;
    let session = live.register(&machine, &["n"]).await.remove(0);
    let bindings = [machine.binding("b", "n")];
    let mut link = live.link(&machine).await;
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 5)])).await;
    let mut stream = follow(&live, &viewer.token, &session).await;
    assert_eq!(turn(&stream.next().await), (&json!("working"), &json!(true)));
    let watched = json!([{ "harness": "codex", "native_id": "n" }]);
    assert_eq!(link.next().await.unwrap(), json!({ "type": "watched", "items": watched }));
    let told = live.beat(&mut machine, &bindings, Some(&[activity("n", "idle", 6)])).await;
    assert_eq!(told["watched"], watched);
    assert_eq!(turn(&stream.next().await), (&json!("idle"), &json!(true)));
    let mut second = follow(&live, &live.owner.token, &session).await;
    second.next().await;
    drop(stream);
    // The next link hears it at once; when the last follower leaves, it hears that.
    link.close().await;
    let mut link = live.link(&machine).await;
    assert_eq!(link.next().await.unwrap()["items"], watched);
    drop(second);
    assert_eq!(link.next().await.unwrap(), json!({ "type": "watched", "items": [] }));
    assert_eq!(live.beat(&mut machine, &bindings, None).await["watched"], json!([]));
    let nowhere = live.get("sessions/sess_none/follow").await;
    nowhere.refused(404, "not_found");
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_its_machine_go_and_stops_with_their_membership() {
    let live = Live::paused().await;
    let mia = live.join("member", "Mia").await;
    let mut machine = live.machine("one").await;
    let session = live.register(&machine, &["n"]).await.remove(0);
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 5)])).await;
    let mut stream = follow(&live, &mia.token, &session).await;
    assert_eq!(turn(&stream.next().await), (&json!("working"), &json!(true)));
    let places = live.world.server.app().streams.open();
    live.pass(46_000).await;
    assert_eq!(turn(&stream.next().await), (&json!("working"), &json!(false)), "offline");
    let path = format!("members/{}", mia.id);
    let revision = live.get(&path).await.data()["revision"].as_i64().unwrap();
    assert_eq!(live.delete(&path, revision).await.status, 204);
    let end = live.clock().clone().within(ms(1_000), stream.next()).await.expect("within a second");
    assert_eq!((end.kind(), &end.data["terminal"]), ("access_revoked", &json!(true)));
    assert!(stream.try_next().await.is_none());
    live.pass(100).await;
    assert_eq!(live.world.server.app().streams.open(), places - 1);
    assert_eq!(live.world.server.app().followed.of(&machine.id().into()), []);
}
