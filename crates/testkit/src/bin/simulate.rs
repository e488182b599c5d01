//! Runs simulated worlds: `simulate [--seeds FROM..TO] [--minutes N] [--verbose] [--log]`. Prints a line
//! for each seed that failed, with how to replay it; with `--verbose` the whole transcript, with `--log` the
//! programs' own log in it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use teamlamp_testkit::world::{Outcome, run};

const USAGE: &str = "usage: simulate [--seeds FROM..TO] [--minutes N] [--verbose] [--log]";

struct Wish {
    from: u64,
    to: u64,
    minutes: i64,
    verbose: bool,
    log: bool,
}

fn wish() -> Option<Wish> {
    let mut wish = Wish { from: 1, to: 200, minutes: 60, verbose: false, log: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => {
                let seeds = words.next()?;
                let (from, to) = seeds.split_once("..").unwrap_or((&seeds, &seeds));
                (wish.from, wish.to) = (from.parse().ok()?, to.parse().ok()?);
            }
            "--minutes" => wish.minutes = words.next()?.parse().ok().filter(|minutes| *minutes > 0)?,
            "--verbose" => wish.verbose = true,
            "--log" => (wish.verbose, wish.log) = (true, true),
            _ => return None,
        }
    }
    (wish.from <= wish.to).then_some(wish)
}

fn main() -> ExitCode {
    let Some(wish) = wish() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let outcomes = run_all(&wish);
    let mut failed = 0;
    let (mut settled_ms, mut events) = (0, 0);
    for (seed, outcome) in &outcomes {
        (settled_ms, events) = (settled_ms.max(outcome.settled_ms), events + outcome.events);
        if wish.verbose {
            print!("{}", outcome.transcript);
        }
        if !outcome.faults.is_empty() {
            failed += 1;
            let (first, more) = (&outcome.faults[0], outcome.faults.len() - 1);
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            println!("seed {seed} failed: {first}{more}");
            println!(
                "  replay: scripts/simulate --seeds {seed}..{seed} --minutes {} --verbose",
                wish.minutes
            );
        }
    }
    println!("{events} events; every calm settled within {settled_ms} ms");
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    ExitCode::from(u8::from(failed > 0))
}

/// Runs every seed, as many at once as there are processors, each on a thread and runtime of its own.
fn run_all(wish: &Wish) -> BTreeMap<u64, Outcome> {
    let next = AtomicU64::new(wish.from);
    let outcomes = Mutex::new(BTreeMap::new());
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > wish.to {
                        return;
                    }
                    let outcome = run(seed, wish.minutes, wish.log);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}
