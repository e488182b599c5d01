//! Waiting for what a person would see, with an end.

use std::fmt::Display;
use std::time::Duration;
use teamlamp_clock::Clock;

/// How long anything may take on a busy machine.
pub(crate) const LONGEST: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(100);

/// Looks again and again until there is something.
///
/// # Panics
/// Where it did not come in time, with `what` it was.
pub(crate) async fn eventually<T>(what: impl Display, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let clock = Clock::system();
    let end = clock.monotonic() + LONGEST;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(clock.monotonic() < end, "this did not come within {LONGEST:?}: {what}");
        clock.sleep(LOOK).await;
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: impl Display, mut holds: impl AsyncFnMut() -> bool) {
    eventually(what, async || holds().await.then_some(())).await;
}
