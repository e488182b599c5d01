//! Machines as the team sees them: lists, roots, names, revoking, configuration. Enrolling them,
//! their reports and their presence have modules of their own.

use crate::access::audit::{self, Entry};
use crate::access::{Caller, Standing, guard};
use crate::app::App;
use crate::error::ApiError;
use crate::events::append::{NewEvent, append};
use crate::request::{Call, Reply};
use crate::store::{Tx, credentials, machines, teams};
use crate::teams::clean_name;
use rusqlite::Connection;
use serde_json::json;
use teamlamp_wire::account::CredentialKind;
use teamlamp_wire::event::Actor;
use teamlamp_wire::id::{MachineId, PrincipalId, TeamId};
use teamlamp_wire::limits::{HEARTBEAT_MS, LINK_PING_MS, MACHINES_MAX, REPORT_MIN_MS};
use teamlamp_wire::link::ClosingReason;
use teamlamp_wire::machine::{Configuration, Enrollment, Intervals, Machine, RenameMachine};
use teamlamp_wire::name::fold;

/// What an enrollment and a renaming say of a name that is held.
pub const NAME_TAKEN: &str = "Another machine of the team has this name: choose another name for this one.";

/// A machine event.
pub(crate) fn event(actor: Actor, kind: &str, machine: &Machine) -> NewEvent {
    NewEvent::new(actor, kind, "machine", machine.id.as_str(), json!({ "name": machine.name }))
        .of_machine(&machine.id)
}

fn is_custodian_or_admin(caller: &Caller, standing: &Standing, machine: &Machine) -> bool {
    standing.role.is_admin() || machine.custodian_id == caller.principal_id
}

/// The machine as this caller may see it; `None` where they may not.
fn shown(caller: &Caller, standing: &Standing, mut machine: Machine) -> Option<Machine> {
    if !is_custodian_or_admin(caller, standing, &machine) {
        if machine.enrollment == Enrollment::Revoked {
            return None;
        }
        machine.clock_offset_ms = None;
    }
    Some(machine)
}

fn visible(
    db: &Connection,
    caller: &Caller,
    team: &TeamId,
    id: &MachineId,
) -> Result<(Standing, Machine), ApiError> {
    let standing = guard::member(db, caller, team)?;
    let machine = machines::find(db, team, id)?.and_then(|m| shown(caller, &standing, m));
    Ok((standing, machine.ok_or_else(|| ApiError::not_found("machine"))?))
}

/// A machine that the caller may rename and revoke: its custodian and admins, with a person's credential.
fn governed(tx: &Tx<'_>, call: &Call) -> Result<Machine, ApiError> {
    let caller = call.caller()?;
    let (standing, machine) = visible(tx, caller, &call.team(), &call.machine())?;
    if caller.kind != CredentialKind::User {
        return Err(ApiError::forbidden(
            "This needs a person's own credential, not a machine's or an app's.",
        ));
    }
    if !is_custodian_or_admin(caller, &standing, &machine) {
        return Err(ApiError::forbidden(
            "Only the person who enrolled this machine and the team's admins may do this.",
        ));
    }
    Ok(machine)
}

/// Handles `machines.list`: by name, then id; all, up to 1,000, where no limit is asked for.
///
/// # Errors
/// 400, 404.
pub async fn list(call: Call) -> Result<Reply, ApiError> {
    let page = call.page_of(MACHINES_MAX)?;
    let (caller, team, asked) = (call.caller()?.clone(), call.team(), page.clone());
    let machines = call.read(move |db| {
        let standing = guard::member(db, &caller, &team)?;
        let all = standing.role.is_admin();
        let rows = machines::page(db, &team, &caller.principal_id, all, asked.after_pair(), asked.limit + 1)?;
        Ok(rows.into_iter().filter_map(|m| shown(&caller, &standing, m)).collect::<Vec<_>>())
    });
    let machines = machines.await?;
    call.listed(&page, machines, |m| [m.name.clone(), m.id.0.clone()])
}

/// Handles `machines.read`.
///
/// # Errors
/// 404.
pub async fn read(call: Call) -> Result<Reply, ApiError> {
    let (caller, team, id) = (call.caller()?.clone(), call.team(), call.machine());
    let machine = call.read(move |db| Ok(visible(db, &caller, &team, &id)?.1)).await?;
    let revision = machine.revision;
    call.revised(machine, revision)
}

/// Handles `machines.roots`: for the custodian and admins; to others they are not there.
///
/// # Errors
/// 400, 404.
pub async fn roots(call: Call) -> Result<Reply, ApiError> {
    let page = call.page()?;
    let (caller, team, id, asked) = (call.caller()?.clone(), call.team(), call.machine(), page.clone());
    let roots = call.read(move |db| {
        let (standing, machine) = visible(db, &caller, &team, &id)?;
        if !is_custodian_or_admin(&caller, &standing, &machine) {
            return Err(ApiError::not_found("machine"));
        }
        if caller.machine_id.as_ref().is_some_and(|own| *own != id) {
            return Err(ApiError::forbidden("A machine's credential reads its own roots alone."));
        }
        Ok(machines::roots(db, &id, asked.after_pair(), asked.limit + 1)?)
    });
    let roots = roots.await?;
    call.listed(&page, roots, |root| [root.name.clone(), root.id.clone()])
}

