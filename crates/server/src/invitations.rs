//! Invitations: making, listing and revoking them, and what anyone with a code sees of one. Accepting is
//! in [`accept`].

pub mod accept;
pub mod first_owner;

use crate::access::audit::{self, Entry};
use crate::access::{Standing, guard};
use crate::app::App;
use crate::error::ApiError;
use crate::request::{Call, Reply, one};
use crate::store::invitations::{self, Kept};
use crate::store::{Tx, members, teams};
use rusqlite::Connection;
use std::net::IpAddr;
use teamlamp_wire::account::{CredentialKind, Role};
use teamlamp_wire::envelope::ErrorCode;
use teamlamp_wire::id::{InvitationId, PrincipalId};
use teamlamp_wire::invitation::{
    Code, CreateInvitation, CreatedInvitation, Invitation, InvitationPreview, JoinLink, Named,
    PreviewInvitation, ServerRef,
};
use teamlamp_wire::limits::INVITATION_NOTE_CHARS;
use teamlamp_wire::name::clean_to;

const EXPIRES_SECONDS: (i64, i64, i64) = (86_400, 60, 604_800);
const USES: (i64, i64, i64) = (1, 1, 100);

/// An invitation as it was asked for, checked.
#[derive(Clone, Debug)]
struct Wanted {
    role: Role,
    expires_in_ms: i64,
    max_uses: i64,
    note: Option<String>,
}

fn wanted(asked: CreateInvitation) -> Result<Wanted, ApiError> {
    let within = |what: &str, value: Option<i64>, (default, least, most): (i64, i64, i64)| {
        let value = value.unwrap_or(default);
        let fine = (least..=most).contains(&value);
        fine.then_some(value)
            .ok_or_else(|| ApiError::invalid(format!("`{what}` must be from {least} to {most}.")))
    };
    let note = asked
        .note
        .map(|raw| clean_to(&raw, INVITATION_NOTE_CHARS).map_err(|fault| fault.sentence("The note")))
        .transpose()
        .map_err(ApiError::invalid)?;
    Ok(Wanted {
        role: asked.role,
        expires_in_ms: within("expires_in_seconds", asked.expires_in_seconds, EXPIRES_SECONDS)? * 1000,
        max_uses: within("max_uses", asked.max_uses, USES)?,
        note,
    })
}

/// Whether somebody of this standing may invite to this role.
fn may_invite(standing: &Standing, role: Role, members_may_invite: bool) -> Result<(), ApiError> {
    let refusal = match standing.role {
        Role::Owner => return Ok(()),
        Role::Admin if role != Role::Owner => return Ok(()),
        Role::Admin => "Only an owner invites owners: ask one.",
        Role::Member if members_may_invite && role == Role::Member => return Ok(()),
        Role::Member if members_may_invite => "A member invites members: ask an admin for another role.",
        Role::Member => "Only admins invite to this team: ask one.",
        Role::Viewer => "Viewers invite nobody: ask a member.",
    };
    Err(ApiError::forbidden(refusal))
}

/// Handles `invitations.create`: the code and the link are told once.
///
/// # Errors
/// 400 for what is out of its range, 403, 404.
pub async fn create(call: Call) -> Result<Reply, ApiError> {
    let wanted = wanted(call.json()?)?;
    let role = wanted.role;
    call.change(
        move |tx, call| {
            let standing = guard::person(tx, call.caller()?, &call.team(), Role::Viewer)?;
            let team = teams::find(tx, &standing.team_id)?.ok_or_else(|| ApiError::not_found("team"))?;
            may_invite(&standing, role, team.settings.members_may_invite)?;
            Ok(team)
        },
        move |tx, call, team| {
            let code = Code::from_random(call.app.chance.below(1 << 50));
            let invitation = Invitation {
                id: InvitationId::new(tx.now_ms, call.app.chance.bits()),
                role: wanted.role,
                expires_at: tx.now_ms + wanted.expires_in_ms,
                max_uses: wanted.max_uses,
                uses: 0,
                note: wanted.note,
                revision: 1,
                created_by: Some(call.caller()?.principal_id.clone()),
            };
            invitations::insert(tx, Some(&team.id), &invitation, &call.app.keys.code_mac(&code))?;
            audit::allowed(tx, call, &Entry::of(invitation.id.as_str()).revision(1))?;
            let link = JoinLink {
                server: call.app.origin.clone(),
                code: code.clone(),
                fingerprint: call.app.fingerprint.clone(),
                team: Some(team.name),
            };
            let created = CreatedInvitation {
                invitation,
                code: Some(code.to_string()),
                link: Some(link.to_string()),
                redacted: false,
            };
            one(call.context(), 201, created, Some(1))
        },
    )
    .await
}

/// Ends the open invitations of a member who could not make them any more: all where they left, those to
/// roles above what they may invite to with another role of their own.
///
/// # Errors
/// What the store says.
pub fn end_all_of(tx: &Tx<'_>, call: &Call, maker: &PrincipalId, role: Option<Role>) -> Result<(), ApiError> {
    let team = call.team();
    for open in invitations::open_of(tx, &team, maker)? {
        let stays = role.is_some_and(|role| {
            let standing = Standing { team_id: team.clone(), role };
            may_invite(&standing, open.role, true).is_ok()
        });
        if !stays {
            invitations::revoke(tx, &open.id)?;
            let entry = Entry::of(open.id.as_str()).as_operation("invitations.revoke");
            audit::allowed(tx, call, &entry.revision(open.revision + 1))?;
        }
    }
    Ok(())
}

