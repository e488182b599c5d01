//! Making credentials, and what one may do with itself: rotate and sign out.

use crate::access::audit::{self, Entry};
use crate::access::{Caller, auth};
use crate::app::App;
use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::credentials::{self, New};
use crate::store::{Tx, members, teams};
use teamlamp_wire::account::{CredentialKind, IssuedCredential, Rotated};
use teamlamp_wire::id::{CredentialId, MachineId, PrincipalId, TeamId};
use teamlamp_wire::limits::{MACHINE_CREDENTIAL_MS, USER_CREDENTIAL_MS};

/// How long a credential lives from its making or rotation; a person's also from its last use.
fn lifetime_ms(kind: CredentialKind) -> i64 {
    match kind {
        CredentialKind::User => USER_CREDENTIAL_MS,
        CredentialKind::Machine | CredentialKind::App => MACHINE_CREDENTIAL_MS,
    }
}

fn issue(
    tx: &Tx<'_>,
    app: &App,
    principal: &PrincipalId,
    machine: Option<(&TeamId, &MachineId)>,
) -> Result<(CredentialId, IssuedCredential), ApiError> {
    let kind = if machine.is_some() { CredentialKind::Machine } else { CredentialKind::User };
    let id = CredentialId::new(tx.now_ms, app.chance.bits());
    let (token, hash) = auth::new_token(&id, &app.chance);
    let expires_at = tx.now_ms + lifetime_ms(kind);
    credentials::insert(tx, &New { id: &id, principal, kind, machine, token: &hash, expires_at })?;
    Ok((id, IssuedCredential { token: Some(token), kind, expires_at, redacted: false }))
}

/// Makes a credential of a person.
///
/// # Errors
/// A store that can't be written.
pub fn issue_to_person(
    tx: &Tx<'_>,
    app: &App,
    principal: &PrincipalId,
) -> Result<(CredentialId, IssuedCredential), ApiError> {
    issue(tx, app, principal, None)
}

/// Makes a credential of a machine.
///
/// # Errors
/// A store that can't be written.
pub fn issue_to_machine(
    tx: &Tx<'_>,
    app: &App,
    custodian: &PrincipalId,
    team: &TeamId,
    machine: &MachineId,
) -> Result<IssuedCredential, ApiError> {
    Ok(issue(tx, app, custodian, Some((team, machine)))?.1)
}

/// Audits what a credential did with itself: in its own team, or in each that its person is a member of.
fn note(tx: &Tx<'_>, call: &Call, caller: &Caller) -> Result<(), ApiError> {
    let entry = Entry::of(caller.credential_id.as_str());
    if caller.team_id.is_some() {
        return audit::allowed(tx, call, &entry.in_team(caller.team_id.as_ref()));
    }
    let memberships = members::of_principal(tx, &caller.principal_id)?;
    memberships
        .iter()
        .filter(|membership| membership.active)
        .try_for_each(|membership| audit::allowed(tx, call, &entry.in_team(Some(&membership.team.id))))
}

/// Handles `credentials.rotate`: a second token; the old one is valid until the new one is first used.
///
/// # Errors
/// 401.
pub async fn rotate(call: Call) -> Result<Reply, ApiError> {
    call.change(
        |_, call| Ok(call.caller()?.clone()),
        |tx, call, caller| {
            let (token, hash) = auth::new_token(&caller.credential_id, &call.app.chance);
            let expires_at = tx.now_ms + lifetime_ms(caller.kind);
            credentials::rotate(tx, &caller.credential_id, &hash, expires_at)?;
            note(tx, call, &caller)?;
            let credential =
                IssuedCredential { token: Some(token), kind: caller.kind, expires_at, redacted: false };
            call.one(Rotated { credential })
        },
    )
    .await
}

/// Handles `credentials.sign_out`: ends the credential of the request.
///
/// # Errors
/// 401.
pub async fn sign_out(call: Call) -> Result<Reply, ApiError> {
    call.change(
        |_, call| Ok(call.caller()?.clone()),
        |tx, call, caller| {
            credentials::revoke(tx, &caller.credential_id)?;
            if let Some(team) = &caller.team_id {
                teams::raise_auth_epoch(tx, team)?;
            }
            note(tx, call, &caller)?;
            Ok(Reply::Empty)
        },
    )
    .await
}
