//! What an idle stream costs in memory, against a bare axum handler's.

use crate::http::{From, follow};
use crate::process::Measured;
use crate::team::Team;
use anyhow::Result;
use std::time::Duration;
use teamlamp_clock::Clock;

const STREAMS_PER_PERSON: usize = 10;

pub(crate) async fn run(count: usize) -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Measured::teamlamp(data.path()).await?;
    let team = Team::make(&server, data.path(), count.div_ceil(STREAMS_PER_PERSON)).await?;
    let readers: Vec<&From> =
        team.people.iter().flat_map(|p| std::iter::repeat_n(p, STREAMS_PER_PERSON)).take(count).collect();
    let ours = measure(&server, &readers, &format!("/v1/teams/{}/events", team.id)).await?;
    let bare = Measured::bare().await?;
    let theirs = measure(&bare, &readers, "/events").await?;
    println!("idle streams, {count} open at once, memory (PSS) of each in the server's process:");
    println!("  teamlamp  {ours:.1} KiB");
    println!("  bare axum {theirs:.1} KiB");
    println!("  ratio     {:.2}", ours / theirs);
    Ok(())
}

async fn measure(server: &Measured, readers: &[&From], path: &str) -> Result<f64> {
    let clock = Clock::system();
    let before = server.memory_kib()?;
    let mut open = Vec::with_capacity(readers.len());
    for reader in readers {
        open.push(follow(server.address, reader, path).await?);
    }
    // The snapshots are sent by now; a moment lets the allocator return what they needed.
    clock.sleep(Duration::from_secs(3)).await;
    let after = server.memory_kib()?;
    Ok(after.saturating_sub(before) as f64 / open.len() as f64)
}