/// Handles `invitations.list`: those that were not revoked, oldest first.
///
/// # Errors
/// 400, 403, 404.
pub async fn list(call: Call) -> Result<Reply, ApiError> {
    let page = call.page()?;
    let after = match page.after_pair() {
        None => None,
        Some((at, id)) => {
            let at = at.parse().map_err(|_| ApiError::invalid("`cursor` is none that this list gave."))?;
            Some((at, id.to_owned()))
        }
    };
    let (caller, team, limit, now) =
        (call.caller()?.clone(), call.team(), page.limit, call.app.clock.now_ms());
    let rows = call.read(move |db| {
        guard::person(db, &caller, &team, Role::Admin)?;
        let after = after.as_ref().map(|(at, id)| (*at, id.as_str()));
        Ok(invitations::page(db, &team, after, now, limit + 1)?)
    });
    let mut rows = rows.await?;
    let next = call.next_cursor(&page, &mut rows, |(at, i)| [at.to_string(), i.id.0.clone()])?;
    call.list(rows.into_iter().map(|(_, invitation)| invitation).collect(), next)
}

/// Handles `invitations.revoke`.
///
/// # Errors
/// 403, 404, 410 where it ended before.
pub async fn revoke(call: Call) -> Result<Reply, ApiError> {
    call.change(
        |tx, call| {
            let standing = guard::person(tx, call.caller()?, &call.team(), Role::Admin)?;
            let id = InvitationId::from(call.param("invitation"));
            let kept = invitations::find(tx, &standing.team_id, &id)?;
            let kept = kept.ok_or_else(|| ApiError::not_found("invitation"))?;
            if kept.invitation.role == Role::Owner && standing.role != Role::Owner {
                return Err(ApiError::forbidden("Only an owner revokes an owner's invitation: ask one."));
            }
            Ok(kept)
        },
        |tx, call, kept| {
            let id = kept.invitation.id.clone();
            match kept.standing(tx.now_ms) {
                invitations::Standing::Open => {}
                invitations::Standing::Ended => {
                    return Err(ApiError::gone("This invitation has ended already."));
                }
                invitations::Standing::Forgotten => return Err(ApiError::not_found("invitation")),
            }
            invitations::revoke(tx, &id)?;
            audit::allowed(tx, call, &Entry::of(id.as_str()).revision(kept.invitation.revision + 1))?;
            Ok(Reply::Empty)
        },
    )
    .await
}

/// An invitation that may be used now.
fn open(kept: Option<Kept>, now: i64) -> Result<Kept, ApiError> {
    let unknown = || {
        ApiError::new(
            ErrorCode::NotFound,
            "No invitation has this code: copy it once more, or ask for a new one.",
        )
    };
    let kept = kept.ok_or_else(unknown)?;
    match kept.standing(now) {
        invitations::Standing::Open => Ok(kept),
        invitations::Standing::Ended => {
            Err(ApiError::gone("This invitation was used up, revoked or has expired: ask for a new one."))
        }
        invitations::Standing::Forgotten => Err(unknown()),
    }
}

/// The code that a person typed.
fn typed(code: &str) -> Result<Code, ApiError> {
    Code::parse(code).ok_or_else(|| {
        ApiError::invalid(
            "That can't be a code: it has ten letters and digits without U, such as 7K3QF-9XW2M.",
        )
    })
}

/// Runs what looks a code up, within the limit of wrong codes of the address that tries it.
async fn limited<T>(
    app: &App,
    peer: IpAddr,
    look: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let tried = app.limits.try_code(peer, app.clock.monotonic())?;
    let result = look.await;
    // A key that belongs to another request would tell of a guess among many whether one was right.
    let tells_wrong = |refusal: &ApiError| {
        matches!(refusal.body.code, ErrorCode::NotFound | ErrorCode::IdempotencyConflict)
    };
    if !result.as_ref().is_err_and(tells_wrong) {
        tried.was_not_wrong();
    }
    result
}

/// Handles `invitations.preview`: what the confirm dialog shows to anyone with the code.
///
/// # Errors
/// 400, 404, 410, 429 after ten wrong codes within an hour.
pub async fn preview(call: Call) -> Result<Reply, ApiError> {
    let code = typed(&call.json::<PreviewInvitation>()?.code)?;
    let (mac, now) = (call.app.keys.code_mac(&code), call.app.clock.now_ms());
    let server = ServerRef { id: call.app.server_id.clone(), name: call.app.config.name.clone() };
    let look = call.read(move |db| look(db, &mac, server, now));
    let seen = limited(&call.app, call.peer, look).await?;
    call.one(seen)
}

fn look(db: &Connection, mac: &[u8; 32], server: ServerRef, now: i64) -> Result<InvitationPreview, ApiError> {
    let kept = open(invitations::by_code(db, mac)?, now)?;
    let team = kept.team.as_ref().map(|id| teams::reference(db, id)).transpose()?.flatten();
    let inviter =
        kept.invitation.created_by.as_ref().map(|id| members::principal(db, id)).transpose()?.flatten();
    Ok(InvitationPreview {
        team,
        server,
        inviter: inviter.map(|principal| Named { name: principal.name }),
        role: kept.invitation.role,
        expires_at: kept.invitation.expires_at,
    })
}

/// Refuses a credential that is no person's: a machine's invites nobody and joins nothing.
fn only_a_person(tx: &Tx<'_>, call: &Call) -> Result<(), ApiError> {
    let Some(caller) = &call.caller else { return Ok(()) };
    guard::credential(tx, caller)?;
    if caller.kind == CredentialKind::User {
        return Ok(());
    }
    Err(ApiError::forbidden("A machine's or app's credential joins no team: use a person's, or none."))
}
