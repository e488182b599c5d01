//! `GET …/machines/events`: transitions of `connection` as server-sent events (spec 02).

use crate::app::App;
use crate::error::ApiError;
use crate::events::authority::{Authority, Look};
use crate::events::outlet::outlet;
use crate::events::places::Place as Seat;
use crate::events::reader::authorize;
use crate::events::sse;
use crate::events::stream::resume_from;
use crate::events::writer::{Stop, Writer};
use crate::request::{Call, Reply};
use crate::store::presence::{self as rows, Head};
use serde::Serialize;
use teamlamp_wire::frame::Frame;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::limits::STREAM_PAGE;
use teamlamp_wire::presence::PresenceFrame;
use tokio::sync::watch;

struct Reader {
    app: App,
    team: TeamId,
    authority: Authority,
    wake: watch::Receiver<u64>,
    seen: i64,
}

/// Handles `machines.events`.
///
/// # Errors
/// 400 for an `after` that is no sequence, 404, 429.
pub async fn open(call: Call) -> Result<Reply, ApiError> {
    let after = after(&call)?;
    let (app, caller, team) = (call.app.clone(), call.caller()?.clone(), call.team());
    // Subscribed before anything is read, so that nothing falls in between.
    let wake = app.hub.presence(&team);
    let (authority, install) = authorize(&app, &caller, &team, call.machine_header.clone()).await?;
    let seat = app.streams.take(&caller.credential_id, install.as_ref())?;
    let (inlet, body) = outlet();
    let writer = Writer::new(inlet, &call);
    let reader = Reader { app: app.clone(), team, authority, wake, seen: 0 };
    app.tasks.spawn("presence stream", run(reader, writer, after, seat));
    Ok(Reply::Raw(sse::response(body)))
}

fn after(call: &Call) -> Result<Option<i64>, ApiError> {
    let Some(text) = resume_from(call) else { return Ok(None) };
    let number = text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    number.map(Some).ok_or_else(|| {
        ApiError::invalid(
            "`after` must be the sequence of a transition: leave it out to begin with a snapshot.",
        )
    })
}

async fn run(mut reader: Reader, mut writer: Writer, after: Option<i64>, _seat: Seat) {
    match follow(&mut reader, &mut writer, after).await {
        Err(Stop::End(frame)) => writer.finish(&frame).await,
        // A reader with more than a mebibyte waiting is closed; what waits says where to go on.
        Err(Stop::Gone | Stop::Slow) => writer.close().await,
        Ok(never) => match never {},
    }
}

async fn follow(
    reader: &mut Reader,
    writer: &mut Writer,
    after: Option<i64>,
) -> Result<std::convert::Infallible, Stop> {
    match after {
        None => snapshot(reader, writer).await?,
        Some(after) => reader.seen = after,
    }
    loop {
        reader.wake.mark_unchanged();
        transitions(reader, writer).await?;
        tokio::select! {
            biased;
            changed = reader.wake.changed() => if changed.is_err() { return Err(Stop::Gone) },
            commented = writer.comment() => commented?,
        }
    }
}

fn give(writer: &mut Writer, id: Option<i64>, frame: &impl Serialize) -> Result<(), Stop> {
    let json = serde_json::to_string(frame).unwrap_or_default();
    let id = id.map(|id| id.to_string());
    if writer.offer(&sse::message(id.as_deref(), &json))? { Ok(()) } else { Err(Stop::Slow) }
}

async fn snapshot(reader: &mut Reader, writer: &mut Writer) -> Result<(), Stop> {
    let team = reader.team.clone();
    let read = reader.app.store.read(move |db| {
        let head = rows::head(db, &team)?.ok_or_else(|| ApiError::not_found("team"))?;
        Ok((head, rows::snapshot(db, &team)?))
    });
    let (head, machines) = read.await.map_err(|fault| broken(&fault))?;
    confirm(reader, head).await?;
    give(writer, None, &PresenceFrame::SnapshotBegin)?;
    for machines in machines.chunks(STREAM_PAGE) {
        for machine in machines {
            // A snapshot of a large team may wait for its reader; transitions may not.
            let frame = PresenceFrame::Machine { machine: machine.clone() };
            let json = serde_json::to_string(&frame).unwrap_or_default();
            writer.send(&sse::message(None, &json)).await?;
        }
        tokio::task::yield_now().await;
    }
    reader.seen = head.last;
    give(writer, Some(head.last), &PresenceFrame::SnapshotEnd { sequence: head.last })
}

/// Sends the transitions that there are, in pages.
async fn transitions(reader: &mut Reader, writer: &mut Writer) -> Result<(), Stop> {
    loop {
        let (team, after) = (reader.team.clone(), reader.seen);
        let read = reader.app.store.read(move |db| {
            let head = rows::head(db, &team)?.ok_or_else(|| ApiError::not_found("team"))?;
            Ok((head, rows::after(db, &team, after, STREAM_PAGE)?))
        });
        let (head, page) = read.await.map_err(|fault| broken(&fault))?;
        confirm(reader, head).await?;
        if after < head.pruned_through || after > head.last {
            give(
                writer,
                None,
                &PresenceFrame::ResyncRequired { reason: "retention".into(), terminal: true },
            )?;
            return Err(Stop::Gone);
        }
        let whole = page.len() < STREAM_PAGE;
        for transition in page {
            reader.seen = transition.sequence;
            give(writer, Some(transition.sequence), &PresenceFrame::Transition(transition))?;
        }
        if whole {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Looks at the authority again where time, an ended credential or the team's epoch asks for it. What
/// one may see of presence is the same for every member, so a changed epoch alone ends nothing.
async fn confirm(reader: &mut Reader, head: Head) -> Result<(), Stop> {
    let (hub, now) = (&reader.app.hub, reader.app.clock.now_ms());
    if head.auth_epoch == reader.authority.epoch() && !reader.authority.is_doubtful(hub, now) {
        return Ok(());
    }
    match reader.authority.look_again(&reader.app).await {
        Ok(Look::Holds(authority) | Look::Changed(authority)) => reader.authority = authority,
        Ok(Look::Ended(reason)) => return Err(ended(reason)),
        Err(fault) => return Err(broken(&fault)),
    }
    Ok(())
}

fn ended(reason: &str) -> Stop {
    Frame::AccessRevoked { reason: reason.into(), terminal: true }.into()
}

/// The reader dials again with the sequence that it has.
fn broken(fault: &ApiError) -> Stop {
    tracing::warn!(%fault, "a presence stream ends: the store could not be read");
    Stop::Gone
}
