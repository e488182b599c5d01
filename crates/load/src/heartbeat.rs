//! What an unchanged heartbeat costs: the rows it writes, how many are acknowledged a second, and how many
//! commits they share.

use crate::http::{From, Kept, call};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use teamlamp_clock::Clock;
use teamlamp_server::Server;
use teamlamp_server::config::Config;
use tokio::task::JoinSet;

const BINDINGS: usize = 50;
const MACHINES: usize = 32;
const SECONDS: u64 = 5;

pub(crate) async fn run() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(Config::new(data.path(), SocketAddr::from(([127, 0, 0, 1], 0)))).await?;
    let to = server.local_addr().context("it listens")?;
    let machines = enroll(&server, to).await?;
    let store = &server.app().store;

    let (path, machine, from) = &machines[0];
    let mut kept = Kept::open(to, from.clone()).await?;
    for sequence in 1..=2 {
        kept.post(path, &report(machine, sequence)).await?;
    }
    let before = store.rows_written();
    kept.post(path, &report(machine, 3)).await?;
    println!("an unchanged heartbeat of {BINDINGS} bindings writes {} rows", store.rows_written() - before);

    let (commits, clock) = (store.commits(), Clock::system());
    let begin = clock.monotonic();
    let mut beating = JoinSet::new();
    for (path, machine, from) in machines {
        let clock = clock.clone();
        beating.spawn(async move {
            let mut kept = Kept::open(to, from).await?;
            let mut done = 0u64;
            // A machine may ask 120 times at once and ten times a second: this stays below.
            for sequence in 10..(10 + SECONDS * 20) {
                let due = begin + Duration::from_millis((sequence - 10) * 50);
                clock.sleep_until(due).await;
                done += u64::from(kept.post(&path, &report(&machine, sequence)).await? == 200);
            }
            anyhow::Ok(done)
        });
    }
    let mut acknowledged = 0;
    while let Some(done) = beating.join_next().await {
        acknowledged += done??;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let commits = store.commits() - commits;
    println!(
        "{MACHINES} machines: {:.0} heartbeats a second acknowledged, {:.3} commits each",
        acknowledged as f64 / seconds,
        commits as f64 / acknowledged as f64
    );
    server.shutdown().await;
    Ok(())
}

async fn enroll(server: &Server, to: SocketAddr) -> Result<Vec<(String, Value, From)>> {
    let link = server.owner_link().context("a new server has an owner's code")?;
    let mut owner = From { place: 1, token: String::new() };
    let body = json!({"code": link.code.to_string(), "name": "Owner", "team_name": "Load"});
    let made = call(to, &owner, "POST", "/v1/invitations/accept", &body).await?;
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    owner.token = text(&made, "/data/credential/token");
    let team = text(&made, "/data/team/id");
    let mut machines = Vec::new();
    for number in 0..MACHINES {
        let body = json!({"name": format!("machine-{number}"), "enrollment_key": format!("benchmark-key-{number:03}")});
        let made = call(to, &owner, "POST", &format!("/v1/teams/{team}/machines"), &body).await?;
        let machine = text(&made, "/data/machine/id");
        let from = From { place: 1, token: text(&made, "/data/credential/token") };
        let path = format!("/v1/teams/{team}/machines/{machine}/heartbeat");
        machines.push((path, json!(machine), from));
    }
    Ok(machines)
}

fn report(machine: &Value, sequence: u64) -> String {
    let bindings: Vec<Value> = (0..BINDINGS)
        .map(|number| {
            json!({"id": format!("b{number}"), "machine_id": machine, "incarnation_id": "load",
                   "harness": "codex", "native_session_id": format!("session-{number}"), "confirmed": true})
        })
        .collect();
    let activity: Vec<Value> = (0..BINDINGS)
        .map(|number| json!({"harness": "codex", "native_id": format!("session-{number}"), "turn": "working", "since": 1}))
        .collect();
    json!({"incarnation_id": "load", "sequence": sequence, "bindings": bindings, "roots": [], "activity": activity}).to_string()
}
