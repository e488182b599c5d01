//! Machines: enrollment, the list, changes to one, the heartbeat (spec 01, 02).

use crate::answer::Answer;
use crate::call::Call;
use crate::client::Client;
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
        self.all(Path::team(team).to("machines")).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, Step};

    fn told(name: &str, revision: i64) -> String {
        format!(
            r#"{{"id":"mach_1","name":"{name}","custodian_id":"prin_1","enrollment":"active",
            "connection":"online","last_seen_at":1,"incarnation_id":null,"host_key_id":null,
            "revision":{revision},"away":null}}"#
        )
    }

    fn seen() -> Machine {
        serde_json::from_str(&told("laptop", 3)).unwrap()
    }

    fn mismatch() -> Step {
        Step::refusal(409, "revision_mismatch")
    }

    #[tokio::test(start_paused = true)]
    async fn machines_are_all_of_them_however_many_pages_they_take() {
        let page = |name: &str, next: &str| {
            let machine = told(name, 1);
            Step::json(
                200,
                format!(r#"{{"version":1,"context":{{}},"items":[{machine}],"next_cursor":{next}}}"#),
            )
        };
        let script = Script::of([page("desk", r#""more""#), page("laptop", "null")]);
        let all = script.client().machines(&"team_1".into()).await.unwrap();
        assert_eq!(all.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["desk", "laptop"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rename_goes_on_over_heartbeats() {
        let script = Script::of([
            mismatch(),
            Step::data(told("laptop", 8)),
            mismatch(),
            Step::data(told("laptop", 9)),
            Step::data(told("desk", 10)),
        ]);
        let done = script.client().rename_machine(&"team_1".into(), &seen(), "desk").await.unwrap();
        assert_eq!(done.name, "desk");
        let revisions: Vec<_> = [0, 2, 4].map(|n| script.header(n, "if-match").unwrap()).into();
        assert_eq!(revisions, ["\"3\"", "\"8\"", "\"9\""]);
        assert_ne!(script.header(0, "idempotency-key"), script.header(2, "idempotency-key"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_longer_what_the_person_saw_is_left_alone() {
        let renamed = Step::data(told("someone-else", 8));
        let script = Script::of([mismatch(), renamed]);
        let fault = script.client().revoke_machine(&"team_1".into(), &seen()).await.unwrap_err();
        assert_eq!(fault.code(), Some(ErrorCode::RevisionMismatch));
        assert_eq!(script.asked().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_never_meets_its_revision_ends_after_five_tries() {
        let steps = (0..9).flat_map(|n| [mismatch(), Step::data(told("laptop", 4 + n))]);
        let script = Script::of(steps);
        script.client().revoke_machine(&"team_1".into(), &seen()).await.unwrap_err();
        let tries = script.asked().iter().filter(|r| r.method == http::Method::DELETE).count();
        assert_eq!(tries, REVISION_TRIES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_is_waited_for_ten_seconds_and_sent_once() {
        let script = Script::of([Step::Hang]);
        let client = script.client();
        let beat = serde_json::from_str(
            r#"{"incarnation_id":"i","sequence":1,"bindings":[],"roots":[],"activity":[]}"#,
        );
        let (team, machine) = ("team_1".into(), "mach_1".into());
        client.heartbeat(&team, &machine, &beat.unwrap()).await.unwrap_err();
        assert_eq!(client.clock.now_ms(), 1_010_000);
        assert_eq!(script.asked().len(), 1);
        assert_eq!(script.asked()[0].path_and_query, "/v1/teams/team_1/machines/mach_1/heartbeat");
    }
}
