//! Members of a team: joining, roles, and what ends when somebody leaves.

use crate::access::audit::{self, Entry};
use crate::access::{Standing, guard};
use crate::app::App;
use crate::error::ApiError;
use crate::events::append::{NewEvent, append};
use crate::request::{Call, Reply};
use crate::sessions::attention;
use crate::store::{Tx, credentials, members, teams};
use crate::{invitations, machines};
use serde_json::json;
use teamlamp_wire::account::{ChangeMember, Member, Membership, Role};
use teamlamp_wire::event::Actor;
use teamlamp_wire::id::{PrincipalId, TeamId};

fn event(
    tx: &Tx<'_>,
    app: &App,
    team: &TeamId,
    kind: &str,
    member: &Member,
    actor: &Actor,
) -> Result<(), ApiError> {
    let data =
        json!({ "name": member.principal.name, "role": member.role.as_str(), "active": member.active });
    let id = member.principal.id.as_str();
    append(tx, &app.chance, team, NewEvent::new(actor.clone(), kind, "principal", id, data))?;
    Ok(())
}

fn found(tx: &Tx<'_>, team: &TeamId, who: &PrincipalId) -> Result<Member, ApiError> {
    members::find(tx, team, who)?.ok_or_else(|| ApiError::not_found("member"))
}

/// Makes an active membership, with its event.
///
/// # Errors
/// A store that can't be written.
pub fn join(
    tx: &Tx<'_>,
    app: &App,
    team: &TeamId,
    who: &PrincipalId,
    role: Role,
    actor: &Actor,
) -> Result<Membership, ApiError> {
    let membership = members::insert(tx, team, who, role)?;
    event(tx, app, team, "member.joined", &found(tx, team, who)?, actor)?;
    teams::raise_auth_epoch(tx, team)?;
    Ok(membership)
}

/// Handles `members.list`: by name, then id.
///
/// # Errors
/// 400, 403 for machines, 404.
pub async fn list(call: Call) -> Result<Reply, ApiError> {
    let page = call.page()?;
    let (caller, team, asked) = (call.caller()?.clone(), call.team(), page.clone());
    let members = call.read(move |db| {
        guard::member_in_person(db, &caller, &team)?;
        Ok(members::page(db, &team, asked.after_pair(), asked.limit + 1)?)
    });
    let members = members.await?;
    call.listed(&page, members, |m| [m.principal.name.clone(), m.principal.id.0.clone()])
}

/// Handles `members.read`.
///
/// # Errors
/// 403 for machines, 404.
pub async fn read(call: Call) -> Result<Reply, ApiError> {
    let (caller, team, who) =
        (call.caller()?.clone(), call.team(), PrincipalId::from(call.param("principal")));
    let member = call.read(move |db| {
        guard::member_in_person(db, &caller, &team)?;
        members::find(db, &team, &who)?.ok_or_else(|| ApiError::not_found("member"))
    });
    let member = member.await?;
    let revision = member.revision;
    call.revised(member, revision)
}

/// Whether somebody of this standing may make `before` into `after` (`None`: nobody).
fn may_change(standing: &Standing, before: &Member, after: Option<(Role, bool)>) -> Result<(), ApiError> {
    let concerns_owner = before.role == Role::Owner || after.is_some_and(|(role, _)| role == Role::Owner);
    if concerns_owner && standing.role != Role::Owner {
        return Err(ApiError::forbidden("Only an owner makes, changes or removes owners: ask one."));
    }
    Ok(())
}

/// The last owner stays: 409.
fn keep_an_owner(
    tx: &Tx<'_>,
    team: &TeamId,
    before: &Member,
    after: Option<(Role, bool)>,
) -> Result<(), ApiError> {
    let owned = before.role == Role::Owner && before.active;
    let owns = after == Some((Role::Owner, true));
    if owned && !owns && members::other_owners(tx, team, &before.principal.id)? == 0 {
        return Err(ApiError::conflict("The team's last owner stays: make somebody else an owner first."));
    }
    Ok(())
}

