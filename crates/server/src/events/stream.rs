//! `GET …/events`: the event stream. Snapshot, replay and live are rounds of one loop over the table, so
//! that nothing is missed in between and live never overtakes replay (spec 03).

use super::cursor::{CursorFault, Cursors, NOT_READ, Place};
use super::outlet::outlet;
use super::places::Place as Seat;
use super::reader::{Reader, resync};
use super::scope::Scope;
use super::writer::{Stop, Writer};
use super::{frames, long_poll, sse};
use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::events::ResourceKey;
use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT;
use teamlamp_clock::{Moment, ms};
use teamlamp_wire::frame::{Frame, ResyncReason};
use teamlamp_wire::limits::{LONG_POLL_SECONDS, STREAM_PAGE};

/// Checkpoints past events that a reader does not get come at most this often.
const CHECKPOINT_MS: i64 = 1_000;

/// Where a reader begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With a snapshot.
    Snapshot,
    /// At a cursor's place.
    At(Place),
    /// Nowhere: its cursor is of a database before its restoration.
    Restored,
}

/// Handles `events.stream`.
///
/// # Errors
/// 400 for a query or cursor that can't be read, 404, 429.
pub async fn open(call: Call) -> Result<Reply, ApiError> {
    let scope = Scope::parse(&call.team(), &call.query)?;
    let polls = wants_json(&call.parts.headers);
    let wait = wait_seconds(&call, polls)?;
    let start = start(&call, &scope)?;
    let (app, caller) = (call.app.clone(), call.caller()?.clone());
    let (reader, install) = Reader::open(&app, &caller, scope, call.machine_header.clone()).await?;
    let seat = app.streams.take(&caller.credential_id, install.as_ref())?;
    if polls {
        return long_poll::answer(reader, start, ms(wait * 1_000), seat).await;
    }
    let (inlet, body) = outlet();
    let writer = Writer::new(inlet, &call);
    app.tasks.spawn("event stream", run(reader, writer, start, seat));
    Ok(Reply::Raw(sse::response(body)))
}

/// Only exactly `Accept: application/json` asks for long polls.
fn wants_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT).iter();
    let first = values.next().and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = first.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json") && !first.contains(',') && values.next().is_none()
}

fn wait_seconds(call: &Call, polls: bool) -> Result<i64, ApiError> {
    match call.query.get("wait") {
        None => Ok(0),
        Some(_) if !polls => Err(ApiError::invalid(
            "`wait` goes with `Accept: application/json`: a stream does not end by itself.",
        )),
        Some(text) => text
            .parse::<u64>()
            .ok()
            .filter(|s| *s <= LONG_POLL_SECONDS && text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|s| i64::try_from(s).ok())
            .ok_or_else(|| {
                ApiError::invalid(format!(
                    "`wait` must be a number of seconds from 0 to {LONG_POLL_SECONDS}."
                ))
            }),
    }
}

/// The cursor that a request resumes from: `Last-Event-ID`, where it is sent, wins over `after`.
pub fn resume_from(call: &Call) -> Option<String> {
    let header = call.parts.headers.get("last-event-id").filter(|value| !value.is_empty());
    match header {
        Some(value) => Some(String::from_utf8_lossy(value.as_bytes()).into_owned()),
        None => call.query.get("after").cloned(),
    }
}

fn start(call: &Call, scope: &Scope) -> Result<Start, ApiError> {
    let Some(cursor) = resume_from(call) else { return Ok(Start::Snapshot) };
    let cursors = Cursors::new(call.app.keys.clone(), &call.app.history_id);
    match cursors.decode(scope, &cursor) {
        Ok(place) => Ok(Start::At(place)),
        Err(CursorFault::Restored) => Ok(Start::Restored),
        Err(CursorFault::Malformed) => Err(ApiError::invalid(
            "The cursor is none of this server's: leave it out to begin with a snapshot.",
        )),
        Err(CursorFault::Foreign) => Err(ApiError::invalid(
            "The cursor belongs to another team or to other filters: leave it out to begin with a snapshot.",
        )),
    }
}

async fn run(mut reader: Reader, mut writer: Writer, start: Start, _seat: Seat) {
    let stop = match follow(&mut reader, &mut writer, start).await {
        Err(stop) => stop,
        Ok(never) => match never {},
    };
    match stop {
        Stop::Gone => {}
        Stop::Slow => writer.finish(&reader.come_back(ResyncReason::SlowReader)).await,
        Stop::End(frame) => writer.finish(&frame).await,
    }
}

