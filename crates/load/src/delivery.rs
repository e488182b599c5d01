//! How long an event takes from its publisher to each of 100 readers, at 100 events a second, against a
//! bare axum handler that broadcasts ready-made bytes.

use crate::http::{From, Kept, follow};
use crate::process::Measured;
use crate::team::Team;
use anyhow::Result;
use serde_json::json;
use std::time::Duration;
use teamlamp_clock::{Clock, Moment};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const PEOPLE: usize = 100;
const MARK: &str = "sent_us";

pub(crate) async fn run(seconds: u64) -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Measured::teamlamp(data.path()).await?;
    let team = Team::make(&server, data.path(), PEOPLE).await?;
    let path = format!("/v1/teams/{}/events", team.id);
    let ours = measure(&server, &team.people, &path, seconds, |sent| {
        json!({"events": [{"kind": "custom.cli.tick", "data": {MARK: sent}}]}).to_string()
    })
    .await?;
    let ours_cpu = server.cpu_ticks()?;
    let bare = Measured::bare().await?;
    let theirs =
        measure(&bare, &team.people, "/events", seconds, |sent| json!({MARK: sent}).to_string()).await?;
    println!("100 events a second to {PEOPLE} readers for {seconds} s, from publishing to each reader:");
    for (name, side, cpu) in [("teamlamp ", &ours, ours_cpu), ("bare axum", &theirs, bare.cpu_ticks()?)] {
        println!(
            "  {name} p50 {:>7.2} ms   p99 {:>7.2} ms   {} deliveries, {} ms of server CPU",
            at(side, 50),
            at(side, 99),
            side.len(),
            cpu * 10
        );
    }
    println!(
        "  ratio     p50 {:.2}   p99 {:.2}",
        at(&ours, 50) / at(&theirs, 50),
        at(&ours, 99) / at(&theirs, 99)
    );
    Ok(())
}

fn at(sorted_us: &[u64], percent: usize) -> f64 {
    sorted_us.get(sorted_us.len() * percent / 100).map_or(f64::NAN, |us| *us as f64 / 1000.0)
}

/// The delays of all deliveries, sorted, in microseconds.
async fn measure(
    server: &Measured,
    people: &[From],
    path: &str,
    seconds: u64,
    body: fn(u64) -> String,
) -> Result<Vec<u64>> {
    let clock = Clock::system();
    let begin = clock.monotonic();
    let mut readers = JoinSet::new();
    for person in people {
        readers.spawn(read(follow(server.address, person, path).await?, begin, clock.clone()));
    }
    // Snapshots and first checkpoints are no deliveries: they hold no mark.
    clock.sleep(Duration::from_secs(1)).await;
    let mut publishers = JoinSet::new();
    for (number, person) in people.iter().cloned().enumerate() {
        let (address, path, clock) = (server.address, path.to_owned(), clock.clone());
        publishers.spawn(async move {
            let mut kept = Kept::open(address, person).await?;
            let first = clock.monotonic() + Duration::from_millis(10 * number as u64);
            for second in 0..seconds {
                clock.sleep_until(first + Duration::from_secs(second)).await;
                let sent = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
                let status = kept.post(&path, &body(sent)).await?;
                anyhow::ensure!(status < 300, "publishing answered {status}");
            }
            Ok(())
        });
    }
    while let Some(done) = publishers.join_next().await {
        done??;
    }
    let mut delays = Vec::new();
    while let Some(done) = readers.join_next().await {
        if let Ok(own) = done {
            delays.extend(own);
        }
    }
    delays.sort_unstable();
    Ok(delays)
}

/// Reads a stream until nothing came for three seconds, noting the delay of each mark.
async fn read(mut stream: TcpStream, begin: Moment, clock: Clock) -> Vec<u64> {
    let needle = format!("\"{MARK}\":");
    let (mut delays, mut tail, mut buffer) = (Vec::new(), String::new(), vec![0; 1 << 16]);
    // The first wait covers the second before publishing begins.
    while let Some(Ok(read)) = clock.within(Duration::from_secs(3), stream.read(&mut buffer)).await {
        if read == 0 {
            break;
        }
        let now = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        tail.push_str(&String::from_utf8_lossy(&buffer[..read]));
        while let Some(found) = tail.find(&needle) {
            let digits = &tail[found + needle.len()..];
            let Some(end) = digits.find(|c: char| !c.is_ascii_digit()) else { break };
            if let Ok(sent) = digits[..end].parse::<u64>() {
                delays.push(now.saturating_sub(sent));
            }
            tail.drain(..found + needle.len() + end);
        }
        // What is left may hold the beginning of a mark, and no more than that is kept.
        if !tail.contains(&needle) {
            let keep = tail.len().saturating_sub(needle.len());
            let keep = (keep..=tail.len()).find(|&i| tail.is_char_boundary(i)).unwrap_or(tail.len());
            tail.drain(..keep);
        }
    }
    delays
}
