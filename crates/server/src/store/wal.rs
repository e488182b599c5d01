//! The write-ahead log: copied into the database between two batches, after their answers, each time it
//! has grown by a step. So no request copies it on its way, and no reader lets it grow without end.

use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much is new in the log before it is copied.
const STEP_BYTES: u64 = 4 << 20;
/// A log of this size has readers that always come one before the other goes: the writer waits for those
/// that read it, so that it begins at its front again.
const LONG_BYTES: u64 = 16 << 20;
/// How long the writer waits for them.
const READERS_MS: u64 = 250;
/// How long any other statement waits for another program, as the connection was opened.
const BUSY_MS: u64 = 5_000;

/// Where the log stands.
pub(super) struct Wal {
    /// How many pages it holds, as SQLite says after each commit. The file does not say: once copied it
    /// is written from its front again, and keeps its size.
    pages: Arc<AtomicU64>,
    /// How many it held when it was copied last.
    copied: u64,
    page_bytes: u64,
}

impl Wal {
    /// Watches the log of a connection that writes.
    pub(super) fn of(connection: &mut Connection) -> rusqlite::Result<Self> {
        let page_bytes = connection.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0))?;
        let pages = Arc::new(AtomicU64::new(0));
        let told = pages.clone();
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            told.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, copied: 0, page_bytes: page_bytes.into() })
    }

    /// Copies the log where enough of it is new; whether it did. A reader that still needs it leaves some
    /// of it; then it is tried again when it has grown by another step.
    pub(super) fn tend(&mut self, connection: &Connection) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.copied {
            // It was begun again.
            self.copied = 0;
        }
        if (pages - self.copied) * self.page_bytes < STEP_BYTES {
            return false;
        }
        self.copied = pages;
        let copied = if pages * self.page_bytes < LONG_BYTES {
            connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)")
        } else {
            restart(connection)
        };
        if let Err(fault) = copied {
            tracing::warn!(%fault, "the log could not be copied into the database");
        }
        true
    }
}

/// Copies the log and waits a moment for those that read it, so that the next change begins it again.
fn restart(connection: &Connection) -> rusqlite::Result<()> {
    let wait = |wait_ms: u64| connection.busy_timeout(Duration::from_millis(wait_ms));
    wait(READERS_MS)?;
    let copied = connection.execute_batch("PRAGMA wal_checkpoint(RESTART)");
    // Whatever came of it, the next change waits for another program as long as any.
    wait(BUSY_MS)?;
    copied
}
