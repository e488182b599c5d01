//! Wake-ups after a commit: who waits for events, presence or word over a link is told 'look again',
//! never what changed. The tables say that.

use crate::store::Effects;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_wire::id::{MachineId, TeamId};
use teamlamp_wire::link::ClosingReason;
use tokio::sync::watch;

/// What a link's holder is told. It can't be lost or pile up: a later word takes the earlier one's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkWord {
    /// How often there was something to look for: notes, a changed configuration, the credential's end,
    /// another incarnation.
    pub looks: u64,
    /// Close, and why; the first reason stays.
    pub close: Option<ClosingReason>,
}

/// The places where tasks wait. Clones are the same hub. Maps are ordered, so that a simulation wakes
/// in the same order each time.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    events: Signals,
    presence: Signals,
    links: Arc<Mutex<Links>>,
    presence_due: Arc<tokio::sync::Notify>,
    attention_due: Arc<tokio::sync::Notify>,
    credentials_ended: Arc<AtomicU64>,
    callers_changed: Arc<AtomicU64>,
    links_made: Arc<AtomicU64>,
}

/// The held link of each machine: its number, and where it listens.
type Links = BTreeMap<MachineId, (u64, watch::Sender<LinkWord>)>;

/// A link's place in the hub. Dropping it gives the place back, unless a newer link has it, and lets the
/// presence timer look.
#[derive(Debug)]
pub struct Linked {
    hub: Hub,
    machine: MachineId,
    number: u64,
    /// What the link is told.
    pub word: watch::Receiver<LinkWord>,
}

impl Drop for Linked {
    fn drop(&mut self) {
        let mut links = self.hub.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.get(&self.machine).is_some_and(|(held, _)| *held == self.number) {
            links.remove(&self.machine);
            drop(links);
            self.hub.wake_presence_timer();
        }
    }
}

/// One counter a team, which its readers watch.
#[derive(Clone, Debug, Default)]
struct Signals(Arc<Mutex<BTreeMap<TeamId, watch::Sender<u64>>>>);

impl Signals {
    fn subscribe(&self, team: &TeamId) -> watch::Receiver<u64> {
        let mut teams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Teams that nobody waits for any more leave with the next who comes, so the map stays bounded.
        teams.retain(|id, sender| id == team || sender.receiver_count() > 0);
        teams.entry(team.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    fn wake(&self, concerned: &BTreeSet<&TeamId>, everyone: bool) {
        let teams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, sender) in teams.iter().filter(|(team, _)| everyone || concerned.contains(team)) {
            sender.send_modify(|count| *count += 1);
        }
    }
}

impl Hub {
    /// Waits for new events of a team, or a change of what someone may do. Subscribe before reading.
    pub fn events(&self, team: &TeamId) -> watch::Receiver<u64> {
        self.events.subscribe(team)
    }

    /// Waits for presence transitions of a team, or a change of what someone may do.
    pub fn presence(&self, team: &TeamId) -> watch::Receiver<u64> {
        self.presence.subscribe(team)
    }

    /// How many commits ended a credential: a reader that sees another number looks at its own again.
    pub fn credentials_ended(&self) -> u64 {
        self.credentials_ended.load(Ordering::SeqCst)
    }

    /// How many commits changed what is known of who asks: what was read before another number is old.
    pub fn callers_changed(&self) -> u64 {
        self.callers_changed.load(Ordering::SeqCst)
    }

    /// Makes a link the one of its machine, and tells an older one that it was replaced.
    pub fn link(&self, machine: &MachineId) -> Linked {
        let number = self.links_made.fetch_add(1, Ordering::SeqCst);
        let (sender, word) = watch::channel(LinkWord::default());
        let older = self
            .links
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(machine.clone(), (number, sender));
        if let Some((_, older)) = older {
            close(&older, ClosingReason::Replaced);
        }
        Linked { hub: self.clone(), machine: machine.clone(), number, word }
    }

    /// Whether this process holds a machine's link.
    pub fn holds(&self, machine: &MachineId) -> bool {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).contains_key(machine)
    }

