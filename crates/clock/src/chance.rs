//! Randomness from outside: the operating system's, or a seed's.

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, RngExt, SeedableRng, TryRng};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where ids, tokens and jitter come from.
#[derive(Clone)]
pub struct Chance(Source);

#[derive(Clone)]
enum Source {
    System,
    Seeded(Arc<Mutex<StdRng>>),
}

impl std::fmt::Debug for Chance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Chance::system",
            Source::Seeded(_) => "Chance::seeded",
        })
    }
}

impl Chance {
    /// The operating system's randomness, fit for tokens.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// The same numbers for the same seed: tests and simulation only.
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    /// A chance of its own that follows from this one: for a part that must not disturb another's.
    pub fn fork(&self) -> Self {
        match &self.0 {
            Source::System => Self::system(),
            Source::Seeded(_) => Self::seeded(u64::from_le_bytes(self.bytes())),
        }
    }

    /// Random bytes.
    ///
    /// # Panics
    /// Where the operating system gives none: nothing that needs a secret may go on then.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut out = [0; N];
        match &self.0 {
            Source::System => {
                SysRng.try_fill_bytes(&mut out).expect("the operating system gives no randomness");
            }
            Source::Seeded(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut out),
        }
        out
    }

    /// 128 random bits: what an id is made of.
    pub fn bits(&self) -> u128 {
        u128::from_le_bytes(self.bytes())
    }

    /// A number below `bound`, which is at least 1, all alike.
    pub fn below(&self, bound: u64) -> u64 {
        let bound = bound.max(1);
        match &self.0 {
            Source::System => {
                // Rejects the few values above the last whole multiple, so that none is favoured.
                let zone = u64::MAX - (u64::MAX % bound);
                loop {
                    let value = u64::from_le_bytes(self.bytes());
                    if value < zone {
                        return value % bound;
                    }
                }
            }
            Source::Seeded(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..bound),
        }
    }

    /// True `percent` times of a hundred.
    pub fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A duration from zero to `most`, all alike: full jitter.
    pub fn up_to(&self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(self.below(micros + 1))
    }

    /// `duration`, at most `percent` longer or shorter.
    pub fn around(&self, duration: Duration, percent: u32) -> Duration {
        let spread = duration * percent / 100;
        duration - spread + self.up_to(spread * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_forks_go_their_own_way() {
        let (a, b) = (Chance::seeded(7), Chance::seeded(7));
        let (fork_a, fork_b) = (a.fork(), b.fork());
        assert_eq!(a.bits(), b.bits());
        assert_eq!(fork_a.bits(), fork_b.bits());
        assert_ne!(a.bits(), Chance::seeded(8).bits());
    }

    #[test]
    fn jitter_stays_in_its_bounds() {
        for chance in [Chance::system(), Chance::seeded(1)] {
            for _ in 0..1000 {
                assert!(chance.up_to(Duration::from_secs(5)) <= Duration::from_secs(5));
                let around = chance.around(Duration::from_secs(15), 10);
                assert!((13_500..=16_500).contains(&around.as_millis()), "{around:?}");
                assert!(chance.below(3) < 3);
            }
            assert_eq!(chance.below(0), 0);
        }
    }
}
