//! Everything that was seen and acknowledged, compared with what the server holds.

use super::World;
use super::calm::machine_id;
use crate::ledger::{Fate, Ledger};
use crate::reader::{How, Truth};
use crate::record::Record;
use std::collections::{BTreeMap, BTreeSet};
use teamlamp_wire::event::{ActorKind, Sequenced};
use teamlamp_wire::machine::Enrollment;

/// Connections that one host may have open at once: heartbeat, link, stream, what its person does, and
/// those of the past that nobody was told of.
const CONNECTIONS_PER_HOST: usize = 40;

impl World {
    /// Compares everything; each difference is a broken rule.
    pub(super) async fn compare(&mut self) {
        let ledger = self.ledger().clone();
        history_has_no_gap(&self.truth, &self.record);
        events_are_there_once(&self.truth, &ledger, &self.record);
        sessions_begin_and_end_in_turn(&self.truth, &self.record);
        nobody_acts_after_their_end(&self.truth, &self.record);
        let through = self.truth.keys().next_back().copied().unwrap_or(0);
        for reader in self.readers.iter().filter(|reader| reader.how != How::Presence) {
            let seen = reader.seen();
            let through = if seen.has_ended() { seen.last_sequence() } else { through };
            seen.compare(&self.truth, through, |event| self.may_see(reader, event));
        }
        self.compare_members(&ledger).await;
        self.compare_machines(&ledger).await;
        self.record.search_log();
        let hosts = 2 + self.machines.len() + self.readers.len();
        let open = self.network.open_connections();
        self.record.expect(open <= hosts * CONNECTIONS_PER_HOST, || format!("{open} connections are open"));
    }

    async fn compare_members(&self, ledger: &Ledger) {
        let members = match self.owner.client.members(&self.team).await {
            Ok(members) => members,
            Err(fault) => return self.record.broken(format!("the members can't be read: {fault}")),
        };
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for member in &members {
            *count.entry(member.principal.name.as_str()).or_default() += 1;
        }
        for (name, count) in &count {
            self.record.expect(*count == 1, || format!("{count} members are called {name}"));
        }
        let gone: BTreeSet<_> = ledger.removed.keys().collect();
        let expected = self.machines.iter().filter_map(|machine| {
            let context = machine.context()?;
            (!gone.contains(&context.principal_id)).then_some(context.principal_name)
        });
        for name in expected {
            self.record
                .expect(count.contains_key(name.as_str()), || format!("{name} joined and is no member"));
        }
        for (principal, _) in ledger.removed.iter().filter(|(_, fate)| **fate == Fate::Done) {
            let still = members.iter().any(|member| member.principal.id == *principal && member.active);
            self.record.expect(!still, || format!("{principal} was removed and is a member"));
        }
    }

    async fn compare_machines(&self, ledger: &Ledger) {
        let listed = match self.owner.client.machines(&self.team).await {
            Ok(listed) => listed,
            Err(fault) => return self.record.broken(format!("the machines can't be read: {fault}")),
        };
        let names: BTreeSet<String> = listed.iter().map(|m| teamlamp_wire::name::fold(&m.name)).collect();
        self.record.expect(names.len() == listed.len(), || "two machines have one name".into());
        let joined: Vec<_> = self.machines.iter().filter_map(machine_id).collect();
        for id in &joined {
            self.record
                .expect(listed.iter().any(|m| m.id == *id), || format!("{id} joined and is not listed"));
        }
        self.record.expect(listed.len() <= self.machines.len(), || {
            format!("{} machines are listed, and there are {}", listed.len(), self.machines.len())
        });
        for machine in &listed {
            let possible = ledger.machine_names.get(&machine.id).map(|name| &name.possible);
            self.record.expect(
                possible.is_none_or(|names| names.is_empty() || names.contains(&machine.name)),
                || format!("{} is called {}, which may be {possible:?}", machine.id, machine.name),
            );
            let revoked =
                self.truth.values().rev().find(|it| {
                    it.event.kind == "machine.revoked" && it.event.resource.id == machine.id.as_str()
                });
            if machine.enrollment == Enrollment::Revoked
                && let Some(revoked) = revoked
            {
                self.record.expect(machine.last_seen_at <= Some(revoked.event.at), || {
                    format!(
                        "{} was heard at {:?}, revoked at {}",
                        machine.id, machine.last_seen_at, revoked.event.at
                    )
                });
            }
        }
        if let Ok(team) = self.owner.client.team(&self.team).await {
            let possible = &ledger.team_name.possible;
            self.record.expect(possible.contains(&team.name), || {
                format!("the team is called {}, which may be {possible:?}", team.name)
            });
        }
    }
}

