//! Sleep and jumps of the wall clock, noticed by comparing it with the monotonic one: after either, what
//! seems connected may long be dead, and is dialled again rather than waited for.

use std::time::Duration;
use teamlamp_clock::{Clock, Moment};
use teamlamp_wire::Millis;

/// How often the clocks are compared: within two of these a jump is noticed, and no timer is shorter.
const EVERY: Duration = Duration::from_secs(1);
/// What counts as a jump; less is a late timer or a clock that is being steered.
const JUMP_MS: i64 = 2_000;

/// The two clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: Millis,
    monotonic: Moment,
}

/// How far the wall clock jumped between two readings that should be `EVERY` apart; none where it did
/// not. Where the monotonic clock counts sleep (Windows), a timer that is far too late says the same.
fn jump(before: Reading, after: Reading) -> Option<i64> {
    let monotonic = i64::try_from((after.monotonic - before.monotonic).as_millis()).unwrap_or(i64::MAX);
    let wall = after.wall.saturating_sub(before.wall);
    let apart = wall.saturating_sub(monotonic);
    let late = monotonic - i64::try_from(EVERY.as_millis()).unwrap_or(0);
    if apart.abs() >= JUMP_MS { Some(apart) } else { (late >= 5 * JUMP_MS).then_some(late) }
}

/// Calls `jumped` after each jump, for as long as it is polled.
pub(crate) async fn watch(clock: &Clock, jumped: impl Fn(i64)) {
    let read = || Reading { wall: clock.now_ms(), monotonic: clock.monotonic() };
    let mut before = read();
    loop {
        clock.sleep(EVERY).await;
        let after = read();
        if let Some(by_ms) = jump(before, after) {
            tracing::info!(by_ms, "the clock jumped: this computer slept, or its time was set");
            jumped(by_ms);
        }
        before = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[tokio::test(start_paused = true)]
    async fn a_jump_is_noticed_within_two_seconds_and_told_once() {
        let clock = Clock::starting_at(1_000_000);
        let jumps = RefCell::new(Vec::new());
        let day = async {
            clock.sleep(Duration::from_secs(60)).await;
            clock.jump(3_600_000);
            clock.sleep(Duration::from_secs(2)).await;
            assert_eq!(*jumps.borrow(), [3_600_000]);
            clock.jump(-5_000);
            clock.sleep(Duration::from_secs(2)).await;
            clock.jump(1_500);
            clock.sleep(Duration::from_secs(60)).await;
        };
        tokio::select! {
            biased;
            () = day => {}
            () = watch(&clock, |by| jumps.borrow_mut().push(by)) => {}
        }
        assert_eq!(*jumps.borrow(), [3_600_000, -5_000], "an hour of sleep, a clock set back, no small step");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_that_the_monotonic_clock_counts_is_noticed_too() {
        let now = Moment::now();
        let before = Reading { wall: 0, monotonic: now };
        let after = Reading { wall: 61_000, monotonic: now + Duration::from_secs(61) };
        assert_eq!(jump(before, after), Some(60_000));
        let soon = Reading { wall: 1_004, monotonic: now + Duration::from_secs(1) };
        assert_eq!(jump(before, soon), None);
    }
}
