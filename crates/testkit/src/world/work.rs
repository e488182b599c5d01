//! What people do: valid changes at random moments, each repeated as a careful person would, each noted
//! in the ledger before it is asked for and when it is acknowledged.

use super::{World, join};
use crate::ledger::{Fate, Ledger};
use crate::machine::Machine;
use crate::person::Person;
use crate::plan::Happening;
use crate::record::Record;
use crate::server::ORIGIN;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use teamlamp_client::{Client, ClientError};
use teamlamp_clock::{Chance, Clock, ms};
use teamlamp_connector::custody::Kind;
use teamlamp_wire::account::{ChangeMember, ChangeTeam, Role};
use teamlamp_wire::event::{Publish, PublishEvent};
use teamlamp_wire::id::{EventId, MachineId, PrincipalId, TeamId};
use teamlamp_wire::invitation::{AcceptInvitation, CreateInvitation};

/// How often a person repeats what was not answered.
const TRIES: usize = 6;
/// What people have under way at once, at most.
const BUSY: usize = 12;
/// Machines and readers beyond those of the beginning.
const NEWCOMERS: usize = 4;

/// What somebody who does something needs to know.
#[derive(Clone, Debug)]
struct Stage {
    team: TeamId,
    clock: Clock,
    chance: Chance,
    record: Record,
    ledger: Arc<Mutex<Ledger>>,
    owner: Person,
}

impl World {
    /// Something happens.
    pub(super) async fn happen(&mut self) {
        let happening = self.plan.next(&self.chance);
        let busy = self.people.running().len() >= BUSY;
        match happening {
            Happening::Agent => {
                if let Some(it) = self.some_machine(|_| true) {
                    let machine = &self.machines[it];
                    let what = machine.agents.act(&self.chance);
                    self.record.note(&machine.name, what);
                }
            }
            Happening::Pause => {
                if let Some(it) = self.some_machine(Machine::is_up) {
                    self.machines[it].toggle_pause().await;
                }
            }
            Happening::Reread => {
                let which = usize::try_from(self.chance.below(self.readers.len() as u64)).unwrap_or(0);
                let afresh = self.chance.percent(30);
                if let Some(reader) = self.readers.get(which).filter(|reader| !reader.seen().has_ended()) {
                    reader.start(afresh);
                }
            }
            Happening::Publish
            | Happening::RenameMachine
            | Happening::RenameTeam
            | Happening::Join
            | Happening::Revoke
            | Happening::Remove
            | Happening::Rotate
            | Happening::Guess
                if busy => {}
            Happening::Publish => self.publish().await,
            Happening::RenameMachine => self.rename_machine().await,
            Happening::RenameTeam => self.rename_team(),
            Happening::Join => self.invite_newcomer(),
            Happening::Revoke => self.revoke(),
            Happening::Remove => self.remove(),
            Happening::Rotate => self.rotate(),
            Happening::Guess => self.guess(),
            fault => self.strike(fault).await,
        }
    }

    fn stage(&self) -> Stage {
        Stage {
            team: self.team.clone(),
            clock: self.clock.clone(),
            chance: self.chance.fork(),
            record: self.record.clone(),
            ledger: self.ledger.clone(),
            owner: self.owner.clone(),
        }
    }

    /// The person at some machine that runs, with their client.
    async fn somebody(&self) -> Option<(usize, Client)> {
        let it = self.some_machine(|machine| machine.is_up() && machine.context().is_some())?;
        let machine = &self.machines[it];
        let client = machine.install().signed_in(&machine.context()?, Kind::User).await.ok()?;
        Some((it, client))
    }

    async fn publish(&mut self) {
        let Some((it, client)) = self.somebody().await else { return };
        let (stage, name) = (self.stage(), self.machines[it].person.clone());
        self.people.spawn("publish", async move { stage.publish(&name, &client).await });
    }

    async fn rename_machine(&mut self) {
        let Some((it, client)) = self.somebody().await else { return };
        let Some(machine) = self.machines[it].context().and_then(|context| context.machine) else { return };
        self.count += 1;
        let name = format!("{} {}", self.machines[it].name, self.count);
        let stage = self.stage();
        self.people.spawn("rename", async move { stage.rename_machine(&client, &machine.id, &name).await });
    }

    fn rename_team(&mut self) {
        self.count += 1;
        let (stage, name) = (self.stage(), format!("Acme {}", self.count));
        self.people.spawn("rename team", async move { stage.rename_team(&name).await });
    }

    fn invite_newcomer(&mut self) {
        let invited = self.ledger().invited.len();
        if invited >= NEWCOMERS {
            return;
        }
        let stage = self.stage();
        let name = format!("newcomer-{}", invited + 1);
        self.ledger().invited.insert(name.clone(), Fate::Asked);
        self.people.spawn("invite", async move { stage.invite(&name).await });
    }

