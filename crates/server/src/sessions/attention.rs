//! `POST` and `DELETE …/sessions/{session}/attention`: a person says 'mine' to a session that waits, so
//! that the others' lamps calm down. It ends with the wait, by hand, with the person's membership, or by a
//! timer after the team's `attention_minutes`, and then the wait is said once more (spec 03).

use crate::access::guard;
use crate::app::App;
use crate::error::ApiError;
use crate::events::append::{NewEvent, append, system};
use crate::request::{Call, Reply};
use crate::store::Tx;
use crate::store::attention::{self as rows, Attention};
use crate::store::sessions as session_rows;
use serde_json::json;
use std::time::Duration;
use teamlamp_clock::ms;
use teamlamp_wire::account::Role;
use teamlamp_wire::event::Actor;
use teamlamp_wire::id::{PrincipalId, SessionId, TeamId};

/// How many one transaction of the timer releases.
const BATCH: usize = 100;
/// The wait after a store that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Handles `sessions.attention.claim`. Said again by the same person it changes nothing.
///
/// # Errors
/// 403 for viewers and machines, 404, 409 where it does not wait or is somebody else's.
pub async fn claim(call: Call) -> Result<Reply, ApiError> {
    call.change(authority, |tx, call, ()| {
        let (caller, team, session) = (call.caller()?, call.team(), session(call));
        let attention = found(tx, &team, &session)?;
        match &attention.claimed_by {
            Some((who, _)) if *who == caller.principal_id => return answer(tx, call, &session),
            Some((_, name)) => {
                return Err(ApiError::conflict(format!(
                    "{name} has it already: ask them, or release it first."
                )));
            }
            None => {}
        }
        if !attention.state.waits() {
            return Err(ApiError::conflict("This session waits for nobody now: there is nothing to take."));
        }
        rows::claim(tx, &session, &caller.principal_id)?;
        say(tx, &call.app, &team, &session, "attention.claimed", caller.actor(), &caller.name)?;
        tx.after_commit(|effects| effects.attention = true);
        answer(tx, call, &session)
    })
    .await
}

/// Handles `sessions.attention.release`. One that is nobody's stays so.
///
/// # Errors
/// 403 for viewers and machines, 404.
pub async fn release(call: Call) -> Result<Reply, ApiError> {
    call.change(authority, |tx, call, ()| {
        let actor = call.caller()?.actor();
        release_one(tx, &call.app, &call.team(), &session(call), actor)?;
        Ok(Reply::Empty)
    })
    .await
}

/// Makes all that a person held in a team nobody's: their membership ended, or they only read now.
///
/// # Errors
/// What the store says.
pub fn release_all_of(
    tx: &Tx<'_>,
    app: &App,
    team: &TeamId,
    who: &PrincipalId,
    actor: &Actor,
) -> Result<(), ApiError> {
    rows::held_by(tx, team, who)?
        .iter()
        .try_for_each(|session| release_one(tx, app, team, session, actor.clone()))
}

/// Releases what nobody attended to in time, at the moment it falls due.
pub async fn watch(app: App) {
    loop {
        let due = match look(&app).await {
            Ok(None) => None,
            Ok(Some(at)) => Some(ms(at - app.clock.now_ms())),
            Err(fault) => {
                tracing::warn!(%fault, "the timer of attention could not look");
                Some(AGAIN)
            }
        };
        let due = async {
            match due {
                Some(wait) => app.clock.sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = app.hub.attention_due() => {}
            () = due => {}
        }
    }
}

/// Releases what is due; when something next will be.
async fn look(app: &App) -> Result<Option<teamlamp_wire::Millis>, ApiError> {
    loop {
        let next = app.store.read(rows::next_end).await?;
        if next.is_none_or(|at| at > app.clock.now_ms()) {
            return Ok(next);
        }
        let (store, app) = (app.store.clone(), app.clone());
        store
            .write(move |tx| {
                rows::ended(tx, tx.now_ms, BATCH)?
                    .iter()
                    .try_for_each(|(team, session)| release_one(tx, &app, team, session, system()))
            })
            .await?;
    }
}

fn authority(tx: &Tx<'_>, call: &Call) -> Result<(), ApiError> {
    guard::person(tx, call.caller()?, &call.team(), Role::Member).map(|_| ())
}

fn session(call: &Call) -> SessionId {
    call.param("session").into()
}

fn found(tx: &Tx<'_>, team: &TeamId, session: &SessionId) -> Result<Attention, ApiError> {
    rows::of(tx, team, session)?.ok_or_else(|| ApiError::not_found("session"))
}

fn answer(tx: &Tx<'_>, call: &Call, session: &SessionId) -> Result<Reply, ApiError> {
    let listed = session_rows::one(tx, &call.team(), session.as_str())?;
    let listed = listed.ok_or_else(|| ApiError::not_found("session"))?;
    let revision = listed.session.revision;
    call.revised(listed, revision)
}

fn release_one(
    tx: &Tx<'_>,
    app: &App,
    team: &TeamId,
    session: &SessionId,
    actor: Actor,
) -> Result<(), ApiError> {
    let Some((_, name)) = found(tx, team, session)?.claimed_by else { return Ok(()) };
    rows::release(tx, session)?;
    say(tx, app, team, session, "attention.released", actor, &name)
}

/// Tells of it; `by` is the name of whose it is, or was.
fn say(
    tx: &Tx<'_>,
    app: &App,
    team: &TeamId,
    session: &SessionId,
    kind: &str,
    actor: Actor,
    by: &str,
) -> Result<(), ApiError> {
    let mut event = NewEvent::new(actor, kind, "session", session.as_str(), json!({ "by": by }));
    if let Some(known) = session_rows::known(tx, session)? {
        event = event.of_machine(&known.machine_id).of_source(&known.source_id);
    }
    append(tx, &app.chance, team, event)?;
    Ok(())
}
