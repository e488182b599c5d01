//! What grows with what is stored: each figure is the same work on a large store against a small one, both in
//! one run. The large stores are written by SQL, in the shape that the server's own writes give them.

use crate::http::{From, Kept, call};
use anyhow::{Context, Result};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use teamlamp_clock::Clock;
use teamlamp_server::Server;
use teamlamp_server::config::Config;
use teamlamp_server::maintenance::Upkeep;
use teamlamp_server::store::events;

/// How often each side is asked; the median counts.
const TIMES: usize = 200;

/// A server on a folder of its own, and its owner.
struct Site {
    server: Server,
    to: SocketAddr,
    owner: From,
    team: String,
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Site {
    async fn open(data: &Path) -> Result<Server> {
        Ok(Server::start(Config::new(data, SocketAddr::from(([127, 0, 0, 1], 0)))).await?)
    }

    async fn new(data: &Path) -> Result<Self> {
        let server = Self::open(data).await?;
        let to = server.local_addr().context("it listens")?;
        let link = server.owner_link().context("a new server has an owner's code")?;
        let mut owner = From { place: 1, token: String::new() };
        let body = json!({"code": link.code.to_string(), "name": "Owner", "team_name": "Growth"});
        let made = call(to, &owner, "POST", "/v1/invitations/accept", &body).await?;
        owner.token = text(&made, "/data/credential/token");
        Ok(Self { server, to, owner, team: text(&made, "/data/team/id") })
    }

    /// Ends the server, changes its database, and starts it again.
    async fn grown(self, data: &Path, change: impl FnOnce(&Connection, &str) -> Result<()>) -> Result<Self> {
        let Self { server, owner, team, .. } = self;
        server.shutdown().await;
        let db = Connection::open(data.join("teamlamp.db"))?;
        db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144")?;
        change(&db, &team)?;
        drop(db);
        let server = Self::open(data).await?;
        let to = server.local_addr().context("it listens")?;
        // What every start does once is no part of what is measured.
        while Upkeep::default().run(server.app()).await {}
        Ok(Self { server, to, owner, team })
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Measures two sides by turns, so that what else the machine does meets both.
async fn by_turns<A, B>(times: usize, mut small: A, mut large: B) -> Result<(Duration, Duration)>
where
    A: AsyncFnMut() -> Result<()>,
    B: AsyncFnMut() -> Result<()>,
{
    let clock = Clock::system();
    let (mut of_small, mut of_large) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let begun = clock.monotonic();
        small().await?;
        of_small.push(begun.elapsed());
        let begun = clock.monotonic();
        large().await?;
        of_large.push(begun.elapsed());
    }
    Ok((median(of_small), median(of_large)))
}

fn told(what: &str, (small, large): (Duration, Duration), goal: &str) {
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    println!("{what}: {small:.1?} and {large:.1?}, ratio {ratio:.2} ({goal})");
}

/// Inserts events into a team by SQL, all written at one moment; `of` sets the machine of some.
fn events_by_sql(db: &Connection, team: &str, count: i64, written_at: i64) -> Result<()> {
    db.execute_batch("BEGIN")?;
    db.execute(
        "INSERT INTO events
         SELECT ?1, t.last_sequence + n, 'evt_' || printf('%012d', n), ?3, 'custom.cli.mark', 'custom', 'r' || (n % 100),
           NULL, NULL, NULL, e.actor, e.actor_id, json_object('title', 'event ' || n, 'text', printf('%060d', n)), ?3
         FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT ?2) SELECT n FROM c)
         JOIN teams t ON t.id = ?1 JOIN events e ON e.team_id = ?1 AND e.sequence = 1",
        rusqlite::params![team, count, written_at],
    )?;
    db.execute(
        "UPDATE teams SET last_sequence = last_sequence + ?2 WHERE id = ?1",
        rusqlite::params![team, count],
    )?;
    db.execute(
        "INSERT OR REPLACE INTO event_resources (team_id, source_id, resource_kind, resource_id, sequence)
         SELECT team_id, '', resource_kind, resource_id, max(sequence) FROM events
         WHERE team_id = ?1 GROUP BY resource_kind, resource_id",
        [team],
    )?;
    db.execute_batch("COMMIT")?;
    Ok(())
}

/// Makes sessions known, as a connector does: else a heartbeat's answer would list each binding.
async fn register(site: &Site, machine: &From, count: usize) -> Result<()> {
    let sessions: Vec<Value> =
        (0..count).map(|n| json!({"harness": "codex", "native_id": format!("session-{n}")})).collect();
    for some in sessions.chunks(100) {
        let path = format!("/v1/teams/{}/sessions", site.team);
        call(site.to, machine, "POST", &path, &json!({ "sessions": some })).await?;
    }
    Ok(())
}

