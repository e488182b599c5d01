//! The calm after a storm: everything heals, and within the stated times everybody must know how things
//! are. What is not so in the end is a broken rule.

use super::{PEOPLE_MS, World};
use crate::machine::Machine;
use crate::reader::How;
use std::collections::BTreeMap;
use teamlamp_client::event::HistoryQuery;
use teamlamp_client::session::SessionQuery;
use teamlamp_clock::ms;
use teamlamp_wire::event::Event;
use teamlamp_wire::id::MachineId;
use teamlamp_wire::limits::{ONLINE_MS, PAGE_MAX, RESTART_GRACE_MS};
use teamlamp_wire::machine::{self, Connection, Enrollment};
use teamlamp_wire::session::Turn;

/// How long everything may take to be known to everybody: the silence that makes a machine offline, and
/// the grace after a restart of the server (spec 02), which may follow each other.
const SETTLED_MS: i64 = ONLINE_MS + RESTART_GRACE_MS;
/// How often it is looked at.
const LOOK_MS: i64 = 2_000;

impl World {
    /// Everything heals, but for some machines that stay down. What people had under way comes to its end.
    pub(super) async fn heal(&mut self) {
        let down: Vec<bool> =
            self.machines.iter().map(|machine| !machine.is_up() && self.chance.percent(40)).collect();
        self.heal_faults(|it| down.get(it).copied().unwrap_or(false)).await;
        let mut waited_ms = 0;
        while !self.people.running().is_empty() && waited_ms < PEOPLE_MS {
            self.clock.sleep(ms(LOOK_MS)).await;
            self.welcome().await;
            waited_ms += LOOK_MS;
        }
        let running = self.people.running();
        // Connections of readers belong to the people too.
        let stuck: Vec<_> = running.iter().filter(|name| **name != "simulated connection").collect();
        self.record.expect(stuck.is_empty(), || format!("people still wait for answers: {stuck:?}"));
    }

    /// Waits until everybody knows how things are, then compares everything.
    pub(super) async fn calm(&mut self) {
        let begun = self.clock.now_ms();
        loop {
            let open = self.unsettled().await;
            let took = self.clock.now_ms() - begun;
            if open.is_empty() {
                self.settled_ms = self.settled_ms.max(took);
                self.record.note("world", format!("settled after {took} ms"));
                break;
            }
            if took > SETTLED_MS {
                open.into_iter().for_each(|what| self.record.broken(format!("after {took} ms {what}")));
                return;
            }
            self.clock.sleep(ms(LOOK_MS)).await;
        }
        self.compare().await;
        for it in 0..self.machines.len() {
            if self.machines[it].context().is_some_and(|context| context.machine.is_some()) {
                self.machines[it].start().await;
            }
        }
    }

    /// What is not yet as it must be.
    async fn unsettled(&mut self) -> Vec<String> {
        let listed = match self.owner.client.machines(&self.team).await {
            Ok(listed) => listed.into_iter().map(|machine| (machine.id.clone(), machine)).collect(),
            Err(fault) => return vec![format!("the server does not answer: {fault}")],
        };
        if let Err(fault) = self.learn().await {
            return vec![format!("the history can't be read: {fault}")];
        }
        let mut open = Vec::new();
        for machine in &self.machines {
            open.extend(presence_fault(machine, &listed));
        }
        open.extend(self.late_readers(&listed));
        open.extend(self.wrong_events_of_presence(&listed));
        open.extend(self.wrong_sessions(&listed).await);
        open
    }

    /// Reads what is new in the team's history.
    async fn learn(&mut self) -> Result<(), teamlamp_client::ClientError> {
        let known = self.truth.keys().next_back().copied().unwrap_or(0);
        let mut query = HistoryQuery { limit: Some(PAGE_MAX), ..HistoryQuery::default() };
        loop {
            let page = self.owner.client.history(&self.team, &query).await?;
            let reaches_known = page.items.iter().any(|item| item.sequence <= known);
            for item in page.items.into_iter().filter(|item| item.sequence > known) {
                self.truth.insert(item.sequence, item);
            }
            let Some(next) = page.next_cursor.filter(|_| !reaches_known) else { return Ok(()) };
            query.before = next.parse().ok();
        }
    }

    /// Readers that have not seen all of it, or have another idea of who is there.
    fn late_readers(&self, listed: &BTreeMap<MachineId, machine::Machine>) -> Vec<String> {
        let mut late = Vec::new();
        for reader in self.readers.iter().filter(|reader| !reader.seen().has_ended()) {
            let (name, seen) = (&reader.name, reader.seen());
            if reader.how == How::Presence {
                let known = seen.presence().cloned().unwrap_or_default();
                for (id, machine) in listed.iter().filter(|(_, m)| m.enrollment == Enrollment::Active) {
                    // Who never was anything else is offline, and no transition says so.
                    let (is, thinks) = (machine.connection, known.get(id).or(Some(&Connection::Offline)));
                    if thinks != Some(&is) {
                        late.push(format!("{name} thinks that {id} is {thinks:?}, and it is {is:?}"));
                    }
                }
                continue;
            }
            let visible = self.truth.iter().rev().find(|(_, it)| self.may_see(reader, &it.event));
            let last = visible.map_or(0, |(sequence, _)| *sequence);
            if seen.last_sequence() < last {
                late.push(format!("{name} has seen {} of {last} events", seen.last_sequence()));
            }
        }
        late
    }

