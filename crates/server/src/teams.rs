//! Teams: making, reading, naming and setting them.

use crate::access::audit::{self, Entry};
use crate::access::{Caller, guard};
use crate::app::App;
use crate::error::ApiError;
use crate::events::append::{NewEvent, append};
use crate::request::{Call, Reply, one};
use crate::store::{Tx, members, teams};
use serde_json::json;
use teamlamp_wire::account::{
    ChangeTeam, ChangeTeamSettings, CreateTeam, CreatedTeam, CredentialKind, Membership, Role, TeamRef,
    TeamSettings,
};
use teamlamp_wire::event::Actor;
use teamlamp_wire::id::{PrincipalId, TeamId};
use teamlamp_wire::limits::{ATTENTION_MINUTES, RETENTION_DAYS};
use teamlamp_wire::name;

/// A name as it is stored.
///
/// # Errors
/// 400 that says what is wrong with it.
pub fn clean_name(raw: &str, what: &str) -> Result<String, ApiError> {
    name::clean(raw).map_err(|fault| ApiError::invalid(fault.sentence(what)))
}

/// Makes a team and its owner's membership, with their events.
///
/// # Errors
/// A store that can't be written.
pub fn found(
    tx: &Tx<'_>,
    app: &App,
    name: &str,
    owner: &PrincipalId,
    actor: &Actor,
) -> Result<(TeamRef, Membership), ApiError> {
    let id = TeamId::new(tx.now_ms, app.chance.bits());
    let team = teams::insert(tx, &id, name)?;
    let created = NewEvent::new(actor.clone(), "team.created", "team", id.as_str(), json!({ "name": name }));
    append(tx, &app.chance, &id, created)?;
    let membership = crate::members::join(tx, app, &id, owner, Role::Owner, actor)?;
    Ok((team, membership))
}

/// Handles `teams.create`.
///
/// # Errors
/// 403 where the server does not allow it to this person.
pub async fn create(call: Call) -> Result<Reply, ApiError> {
    let name = clean_name(&call.json::<CreateTeam>()?.name, "The team's name")?;
    call.change(
        |tx, call| {
            let caller = call.caller()?;
            let may = caller.kind == CredentialKind::User
                && call.app.config.owners_make_teams
                && members::owns_any(tx, &caller.principal_id)?;
            if !may {
                return Err(ApiError::forbidden(
                    "Only a person who owns a team of this server may make another, where the server allows it.",
                ));
            }
            Ok(caller.clone())
        },
        move |tx, call, caller: Caller| {
            let (team, membership) =
                found(tx, &call.app, &name, &caller.principal_id, &caller.actor())?;
            audit::allowed(tx, call, &Entry::of(team.id.as_str()).in_team(Some(&team.id)).revision(1))?;
            let mut context = call.context();
            context.team_id = Some(team.id.clone());
            one(context, 201, CreatedTeam { team, membership }, None)
        },
    )
    .await
}

/// Handles `teams.read`.
///
/// # Errors
/// 404.
pub async fn read(call: Call) -> Result<Reply, ApiError> {
    let (caller, id) = (call.caller()?.clone(), call.team());
    let team = call.read(move |db| {
        guard::member(db, &caller, &id)?;
        teams::find(db, &id)?.ok_or_else(|| ApiError::not_found("team"))
    });
    let team = team.await?;
    let revision = team.revision;
    call.revised(team, revision)
}

/// Handles `teams.change`.
///
/// # Errors
/// 400 for names and settings out of their range, 403, 404, 409.
pub async fn change(call: Call) -> Result<Reply, ApiError> {
    let expected = call.if_match()?;
    let wanted: ChangeTeam = call.json()?;
    let name = wanted.name.as_deref().map(|raw| clean_name(raw, "The team's name")).transpose()?;
    let settings = wanted.settings.unwrap_or_default();
    check(&settings)?;
    call.change(
        |tx, call| {
            guard::person(tx, call.caller()?, &call.team(), Role::Admin).map(|standing| standing.team_id)
        },
        move |tx, call, id| {
            let before = teams::find(tx, &id)?.ok_or_else(|| ApiError::not_found("team"))?;
            if before.revision != expected {
                return Err(ApiError::revision_mismatch(before.revision));
            }
            let after_name = name.unwrap_or_else(|| before.name.clone());
            let after = merged(&before.settings, &settings);
            if after_name == before.name && after == before.settings {
                let revision = before.revision;
                return call.revised(before, revision);
            }
            teams::update(tx, &id, &after_name, &after)?;
            if after_name != before.name {
                let data = json!({ "name": after_name });
                let renamed =
                    NewEvent::new(call.caller()?.actor(), "team.renamed", "team", id.as_str(), data);
                append(tx, &call.app.chance, &id, renamed)?;
            }
            if after.members_may_invite != before.settings.members_may_invite {
                teams::raise_auth_epoch(tx, &id)?;
            }
            let team = teams::find(tx, &id)?.ok_or_else(|| ApiError::not_found("team"))?;
            let revision = team.revision;
            audit::allowed(tx, call, &Entry::of(id.as_str()).revision(revision))?;
            call.revised(team, revision)
        },
    )
    .await
}

fn check(settings: &ChangeTeamSettings) -> Result<(), ApiError> {
    for (what, value, (_, least, most)) in [
        ("retention_days", settings.retention_days, RETENTION_DAYS),
        ("attention_minutes", settings.attention_minutes, ATTENTION_MINUTES),
    ] {
        if value.is_some_and(|v| !(least..=most).contains(&v)) {
            return Err(ApiError::invalid(format!("`{what}` must be from {least} to {most}.")));
        }
    }
    Ok(())
}

fn merged(before: &TeamSettings, wanted: &ChangeTeamSettings) -> TeamSettings {
    TeamSettings {
        members_may_invite: wanted.members_may_invite.unwrap_or(before.members_may_invite),
        retention_days: wanted.retention_days.unwrap_or(before.retention_days),
        attention_minutes: wanted.attention_minutes.unwrap_or(before.attention_minutes),
    }
}
