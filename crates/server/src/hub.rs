//! Wake-ups after a commit: who waits for events, presence or word over a link is told 'look again',
//! never what changed. The tables say that.

use crate::store::Effects;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_wire::id::{MachineId, TeamId};
use teamlamp_wire::link::ClosingReason;
use tokio::sync::{mpsc, watch};

/// What a link's holder is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkWord {
    /// Look for notes, a changed configuration or watched sessions.
    Look,
    /// Close, and why.
    Close(ClosingReason),
}

/// The places where tasks wait. Clones are the same hub.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    teams: Arc<Mutex<HashMap<TeamId, watch::Sender<u64>>>>,
    links: Arc<Mutex<BTreeMap<MachineId, (u64, mpsc::Sender<LinkWord>)>>>,
    presence: Arc<tokio::sync::Notify>,
}

impl Hub {
    /// Waits for anything new in a team: events, access or presence. Subscribe before reading.
    pub fn team(&self, team: &TeamId) -> watch::Receiver<u64> {
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        // Teams that nobody waits for any more leave with the next who comes, so the map stays bounded.
        teams.retain(|id, sender| id == team || sender.receiver_count() > 0);
        teams.entry(team.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Makes `sender` the word of a machine's link, and tells an older one that it was replaced. The
    /// number is the link's own: [`Hub::unlink`] takes it.
    pub fn link(&self, machine: &MachineId, number: u64, sender: mpsc::Sender<LinkWord>) {
        let older = self
            .links
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(machine.clone(), (number, sender));
        if let Some((_, older)) = older {
            let _ = older.try_send(LinkWord::Close(ClosingReason::Replaced));
        }
    }

    /// Takes a link out; false where a newer one has its place, which then stays.
    pub fn unlink(&self, machine: &MachineId, number: u64) -> bool {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let own = links.get(machine).is_some_and(|(held, _)| *held == number);
        if own {
            links.remove(machine);
        }
        own
    }

    /// The machines whose links this process holds.
    pub fn linked(&self) -> Vec<MachineId> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Whether this process holds a machine's link.
    pub fn holds(&self, machine: &MachineId) -> bool {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).contains_key(machine)
    }

    /// Waits until presence may have a new moment at which time alone changes it.
    pub async fn presence_changed(&self) {
        self.presence.notified().await;
    }

    /// Wakes whom a commit concerns.
    pub fn wake(&self, effects: Effects) {
        let teams: std::collections::BTreeSet<&TeamId> =
            effects.events.iter().chain(&effects.access).chain(&effects.presence).collect();
        {
            let senders = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
            for sender in teams.iter().filter_map(|team| senders.get(*team)) {
                sender.send_modify(|count| *count += 1);
            }
            // A credential is not bound to one team: its end concerns whoever waits anywhere.
            if !effects.credentials.is_empty() {
                senders.values().for_each(|sender| sender.send_modify(|count| *count += 1));
            }
        }
        if !effects.presence.is_empty() {
            self.presence.notify_one();
        }
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        for (machine, reason) in effects.close_links {
            if let Some((_, link)) = links.get(&machine) {
                let _ = link.try_send(LinkWord::Close(reason));
            }
        }
        for machine in effects.tell_links {
            if let Some((_, link)) = links.get(&machine) {
                let _ = link.try_send(LinkWord::Look);
            }
        }
    }
}
