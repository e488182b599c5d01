//! Enrolling a machine: a fresh act of its custodian that finds the same machine again by its key or its
//! name, or makes a new one (spec 01).

use crate::access::audit::{self, Entry};
use crate::access::{Caller, guard};
use crate::credentials::issue_to_machine;
use crate::error::ApiError;
use crate::events::append::append;
use crate::machines::{NAME_TAKEN, end_credentials, event, found};
use crate::request::{Call, Reply, one};
use crate::store::machines::{self, Enrolling};
use crate::store::{Tx, teams};
use crate::teams::clean_name;
use sha2::{Digest, Sha256};
use teamlamp_wire::account::Role;
use teamlamp_wire::id::{MachineId, SourceId, TeamId};
use teamlamp_wire::machine::{Enroll, Enrolled, Enrollment, Machine, is_key};
use teamlamp_wire::name::fold;

/// Which machine an enrollment means.
#[derive(Clone, Debug, PartialEq)]
enum Which {
    /// One that the custodian enrolled before.
    Same(Machine),
    /// One that the team does not have yet.
    New,
}

/// Decides which machine an enrollment means: `by_key` is the custodian's own machine with the key,
/// `by_name` whoever's machine with the name. `None` where the name is another's.
fn which(by_key: Option<Machine>, by_name: Option<Machine>, custodian: &Caller) -> Option<Which> {
    match (by_key, by_name) {
        (Some(machine), Some(holder)) if holder.id != machine.id => None,
        (Some(machine), _) => Some(Which::Same(machine)),
        (None, Some(holder)) if holder.custodian_id != custodian.principal_id => None,
        (None, Some(machine)) => Some(Which::Same(machine)),
        (None, None) => Some(Which::New),
    }
}

/// Handles `machines.enroll`.
///
/// # Errors
/// 400 for a name or key that is none, 403 for viewers and machines, 404, 409 where the name is another's.
pub async fn enroll(call: Call) -> Result<Reply, ApiError> {
    let asked: Enroll = call.json()?;
    let name = clean_name(&asked.name, "The machine's name")?;
    if !is_key(&asked.enrollment_key) {
        return Err(ApiError::invalid("enrollment_key must be 16 to 128 of A-Z, a-z, 0-9, _ and -."));
    }
    let key_hash: [u8; 32] = Sha256::digest(asked.enrollment_key.as_bytes()).into();
    call.change(
        |tx, call| {
            guard::person(tx, call.caller()?, &call.team(), Role::Member).map_err(|refusal| {
                // The general sentence would not say what a viewer can't do.
                if refusal.status == 403 {
                    ApiError::forbidden(
                        "Only a member who is not a viewer enrolls machines, with their own credential.",
                    )
                } else {
                    refusal
                }
            })?;
            Ok(call.caller()?.clone())
        },
        move |tx, call, caller| {
            let (team, name_fold) = (call.team(), fold(&name));
            let by_key = machines::by_key(tx, &team, &caller.principal_id, &key_hash)?;
            let by_name = machines::by_name(tx, &team, &name_fold)?;
            let which = which(by_key, by_name, &caller).ok_or_else(|| ApiError::conflict(NAME_TAKEN))?;
            let new = Enrolling {
                team: &team,
                name: &name,
                name_fold: &name_fold,
                custodian: &caller.principal_id,
                key_hash: &key_hash,
            };
            write(tx, call, &caller, which, &new)
        },
    )
    .await
}

fn write(
    tx: &Tx<'_>,
    call: &Call,
    caller: &Caller,
    which: Which,
    new: &Enrolling<'_>,
) -> Result<Reply, ApiError> {
    let (team, chance) = (new.team, &call.app.chance);
    let (id, status) = match which {
        Which::New => {
            let id = MachineId::new(tx.now_ms, chance.bits());
            machines::insert(tx, &id, &SourceId::new(tx.now_ms, chance.bits()), new)?;
            append(tx, chance, team, event(caller.actor(), "machine.enrolled", &found(tx, team, &id)?))?;
            (id, 201)
        }
        Which::Same(before) => {
            again(tx, call, caller, &before, new)?;
            (before.id, 200)
        }
    };
    let credential = issue_to_machine(tx, &call.app, &caller.principal_id, team, &id)?;
    let machine = found(tx, team, &id)?;
    let source = machines::source(tx, &id)?.ok_or_else(|| ApiError::internal("a machine has no source"))?;
    let revision = machine.revision;
    audit::allowed(tx, call, &Entry::of(id.as_str()).revision(revision))?;
    one(call.context(), status, Enrolled { machine, source, credential }, Some(revision))
}

/// The same machine once more: its older credentials end, and what changed is told.
fn again(
    tx: &Tx<'_>,
    call: &Call,
    caller: &Caller,
    before: &Machine,
    new: &Enrolling<'_>,
) -> Result<(), ApiError> {
    let team: &TeamId = new.team;
    machines::enroll_again(tx, &before.id, new)?;
    end_credentials(tx, &before.id)?;
    let after = found(tx, team, &before.id)?;
    // Revived or not: its older credentials were revoked.
    teams::raise_auth_epoch(tx, team)?;
    if before.enrollment == Enrollment::Revoked {
        append(tx, &call.app.chance, team, event(caller.actor(), "machine.enrolled", &after))?;
    } else if before.name != after.name {
        append(tx, &call.app.chance, team, event(caller.actor(), "machine.renamed", &after))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use teamlamp_wire::account::CredentialKind;
    use teamlamp_wire::machine::Connection;

    fn machine(id: &str, custodian: &str) -> Machine {
        Machine {
            id: id.into(),
            name: "laptop".into(),
            custodian_id: custodian.into(),
            enrollment: Enrollment::Active,
            connection: Connection::Offline,
            last_seen_at: None,
            incarnation_id: None,
            host_key_id: None,
            revision: 1,
            away: None,
            clock_offset_ms: None,
        }
    }

    #[test]
    fn an_enrollment_means_one_machine() {
        let me = Caller {
            credential_id: "cred_1".into(),
            kind: CredentialKind::User,
            principal_id: "prin_me".into(),
            name: "Me".into(),
            team_id: None,
            machine_id: None,
        };
        let (mine, other) = (machine("mach_1", "prin_me"), machine("mach_2", "prin_you"));
        let second = machine("mach_3", "prin_me");
        let same = |m: &Machine| Some(Which::Same(m.clone()));
        assert_eq!(which(None, None, &me), Some(Which::New));
        assert_eq!(which(Some(mine.clone()), None, &me), same(&mine));
        assert_eq!(which(Some(mine.clone()), Some(mine.clone()), &me), same(&mine));
        assert_eq!(which(None, Some(mine.clone()), &me), same(&mine));
        assert_eq!(which(None, Some(other.clone()), &me), None);
        assert_eq!(which(Some(mine.clone()), Some(other), &me), None);
        assert_eq!(which(Some(mine), Some(second), &me), None);
    }
}
