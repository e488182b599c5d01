//! Which sessions someone follows live now: their machines are told, and report them within a second
//! (spec 02). In memory: who follows holds a stream of this process.

use crate::hub::Hub;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_wire::heartbeat::Watched;
use teamlamp_wire::id::MachineId;
use teamlamp_wire::limits::WATCHED_MAX;

type Counts = BTreeMap<MachineId, BTreeMap<Watched, usize>>;

/// The followed sessions of each machine. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    counts: Arc<Mutex<Counts>>,
    hub: Hub,
}

/// Someone who follows a session; dropping it says that they no longer do.
#[derive(Debug)]
pub struct Following {
    followed: Followed,
    machine: MachineId,
    session: Watched,
}

impl Followed {
    /// None yet; machines are told over the links of this hub.
    pub fn new(hub: Hub) -> Self {
        Self { counts: Arc::default(), hub }
    }

    /// Follows a machine's session; the machine is told where it is the first to.
    pub fn follow(&self, machine: &MachineId, session: Watched) -> Following {
        let first = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(machine.clone()).or_default().entry(session.clone()).or_default();
            *count += 1;
            *count == 1
        };
        if first {
            self.hub.tell_link(machine);
        }
        Following { followed: self.clone(), machine: machine.clone(), session }
    }

    /// The sessions of a machine that someone follows, at most [`WATCHED_MAX`].
    pub fn of(&self, machine: &MachineId) -> Vec<Watched> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(machine).into_iter().flat_map(BTreeMap::keys).take(WATCHED_MAX).cloned().collect()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let last = {
            let mut counts = self.followed.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(of_machine) = counts.get_mut(&self.machine) else { return };
            let Some(count) = of_machine.get_mut(&self.session) else { return };
            *count -= 1;
            let last = *count == 0;
            if last {
                of_machine.remove(&self.session);
            }
            if of_machine.is_empty() {
                counts.remove(&self.machine);
            }
            last
        };
        if last {
            self.followed.hub.tell_link(&self.machine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: usize) -> Watched {
        Watched { harness: "codex".into(), native_id: format!("{number:03}") }
    }

    #[test]
    fn a_session_is_watched_while_anybody_follows_it_and_ninety_are_told() {
        let (hub, machine) = (Hub::default(), MachineId::from("mach_1"));
        let link = hub.link(&machine);
        let looks = || link.word.borrow().looks;
        let followed = Followed::new(hub);
        let (first, second) = (followed.follow(&machine, session(1)), followed.follow(&machine, session(1)));
        assert_eq!((followed.of(&machine), looks()), (vec![session(1)], 1));
        drop(first);
        assert_eq!((followed.of(&machine), looks()), (vec![session(1)], 1));
        drop(second);
        assert_eq!((followed.of(&machine), looks()), (vec![], 2));
        let many: Vec<_> = (0..100).map(|number| followed.follow(&machine, session(number))).collect();
        assert_eq!(followed.of(&machine).len(), 90);
        drop(many);
        assert!(followed.counts.lock().unwrap().is_empty());
    }
}
