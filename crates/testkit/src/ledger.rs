//! What was asked of the server and what it acknowledged: the measure of what must be there in the end,
//! and of what may be there at most.

use std::collections::{BTreeMap, BTreeSet};
use teamlamp_wire::id::{EventId, MachineId, PrincipalId};

/// How far a change is known to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It was asked for; whether it was done is not known.
    Asked,
    /// It was refused, or never sent.
    Refused,
    /// It was acknowledged.
    Done,
}

/// A name that only one person changes, one change at a time.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// What it may be by now.
    pub possible: BTreeSet<String>,
    /// Whether a change of it is under way.
    pub busy: bool,
}

impl Name {
    /// A change is acknowledged: this is the name.
    pub fn settle(&mut self, name: &str) {
        self.possible = BTreeSet::from([name.to_owned()]);
    }
}

/// Everything that was asked for.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Published events.
    pub events: BTreeMap<EventId, Fate>,
    /// The names of machines.
    pub machine_names: BTreeMap<MachineId, Name>,
    /// The team's name.
    pub team_name: Name,
    /// Revoked machines, and when the acknowledgement came.
    pub revoked: BTreeMap<MachineId, Fate>,
    /// Removed or deactivated members.
    pub removed: BTreeMap<PrincipalId, Fate>,
    /// The names under which someone was invited: each may have become one person.
    pub invited: BTreeMap<String, Fate>,
    /// Codes that were handed out and wait for someone, with the name that was invited.
    pub codes: Vec<(String, String)>,
    /// Machines that have joined and wait to be started.
    pub arrived: BTreeSet<String>,
}