async fn follow(
    reader: &mut Reader,
    writer: &mut Writer,
    start: Start,
) -> Result<std::convert::Infallible, Stop> {
    match start {
        Start::Restored => return Err(resync(ResyncReason::ServerRestored, None, None).into()),
        Start::Snapshot => {
            send(writer, None, &Frame::SnapshotBegin).await?;
            // Also a store that fails at once leaves a place to come back to.
            reader.stand_within(NOT_READ, ResourceKey::default());
            snapshot(reader, writer, None).await?;
        }
        Start::At(Place::Snapshot { watermark, after }) => {
            snapshot(reader, writer, Some((watermark, after))).await?;
        }
        Start::At(Place::After(sequence)) => reader.stand_at(sequence),
    }
    let mut told = Told { through: None, checkpoint_at: None };
    round(reader, writer, &mut told).await?;
    // The replay itself always ends with a checkpoint.
    told.through = None;
    loop {
        if told.through != reader.seen() {
            checkpoint(reader, writer, &mut told).await?;
        }
        rest(reader, writer, &told).await?;
        round(reader, writer, &mut told).await?;
    }
}

/// How far the reader knows that the stream has looked.
struct Told {
    /// The sequence of the last cursor that it was sent since its first replay.
    through: Option<i64>,
    /// When the last checkpoint was sent.
    checkpoint_at: Option<Moment>,
}

impl Told {
    fn checkpoint_due(&self) -> Option<Moment> {
        self.checkpoint_at.map(|at| at + ms(CHECKPOINT_MS))
    }
}

async fn send(writer: &mut Writer, id: Option<&str>, frame: &Frame) -> Result<(), Stop> {
    writer.send(&sse::message(id, &frames::other(frame))).await
}

/// Sends the current events in pages, or the rest of them, then where live begins. A reader that has to
/// come back in between goes on after the last that it was given.
async fn snapshot(
    reader: &mut Reader,
    writer: &mut Writer,
    from: Option<(i64, ResourceKey)>,
) -> Result<(), Stop> {
    let list = reader.list(from).await?;
    for page in list.items.chunks(STREAM_PAGE) {
        for (resource, item) in reader.items(page.to_vec()).await? {
            let message = sse::message(None, &frames::snapshot_item(&item));
            give(reader, writer, &message).await?;
            reader.stand_within(list.watermark, resource);
        }
        tokio::task::yield_now().await;
    }
    reader.stand_at(list.watermark);
    let cursor = reader.cursor().unwrap_or_default();
    send(writer, Some(&cursor), &Frame::SnapshotEnd { cursor: cursor.clone() }).await
}

/// Gives a message that needs authority: after a wait for room the authority is looked at again.
async fn give(reader: &mut Reader, writer: &mut Writer, message: &Bytes) -> Result<(), Stop> {
    while !writer.offer(message)? {
        writer.room(message.len()).await?;
        reader.look_again().await?;
    }
    Ok(())
}

/// Sends what was published up to the last sequence at the round's start. What comes meanwhile starts
/// the next round, so that a busy team can't keep a reader in an endless one.
async fn round(reader: &mut Reader, writer: &mut Writer, told: &mut Told) -> Result<(), Stop> {
    reader.begin_round();
    let mut watermark = None;
    loop {
        let step = reader.next().await?;
        let watermark = *watermark.get_or_insert(step.last);
        let mut waits_for = None;
        for item in step.items.iter().take_while(|item| item.event.sequence <= watermark) {
            let message = reader.message(item);
            if !writer.offer(&message)? {
                waits_for = Some(message.len());
                break;
            }
            reader.stand_at(item.event.sequence);
            told.through = Some(item.event.sequence);
        }
        match waits_for {
            // The rest of the page is read again after the wait, with the authority of then.
            Some(size) => writer.room(size).await?,
            None => reader.stand_at(step.looked.min(watermark)),
        }
        if reader.seen() >= Some(watermark) {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Says how far the stream has looked: at once after the first replay, then at most once a second.
async fn checkpoint(reader: &Reader, writer: &mut Writer, told: &mut Told) -> Result<(), Stop> {
    let now = reader.app().clock.monotonic();
    if told.checkpoint_due().is_some_and(|due| now < due) {
        return Ok(());
    }
    told.checkpoint_at = Some(now);
    told.through = reader.seen();
    let cursor = reader.cursor().unwrap_or_default();
    send(writer, Some(&cursor), &Frame::Checkpoint { cursor: cursor.clone() }).await
}

/// Waits for another round, a checkpoint that is due, or the next comment.
async fn rest(reader: &mut Reader, writer: &mut Writer, told: &Told) -> Result<(), Stop> {
    let clock = reader.app().clock.clone();
    let due = told.checkpoint_due().filter(|_| told.through != reader.seen());
    tokio::select! {
        biased;
        () = reader.woken() => {}
        () = async { match due { Some(due) => clock.sleep_until(due).await, None => std::future::pending().await } } => {}
        commented = writer.comment() => {
            commented?;
            // A quiet team is no reason to serve a credential past its end, or to miss what a lost
            // wake-up was for.
            reader.confirm().await?;
            reader.doubt();
        }
    }
    Ok(())
}
