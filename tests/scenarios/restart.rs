//! The server is killed and comes back: nothing acknowledged is lost, nothing is told twice.

use crate::home::{Home, Running};
use crate::wait::{eventually, until};
use serde_json::Value;

const KILLS: usize = 12;

/// The numbers of the marks among a reader's frames, in their order.
fn marks(follower: &Running) -> Vec<i64> {
    let events = follower.frames().into_iter().filter(|frame| frame["type"] == "event");
    events.filter_map(|frame| frame["data"]["data"]["number"].as_i64()).collect()
}

async fn publish(home: &Home, number: i64) -> bool {
    let data = format!("{{\"number\":{number}}}");
    home.run(&["events", "publish", "custom.cli.mark", "--data", &data]).await.code == 0
}

/// Starts the server again where it was.
async fn again(home: &Home, listen: &str) -> Running {
    let data = home.data();
    eventually("the server starts again", async || {
        let server = home.start(&["serve", "--data", &data, "--listen", listen, "--json"]);
        let ready = eventually("a line or an end", async || {
            let line = server.lines().first().cloned();
            line.or_else(|| (!server.messages().is_empty()).then(String::new))
        })
        .await;
        ready.contains("ready").then_some(server)
    })
    .await
}

#[tokio::test]
async fn a_killed_server_loses_and_doubles_nothing() {
    let (a, b) = (Home::new(), Home::new());
    let (server, origin) = a.serve_new("127.0.0.1:0").await;
    let listen = origin.strip_prefix("http://").expect("an origin").to_owned();
    let _first = a.connect().await;
    a.invite(&b, "Mate", "second-laptop").await;
    // One reader has a connector and its door, the other goes to the server itself.
    let readers = [a.start(&["events", "--follow", "--json"]), b.start(&["events", "--follow", "--json"])];
    for reader in &readers {
        until("a whole snapshot", async || reader.frames().iter().any(|f| f["type"] == "snapshot_end")).await;
    }
    let (mut server, mut acknowledged, mut number) = (server, Vec::new(), 0);
    for kill in 0..KILLS {
        // The kill falls at another moment of a publication each time.
        let publishing = async {
            let mut done = Vec::new();
            for _ in 0..3 {
                number += 1;
                if publish(&a, number).await {
                    done.push(number);
                }
            }
            done
        };
        let clock = teamlamp_clock::Clock::system();
        let killing = async {
            clock.sleep(std::time::Duration::from_millis(37 * kill as u64)).await;
            server.kill().await;
        };
        acknowledged.extend(tokio::join!(publishing, killing).0);
        server = again(&a, &listen).await;
    }
    number += 1;
    eventually("the last mark", async || publish(&a, number).await.then_some(())).await;
    acknowledged.push(number);

    for reader in &readers {
        until("every mark reached the reader", async || marks(reader).last() == Some(&number)).await;
        let seen = marks(reader);
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "doubled or out of order: {seen:?}");
        assert!(acknowledged.iter().all(|mark| seen.contains(mark)), "lost: {acknowledged:?} but {seen:?}");
    }
    let history = a.run(&["events", "--json", "--kinds", "custom.cli.mark"]).await.done();
    let kept: Vec<Value> = history.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let sequences: Vec<i64> = kept.iter().filter_map(|item| item["sequence"].as_i64()).collect();
    assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]), "{sequences:?}");
    assert_eq!(server.stop().await, 0);
    let database = std::path::Path::new(&a.data()).join("teamlamp.db");
    let sound: String = rusqlite::Connection::open(database)
        .and_then(|db| db.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
        .expect("the database opens");
    assert_eq!(sound, "ok");
}
