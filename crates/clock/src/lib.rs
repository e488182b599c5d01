//! The one gate of time, randomness and tasks, so that determinism has one place.
//!
//! Production makes [`Clock::system`] and [`Chance::system`]; the simulation makes
//! [`Clock::starting_at`], which follows tokio's paused time, and [`Chance::seeded`]. Clippy forbids the
//! side doors everywhere else.

mod backoff;
mod chance;
mod tasks;

pub use backoff::Backoff;
pub use chance::Chance;
pub use tasks::Tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A moment of the monotonic clock: for intervals, never to show. It follows tokio's time, which a test
/// can pause.
pub type Moment = Instant;

/// Where the wall clock's time comes from.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    offset_ms: Arc<AtomicI64>,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    System,
    Following { start: Instant, start_ms: i64 },
}

impl Clock {
    /// The operating system's clock.
    pub fn system() -> Self {
        Self { source: Source::System, offset_ms: Arc::default() }
    }

    /// A clock that shows `start_ms` now and goes on with tokio's time, paused or not.
    pub fn starting_at(start_ms: i64) -> Self {
        Self { source: Source::Following { start: Instant::now(), start_ms }, offset_ms: Arc::default() }
    }

    /// The same time shown wrong by `offset_ms`: another machine's clock. Its offset is its own.
    pub fn skewed_by(&self, offset_ms: i64) -> Self {
        let before = self.offset_ms.load(Ordering::SeqCst);
        Self { source: self.source, offset_ms: Arc::new(AtomicI64::new(before + offset_ms)) }
    }

    /// Makes the wall clock of this clock and its clones jump; monotonic time goes on undisturbed.
    pub fn jump(&self, by_ms: i64) {
        self.offset_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Milliseconds since the Unix epoch, by the wall clock.
    #[expect(clippy::disallowed_methods, reason = "this is the gate that the ban points to")]
    pub fn now_ms(&self) -> i64 {
        let shown = match self.source {
            Source::System => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
            Source::Following { start, start_ms } => {
                start_ms + i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX)
            }
        };
        shown + self.offset_ms.load(Ordering::SeqCst)
    }

    /// The monotonic clock.
    pub fn monotonic(&self) -> Moment {
        Instant::now()
    }

    /// Waits for a duration of monotonic time.
    #[expect(clippy::disallowed_methods, reason = "this is the gate that the ban points to")]
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits until a moment of monotonic time.
    pub async fn sleep_until(&self, moment: Moment) {
        tokio::time::sleep_until(moment).await;
    }

    /// Waits for `future`, at most for a duration; `None` where the time ran out.
    pub async fn within<F: Future>(&self, duration: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(duration, future).await.ok()
    }
}

/// A duration of milliseconds; negative ones are zero.
pub fn ms(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_following_clock_shows_paused_time() {
        let clock = Clock::starting_at(1_000);
        let late = clock.skewed_by(-300);
        clock.sleep(ms(250)).await;
        assert_eq!((clock.now_ms(), late.now_ms()), (1_250, 950));
        late.jump(10_000);
        assert_eq!((clock.now_ms(), late.now_ms()), (1_250, 10_950));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_has_an_end() {
        let clock = Clock::starting_at(0);
        assert_eq!(clock.within(ms(5), std::future::pending::<()>()).await, None);
        assert_eq!(clock.within(ms(5), async { 7 }).await, Some(7));
    }
}