/// A heartbeat of 4,096 unchanged bindings against one of 10, and against parsing the same bodies.
async fn heartbeats(folder: &Path) -> Result<()> {
    let site = Site::new(&folder.join("heartbeats")).await?;
    let mut sides = Vec::new();
    for bindings in [10, 4_096] {
        let body = json!({"name": format!("machine-{bindings}"), "enrollment_key": format!("growth-key-{bindings:08}")});
        let path = format!("/v1/teams/{}/machines", site.team);
        let made = call(site.to, &site.owner, "POST", &path, &body).await?;
        let machine = text(&made, "/data/machine/id");
        let from = From { place: 1, token: text(&made, "/data/credential/token") };
        register(&site, &from, bindings).await?;
        let body = |sequence: usize| {
            let bindings: Vec<Value> = (0..bindings)
                .map(|n| {
                    json!({"id": format!("b{n}"), "machine_id": machine, "incarnation_id": "growth", "harness": "codex",
                           "native_session_id": format!("session-{n}"), "confirmed": true})
                })
                .collect();
            json!({"incarnation_id": "growth", "sequence": sequence, "bindings": bindings, "roots": [], "activity": []}).to_string()
        };
        let bodies: Vec<String> = (1..=50).map(body).collect();
        let path = format!("{path}/{machine}/heartbeat");
        sides.push((Kept::open(site.to, from).await?, path, bodies));
    }
    let clock = Clock::system();
    let mut took = Vec::new();
    for (kept, path, bodies) in &mut sides {
        let (mut beats, mut parses) = (Vec::new(), Vec::new());
        let rows = site.server.app().store.rows_written();
        for body in bodies.iter() {
            // Below what a machine may ask, so that no wait for the limit is measured.
            clock.sleep(Duration::from_millis(110)).await;
            let begun = clock.monotonic();
            anyhow::ensure!(kept.post(path, body).await? == 200, "a heartbeat was refused");
            beats.push(begun.elapsed());
            let begun = clock.monotonic();
            let parsed: teamlamp_wire::heartbeat::Heartbeat =
                teamlamp_wire::json::read(body.as_bytes()).map_err(anyhow::Error::msg)?;
            parses.push(begun.elapsed());
            std::hint::black_box(parsed);
        }
        let bytes = bodies.first().map_or(0, String::len);
        let rows = site.server.app().store.rows_written() - rows;
        took.push((median(beats), median(parses), bytes));
        println!(
            "  {bytes} bytes: a heartbeat {:.1?}, parsing its body alone {:.1?}; {rows} rows in {} heartbeats",
            took[took.len() - 1].0,
            took[took.len() - 1].1,
            bodies.len()
        );
    }
    let (small, large) = (took[0], took[1]);
    let bytes = large.2 as f64 / small.2 as f64;
    told(
        "an unchanged heartbeat of 10 and of 4,096 bindings",
        (small.0, large.0),
        &format!("bytes parsed: {bytes:.0} times"),
    );
    let rest = |side: (Duration, Duration, usize)| side.0.saturating_sub(side.1);
    told(
        "  the same without parsing",
        (rest(small), rest(large)),
        "what is left grows with the bytes on the socket alone",
    );
    site.server.shutdown().await;
    Ok(())
}

/// One page of events with 10^6 stored against 10^4.
async fn reads(folder: &Path, large: i64) -> Result<()> {
    let mut sites = Vec::new();
    for count in [10_000, large] {
        let data = folder.join(format!("reads-{count}"));
        let now = Clock::system().now_ms();
        let site = Site::new(&data).await?;
        sites.push(site.grown(&data, |db, team| events_by_sql(db, team, count, now)).await?);
    }
    let [few, many] = &sites[..] else { anyhow::bail!("two sides") };
    let page = async |site: &Site, count: i64| -> Result<()> {
        let team = site.team.as_str().into();
        let found = site.server.app().store.read(move |db| events::page(db, &team, count / 2, i64::MAX, 32));
        anyhow::ensure!(found.await?.len() == 32, "a whole page");
        Ok(())
    };
    let took =
        by_turns(TIMES * 5, async || page(few, 10_000).await, async || page(many, large).await).await?;
    told(&format!("a page of 32 events with 10^4 and with {large} stored"), took, "goal 1.3");
    for (what, query) in
        [("newest history page", "limit=50"), ("history of a machine that has none", "machine=mach_none")]
    {
        let ask = async |site: &Site| -> Result<()> {
            let path = format!("/v1/teams/{}/events/history?{query}", site.team);
            call(site.to, &site.owner, "GET", &path, &Value::Null).await.map(|_| ())
        };
        // Two requests each turn, within what a credential may ask.
        let clock = Clock::system();
        let pause = async || clock.sleep(Duration::from_millis(60)).await;
        let took = by_turns(
            TIMES,
            async || {
                pause().await;
                ask(few).await
            },
            async || {
                pause().await;
                ask(many).await
            },
        )
        .await?;
        let less = Duration::from_millis(60);
        told(
            &format!("{what}, over HTTP"),
            (took.0.saturating_sub(less), took.1.saturating_sub(less)),
            "goal 1.3",
        );
    }
    for site in sites {
        site.server.shutdown().await;
    }
    Ok(())
}

