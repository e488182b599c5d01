//! `GET …/sessions/{session}/follow`: one session as server-sent events, as it is now and after each
//! change. While somebody follows it, it is on its machine's `watched` list (specs 02 and 04). Each frame
//! is the whole state, so a reader that dials again needs no cursor.

use super::followed::Following;
use crate::access::guard;
use crate::app::App;
use crate::error::ApiError;
use crate::events::authority::{Authority, Look};
use crate::events::outlet::outlet;
use crate::events::places::Place as Seat;
use crate::events::reader::authorize;
use crate::events::sse;
use crate::events::writer::{Stop, Writer};
use crate::request::{Call, Reply};
use crate::store::sessions::{self as rows, Listed};
use crate::store::teams;
use serde_json::json;
use std::convert::Infallible;
use teamlamp_wire::frame::Frame;
use teamlamp_wire::heartbeat::Watched;
use teamlamp_wire::id::TeamId;
use tokio::sync::watch;

struct Reader {
    app: App,
    team: TeamId,
    session: String,
    authority: Authority,
    wake: watch::Receiver<u64>,
    /// What it was last told; also the liveness, which is no part of the session's revision.
    told: Option<(i64, bool)>,
    _following: Following,
    _seat: Seat,
}

/// Handles `sessions.follow`.
///
/// # Errors
/// 404, 429.
pub async fn open(call: Call) -> Result<Reply, ApiError> {
    let (app, caller, team) = (call.app.clone(), call.caller()?.clone(), call.team());
    // Subscribed before anything is read, so that nothing falls in between.
    let wake = app.hub.events(&team);
    let (authority, install) = authorize(&app, &caller, &team, call.machine_header.clone()).await?;
    let (reader, of, id) = (caller.clone(), team.clone(), call.param("session").to_owned());
    let found = call.read(move |db| {
        guard::member(db, &reader, &of)?;
        rows::one(db, &of, &id)?.ok_or_else(|| ApiError::not_found("session"))
    });
    let session = found.await?.session;
    let seat = app.streams.take(&caller.credential_id, install.as_ref())?;
    let watched = Watched { harness: session.harness, native_id: session.native_id };
    let following = app.followed.follow(&session.machine_id, watched);
    let (inlet, body) = outlet();
    let writer = Writer::new(inlet, &call);
    let reader = Reader {
        app: app.clone(),
        team,
        session: session.id.0,
        authority,
        wake,
        told: None,
        _following: following,
        _seat: seat,
    };
    app.tasks.spawn("session stream", run(reader, writer));
    Ok(Reply::Raw(sse::response(body)))
}

async fn run(mut reader: Reader, mut writer: Writer) {
    match follow(&mut reader, &mut writer).await {
        Err(Stop::End(frame)) => writer.finish(&frame).await,
        Err(Stop::Gone | Stop::Slow) => writer.close().await,
        Ok(never) => match never {},
    }
}

async fn follow(reader: &mut Reader, writer: &mut Writer) -> Result<Infallible, Stop> {
    loop {
        reader.wake.mark_unchanged();
        let session = look(reader).await?;
        let state = (session.session.revision, session.session.live);
        if reader.told != Some(state) {
            let frame = json!({ "type": "session", "session": session }).to_string();
            writer.send(&sse::message(None, &frame)).await?;
            reader.told = Some(state);
        }
        tokio::select! {
            biased;
            changed = reader.wake.changed() => if changed.is_err() { return Err(Stop::Gone) },
            // A change that is no event shows with the next comment.
            commented = writer.comment() => commented?,
        }
    }
}

/// The session as it is, for who may still read it.
async fn look(reader: &mut Reader) -> Result<Listed, Stop> {
    let (team, id) = (reader.team.clone(), reader.session.clone());
    let read = reader.app.store.read(move |db| {
        let session = rows::one(db, &team, &id)?.ok_or_else(|| ApiError::not_found("session"))?;
        Ok((teams::auth_epoch(db, &team)?, session))
    });
    let (epoch, session) = read.await.map_err(|fault| broken(&fault))?;
    let now = reader.app.clock.now_ms();
    if epoch != reader.authority.epoch() || reader.authority.is_doubtful(&reader.app.hub, now) {
        match reader.authority.look_again(&reader.app).await {
            // What one may see of a session's state is the same for every member.
            Ok(Look::Holds(authority) | Look::Changed(authority)) => reader.authority = authority,
            Ok(Look::Ended(reason)) => {
                return Err(Frame::AccessRevoked { reason: reason.into(), terminal: true }.into());
            }
            Err(fault) => return Err(broken(&fault)),
        }
    }
    Ok(session)
}

/// The reader dials again.
fn broken(fault: &ApiError) -> Stop {
    tracing::warn!(%fault, "a session's stream ends: the store could not be read");
    Stop::Gone
}
