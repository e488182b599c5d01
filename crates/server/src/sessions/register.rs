//! `POST …/sessions`: a machine names native sessions before everything else; no content (spec 04).

use super::turns::Report;
use crate::access::{Caller, guard};
use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::Tx;
use crate::store::heartbeats as reports;
use crate::store::sessions::{self as rows, Described};
use teamlamp_clock::Chance;
use teamlamp_wire::id::{MachineId, SessionId, SourceId, TeamId};
use teamlamp_wire::limits::PUBLISH_MAX;
use teamlamp_wire::session::{RegisterSession, RegisterSessions, RegisteredSession, RegisteredSessions};

const MODEL_CHARS: usize = 128;
const TITLE_CHARS: usize = 512;

/// Handles `sessions.register`.
///
/// # Errors
/// 400 that says which item; 403 for other than machine credentials.
pub async fn register(call: Call) -> Result<Reply, ApiError> {
    let told: RegisterSessions = call.json()?;
    check(&told.sessions)?;
    call.change(
        |tx, call| own_source(tx, call.caller()?, &call.team()),
        move |tx, call, (machine, source)| {
            let (caller, team) = (call.caller()?, call.team());
            let mut sessions = Vec::with_capacity(told.sessions.len());
            for item in &told.sessions {
                let id = one(tx, &call.app.chance, caller, (&team, &source, &machine), item)?;
                let revision = rows::revision(tx, &id)?;
                let (harness, native_id) = (item.harness.clone(), item.native_id.clone());
                sessions.push(RegisteredSession { id, harness, native_id, revision });
            }
            reports::received(tx, &source)?;
            call.one(RegisteredSessions { sessions })
        },
    )
    .await
}

/// The machine of a machine credential and its source, which must be active.
///
/// # Errors
/// 403 for another kind of credential, 401 where the source is not active.
pub fn own_source(tx: &Tx<'_>, caller: &Caller, team: &TeamId) -> Result<(MachineId, SourceId), ApiError> {
    let machine = match &caller.machine_id {
        Some(machine) => machine.clone(),
        None => {
            guard::member(tx, caller, team)?;
            return Err(ApiError::forbidden("Only a machine's own credential may do this."));
        }
    };
    guard::own_machine(tx, caller, team, &machine)?;
    let source = reports::source(tx, &machine)?.ok_or_else(ApiError::unauthenticated)?;
    Ok((machine, source))
}

fn one(
    tx: &Tx<'_>,
    chance: &Chance,
    caller: &Caller,
    (team, source, machine): (&TeamId, &SourceId, &MachineId),
    told: &RegisterSession,
) -> Result<SessionId, ApiError> {
    if let Some(id) = rows::of_origin(tx, source, &told.harness, &told.native_id)? {
        let described = Described {
            root_id: told.root_id.as_deref(),
            model: told.model.as_deref(),
            started_at: told.started_at,
            confirmed: None,
        };
        rows::describe(tx, &id, &described)?;
        return Ok(id);
    }
    let id = SessionId::new(tx.now_ms, chance.bits());
    rows::insert(tx, &id, team, source, machine, told)?;
    // What a heartbeat told before the session was known counts from now on.
    let bindings = reports::bind(tx, machine, &told.harness, &told.native_id, &id)?;
    for descriptor in &bindings {
        rows::describe(tx, &id, &super::described(descriptor))?;
    }
    let turn = reports::resolve_activity(tx, machine, &told.harness, &told.native_id, &id)?;
    let report = Report { bound: (!bindings.is_empty()).then_some(true), turn };
    super::apply(tx, chance, &caller.actor(), &id, &report)?;
    Ok(id)
}

fn check(sessions: &[RegisterSession]) -> Result<(), ApiError> {
    if sessions.len() > PUBLISH_MAX {
        let count = sessions.len();
        return Err(ApiError::invalid(format!(
            "At most {PUBLISH_MAX} sessions are registered at once: these are {count}."
        )));
    }
    for (number, item) in sessions.iter().enumerate() {
        let fields = [
            ("harness", Some(&item.harness), 64),
            ("native_id", Some(&item.native_id), 256),
            ("root_id", item.root_id.as_ref(), 128),
            ("model", item.model.as_ref(), MODEL_CHARS),
            ("title", item.title.as_ref(), TITLE_CHARS),
        ];
        for (name, value, most) in fields {
            let chars = value.map_or(1, |text| text.chars().count());
            if !(1..=most).contains(&chars) {
                return Err(ApiError::invalid(format!(
                    "`{name}` of session {number} has {chars} characters: allowed are 1 to {most}."
                )));
            }
        }
    }
    Ok(())
}