/// What a member held in the team ends: sessions that were theirs to attend to, invitations, machines and
/// their credentials, and a person's own credential where this was the last team. Streams and links end
/// after the commit.
fn end_access(tx: &Tx<'_>, call: &Call, who: &PrincipalId) -> Result<(), ApiError> {
    let (team, actor) = (call.team(), call.caller()?.actor());
    attention::release_all_of(tx, &call.app, &team, who, &actor)?;
    invitations::end_all_of(tx, call, who, None)?;
    machines::revoke_all_of(tx, call, who)?;
    credentials::revoke_of_principal(tx, who, Some(&team))?;
    if !members::is_anywhere(tx, who)? {
        credentials::revoke_of_principal(tx, who, None)?;
    }
    Ok(())
}

/// What a member may no longer have after another role than before.
fn end_what_a_role_gave(
    tx: &Tx<'_>,
    call: &Call,
    who: &PrincipalId,
    (before, after): (Role, Role),
) -> Result<(), ApiError> {
    if after == Role::Viewer {
        attention::release_all_of(tx, &call.app, &call.team(), who, &call.caller()?.actor())?;
    }
    if after < before { invitations::end_all_of(tx, call, who, Some(after)) } else { Ok(()) }
}

/// Handles `members.change`.
///
/// # Errors
/// 400, 403, 404, 409.
pub async fn change(call: Call) -> Result<Reply, ApiError> {
    let expected = call.if_match()?;
    let wanted: ChangeMember = call.json()?;
    call.change(
        move |tx, call| {
            let standing = guard::person(tx, call.caller()?, &call.team(), Role::Admin)?;
            let before = found(tx, &call.team(), &PrincipalId::from(call.param("principal")))?;
            let after = (wanted.role.unwrap_or(before.role), wanted.active.unwrap_or(before.active));
            may_change(&standing, &before, Some(after))?;
            Ok((before, after))
        },
        move |tx, call, (before, after)| {
            let (team, who) = (call.team(), PrincipalId::from(call.param("principal")));
            if before.revision != expected {
                return Err(ApiError::revision_mismatch(before.revision));
            }
            if after == (before.role, before.active) {
                let revision = before.revision;
                return call.revised(before, revision);
            }
            keep_an_owner(tx, &team, &before, Some(after))?;
            let actor = call.caller()?.actor();
            members::update(tx, &team, &who, after.0, after.1)?;
            if before.active && !after.1 {
                end_access(tx, call, &who)?;
            } else {
                end_what_a_role_gave(tx, call, &who, (before.role, after.0))?;
            }
            let member = found(tx, &team, &who)?;
            event(tx, &call.app, &team, "member.changed", &member, &actor)?;
            teams::raise_auth_epoch(tx, &team)?;
            let revision = member.revision;
            audit::allowed(tx, call, &Entry::of(who.as_str()).revision(revision))?;
            call.revised(member, revision)
        },
    )
    .await
}

/// Handles `members.remove`.
///
/// # Errors
/// 400, 403, 404, 409.
pub async fn remove(call: Call) -> Result<Reply, ApiError> {
    let expected = call.if_match()?;
    call.change(
        |tx, call| {
            let standing = guard::person(tx, call.caller()?, &call.team(), Role::Admin)?;
            let before = members::find(tx, &call.team(), &PrincipalId::from(call.param("principal")))?;
            // One who is gone already: the same request again still gets its answer.
            before.iter().try_for_each(|before| may_change(&standing, before, None))?;
            Ok(before)
        },
        move |tx, call, before| {
            let (team, who) = (call.team(), PrincipalId::from(call.param("principal")));
            let before = before.ok_or_else(|| ApiError::not_found("member"))?;
            if before.revision != expected {
                return Err(ApiError::revision_mismatch(before.revision));
            }
            keep_an_owner(tx, &team, &before, None)?;
            let actor = call.caller()?.actor();
            members::delete(tx, &team, &who)?;
            end_access(tx, call, &who)?;
            let gone = Member { active: false, ..before };
            event(tx, &call.app, &team, "member.removed", &gone, &actor)?;
            teams::raise_auth_epoch(tx, &team)?;
            audit::allowed(tx, call, &Entry::of(who.as_str()))?;
            Ok(Reply::Empty)
        },
    )
    .await
}
