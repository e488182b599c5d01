//! What a seed decides before its world begins: how large it is, how its network is, and how likely what
//! is. Each seed leaves some things out, so that rare pairs of others meet.

use crate::network::Weather;
use teamlamp_clock::Chance;

/// Something that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happening {
    /// A coding agent does something.
    Agent,
    /// Someone publishes events.
    Publish,
    /// Someone renames a machine.
    RenameMachine,
    /// Someone renames the team.
    RenameTeam,
    /// The owner invites, and a new machine joins.
    Join,
    /// The owner revokes a machine.
    Revoke,
    /// The owner removes a member, or deactivates one.
    Remove,
    /// A reader rotates its credential.
    Rotate,
    /// A reader starts again.
    Reread,
    /// Somebody guesses a code.
    Guess,
    /// A machine's person pauses it, or resumes it.
    Pause,
    /// The way between a host and the server is blocked, one way or both.
    Partition,
    /// All connections of a host break.
    Cut,
    /// The network becomes faster or slower.
    Weather,
    /// A connector's process is killed.
    Crash,
    /// A machine loses its power.
    PowerLoss,
    /// A connector ends in order.
    Stop,
    /// A machine sleeps and wakes to another time.
    Sleep,
    /// A machine's clock is set.
    ClockJump,
    /// The server is killed.
    ServerKill,
    /// The server is killed between its commit and its answer.
    ServerKillAtAnswer,
    /// The server ends in order and starts again.
    ServerRestart,
}

use Happening as H;

/// Each with its usual weight, and whether a world may leave it out.
const USUAL: &[(Happening, u64, bool)] = &[
    (H::Agent, 60, false),
    (H::Publish, 12, true),
    (H::RenameMachine, 3, true),
    (H::RenameTeam, 2, true),
    (H::Join, 3, true),
    (H::Revoke, 1, true),
    (H::Remove, 1, true),
    (H::Rotate, 2, true),
    (H::Reread, 4, true),
    (H::Guess, 1, true),
    (H::Pause, 2, true),
    (H::Partition, 8, true),
    (H::Cut, 6, true),
    (H::Weather, 2, true),
    (H::Crash, 4, true),
    (H::PowerLoss, 2, true),
    (H::Stop, 3, true),
    (H::Sleep, 3, true),
    (H::ClockJump, 2, true),
    (H::ServerKill, 2, true),
    (H::ServerKillAtAnswer, 4, true),
    (H::ServerRestart, 2, true),
];

/// What a seed decided.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Machines at the beginning.
    pub machines: usize,
    /// Readers at the beginning.
    pub readers: usize,
    /// The network's first weather.
    pub weather: Weather,
    /// What may happen, with its weight.
    weights: Vec<(Happening, u64)>,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(chance: &Chance) -> Self {
        let of = |least: u64, most: u64| usize::try_from(least + chance.below(most - least + 1)).unwrap_or(1);
        // Most worlds are small, since most faults are; some are as large as a busy team.
        let large = chance.percent(8);
        let machines = if large { of(8, 20) } else { of(1, 5) };
        let readers = if large { of(4, 10) } else { of(2, 4) };
        let weights = USUAL
            .iter()
            .filter(|(_, _, optional)| !optional || chance.percent(65))
            .map(|(happening, weight, _)| (*happening, weight * (1 + chance.below(3))))
            .collect();
        Self { machines, readers, weather: Self::weather(chance), weights }
    }

    /// Some weather: from a desk to a train.
    pub fn weather(chance: &Chance) -> Weather {
        let latency_ms = [1, 5, 20, 80, 300][usize::try_from(chance.below(5)).unwrap_or(0)];
        let jitter_ms = latency_ms * i64::try_from(chance.below(4)).unwrap_or(0);
        Weather { latency_ms, jitter_ms }
    }

    /// What happens next.
    pub fn next(&self, chance: &Chance) -> Happening {
        let mut left = chance.below(self.weights.iter().map(|(_, weight)| weight).sum());
        for (happening, weight) in &self.weights {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *happening,
            }
        }
        Happening::Agent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn plans_differ_by_seed_and_leave_things_out() {
        let mut sizes = BTreeSet::new();
        for seed in 0..50 {
            let (chance, again) = (Chance::seeded(seed), Chance::seeded(seed));
            let plan = Plan::new(&chance);
            assert_eq!(format!("{plan:?}"), format!("{:?}", Plan::new(&again)));
            assert!(plan.weights.len() <= USUAL.len());
            sizes.insert((plan.machines, plan.readers, plan.weights.len()));
            let happened: BTreeSet<_> = (0..2_000).map(|_| plan.next(&chance)).collect();
            assert!(happened.contains(&H::Agent) && happened.len() == plan.weights.len());
        }
        assert!(sizes.len() > 20);
    }
}
