//! What a machine says over its link is a change like every other: made by whoever may make it when it is
//! committed, and by nobody else (specs 02 and 08).

use crate::kit::{Live, Machine};
use serde_json::{Value, json};
use std::sync::mpsc;
use teamlamp_server::store::Store;

/// Keeps the writer busy until the sender is used, so that what comes meanwhile waits in its order.
async fn busy(live: &Live) -> mpsc::Sender<()> {
    let (release, hold) = mpsc::channel::<()>();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let store = store(live);
    live.tasks.spawn("a slow change", async move {
        let held = store.write(move |_| {
            let _ = begun.send(());
            Ok(hold.recv().is_ok())
        });
        let _ = held.await;
    });
    begins.await.unwrap();
    release
}

fn store(live: &Live) -> Store {
    live.world.server.app().store.clone()
}

/// Until so many changes wait for the writer.
async fn waiting(live: &Live, changes: usize) {
    let all = async {
        while store(live).waiting() < changes {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), all).await.expect("they never came");
}

async fn shown(live: &Live, machine: &Machine) -> Value {
    live.get(&format!("machines/{}", machine.id())).await.data().clone()
}

#[tokio::test]
async fn what_is_said_after_a_revocation_changes_nothing() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    let sent = live.post(&format!("machines/{}/notes", machine.id()), &json!({ "text": "hi" })).await;
    let note = link.next().await.unwrap()["id"].clone();
    assert_eq!(note, sent.data()["note"]["id"]);
    for frame in [json!({ "type": "away", "reason": "asleep" }), json!({ "type": "ack", "id": note })] {
        let before = shown(&live, &machine).await;
        let revision = before["revision"].as_i64().unwrap();
        let mut link = live.link(&machine).await;
        link.next().await.unwrap();
        let release = busy(&live).await;
        let path = format!("machines/{}", machine.id());
        let revoke = live.delete(&path, revision);
        let say = async {
            waiting(&live, 1).await;
            link.say(&frame).await;
            waiting(&live, 2).await;
            release.send(()).unwrap();
        };
        let (revoked, ()) = tokio::join!(revoke, say);
        assert_eq!(revoked.status, 204, "{}", revoked.text);
        assert_eq!(link.closing().await, "machine_revoked");
        let after = shown(&live, &machine).await;
        assert_eq!((&after["away"], &after["revision"]), (&Value::Null, &json!(revision + 1)), "{frame}");
        let kept = live.tables().remove("machine_notes").unwrap().remove(0);
        assert!(kept.ends_with("Null"), "not acknowledged: {kept}");
        // The same machine again, with another credential.
        let body = json!({ "name": "one", "enrollment_key": machine.enrolled.key });
        let again = live.post("machines", &body).await;
        machine.enrolled.token = again.data()["credential"]["token"].as_str().unwrap().to_owned();
        live.beat(&mut machine, &[], None).await;
    }
}

#[tokio::test]
async fn what_a_replaced_run_says_changes_nothing() {
    let live = Live::real().await;
    let mut old = live.machine("one").await;
    live.beat(&mut old, &[], None).await;
    let mut link = live.link(&old).await;
    let mut new = old.restarted();
    let body = new.report(&[], None);
    let release = busy(&live).await;
    let say = async {
        waiting(&live, 1).await;
        link.say(&json!({ "type": "away", "reason": "shutdown" })).await;
        waiting(&live, 2).await;
        release.send(()).unwrap();
    };
    let (beaten, ()) = tokio::join!(live.send(&new, &body), say);
    assert_eq!(beaten.status, 200, "{}", beaten.text);
    assert_eq!(link.closing().await, "incarnation_superseded");
    let after = shown(&live, &new).await;
    assert_eq!((&after["away"], &after["revision"]), (&Value::Null, &beaten.data()["revision"]));
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_ended_between_the_handshake_and_the_hello_is_said_to_be_expired() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    let mut link = live.dial(machine.token(), machine.id()).await.unwrap();
    live.clock().jump(30 * 86_400_000 + 1);
    link.hello(&machine.run).await;
    assert_eq!(link.closing().await, "credential_expired");
}

#[tokio::test(start_paused = true)]
async fn a_hello_that_cannot_be_written_is_answered_with_unavailable() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    let mut link = live.dial(machine.token(), machine.id()).await.unwrap();
    let other = rusqlite::Connection::open(store(&live).path()).unwrap();
    other.execute_batch("PRAGMA busy_timeout = 0; BEGIN IMMEDIATE").unwrap();
    link.hello(&machine.run).await;
    assert_eq!(link.closing().await, "unavailable");
    other.execute_batch("ROLLBACK").unwrap();
    live.link(&machine).await;
}

#[tokio::test(start_paused = true)]
async fn a_link_lives_on_over_a_rotated_credential() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let mut link = live.link(&machine).await;
    let rotated = live.ask("POST", "/v1/credentials/rotate", machine.token(), None).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    let old = machine.token().to_owned();
    machine.enrolled.token = rotated.data()["credential"]["token"].as_str().unwrap().to_owned();
    live.beat(&mut machine, &[], None).await;
    live.get_by(&old, "machines").await.refused(401, "authentication_required");
    link.live_for(35_000).await;
    live.beat(&mut machine, &[], None).await;
    assert_eq!(live.connection(&machine).await, "online");
    live.post(&format!("machines/{}/notes", machine.id()), &json!({ "text": "hi" })).await;
    assert_eq!(link.next().await.unwrap()["text"], "hi");
    link.say(&json!({ "type": "away", "reason": "paused" })).await;
    link.close().await;
    assert_eq!(shown(&live, &machine).await["away"]["reason"], "paused");
}
