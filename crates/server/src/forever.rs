//! Work that goes on for as long as the server does: where it panics it is begun again.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use teamlamp_clock::Clock;

/// The wait before it is begun again doubles from the first to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Runs what `begin` begins until that ends by itself. One that panics is told of in the log and begun
/// again, after a second at first and a minute at most; one that had gone on for a minute is a first one
/// again. Without this a fault of one moment would end, say, presence until the next start.
pub(crate) async fn forever<F>(name: &'static str, clock: Clock, begin: impl Fn() -> F + Send)
where
    F: Future<Output = ()> + Send,
{
    let mut wait = FIRST;
    loop {
        let begun = clock.monotonic();
        // It begins afresh from the tables: nothing half done is looked at again.
        if AssertUnwindSafe(begin()).catch_unwind().await.is_ok() {
            return;
        }
        if clock.monotonic() - begun >= LONGEST {
            wait = FIRST;
        }
        tracing::error!(
            name,
            again_in_s = wait.as_secs(),
            "a task of the server panicked and is begun again"
        );
        clock.sleep(wait).await;
        wait = (wait * 2).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test(start_paused = true)]
    async fn what_panics_goes_on_ever_more_slowly_and_what_ends_has_ended() {
        let clock = Clock::starting_at(0);
        let begun = Mutex::new(Vec::new());
        let begin = || async {
            let count = {
                let mut begun = begun.lock().unwrap();
                begun.push(clock.now_ms() / 1_000);
                begun.len()
            };
            if count == 9 {
                clock.sleep(Duration::from_secs(300)).await;
            }
            assert!(count > 10, "on purpose");
        };
        forever("a test", clock.clone(), begin).await;
        let begun = begun.into_inner().unwrap();
        let waits: Vec<_> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 301, 2]);
    }
}