    /// Whether a reader may see an event: all but what only a machine's custodian and admins may.
    pub(super) fn may_see(&self, reader: &crate::reader::Reader, event: &Event) -> bool {
        event.kind != "machine.cloned" || reader.is_admin
    }

    /// Machines whose last published change is not what the list says.
    fn wrong_events_of_presence(&self, listed: &BTreeMap<MachineId, machine::Machine>) -> Vec<String> {
        let mut last: BTreeMap<&str, &str> = BTreeMap::new();
        for it in self.truth.values() {
            if let "machine.online" | "machine.unlinked" | "machine.offline" = it.event.kind.as_str() {
                last.insert(&it.event.resource.id, &it.event.kind["machine.".len()..]);
            }
        }
        let active = listed.iter().filter(|(_, machine)| machine.enrollment == Enrollment::Active);
        active
            .filter_map(|(id, machine)| {
                let told = last.get(id.as_str()).copied().unwrap_or("offline");
                let is = machine.connection.as_str();
                (told != is).then(|| format!("the last event of {id} says {told}, and it is {is}"))
            })
            .collect()
    }

    /// Sessions of machines that report, compared with what their agents do and with what was published.
    async fn wrong_sessions(&self, listed: &BTreeMap<MachineId, machine::Machine>) -> Vec<String> {
        let mut published: BTreeMap<&str, &str> = BTreeMap::new();
        for it in self.truth.values() {
            if let "session.started" | "session.ended" = it.event.kind.as_str() {
                published.insert(&it.event.resource.id, &it.event.kind);
            }
        }
        // One question for all machines: the observer has a rate limit like everybody.
        let all = match self.owner.client.all_sessions(&self.team, &SessionQuery::default()).await {
            Ok(sessions) => sessions,
            Err(fault) => return vec![format!("the sessions can't be read: {fault}")],
        };
        let mut wrong = Vec::new();
        for machine in self.machines.iter().filter(|machine| reports(machine, listed)) {
            let Some(machine_id) = machine_id(machine) else { continue };
            let mut live: BTreeMap<String, Turn> =
                machine.agents.live().into_iter().map(|(key, turn)| (key.native_id, turn)).collect();
            for session in all.iter().filter(|session| session.machine_id == machine_id) {
                let does = live.remove(&session.native_id);
                let (id, native) = (session.id.as_str(), &session.native_id);
                if session.live != does.is_some() || does.is_some_and(|turn| turn != session.turn) {
                    let known = (session.live, session.turn);
                    wrong.push(format!("{native} does {does:?}, and the team knows {known:?} of {id}"));
                }
                let last = published.get(id).copied().unwrap_or("session.ended");
                if (last == "session.started") != does.is_some() {
                    wrong.push(format!("{native} does {does:?}, and the last event of {id} is {last}"));
                }
            }
            wrong.extend(live.keys().map(|native| format!("{native} lives, and the team does not know")));
        }
        wrong
    }
}

/// A machine's id in the team.
pub(super) fn machine_id(machine: &Machine) -> Option<MachineId> {
    machine.context()?.machine.map(|machine| machine.id)
}

/// Whether a machine is in a state in which it must be online.
fn reports(machine: &Machine, listed: &BTreeMap<MachineId, machine::Machine>) -> bool {
    let enrolled = machine_id(machine).and_then(|id| listed.get(&id));
    machine.is_up() && !machine.paused && enrolled.is_some_and(|it| it.enrollment == Enrollment::Active)
}

/// Presence equals what is really reachable, and the machine itself knows it.
fn presence_fault(machine: &Machine, listed: &BTreeMap<MachineId, machine::Machine>) -> Option<String> {
    let shown = listed.get(&machine_id(machine)?)?;
    let must = if reports(machine, listed) { Connection::Online } else { Connection::Offline };
    let (name, state) = (&machine.name, machine.state());
    if shown.connection != must {
        return Some(format!("{name} is {:?} and must be {must:?}; it says {state:?}", shown.connection));
    }
    let word = state.as_ref().map_or("down", |state| state.word());
    let right = match must {
        Connection::Online => word == "online",
        _ if !machine.is_up() => word == "down",
        _ if shown.enrollment == Enrollment::Revoked => matches!(word, "revoked" | "expired" | "paused"),
        _ => word == "paused",
    };
    (!right).then(|| format!("{name} is {must:?} and says {state:?}"))
}
