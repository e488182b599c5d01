//! The server is killed at random moments under load, again and again. Whatever it acknowledged is in its
//! database, once, and the database is sound each time.

use crate::home::{Home, Running};
use crate::wait::{eventually, until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use teamlamp_client::{Client, Http, Trust};
use teamlamp_clock::{Chance, Clock, Tasks};
use teamlamp_wire::event::{Publish, PublishEvent};
use teamlamp_wire::heartbeat::Heartbeat;
use teamlamp_wire::id::{EventId, MachineId, TeamId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How often it is killed, unless `TEAMLAMP_CRASH_KILLS` says.
const KILLS: usize = 25;
/// Who publishes at once, in each of two ways.
const PUBLISHERS: usize = 3;
/// Events of one publication: all or none of them are there.
const TOGETHER: usize = 3;

/// What was asked for, and what was acknowledged.
#[derive(Default)]
struct Ledger {
    asked: Vec<Vec<EventId>>,
    done: BTreeSet<EventId>,
    /// Marks of events that have no id of their own: only their request's key keeps them from being two.
    keyed: BTreeSet<String>,
    /// Those whose answer did not come: asked again once the server is back.
    unanswered: Vec<String>,
    /// The last heartbeat that was answered.
    beat: u64,
}

#[derive(Clone)]
struct Load {
    client: Client,
    /// The home's machine, as itself.
    machine: (Client, MachineId),
    address: String,
    token: String,
    team: TeamId,
    chance: Chance,
    ledger: Arc<Mutex<Ledger>>,
}

impl Load {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One event under an idempotency key, by hand: a client would ask again by itself. Whether it was
    /// acknowledged.
    async fn keyed(&self, mark: &str) -> std::io::Result<bool> {
        let event =
            json!({ "events": [{ "kind": "custom.cli.keyed", "data": { "mark": mark } }] }).to_string();
        let request = format!(
            "POST /v1/teams/{}/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nidempotency-key: {mark}\r\n\
             content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{event}",
            self.team,
            self.address,
            self.token,
            event.len()
        );
        let mut socket = TcpStream::connect(&self.address).await?;
        socket.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        Ok(answer.starts_with("HTTP/1.1 201"))
    }

    /// Publishes under keys until the server is gone.
    async fn publish_keyed(self) {
        loop {
            let mark = format!("{:032x}", self.chance.bits());
            match self.keyed(&mark).await {
                Ok(true) => _ = self.ledger().keyed.insert(mark),
                // Too often, or the end.
                Ok(false) | Err(_) => return self.ledger().unanswered.push(mark),
            }
        }
    }

    /// Beats until the server is gone.
    async fn beat(self) {
        let (client, machine) = &self.machine;
        loop {
            let sequence = self.ledger().beat + 1;
            let (bindings, roots) = (Vec::new(), Vec::new());
            let incarnation_id = "crash-run".to_owned();
            let beat =
                Heartbeat { incarnation_id, sequence, bindings, roots, host_key_id: None, activity: None };
            match client.heartbeat(&self.team, machine, &beat).await {
                Ok(_) => self.ledger().beat = sequence,
                Err(_) => return,
            }
        }
    }

    /// Asks again what was not answered: the same keys, the same events.
    async fn ask_again(&self) {
        let unanswered = std::mem::take(&mut self.ledger().unanswered);
        for mark in unanswered {
            assert!(self.keyed(&mark).await.expect("it answers"), "{mark}");
            self.ledger().keyed.insert(mark);
        }
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
    let secret = |kind: &str| {
        let found = all.iter().find(|(account, _)| account.ends_with(kind)).expect("a sign-in");
        found.1.as_str().expect("a token").to_owned()
    };
    let token = secret("/user");
    let chance = Chance::system();
    let http = Http::to_server(origin, &Trust::default()).expect("an address of this computer");
    let client = Client::new(Arc::new(http), Clock::system(), chance.clone(), "crash test")
        .with_token(token.clone().into());
    let team = client.me().await.expect("it answers").memberships[0].team.id.clone();
    let machine = client.machines(&team).await.expect("it answers")[0].id.clone();
    let machine = (client.with_token(secret("/machine").into()), machine);
    let address = origin.trim_start_matches("http://").to_owned();
    Load { client, machine, address, token, team, chance, ledger: Arc::default() }
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
    let marks = "SELECT json_extract(data, '$.mark'), count(*) FROM events WHERE kind = 'custom.cli.keyed' GROUP BY 1";
    let mut marks = db.prepare(marks).expect("a table");
    let marks = marks.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
    let marks: BTreeMap<String, i64> = marks.expect("rows").map(|row| row.expect("a row")).collect();
    let beat: i64 = db
        .query_row("SELECT sequence FROM machines WHERE id = ?1", [load.machine.1.as_str()], |row| row.get(0))
        .expect("the machine");
    let ledger = load.ledger();
    assert!(marks.values().all(|count| *count == 1), "a key's event is there twice: {marks:?}");
    let lost: Vec<_> = ledger.keyed.iter().filter(|mark| !marks.contains_key(*mark)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert!(beat >= ledger.beat as i64, "heartbeat {} was answered, {beat} is there", ledger.beat);
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
    let kills =
        std::env::var("TEAMLAMP_CRASH_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(KILLS);
    for _ in 0..kills {
        let publishing = Tasks::new();
        let before = load.ledger().done.len();
        for _ in 0..PUBLISHERS {
            publishing.spawn("publisher", load.clone().publish());
            publishing.spawn("keyed publisher", load.clone().publish_keyed());
        }
        publishing.spawn("machine", load.clone().beat());
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
        load.ask_again().await;
    }
    let (done, keyed, beats) = {
        let ledger = load.ledger();
        (ledger.done.len(), ledger.keyed.len(), ledger.beat)
    };
    println!("{kills} kills: {done} events by id, {keyed} by key, {beats} heartbeats acknowledged");
    assert!(
        done > kills * TOGETHER && keyed > kills && beats > 0,
        "there was load: {done}, {keyed}, {beats}"
    );
    assert_eq!(server.stop().await, 0);
    look(&home, &load);
}
