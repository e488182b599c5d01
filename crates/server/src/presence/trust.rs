//! From when on silence of a machine means something. A server that was down, asleep, whose clock was
//! set, or that could not write, has not listened meanwhile: then nobody's silence counts.

use crate::app::App;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use teamlamp_clock::{Clock, Moment};
use teamlamp_wire::Millis;
use teamlamp_wire::id::MachineId;
use teamlamp_wire::limits::ONLINE_MS;

/// How far the wall clock may leave the monotonic one between two looks before it was set or the
/// computer slept.
const JUMP_MS: i64 = 5_000;
/// How often the server notes that it runs.
const TICK: Duration = Duration::from_secs(1);
/// How late that may be before the process, or the whole computer with both its clocks, stood still: what
/// came meanwhile was not read yet. Much less than the 45 s of silence, of which a report that is due
/// leaves some 28.
const LATE: Duration = Duration::from_secs(10);

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
    /// When the last tick was.
    ticked: Moment,
}

impl Trust {
    /// A server that begins to listen now.
    pub fn new(clock: &Clock) -> Self {
        let now = clock.now_ms();
        let monotonic = clock.monotonic();
        let seen = Seen { since: now, wall: now, monotonic, ticked: monotonic };
        Self { seen: Arc::new(Mutex::new(seen)), unwritten: Arc::default() }
    }

    /// Since when the server has listened, by its wall clock.
    pub fn since(&self, clock: &Clock) -> Millis {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = look(*seen, clock.now_ms(), clock.monotonic());
        seen.since
    }

    /// Notes that the server runs.
    fn tick(&self, clock: &Clock) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = look(*seen, clock.now_ms(), clock.monotonic());
        seen.ticked = seen.monotonic;
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

/// Notes each second that the server runs.
pub async fn watch(app: App) {
    loop {
        app.clock.sleep(TICK).await;
        app.trust.tick(&app.clock);
    }
}

fn look(before: Seen, wall: Millis, monotonic: Moment) -> Seen {
    let passed = i64::try_from(monotonic.duration_since(before.monotonic).as_millis()).unwrap_or(i64::MAX);
    let jumped = (wall - before.wall).saturating_sub(passed).saturating_abs() > JUMP_MS;
    // Whoever looks first after such a pause finds it, also where that is a timer that fell due in it.
    let late = monotonic.duration_since(before.ticked) > TICK + LATE;
    let since = if jumped || late { wall } else { before.since };
    let ticked = if late { monotonic } else { before.ticked };
    Seen { since, wall, monotonic, ticked }
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
        for _ in 0..3_600 {
            clock.sleep(TICK).await;
            trust.tick(&clock);
        }
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

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stood_still_begins_again_though_both_clocks_went_on() {
        let now = Clock::starting_at(0).monotonic();
        let seen = Seen { since: 0, wall: 0, monotonic: now, ticked: now };
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        assert_eq!(look(seen, 1_000, after(1)).since, 0);
        assert_eq!(look(seen, 11_000, after(11)).since, 0, "a computer with much to do");
        let resumed = look(seen, 61_000, after(61));
        assert_eq!(resumed.since, 61_000);
        let next = look(resumed, 62_000, after(62));
        assert_eq!(next.since, 61_000, "said once");
        let looks = [5_u64, 10, 15].into_iter().try_fold(seen, |seen, at| {
            let seen = look(seen, at as i64 * 1_000, after(at));
            if seen.since == 0 { Ok(seen) } else { Err(at) }
        });
        assert_eq!(looks.unwrap_err(), 15, "that others looked meanwhile is no tick");
    }

    #[test]
    fn a_time_that_has_not_come_yet_counts_from_the_clock_change() {
        assert_eq!(heard_at(Some(5_000), 1_000, 2_000), Some(1_000));
        assert_eq!(heard_at(Some(1_500), 1_000, 2_000), Some(1_500));
        assert_eq!(heard_at(None, 1_000, 2_000), None);
    }
}
