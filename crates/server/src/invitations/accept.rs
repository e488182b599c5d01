//! Accepting an invitation: a person joins, or with the owner's code of a new server a team begins. A
//! lost answer loses nobody (spec 01).

use super::{only_a_person, open, typed};
use crate::access::audit::{self, Entry};
use crate::access::{auth, idempotency};
use crate::credentials::issue_to_person;
use crate::error::ApiError;
use crate::request::{Call, Reply, one};
use crate::store::idempotency::Record;
use crate::store::invitations::{self, Kept};
use crate::store::{Tx, credentials, members, teams};
use crate::teams::clean_name;
use serde_json::Value;
use teamlamp_wire::account::{Membership, Principal, TeamRef};
use teamlamp_wire::event::{Actor, ActorKind};
use teamlamp_wire::id::{PrincipalId, TeamId};
use teamlamp_wire::invitation::{AcceptInvitation, Accepted};

/// What was asked for, checked.
#[derive(Clone, Debug)]
struct Wanted {
    mac: [u8; 32],
    name: String,
    team_name: Option<String>,
}

/// Handles `invitations.accept`.
///
/// # Errors
/// 400, 403 for an inactive member, 404, 409 for an active one, 410, 429 after ten wrong codes.
pub async fn accept(call: Call) -> Result<Reply, ApiError> {
    let asked: AcceptInvitation = call.json()?;
    let code = typed(&asked.code)?;
    let name = clean_name(&asked.name, "Your name")?;
    let team_name = asked.team_name.as_deref().map(|raw| clean_name(raw, "The team's name")).transpose()?;
    let (app, peer) = (call.app.clone(), call.peer);
    let wanted = Wanted { mac: app.keys.code_mac(&code), name, team_name };
    let founds = wanted.team_name.is_some();
    let join = call.guarded(move |tx, call| once(tx, call, &wanted));
    let result = super::limited(&app, peer, join).await;
    if founds && result.is_ok() {
        super::first_owner::forget(&app);
    }
    result
}

fn once(tx: &Tx<'_>, call: &Call, wanted: &Wanted) -> Result<Reply, ApiError> {
    only_a_person(tx, call)?;
    if let Some(keyed) = &call.keyed
        && let Some(record) = idempotency::earlier(tx, keyed)?
    {
        return again(tx, call, record);
    }
    let kept = open(invitations::by_code(tx, &wanted.mac)?, tx.now_ms)?;
    let (accepted, credential) = join(tx, call, wanted, &kept)?;
    let mut context = call.context();
    context.team_id = Some(accepted.team.id.clone());
    context.principal_id = Some(accepted.principal.id.clone());
    let reply = one(context, 201, accepted, None)?;
    if let Some(keyed) = &call.keyed {
        idempotency::keep(tx, keyed, &reply, Some(&credential))?;
    }
    Ok(reply)
}

/// The same request again: while the credential that it made was never used, its answer was lost, so
/// that it gets a fresh token; nothing is spent and nobody is made twice.
fn again(tx: &Tx<'_>, call: &Call, record: Record) -> Result<Reply, ApiError> {
    let Some(id) = &record.credential else { return Ok(idempotency::again(record)) };
    let (token, hash) = auth::new_token(id, &call.app.chance);
    if !credentials::give_another(tx, id, &hash)? {
        return Ok(idempotency::again(record));
    }
    let mut body: Value = serde_json::from_str(&record.body)?;
    if let Some(credential) = body.pointer_mut("/data/credential").and_then(Value::as_object_mut) {
        credential.insert("token".into(), token.into());
        credential.remove("redacted");
    }
    Ok(Reply::Json { status: record.status, body: body.to_string(), etag: record.etag })
}

type Made = (Accepted, teamlamp_wire::id::CredentialId);

fn join(tx: &Tx<'_>, call: &Call, wanted: &Wanted, kept: &Kept) -> Result<Made, ApiError> {
    let principal = person(tx, call, wanted)?;
    let actor = Actor {
        principal_id: Some(principal.id.clone()),
        kind: ActorKind::Person,
        name: principal.name.clone(),
        on_behalf_of: Vec::new(),
    };
    let (team, membership) = match (&kept.team, &wanted.team_name) {
        (Some(id), None) => joined(tx, call, id, kept, &principal.id, &actor)?,
        (None, Some(name)) => crate::teams::found(tx, &call.app, name, &principal.id, &actor)?,
        (None, None) => {
            return Err(ApiError::invalid("This code makes a new team: give its name as `team_name`."));
        }
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("This code joins a team that has a name: leave `team_name` out."));
        }
    };
    invitations::spend(tx, &kept.invitation.id)?;
    let (id, credential) = issue_to_person(tx, &call.app, &principal.id)?;
    let entry = Entry::of(kept.invitation.id.as_str()).in_team(Some(&team.id)).by(&principal.id);
    audit::allowed(tx, call, &entry)?;
    Ok((Accepted { principal, team, membership, credential }, id))
}

/// Who joins: the person whose credential the request has, else a new one.
fn person(tx: &Tx<'_>, call: &Call, wanted: &Wanted) -> Result<Principal, ApiError> {
    if let Some(caller) = &call.caller {
        return members::principal(tx, &caller.principal_id)?.ok_or_else(ApiError::unauthenticated);
    }
    let id = PrincipalId::new(tx.now_ms, call.app.chance.bits());
    members::insert_person(tx, &id, &wanted.name)?;
    Ok(Principal { id, name: wanted.name.clone(), kind: "person".into() })
}

fn joined(
    tx: &Tx<'_>,
    call: &Call,
    team: &TeamId,
    kept: &Kept,
    who: &PrincipalId,
    actor: &Actor,
) -> Result<(TeamRef, Membership), ApiError> {
    match members::find(tx, team, who)? {
        Some(member) if member.active => {
            return Err(ApiError::conflict("You are a member of this team already."));
        }
        Some(_) => {
            let refusal = "Your membership of this team is inactive: only an admin of it can reactivate it.";
            return Err(ApiError::forbidden(refusal).of_team(team));
        }
        None => {}
    }
    let membership = crate::members::join(tx, &call.app, team, who, kept.invitation.role, actor)?;
    let team = teams::reference(tx, team)?.ok_or_else(|| ApiError::not_found("team"))?;
    Ok((team, membership))
}