    /// Whoever was invited meanwhile arrives with a machine of their own; whose machine has joined starts
    /// its connector.
    pub(super) async fn welcome(&mut self) {
        let codes = std::mem::take(&mut self.ledger().codes);
        for (person, code) in codes {
            let it = self.add_machine();
            let machine = &mut self.machines[it];
            machine.person.clone_from(&person);
            let (install, record, name) = (machine.install(), self.record.clone(), machine.name.clone());
            let ledger = self.ledger.clone();
            self.people.spawn("join", async move {
                if join(&install, &record, (&name, &person), &code).await {
                    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
                    ledger.invited.insert(person, Fate::Done);
                    ledger.arrived.insert(name);
                }
            });
        }
        let arrived = std::mem::take(&mut self.ledger().arrived);
        for machine in self.machines.iter_mut().filter(|machine| arrived.contains(&machine.name)) {
            machine.start().await;
        }
    }

    fn revoke(&mut self) {
        // The first machine stays, so that something goes on.
        let Some(it) = self.some_machine(|machine| machine.name != "machine-1") else { return };
        let Some(context) = self.machines[it].context() else { return };
        let Some(id) = context.machine.as_ref().map(|machine| machine.id.clone()) else { return };
        let (stage, install) = (self.stage(), self.machines[it].install());
        self.people.spawn("revoke", async move {
            let token = install.custody.read(context.credential_ref, &context.id, Kind::Machine).await;
            let revoked = stage.owner.client.with_token(token.ok().flatten().unwrap_or_default());
            stage.revoke(&id, &revoked).await;
        });
    }

    fn remove(&mut self) {
        let stage = self.stage();
        let reader = self.readers.len() > 1 && self.chance.percent(60);
        let principal = if reader {
            self.readers.last().map(|reader| reader.person.principal.clone())
        } else {
            self.some_machine(|machine| machine.name != "machine-1")
                .and_then(|it| self.machines[it].context())
                .map(|context| context.principal_id)
        };
        let Some(principal) = principal else { return };
        let for_good = self.chance.percent(50);
        self.people.spawn("remove", async move { stage.remove(&principal, for_good).await });
    }

    fn rotate(&mut self) {
        let which = usize::try_from(self.chance.below(self.readers.len() as u64)).unwrap_or(0);
        let Some(reader) = self.readers.get(which).filter(|reader| !reader.seen().has_ended()) else {
            return;
        };
        let (stage, person) = (self.stage(), reader.person.clone());
        self.people.spawn("rotate", async move {
            match person.rotate(&stage.record).await {
                Ok(()) => stage.record.note(&person.name, "has a new token"),
                Err(fault) => stage.unsure(&person.name, "rotating", &fault),
            }
        });
    }

    fn guess(&mut self) {
        let stage = self.stage();
        let guess = teamlamp_wire::invitation::Code::from_random(u64::from_le_bytes(self.chance.bytes()));
        self.people.spawn("guess", async move {
            let anybody = stage.owner.client.with_token(Default::default());
            let wish = AcceptInvitation { code: guess.to_string(), name: "nobody".into(), team_name: None };
            if let Ok(accepted) = anybody.accept(&wish).await {
                stage.record.broken(format!("a guessed code made {}", accepted.principal.id));
            }
        });
    }
}

impl Stage {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a change whose outcome is open, and an answer that should never be.
    fn unsure(&self, who: &str, what: &str, fault: &ClientError) {
        self.record.note(who, format!("{what}: {fault}"));
        self.record.expect(fault.status() != Some(500), || format!("the server fails at {what}: {fault}"));
    }

    async fn pause(&self) {
        let wait = 1_000 + self.chance.below(4_000);
        self.clock.sleep(ms(i64::try_from(wait).unwrap_or(0))).await;
    }

    async fn publish(&self, who: &str, client: &Client) {
        let event = |number: u64| PublishEvent {
            id: Some(EventId::new(self.clock.now_ms(), self.chance.bits())),
            kind: format!("custom.cli.build-{}", self.chance.below(3)),
            resource: None,
            data: serde_json::Map::from_iter([("number".to_owned(), number.into())]),
            at: None,
        };
        let events: Vec<PublishEvent> = (0..1 + self.chance.below(3)).map(event).collect();
        let ids: Vec<EventId> = events.iter().filter_map(|event| event.id.clone()).collect();
        let note = |fate| self.ledger().events.extend(ids.iter().map(|id| (id.clone(), fate)));
        note(Fate::Asked);
        let publish = Publish { events };
        for _ in 0..TRIES {
            match client.publish(&self.team, &publish).await {
                Ok(published) => {
                    let got: Vec<&EventId> = published.events.iter().map(|event| &event.id).collect();
                    self.record.expect(got.iter().copied().eq(ids.iter()), || {
                        format!("published {ids:?} and was answered {got:?}")
                    });
                    self.record.note(who, format!("published {} events", ids.len()));
                    return note(Fate::Done);
                }
                Err(fault) => {
                    self.unsure(who, "publishing", &fault);
                    if !fault.may_pass() && fault.status() != Some(429) {
                        return;
                    }
                }
            }
            self.pause().await;
        }
    }