/// Sequences count from 1 without gaps, and no event is there twice.
fn history_has_no_gap(truth: &Truth, record: &Record) {
    let expected = (1..).take(truth.len());
    record.expect(truth.keys().copied().eq(expected), || {
        let last = truth.keys().next_back().copied().unwrap_or(0);
        let gaps: Vec<i64> = (1..=last).filter(|sequence| !truth.contains_key(sequence)).collect();
        format!("the history lacks {gaps:?}")
    });
    let ids: BTreeSet<_> = truth.values().map(|it| &it.event.id).collect();
    record.expect(ids.len() == truth.len(), || "an event stands in the history twice".into());
}

/// What was acknowledged is there; what is there was asked for.
fn events_are_there_once(truth: &Truth, ledger: &Ledger, record: &Record) {
    let custom: BTreeSet<_> =
        truth.values().filter(|it| it.event.kind.starts_with("custom.")).map(|it| &it.event.id).collect();
    for (id, _) in ledger.events.iter().filter(|(_, fate)| **fate == Fate::Done) {
        record.expect(custom.contains(id), || format!("{id} was acknowledged and is not in the history"));
    }
    for id in custom {
        record.expect(ledger.events.contains_key(id), || format!("{id} was published by nobody"));
    }
}

/// A session starts, turns and ends, and then may start again. What its machine told so late that newer
/// facts had overtaken it is kept in the history and changes nothing: it is known by its older time.
fn sessions_begin_and_end_in_turn(truth: &Truth, record: &Record) {
    let mut sessions: BTreeMap<&str, (bool, i64)> = BTreeMap::new();
    for (sequence, it) in truth {
        let Some(what) = it.event.kind.strip_prefix("session.") else { continue };
        let (id, at) = (it.event.resource.id.as_str(), it.event.at);
        let (live, latest) = sessions.get(id).copied().unwrap_or((false, i64::MIN));
        let fits = live == (what != "started");
        // An older time alone proves nothing: machines' clocks differ from the server's.
        if !fits && at < latest {
            continue;
        }
        record.expect(fits, || {
            format!("{sequence}: {id} {what}, though it was {}", if live { "live" } else { "not live" })
        });
        sessions.insert(id, (what != "ended", at.max(latest)));
    }
}

/// A revoked machine and a removed member publish nothing after the event that says so.
fn nobody_acts_after_their_end(truth: &Truth, record: &Record) {
    let mut ended: BTreeSet<&str> = BTreeSet::new();
    for (sequence, it) in truth {
        let Sequenced { event, .. } = it;
        let resource = event.resource.id.as_str();
        match event.kind.as_str() {
            "machine.revoked" | "member.removed" => drop(ended.insert(resource)),
            "machine.enrolled" | "member.joined" => drop(ended.remove(resource)),
            "member.changed" if event.data.get("active").is_some_and(|active| active == false) => {
                ended.insert(resource);
            }
            "member.changed" => drop(ended.remove(resource)),
            _ => {}
        }
        let acts_as = match event.actor.kind {
            ActorKind::Machine => event.data.get("machine_id").and_then(|id| id.as_str()),
            ActorKind::Person => event.actor.principal_id.as_ref().map(|id| id.as_str()),
            _ => None,
        };
        record.expect(acts_as.is_none_or(|who| !ended.contains(who) || who == resource), || {
            format!("{sequence}: {acts_as:?} did {} after its end", event.kind)
        });
    }
}
