//! What the writer did since its start, in numbers.

use crate::metrics::{Counter, Histogram};
use std::time::Duration;

/// Bounds of the histogram of commits, in seconds.
const SECONDS: &[f64] = &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Bounds of the histogram of changes in one commit.
const CHANGES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The numbers of a writer.
#[derive(Debug)]
pub struct Written {
    /// Transactions that were committed.
    pub commits: Counter,
    /// Transactions that could not be.
    pub failures: Counter,
    /// How often the write-ahead log was copied into the database.
    pub checkpoints: Counter,
    /// Rows inserted, changed or deleted.
    pub rows: Counter,
    /// Events appended.
    pub events: Counter,
    /// Changes that one transaction carried.
    pub batch: Histogram,
    /// Seconds that a commit took, with its one fsync.
    pub seconds: Histogram,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            commits: Counter::default(),
            failures: Counter::default(),
            checkpoints: Counter::default(),
            rows: Counter::default(),
            events: Counter::default(),
            batch: Histogram::new(CHANGES),
            seconds: Histogram::new(SECONDS),
        }
    }
}

impl Written {
    #[expect(clippy::cast_precision_loss, reason = "a batch is short")]
    pub(super) fn committed(&self, changes: usize, rows: u64, events: u64, took: Duration) {
        self.commits.add(1);
        self.rows.add(rows);
        self.events.add(events);
        self.batch.observe(changes as f64);
        self.seconds.observe(took.as_secs_f64());
    }
}
