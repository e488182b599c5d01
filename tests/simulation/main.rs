//! The simulated world as tests: seeds that once failed, a few others, and that a seed replays exactly.
//! `scripts/simulate` runs many more.

use teamlamp_testkit::world::run;

/// Seeds that showed a fault, with what it was. Each is kept for good.
const ONCE_FAILED: &[(u64, &str)] = &[
    (2, "a turn of a session was told before its start and after its end"),
    (3, "a clock that was ahead made later publications look old, and ends were told twice"),
    (9, "a pause that the server could not be told of ended reporting for ever"),
    (10, "a session that began in a pause was told to end without a beginning"),
    (13, "the same, over a restart of the connector"),
    (18, "an end was published twice after a lost answer"),
    (
        49,
        "a report that was answered before the outbox was empty took the ends of sessions whose starts waited there",
    ),
    (110, "a session's times fell where the clock was set back"),
];

/// One virtual hour each.
const MINUTES: i64 = 60;

fn passes(seed: u64, minutes: i64, why: &str) {
    let outcome = run(seed, minutes, false);
    assert!(
        outcome.faults.is_empty(),
        "seed {seed} ({why}): {:#?}\nreplay: scripts/simulate --seeds {seed}..{seed} --minutes {minutes} --log",
        outcome.faults
    );
    assert!(outcome.events > 20, "seed {seed} did nothing: {} events", outcome.events);
}

#[test]
fn what_once_failed_holds() {
    for (seed, why) in ONCE_FAILED {
        passes(*seed, MINUTES, why);
    }
}

#[test]
fn a_few_worlds_hold() {
    for seed in 1_001..=1_006 {
        passes(seed, 20, "a fresh one");
    }
}

#[test]
fn equal_seeds_are_equal_worlds() {
    for seed in [4, 7] {
        let (one, other) = (run(seed, 15, false), run(seed, 15, false));
        assert!(!one.transcript.is_empty());
        assert_eq!(one.transcript, other.transcript, "seed {seed} did not replay");
    }
    assert_ne!(run(4, 5, false).transcript, run(5, 5, false).transcript);
}
