//! The server is killed at random moments under load, again and again. Whatever it acknowledged is in its
//! database, once, and the database is sound each time.

use crate::home::{Home, Running};
use crate::wait::{eventually, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use teamlamp_client::{Client, Http, Trust};
use teamlamp_clock::{Chance, Clock, Tasks};
use teamlamp_wire::event::{Publish, PublishEvent};
use teamlamp_wire::id::{EventId, TeamId};

/// How often it is killed.
const KILLS: usize = 20;
/// Who publishes at once.
const PUBLISHERS: usize = 6;
/// Events of one publication: all or none of them are there.
const TOGETHER: usize = 3;

/// What was asked for, and what was acknowledged.
#[derive(Default)]
struct Ledger {
    asked: Vec<Vec<EventId>>,
    done: BTreeSet<EventId>,
}

#[derive(Clone)]
struct Load {
    client: Client,
    team: TeamId,
    chance: Chance,
    ledger: Arc<Mutex<Ledger>>,
}

impl Load {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes until it is stopped, or the server refuses for load.
    async fn publish(self) {
        loop {
            let now_ms = Clock::system().now_ms();
            let ids: Vec<EventId> = (0..TOGETHER).map(|_| EventId::new(now_ms, self.chance.bits())).collect();
            self.ledger().asked.push(ids.clone());
            let event = |id: &EventId| PublishEvent {
                id: Some(id.clone()),
                kind: "custom.cli.mark".into(),
                resource: None,
                data: serde_json::Map::new(),
                at: None,
            };
            let wish = Publish { events: ids.iter().map(event).collect() };
            match self.client.publish(&self.team, &wish).await {
                Ok(_) => self.ledger().done.extend(ids),
                Err(_) => return,
            }
        }
    }
}

/// The owner of the home's team, as the command line signs in.
async fn owner(home: &Home, origin: &str) -> Load {
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(home.path().join("tl").join(name)).expect("the home is there");
        serde_json::from_str(&text).expect("JSON")
    };
    let secrets = read("secrets.json");
    let all = secrets.as_object().expect("secrets by account");
    let token = all.iter().find(|(account, _)| account.ends_with("/user")).expect("a sign-in").1;
    let chance = Chance::system();
    let http = Http::to_server(origin, &Trust::default()).expect("an address of this computer");
    let client = Client::new(Arc::new(http), Clock::system(), chance.clone(), "crash test")
        .with_token(token.as_str().expect("a token").to_owned().into());
    let team = client.me().await.expect("it answers").memberships[0].team.id.clone();
    Load { client, team, chance, ledger: Arc::default() }
}

/// Looks at a copy of what the killed server left, so that the server itself has to mend the original.
fn look(home: &Home, load: &Load) {
    let copy = tempfile::tempdir().expect("a scratch folder");
    for name in ["teamlamp.db", "teamlamp.db-wal"] {
        let from = Path::new(&home.data()).join(name);
        if from.exists() {
            std::fs::copy(from, copy.path().join(name)).expect("it can be copied");
        }
    }
    let db = rusqlite::Connection::open(copy.path().join("teamlamp.db")).expect("it opens");
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it is asked");
    assert_eq!(sound, "ok");
    let mut read = db.prepare("SELECT sequence, id FROM events ORDER BY sequence").expect("a table");
    let rows = read.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)));
    let rows: Vec<(i64, String)> = rows.expect("rows").map(|row| row.expect("a row")).collect();
    let sequences: Vec<i64> = rows.iter().map(|(sequence, _)| *sequence).collect();
    assert!(sequences.iter().copied().eq(1..=rows.len() as i64), "gaps: {sequences:?}");
    let kept: BTreeSet<EventId> = rows.into_iter().map(|(_, id)| EventId(id)).collect();
    assert_eq!(kept.len(), sequences.len(), "an event is there twice");
    let ledger = load.ledger();
    let lost: Vec<_> = ledger.done.difference(&kept).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    for ids in &ledger.asked {
        let there = ids.iter().filter(|id| kept.contains(id)).count();
        assert!(there == 0 || there == TOGETHER, "a publication is there by half: {ids:?}");
    }
}

async fn again(home: &Home, listen: &str) -> Running {
    let server = home.start(&["serve", "--data", &home.data(), "--listen", listen, "--json"]);
    server.ready().await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_was_acknowledged_outlives_any_kill() {
    let home = Home::new();
    let (mut server, origin) = home.serve_new("127.0.0.1:0").await;
    let listen = origin.trim_start_matches("http://").to_owned();
    let load = owner(&home, &origin).await;
    let moments = Chance::seeded(1);
    for _ in 0..KILLS {
        let publishing = Tasks::new();
        let before = load.ledger().done.len();
        for _ in 0..PUBLISHERS {
            publishing.spawn("publisher", load.clone().publish());
        }
        // Anywhere from the first answer to well into the load, and then somewhere within an answer.
        let after = before + usize::try_from(1 + moments.below(150)).expect("small");
        until("enough answers", async || {
            load.ledger().done.len() >= after || publishing.running().is_empty()
        })
        .await;
        Clock::system().sleep(moments.up_to(Duration::from_millis(4))).await;
        server.kill().await;
        eventually("the publishers noticed", async || publishing.running().is_empty().then_some(())).await;
        look(&home, &load);
        server = again(&home, &listen).await;
    }
    let ledger = load.ledger().done.len();
    assert!(ledger > KILLS * TOGETHER, "there was load: {ledger}");
    assert_eq!(server.stop().await, 0);
    look(&home, &load);
}