/// One run of maintenance on 10^7 rows against 10^4, with nothing and with one batch to remove.
async fn maintenance(folder: &Path, large: i64) -> Result<()> {
    let mut sites = Vec::new();
    for count in [10_000, large] {
        let data = folder.join(format!("maintenance-{count}"));
        let (now, share) = (Clock::system().now_ms(), count / 4);
        let site = Site::new(&data).await?;
        let grow = |db: &Connection, team: &str| -> Result<()> {
            events_by_sql(db, team, share, now)?;
            let rows =
                "(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT ?1) SELECT n FROM c)";
            db.execute_batch("BEGIN")?;
            let later = now + 3_600_000;
            for sql in [
                format!("INSERT INTO idempotency (team_id, principal_id, route, key, digest, status, body, expires_at)
                   SELECT '{team}', 'p', 'r', 'key-' || n, x'00', 200, '{{}}', {later} FROM {rows}"),
                format!("INSERT INTO audit (id, team_id, at, operation, outcome)
                   SELECT 'aud_' || n, '{team}', {now}, 'teams.read', 'done' FROM {rows}"),
                format!("INSERT INTO machine_presence_events
                   SELECT '{team}', n, {now}, 'mach_1', 'online', 'offline', 0 FROM {rows}"),
            ] {
                db.execute(&sql, [share])?;
            }
            db.execute("UPDATE teams SET presence_sequence = ?1", [share])?;
            db.execute_batch("COMMIT")?;
            Ok(())
        };
        sites.push(site.grown(&data, grow).await?);
    }
    let [few, many] = &sites[..] else { anyhow::bail!("two sides") };
    let run = async |site: &Site| -> Result<()> {
        Upkeep::default().run(site.server.app()).await;
        Ok(())
    };
    let took = by_turns(TIMES, async || run(few).await, async || run(many).await).await?;
    told(&format!("a run with nothing to remove of 10^4 and of {large} rows"), took, "goal 1.5");
    // A batch of each kind that is over is put at the front, and removed by the run that is measured.
    let due = async |site: &Site| -> Result<()> {
        let done = site.server.app().store.write(|tx| {
            tx.execute("UPDATE idempotency SET expires_at = 1 WHERE number IN (SELECT number FROM idempotency ORDER BY number LIMIT 400)", [])?;
            tx.execute("UPDATE audit SET at = 1 WHERE number IN (SELECT number FROM audit ORDER BY number LIMIT 400)", [])?;
            tx.execute("UPDATE events SET written_at = 1 WHERE sequence <= (SELECT pruned_through + 400 FROM teams)", [])?;
            tx.execute("UPDATE machine_presence_events SET at = 1 WHERE sequence <= (SELECT presence_pruned_through + 400 FROM teams)", [])?;
            Ok(())
        });
        Ok(done.await?)
    };
    let clock = Clock::system();
    let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        for (site, times) in [(few, &mut of_few), (many, &mut of_many)] {
            due(site).await?;
            let begun = clock.monotonic();
            run(site).await?;
            times.push(begun.elapsed());
        }
    }
    told("a run that removes 400 rows of each of four tables", (median(of_few), median(of_many)), "goal 1.5");
    for site in sites {
        site.server.shutdown().await;
    }
    Ok(())
}

/// All of it, in folders below `folder`, which are removed at the end.
pub(crate) async fn run(folder: Option<PathBuf>, events: i64, rows: i64) -> Result<()> {
    let scratch = match folder {
        Some(folder) => {
            std::fs::create_dir_all(&folder)?;
            tempfile::tempdir_in(folder)?
        }
        None => tempfile::tempdir()?,
    };
    heartbeats(scratch.path()).await?;
    reads(scratch.path(), events).await?;
    maintenance(scratch.path(), rows).await?;
    Ok(())
}
