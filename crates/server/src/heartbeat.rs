//! `POST …/machines/{machine}/heartbeat`: a machine's full report, received in one transaction in the
//! order of spec 02. What is unchanged is known by its hash, so that such a report writes two rows
//! whatever its size.

use crate::access::{Caller, guard};
use crate::app::App;
use crate::error::ApiError;
use crate::events::append::{NewEvent, append, system};
use crate::presence;
use crate::request::{Call, Reply};
use crate::sessions;
use crate::sessions::turns::Report;
use crate::store::Tx;
use crate::store::heartbeats::{self as rows, Hashes, Head};
use crate::store::presence::Known;
use crate::store::sessions as session_rows;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use teamlamp_wire::envelope::ErrorCode;
use teamlamp_wire::heartbeat::{Heartbeat, HeartbeatAnswer, Violation};
use teamlamp_wire::id::{MachineId, SessionId, SourceId, TeamId};

/// A report whose fields and contents are fine, with the hashes of its parts.
#[derive(Debug)]
struct Received {
    team: TeamId,
    machine: MachineId,
    beat: Heartbeat,
    hashes: Hashes,
}

/// What a report says of sessions, by session.
type Reports = BTreeMap<SessionId, Report>;

/// Handles `machines.heartbeat`.
///
/// # Errors
/// 400 that says which item, 401, 403, 404; 409 where another run of the machine took this one's place.
pub async fn receive(call: Call) -> Result<Reply, ApiError> {
    let beat = Heartbeat::read(&call.body).map_err(ApiError::invalid)?;
    let (team, machine) = (call.team(), call.machine());
    beat.check_fields()
        .and_then(|()| beat.check_contents(&machine))
        .map_err(|Violation(why)| ApiError::invalid(why))?;
    let hashes = hashes(&beat)?;
    let incarnation = beat.incarnation_id.clone();
    let received = Received { team, machine, beat, hashes };
    let (app, caller) = (call.app.clone(), call.caller()?.clone());
    let answer = {
        let app = app.clone();
        app.clone().store.write(move |tx| apply(tx, &app, &caller, &received)).await
    };
    match answer {
        Ok(answer) => {
            let revision = answer.machine.revision;
            call.revised(answer, revision)
        }
        Err(refusal) => {
            match refusal.body.code {
                ErrorCode::Conflict => say_cloned(&app, &call.team(), &call.machine(), incarnation).await,
                // A failure of the server's own store never changes anyone's presence. One that can't
                // write at all hears nobody; one that fails on this report has heard its machine.
                ErrorCode::Unavailable => app.trust.begin_again(&app.clock),
                ErrorCode::Internal => app.trust.heard(&app.clock, &call.machine()),
                _ => {}
            }
            Err(refusal)
        }
    }
}

/// The refusal of a run that another has replaced.
fn superseded() -> ApiError {
    ApiError::conflict("Another run of this machine's connector took this one's place.")
        .with_details(json!({ "reason": "incarnation_superseded" }))
}

/// Tells the custodian and admins, once for each replaced run that comes back, that two computers use
/// one machine's identity.
pub async fn say_cloned(app: &App, team: &TeamId, machine: &MachineId, incarnation: String) {
    let (chance, team, machine) = (app.chance.clone(), team.clone(), machine.clone());
    let said = app.store.write(move |tx| {
        if !rows::note_return(tx, &machine, &incarnation)? {
            return Ok(());
        }
        let Some(head) = rows::head(tx, &team, &machine)? else { return Ok(()) };
        let data = json!({ "name": head.machine.name });
        let event = NewEvent::new(system(), "machine.cloned", "machine", machine.as_str(), data);
        // Never the machine's current event: who may not read it would miss the machine in a snapshot.
        let event = NewEvent { overtaken: true, ..event.of_machine(&machine) };
        append(tx, &chance, &team, event).map(|_| ())
    });
    if let Err(fault) = said.await {
        tracing::warn!(%fault, "a cloned machine could not be told of");
    }
}

fn hashes(beat: &Heartbeat) -> Result<Hashes, ApiError> {
    let mut roots: Vec<_> = beat.roots.iter().collect();
    roots.sort_by(|a, b| a.id.cmp(&b.id));
    let bindings: Vec<_> = beat
        .distinct_bindings()
        .into_iter()
        .map(|b| (&b.id, &b.harness, &b.native_session_id, &b.descriptor))
        .collect();
    Ok(Hashes {
        roots: Some(hash(&roots)?),
        bindings: Some(hash(&(&beat.incarnation_id, bindings))?),
        activity: beat.distinct_activity().map(|items| hash(&items)).transpose()?,
    })
}

/// Maps are ordered by key, so equal values have equal bytes.
fn hash(value: &impl Serialize) -> Result<[u8; 32], ApiError> {
    Ok(Sha256::digest(serde_json::to_vec(value)?).into())
}

