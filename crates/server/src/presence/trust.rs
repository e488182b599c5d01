//! From when on silence of a machine means something. A server that was down, asleep, whose clock was
//! set, or that could not write, has not listened meanwhile: then nobody's silence counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_clock::{Clock, Moment};
use teamlamp_wire::Millis;
use teamlamp_wire::id::MachineId;
use teamlamp_wire::limits::ONLINE_MS;

/// How far the wall clock may leave the monotonic one between two looks before it was set or the
/// computer slept.
const JUMP_MS: i64 = 5_000;

/// Since when this server has listened without a gap. Clones are the same.
#[derive(Clone, Debug)]
pub struct Trust {
    seen: Arc<Mutex<Seen>>,
    /// When machines were last heard whose report could not be written.
    unwritten: Arc<Mutex<BTreeMap<MachineId, Millis>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    since: Millis,
    wall: Millis,
    monotonic: Moment,
}

impl Trust {
    /// A server that begins to listen now.
    pub fn new(clock: &Clock) -> Self {
        let now = clock.now_ms();
        let seen = Seen { since: now, wall: now, monotonic: clock.monotonic() };
        Self { seen: Arc::new(Mutex::new(seen)), unwritten: Arc::default() }
    }

    /// Since when the server has listened, by its wall clock.
    pub fn since(&self, clock: &Clock) -> Millis {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = look(*seen, clock.now_ms(), clock.monotonic());
        seen.since
    }

    /// The server could not do its work until now.
    pub fn begin_again(&self, clock: &Clock) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).since = clock.now_ms();
    }

    /// A machine's report came and the store failed to take it: it is no silence of that machine's.
    pub fn heard(&self, clock: &Clock, machine: &MachineId) {
        let now = clock.now_ms();
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        // Older ones keep nobody any more, so what is remembered is bounded by who reports.
        unwritten.retain(|_, at| (now - *at).abs() < ONLINE_MS);
        unwritten.insert(machine.clone(), now);
    }

    /// Since when the silence of a machine counts.
    pub fn since_of(&self, clock: &Clock, machine: &MachineId) -> Millis {
        let since = self.since(clock);
        let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        unwritten.get(machine).map_or(since, |at| since.max((*at).min(clock.now_ms())))
    }
}

fn look(before: Seen, wall: Millis, monotonic: Moment) -> Seen {
    let passed = i64::try_from(monotonic.duration_since(before.monotonic).as_millis()).unwrap_or(i64::MAX);
    let jumped = (wall - before.wall).saturating_sub(passed).saturating_abs() > JUMP_MS;
    let since = if jumped { wall } else { before.since };
    Seen { since, wall, monotonic }
}

/// When a machine was last heard from, for a decision: a time that has not come yet was written before
/// the clock was set back, and counts from when that was noticed.
pub fn heard_at(last_seen_at: Option<Millis>, since: Millis, now: Millis) -> Option<Millis> {
    last_seen_at.map(|at| if at > now { since.min(now) } else { at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use teamlamp_clock::ms;

    #[tokio::test(start_paused = true)]
    async fn sleep_and_a_set_clock_begin_again_and_time_that_passes_does_not() {
        let clock = Clock::starting_at(1_000_000);
        let trust = Trust::new(&clock);
        clock.sleep(ms(3_600_000)).await;
        assert_eq!(trust.since(&clock), 1_000_000, "an hour that both clocks saw is no gap");
        clock.jump(600_000);
        assert_eq!(trust.since(&clock), 5_200_000, "asleep: the wall clock went on alone");
        clock.jump(-7_200_000);
        assert_eq!(trust.since(&clock), -2_000_000, "set back");
        clock.jump(4_000);
        assert_eq!(trust.since(&clock), -2_000_000, "a small correction is none");
        clock.sleep(ms(10)).await;
        trust.begin_again(&clock);
        assert_eq!(trust.since(&clock), -1_995_990);
    }

    #[test]
    fn a_time_that_has_not_come_yet_counts_from_the_clock_change() {
        assert_eq!(heard_at(Some(5_000), 1_000, 2_000), Some(1_000));
        assert_eq!(heard_at(Some(1_500), 1_000, 2_000), Some(1_500));
        assert_eq!(heard_at(None, 1_000, 2_000), None);
    }
}