    async fn rename_machine(&self, client: &Client, id: &MachineId, name: &str) {
        if std::mem::replace(&mut self.ledger().machine_names.entry(id.clone()).or_default().busy, true) {
            return;
        }
        if let Ok(seen) = client.machine(&self.team, id).await {
            {
                let mut ledger = self.ledger();
                let known = ledger.machine_names.entry(id.clone()).or_default();
                known.possible.extend([seen.name.clone(), name.to_owned()]);
            }
            match client.rename_machine(&self.team, &seen, name).await {
                Ok(renamed) => {
                    self.record.expect(renamed.name == name, || format!("{id} became {}", renamed.name));
                    self.ledger().machine_names.entry(id.clone()).or_default().settle(name);
                }
                Err(fault) => self.unsure(id.as_str(), "renaming", &fault),
            }
        }
        self.ledger().machine_names.entry(id.clone()).or_default().busy = false;
    }

    async fn rename_team(&self, name: &str) {
        if std::mem::replace(&mut self.ledger().team_name.busy, true) {
            return;
        }
        if let Ok(seen) = self.owner.client.team(&self.team).await {
            self.ledger().team_name.possible.insert(name.to_owned());
            let change = ChangeTeam { name: Some(name.to_owned()), settings: None };
            match self.owner.client.change_team(&seen, &change).await {
                Ok(_) => self.ledger().team_name.settle(name),
                Err(fault) => self.unsure("owner", "renaming the team", &fault),
            }
        }
        self.ledger().team_name.busy = false;
    }

    async fn invite(&self, person: &str) {
        let wish = CreateInvitation {
            role: Role::Member,
            expires_in_seconds: None,
            max_uses: None,
            note: Some(person.to_owned()),
        };
        for _ in 0..TRIES {
            match self.owner.client.invite(&self.team, &wish).await {
                Ok(made) => {
                    let Some(code) = made.code else { return };
                    self.record.secret(&code);
                    let link = made.link.unwrap_or_default();
                    self.record.expect(link.contains("server=http%3A%2F%2F10.0.0.1"), || {
                        format!("a link that does not lead to {ORIGIN}")
                    });
                    return self.ledger().codes.push((person.to_owned(), code));
                }
                Err(fault) => self.unsure("owner", "inviting", &fault),
            }
            self.pause().await;
        }
    }

    /// Revokes a machine; `revoked` speaks with what was its credential, and may do nothing afterwards.
    async fn revoke(&self, id: &MachineId, revoked: &Client) {
        let owner = &self.owner.client;
        let Ok(seen) = owner.machine(&self.team, id).await else { return };
        self.ledger().revoked.entry(id.clone()).or_insert(Fate::Asked);
        match owner.revoke_machine(&self.team, &seen).await {
            Ok(()) => {
                self.ledger().revoked.insert(id.clone(), Fate::Done);
                self.record.note("owner", format!("revoked {id}"));
                match revoked.me().await {
                    Ok(_) => self.record.broken(format!("the revoked credential of {id} still speaks")),
                    Err(fault) => self.record.note("owner", format!("its credential is told: {fault}")),
                }
            }
            Err(fault) => self.unsure("owner", "revoking", &fault),
        }
    }

    async fn remove(&self, principal: &PrincipalId, for_good: bool) {
        let owner = &self.owner.client;
        let Ok(seen) = owner.member(&self.team, principal).await else { return };
        self.ledger().removed.entry(principal.clone()).or_insert(Fate::Asked);
        let done = if for_good {
            owner.remove_member(&self.team, &seen).await
        } else {
            let change = ChangeMember { role: None, active: Some(false) };
            owner.change_member(&self.team, &seen, &change).await.map(|_| ())
        };
        match done {
            Ok(()) => {
                self.ledger().removed.insert(principal.clone(), Fate::Done);
                self.record.note("owner", format!("removed {principal}"));
            }
            Err(fault) => self.unsure("owner", "removing", &fault),
        }
    }
}
