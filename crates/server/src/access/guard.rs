//! What must hold inside the transaction of a change, each with the error that it stands for. No check
//! outside counts (spec 08).

use super::{Caller, Standing};
use crate::error::ApiError;
use crate::store::{credentials, members};
use rusqlite::Connection;
use teamlamp_wire::account::{CredentialKind, Role};
use teamlamp_wire::id::{MachineId, TeamId};

/// The credential is neither revoked nor expired, and its machine (if it has one) is active: else 401.
pub fn credential(tx: &crate::store::Tx<'_>, caller: &Caller) -> Result<(), ApiError> {
    credential_at(tx, caller, tx.now_ms)
}

/// [`credential`] on a read, at a moment.
pub fn credential_at(connection: &Connection, caller: &Caller, now: i64) -> Result<(), ApiError> {
    if credentials::is_valid(connection, &caller.credential_id, now)? {
        return Ok(());
    }
    Err(ApiError::unauthenticated())
}

/// An active membership of the caller in the team, else 404: a team that one is no member of is not there.
/// A machine credential stands only in its own team, with at most its custodian's role.
pub fn member(connection: &Connection, caller: &Caller, team: &TeamId) -> Result<Standing, ApiError> {
    if caller.team_id.as_ref().is_some_and(|own| own != team) {
        return Err(ApiError::not_found("team"));
    }
    let role = members::active_role(connection, team, &caller.principal_id)?;
    let role = role.ok_or_else(|| ApiError::not_found("team"))?;
    Ok(Standing { team_id: team.clone(), role })
}

/// [`member`] who acts with a person's own credential: else 403. What a machine may read, spec 01 lists.
pub fn member_in_person(
    connection: &Connection,
    caller: &Caller,
    team: &TeamId,
) -> Result<Standing, ApiError> {
    person(connection, caller, team, Role::Viewer)
}

/// [`member`] who acts with a person's own credential, with at least this role: else 403.
pub fn person(
    connection: &Connection,
    caller: &Caller,
    team: &TeamId,
    least: Role,
) -> Result<Standing, ApiError> {
    let standing = member(connection, caller, team)?;
    if caller.kind != CredentialKind::User {
        return Err(ApiError::forbidden(
            "This needs a person's own credential, not a machine's or an app's.",
        ));
    }
    if standing.role < least {
        let needed = match least {
            Role::Owner => "an owner",
            Role::Admin => "an admin or owner",
            Role::Member => "a member who is not a viewer",
            Role::Viewer => "a member",
        };
        return Err(ApiError::forbidden(format!("Only {needed} of the team may do this: ask one.")));
    }
    Ok(standing)
}

/// Exactly this machine's own credential: another kind or another machine of the team is 403, another
/// team 404.
pub fn own_machine(
    connection: &Connection,
    caller: &Caller,
    team: &TeamId,
    machine: &MachineId,
) -> Result<Standing, ApiError> {
    let standing = member(connection, caller, team).map_err(|refusal| {
        // A machine credential whose custodian is no member any more is no credential (spec 02).
        if caller.team_id.as_ref() == Some(team) { ApiError::unauthenticated() } else { refusal }
    })?;
    if caller.machine_id.as_ref() != Some(machine) {
        return Err(ApiError::forbidden("Only this machine's own credential may do this."));
    }
    Ok(standing)
}
