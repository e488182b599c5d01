//! `teamlamp-load`: benchmarks that print ratios. Both sides of each are measured in one run, since
//! absolute times drift with the machine; nothing here asserts a time.

mod bare;
mod delivery;
mod growth;
mod heartbeat;
mod http;
mod memory;
mod process;
mod team;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "The benchmarks of Teamlamp: each prints its figures and how they compare")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Rows that an unchanged heartbeat of 50 bindings writes, and heartbeats acknowledged a second.
    Heartbeat,
    /// Memory of idle streams, against a bare axum handler's.
    Streams {
        /// How many are open at once.
        #[arg(long, default_value_t = 1000)]
        count: usize,
    },
    /// Delivery of 100 events a second to 100 readers: p50 and p99, against a bare axum handler's.
    Delivery {
        /// For how long each side runs.
        #[arg(long, default_value_t = 20)]
        seconds: u64,
    },
    /// What grows with what is stored: heartbeats, reads, maintenance, on large stores against small ones.
    Growth {
        /// Where the stores are made (some gigabytes); removed at the end.
        #[arg(long)]
        folder: Option<std::path::PathBuf>,
        /// Events of the large store that is read.
        #[arg(long, default_value_t = 1_000_000)]
        events: i64,
        /// Rows of the large store that is maintained.
        #[arg(long, default_value_t = 10_000_000)]
        rows: i64,
    },
    /// The server that is measured, in a process of its own.
    #[command(hide = true)]
    Serve {
        /// Its data folder.
        data: std::path::PathBuf,
    },
    /// The bare handler that it is compared with, in a process of its own.
    #[command(hide = true)]
    Bare,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().what {
        What::Heartbeat => heartbeat::run().await,
        What::Streams { count } => memory::run(count).await,
        What::Delivery { seconds } => delivery::run(seconds).await,
        What::Growth { folder, events, rows } => growth::run(folder, events, rows).await,
        What::Serve { data } => process::serve(data).await,
        What::Bare => bare::serve().await,
    }
}
