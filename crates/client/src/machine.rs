//! Machines: enrollment, the list, changes to one, the heartbeat (spec 01, 02).

use crate::client::{Answer, Call, Client};
use crate::error::ClientError;
use crate::path::Path;
use teamlamp_wire::envelope::{ErrorCode, One};
use teamlamp_wire::heartbeat::{Heartbeat, HeartbeatAnswer, Root};
use teamlamp_wire::id::{MachineId, TeamId};
use teamlamp_wire::machine::{Configuration, Enroll, Enrolled, Machine, RenameMachine, SendNote, SentNote};

/// A machine's revision rises with its heartbeats: how often a change of one is made anew.
const REVISION_TRIES: usize = 5;
/// A heartbeat that takes longer is not worth waiting for: the next one says more.
const HEARTBEAT_LIMIT_MS: i64 = 10_000;

/// Each method fails as [`ClientError`] says.
impl Client {
    /// Enrolls this computer, or finds it again by its key or name.
    pub async fn enroll(&self, team: &TeamId, enroll: &Enroll) -> Result<Enrolled, ClientError> {
        self.change(Call::post(Path::team(team).to("machines"), enroll)).await
    }

    /// All machines of a team that this credential may see, by name.
    pub async fn machines(&self, team: &TeamId) -> Result<Vec<Machine>, ClientError> {
        // Without a limit machines answer all of them.
        Ok(self.page(Path::team(team).to("machines")).await?.items)
    }

    /// One machine.
    pub async fn machine(&self, team: &TeamId, id: &MachineId) -> Result<Machine, ClientError> {
        self.get(machine(team, id)).await
    }

    /// The roots of a machine, for its custodian and admins.
    pub async fn roots(&self, team: &TeamId, id: &MachineId) -> Result<Vec<Root>, ClientError> {
        self.all(machine(team, id).to("roots")).await
    }

    /// Renames a machine that still is what was seen but for its heartbeats.
    pub async fn rename_machine(
        &self,
        team: &TeamId,
        seen: &Machine,
        name: &str,
    ) -> Result<Machine, ClientError> {
        let body = RenameMachine { name: name.to_owned() };
        let rename = |revision| Call::patch(machine(team, &seen.id), &body).if_match(revision);
        Ok(self.decode::<One<Machine>>(&self.while_as_seen(team, seen, rename).await?)?.data)
    }

    /// Revokes a machine that still is what was seen but for its heartbeats.
    pub async fn revoke_machine(&self, team: &TeamId, seen: &Machine) -> Result<(), ClientError> {
        let revoke = |revision| Call::delete(machine(team, &seen.id)).if_match(revision);
        self.while_as_seen(team, seen, revoke).await.map(|_| ())
    }

    /// Makes a change of a machine under its present revision, while name, custodian and enrollment are
    /// what the person saw.
    async fn while_as_seen(
        &self,
        team: &TeamId,
        seen: &Machine,
        change: impl Fn(i64) -> Call,
    ) -> Result<Answer, ClientError> {
        let mut revision = seen.revision;
        let mut tries = 1;
        loop {
            let fault = match self.call(&change(revision)).await {
                Err(fault) if fault.code() == Some(ErrorCode::RevisionMismatch) => fault,
                done => return done,
            };
            let now = self.machine(team, &seen.id).await?;
            let same = now.name == seen.name
                && now.custodian_id == seen.custodian_id
                && now.enrollment == seen.enrollment;
            if !same || tries == REVISION_TRIES {
                return Err(fault);
            }
            revision = now.revision;
            tries += 1;
        }
    }

    /// The configuration of the machine whose credential asks.
    pub async fn configuration(&self, team: &TeamId, id: &MachineId) -> Result<Configuration, ClientError> {
        self.get(machine(team, id).to("configuration")).await
    }

    /// Sends a short note to whoever sits at a machine.
    pub async fn send_note(
        &self,
        team: &TeamId,
        id: &MachineId,
        note: &SendNote,
    ) -> Result<SentNote, ClientError> {
        self.change(Call::post(machine(team, id).to("notes"), note)).await
    }

    /// Reports what this machine does. One try: the next report says more than a late one.
    pub async fn heartbeat(
        &self,
        team: &TeamId,
        id: &MachineId,
        beat: &Heartbeat,
    ) -> Result<HeartbeatAnswer, ClientError> {
        let call = Call::post(machine(team, id).to("heartbeat"), beat);
        self.change(call.within_ms(HEARTBEAT_LIMIT_MS)).await
    }
}

pub(crate) fn machine(team: &TeamId, id: &MachineId) -> Path {
    Path::team(team).to("machines").piece(id)
}