fn apply(tx: &Tx<'_>, app: &App, caller: &Caller, received: &Received) -> Result<HeartbeatAnswer, ApiError> {
    let Received { team, machine, beat, hashes } = received;
    guard::credential(tx, caller)?;
    guard::own_machine(tx, caller, team, machine)?;
    let mut head = rows::head(tx, team, machine)?.ok_or_else(ApiError::unauthenticated)?;
    let source = head.source.clone().ok_or_else(ApiError::unauthenticated)?;
    let run_before = head.machine.incarnation_id.take().filter(|before| *before != beat.incarnation_id);
    if run_before.is_none() && head.sequence >= i64::try_from(beat.sequence).unwrap_or(i64::MAX) {
        head.machine.incarnation_id = Some(beat.incarnation_id.clone());
        return answer(tx, app, head);
    }
    if let Some(before) = &run_before {
        if rows::is_superseded(tx, machine, &beat.incarnation_id)? {
            return Err(superseded());
        }
        rows::supersede(tx, machine, before)?;
        // A link that the replaced run holds looks and finds that it is.
        tx.after_commit(|effects| {
            effects.tell_links.insert(machine.clone());
        });
    }
    let (revision, host_key_id) = rows::record(tx, machine, beat)?;
    let hashes = Hashes { activity: hashes.activity.or(head.hashes.activity), ..hashes.clone() };
    let mut gone_roots = Vec::new();
    if hashes.roots != head.hashes.roots {
        gone_roots = rows::put_roots(tx, machine, &beat.roots)?;
    }
    let mut reports = Reports::new();
    if hashes.bindings != head.hashes.bindings {
        bindings(tx, &head, &source, beat, &mut reports)?;
    }
    if hashes.activity != head.hashes.activity {
        activity(tx, machine, &source, beat, &mut reports)?;
    }
    let actor = caller.actor();
    for (session, report) in &reports {
        sessions::apply(tx, &app.chance, &actor, session, report)?;
    }
    // Only now: a session that left with its root is still told with the name of it.
    rows::delete_roots(tx, machine, &gone_roots)?;
    rows::set_hashes(tx, machine, &hashes)?;
    head.machine.incarnation_id = Some(beat.incarnation_id.clone());
    head.machine.last_seen_at = Some(tx.now_ms);
    (head.machine.revision, head.machine.host_key_id) = (revision, host_key_id);
    head.machine.away = None;
    head.machine.connection = presence::settle_known(tx, app, &known(team, &head))?;
    answer(tx, app, head)
}

fn known(team: &TeamId, head: &Head) -> Known {
    let machine = &head.machine;
    Known {
        machine_id: machine.id.clone(),
        team_id: team.clone(),
        name: machine.name.clone(),
        active: true,
        last_seen_at: machine.last_seen_at,
        away: None,
        linked: head.linked,
        connection: machine.connection,
    }
}

fn answer(tx: &Tx<'_>, app: &App, head: Head) -> Result<HeartbeatAnswer, ApiError> {
    let unbound_bindings = rows::unbound(tx, &head.machine.id)?;
    let watched = app.followed.of(&head.machine.id);
    Ok(HeartbeatAnswer { machine: head.machine, watched, unbound_bindings })
}

/// Applies the bindings as a difference: gone ones are deleted, changed ones written, and what that
/// means to sessions is noted.
fn bindings(
    tx: &Tx<'_>,
    head: &Head,
    source: &SourceId,
    beat: &Heartbeat,
    reports: &mut Reports,
) -> Result<(), ApiError> {
    let machine = &head.machine.id;
    let mut stored = rows::bindings(tx, machine)?;
    let mut touched = Vec::new();
    for binding in beat.distinct_bindings() {
        let descriptor = serde_json::to_string(&binding.descriptor)?;
        let before = stored.remove(&binding.id);
        if before.as_ref().is_some_and(|before| before.is(binding, &descriptor)) {
            continue;
        }
        let session = session_rows::of_origin(tx, source, &binding.harness, &binding.native_session_id)?;
        rows::put_binding(tx, machine, binding, &descriptor, session.as_ref())?;
        if let Some(session) = &session {
            session_rows::describe(tx, session, &sessions::described(&binding.descriptor))?;
        }
        touched.extend(before.and_then(|before| before.session).into_iter().chain(session));
    }
    for (id, gone) in stored {
        rows::delete_binding(tx, machine, &id)?;
        touched.extend(gone.session);
    }
    // A publication said of a session that it started or ended: the snapshot has the last word.
    if head.hashes.bindings.is_none() {
        touched.extend(session_rows::bound_of(tx, machine)?);
        touched.extend(rows::bindings(tx, machine)?.into_values().filter_map(|binding| binding.session));
    }
    for session in touched {
        let bound = rows::is_bound(tx, &session)?;
        reports.entry(session).or_default().bound = Some(bound);
    }
    Ok(())
}

/// Replaces the last report of activity by one that differs, and notes what that means to sessions.
fn activity(
    tx: &Tx<'_>,
    machine: &MachineId,
    source: &SourceId,
    beat: &Heartbeat,
    reports: &mut Reports,
) -> Result<(), ApiError> {
    let mut stored = rows::activity(tx, machine)?;
    for item in beat.distinct_activity().unwrap_or_default() {
        let before = stored.remove(&(item.harness.clone(), item.native_id.clone()));
        let session = session_rows::of_origin(tx, source, &item.harness, &item.native_id)?;
        if before.is_none_or(|(turn, since)| turn != item.turn || since != item.since) {
            rows::put_activity(tx, machine, item, session.as_ref())?;
        }
        // Also where the last report said the same: a publication may have said another thing since.
        if let Some(session) = session {
            reports.entry(session).or_default().turn = Some((item.turn.clone(), item.since));
        }
    }
    for (harness, native_id) in stored.keys() {
        rows::delete_activity(tx, machine, harness, native_id)?;
    }
    Ok(())
}
