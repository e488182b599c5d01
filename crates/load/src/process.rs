//! The measured servers run in processes of their own, so that memory and CPU are theirs alone.

use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use teamlamp_server::Server;
use teamlamp_server::config::Config;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A server in a process of its own; it ends with this value.
#[derive(Debug)]
pub(crate) struct Measured {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Measured {
    /// The server of Teamlamp with its data in `data`.
    pub(crate) async fn teamlamp(data: &Path) -> Result<Self> {
        Self::start(&["serve", &data.to_string_lossy()]).await
    }

    /// The bare handler.
    pub(crate) async fn bare() -> Result<Self> {
        Self::start(&["bare"]).await
    }

    async fn start(arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let out = child.stdout.take().context("the child has an output")?;
        let Some(line) = BufReader::new(out).lines().next_line().await? else {
            bail!("the server did not start")
        };
        Ok(Self { child, address: line.trim().parse()? })
    }

    /// Proportional set size in KiB: what the process costs, shared pages counted by share.
    pub(crate) fn memory_kib(&self) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid()?))?;
        let line = text.lines().find(|l| l.starts_with("Pss:")).context("smaps_rollup has a Pss line")?;
        Ok(line.split_whitespace().nth(1).context("a number")?.parse()?)
    }

    /// CPU time so far, in clock ticks (a hundredth of a second).
    pub(crate) fn cpu_ticks(&self) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?))?;
        let after = text.rsplit_once(')').context("a stat line")?.1;
        let fields: Vec<&str> = after.split_whitespace().collect();
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    }

    fn pid(&self) -> Result<u32> {
        self.child.id().context("the server ended")
    }
}

/// Runs the server of Teamlamp until it is killed; its first line says where it listens.
pub(crate) async fn serve(data: PathBuf) -> Result<()> {
    let server = Server::start(Config::new(data, SocketAddr::from(([127, 0, 0, 1], 0)))).await?;
    println!("{}", server.local_addr().context("it listens")?);
    std::future::pending().await
}