    /// Lets the link of a machine look for what it has to tell.
    pub fn tell_link(&self, machine: &MachineId) {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, link)) = links.get(machine) {
            link.send_modify(|word| word.looks += 1);
        }
    }

    /// The machines whose link this process holds.
    pub fn held(&self) -> Vec<MachineId> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Waits until presence may have a new moment at which time alone changes it.
    pub async fn presence_due(&self) {
        self.presence_due.notified().await;
    }

    /// Lets the presence timer look at its moments again.
    pub fn wake_presence_timer(&self) {
        self.presence_due.notify_one();
    }

    /// Waits until a 'mine' may have a new moment at which it ends.
    pub async fn attention_due(&self) {
        self.attention_due.notified().await;
    }

    /// Wakes whom a commit concerns.
    pub fn wake(&self, effects: Effects) {
        // A credential is not bound to one team: its end concerns whoever waits anywhere.
        let everyone = !effects.credentials.is_empty();
        if everyone {
            self.credentials_ended.fetch_add(1, Ordering::SeqCst);
        }
        if effects.callers {
            self.callers_changed.fetch_add(1, Ordering::SeqCst);
        }
        self.events.wake(&effects.events.iter().chain(&effects.access).collect(), everyone);
        self.presence.wake(&effects.presence.iter().chain(&effects.access).collect(), everyone);
        if !effects.presence.is_empty() {
            self.wake_presence_timer();
        }
        if effects.attention {
            self.attention_due.notify_one();
        }
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        for (machine, reason) in &effects.close_links {
            if let Some((_, link)) = links.get(machine) {
                close(link, *reason);
            }
        }
        let told: Vec<&MachineId> =
            if everyone { links.keys().collect() } else { effects.tell_links.iter().collect() };
        for (_, link) in told.into_iter().filter_map(|machine| links.get(machine)) {
            link.send_modify(|word| word.looks += 1);
        }
    }
}

fn close(link: &watch::Sender<LinkWord>, reason: ClosingReason) {
    link.send_modify(|word| word.close = word.close.or(Some(reason)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_link_replaces_the_older_one_and_keeps_its_place() {
        let hub = Hub::default();
        let machine = MachineId::from("mach_1");
        let older = hub.link(&machine);
        let newer = hub.link(&machine);
        assert_eq!(older.word.borrow().close, Some(ClosingReason::Replaced));
        drop(older);
        assert!(hub.holds(&machine), "the older one must not take the newer one out");
        assert_eq!(newer.word.borrow().close, None);
        drop(newer);
        assert!(!hub.holds(&machine));
    }

    #[test]
    fn words_over_a_link_are_neither_lost_nor_piled_up() {
        let hub = Hub::default();
        let machine = MachineId::from("mach_1");
        let link = hub.link(&machine);
        for _ in 0..10_000 {
            let tell_links = [machine.clone()].into();
            hub.wake(Effects { tell_links, ..Effects::default() });
        }
        let close_links = [(machine, ClosingReason::MachineRevoked)].into();
        hub.wake(Effects { close_links, ..Effects::default() });
        assert_eq!(
            *link.word.borrow(),
            LinkWord { looks: 10_000, close: Some(ClosingReason::MachineRevoked) }
        );
    }

    #[test]
    fn a_team_is_woken_for_what_concerns_it() {
        let hub = Hub::default();
        let (mut a, mut b) = (hub.events(&"team_a".into()), hub.events(&"team_b".into()));
        let mut presence = hub.presence(&"team_a".into());
        hub.wake(Effects { events: [TeamId::from("team_a")].into(), ..Effects::default() });
        assert!(a.has_changed().unwrap() && !b.has_changed().unwrap() && !presence.has_changed().unwrap());
        a.mark_unchanged();
        hub.wake(Effects { credentials: ["cred_1".into()].into(), ..Effects::default() });
        assert!(a.has_changed().unwrap() && b.has_changed().unwrap() && presence.has_changed().unwrap());
        assert_eq!(hub.credentials_ended(), 1);
        b.mark_unchanged();
        presence.mark_unchanged();
    }
}
