//! Waits between tries: doubled, capped, and only then jittered, so that nobody converges on the cap.

use crate::Chance;
use std::time::Duration;

/// The waits of one thing that is tried again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    tries: u32,
}

impl Backoff {
    /// Waits that begin at `first_ms` and double up to `longest_ms`.
    pub fn new((first_ms, longest_ms): (i64, i64)) -> Self {
        Self { first: crate::ms(first_ms), longest: crate::ms(longest_ms), tries: 0 }
    }

    /// The longest that the next wait can be.
    pub fn cap(&self) -> Duration {
        self.first.saturating_mul(2u32.saturating_pow(self.tries)).min(self.longest)
    }

    /// The next wait, with full jitter after the cap, and counts the try.
    pub fn next(&mut self, chance: &Chance) -> Duration {
        let cap = self.cap();
        self.tries = self.tries.saturating_add(1);
        chance.up_to(cap)
    }

    /// The thing worked: the next wait is a first one.
    pub fn reset(&mut self) {
        self.tries = 0;
    }

    /// How many waits there were since it last worked.
    pub fn tries(&self) -> u32 {
        self.tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_cap_and_begin_again_after_success() {
        let chance = Chance::seeded(1);
        let mut backoff = Backoff::new((250, 5_000));
        let caps: Vec<_> = (0..7)
            .map(|_| {
                let cap = backoff.cap();
                assert!(backoff.next(&chance) <= cap);
                cap.as_millis()
            })
            .collect();
        assert_eq!(caps, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
        backoff.reset();
        assert_eq!(backoff.cap().as_millis(), 250);
    }

    #[test]
    fn many_tries_overflow_nothing() {
        let mut backoff = Backoff::new((1_000, 30_000));
        for _ in 0..200 {
            backoff.next(&Chance::seeded(2));
        }
        assert_eq!(backoff.cap().as_millis(), 30_000);
    }
}