/// Handles `machines.rename`: its source is renamed with it.
///
/// # Errors
/// 400, 403, 404, 409.
pub async fn rename(call: Call) -> Result<Reply, ApiError> {
    let expected = call.if_match()?;
    let name = clean_name(&call.json::<RenameMachine>()?.name, "The machine's name")?;
    call.change(governed, move |tx, call, before| {
        let team = call.team();
        if before.revision != expected {
            return Err(ApiError::revision_mismatch(before.revision));
        }
        if name == before.name {
            let revision = before.revision;
            return call.revised(before, revision);
        }
        let name_fold = fold(&name);
        if machines::by_name(tx, &team, &name_fold)?.is_some_and(|holder| holder.id != before.id) {
            return Err(ApiError::conflict(NAME_TAKEN));
        }
        machines::rename(tx, &before.id, &name, &name_fold)?;
        tx.after_commit(|effects| {
            effects.tell_links.insert(before.id.clone());
        });
        let machine = found(tx, &team, &before.id)?;
        append(tx, &call.app.chance, &team, event(call.caller()?.actor(), "machine.renamed", &machine))?;
        let revision = machine.revision;
        audit::allowed(tx, call, &Entry::of(before.id.as_str()).revision(revision))?;
        call.revised(machine, revision)
    })
    .await
}

/// Handles `machines.revoke`.
///
/// # Errors
/// 400, 403, 404, 409.
pub async fn revoke(call: Call) -> Result<Reply, ApiError> {
    let expected = call.if_match()?;
    call.change(governed, move |tx, call, machine| {
        let team = call.team();
        if machine.enrollment == Enrollment::Revoked {
            return Err(ApiError::conflict("This machine is revoked already."));
        }
        if machine.revision != expected {
            return Err(ApiError::revision_mismatch(machine.revision));
        }
        revoke_one(tx, &call.app, &team, &machine, &call.caller()?.actor())?;
        teams::raise_auth_epoch(tx, &team)?;
        audit::allowed(tx, call, &Entry::of(machine.id.as_str()).revision(machine.revision + 1))?;
        Ok(Reply::Empty)
    })
    .await
}

/// Revokes the active machines of a member who leaves.
///
/// # Errors
/// A store that can't be written.
pub fn revoke_all_of(tx: &Tx<'_>, call: &Call, custodian: &PrincipalId) -> Result<(), ApiError> {
    let (team, actor) = (call.team(), call.caller()?.actor());
    for machine in machines::active_of(tx, &team, custodian)? {
        revoke_one(tx, &call.app, &team, &machine, &actor)?;
        let entry = Entry::of(machine.id.as_str()).as_operation("machines.revoke");
        audit::allowed(tx, call, &entry.revision(machine.revision + 1))?;
    }
    Ok(())
}

/// Machine, source and credentials end in this transaction; the link and the streams after its commit.
fn revoke_one(
    tx: &Tx<'_>,
    app: &App,
    team: &TeamId,
    machine: &Machine,
    actor: &Actor,
) -> Result<(), ApiError> {
    machines::revoke(tx, &machine.id)?;
    // Its last transition comes before the event that it is revoked.
    crate::presence::settle(tx, app, &machine.id)?;
    end_credentials(tx, &machine.id)?;
    append(tx, &app.chance, team, event(actor.clone(), "machine.revoked", machine))?;
    Ok(())
}

/// Ends a machine's credentials, and the link that one of them opened.
///
/// # Errors
/// A store that can't be written.
pub(crate) fn end_credentials(tx: &Tx<'_>, machine: &MachineId) -> Result<(), ApiError> {
    credentials::revoke_of_machine(tx, machine)?;
    tx.after_commit(|effects| {
        effects.close_links.insert(machine.clone(), ClosingReason::MachineRevoked);
    });
    Ok(())
}

/// A machine that this transaction knows to be there.
///
/// # Errors
/// 404 all the same.
pub(crate) fn found(tx: &Tx<'_>, team: &TeamId, id: &MachineId) -> Result<Machine, ApiError> {
    machines::find(tx, team, id)?.ok_or_else(|| ApiError::not_found("machine"))
}

/// Handles `machines.configuration`: exactly for that machine's own credential.
///
/// # Errors
/// 403 for other kinds, 404 for another machine's.
pub async fn configuration(call: Call) -> Result<Reply, ApiError> {
    let (caller, team, id) = (call.caller()?.clone(), call.team(), call.machine());
    let configuration = call.read(move |db| {
        guard::member(db, &caller, &team)?;
        if caller.kind != CredentialKind::Machine {
            return Err(ApiError::forbidden("Only a machine's own credential reads its configuration."));
        }
        if caller.machine_id.as_ref() != Some(&id) {
            return Err(ApiError::not_found("machine"));
        }
        let missing = || ApiError::not_found("machine");
        Ok(Configuration {
            machine: machines::find(db, &team, &id)?.ok_or_else(missing)?,
            source: machines::source(db, &id)?.ok_or_else(missing)?,
            sync_rules: Vec::new(),
            auth_epoch: teams::auth_epoch(db, &team)?,
            intervals: Intervals {
                heartbeat_ms: HEARTBEAT_MS,
                report_min_ms: REPORT_MIN_MS,
                link_ping_ms: LINK_PING_MS,
            },
        })
    });
    let configuration = configuration.await?;
    call.one(configuration)
}
