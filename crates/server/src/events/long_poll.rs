//! The event stream as long polls, for networks whose proxies buffer: the same reader, whose frames are
//! answered when there are some, or after the wait.

use super::cursor::{NOT_READ, Place as At};
use super::frames;
use super::places::Place as Seat;
use super::reader::{Reader, resync};
use super::stream::Start;
use crate::error::ApiError;
use crate::request::Reply;
use crate::store::events::{self as rows, Head, ResourceKey, Stored};
use std::time::Duration;
use teamlamp_wire::frame::{Frame, ResyncReason};
use teamlamp_wire::limits::STREAM_PAGE;

/// How many resources one look for a page of a snapshot takes.
const LOOK: usize = 256;

/// Frames as JSON, and from where to go on.
#[derive(Debug, Default)]
struct Answer {
    frames: Vec<String>,
    cursor: Option<String>,
}

impl Answer {
    fn end(frame: &Frame) -> Self {
        Self { cursor: frame.cursor().map(str::to_owned), frames: vec![frames::other(frame)] }
    }
    fn reply(self) -> Result<Reply, ApiError> {
        let cursor = serde_json::to_string(&self.cursor)?;
        let body = format!(r#"{{"frames":[{}],"cursor":{cursor}}}"#, self.frames.join(","));
        Ok(Reply::Json { status: 200, body, etag: None })
    }
}

/// Answers one poll; its place is held while it waits.
///
/// # Errors
/// What the store says.
pub async fn answer(
    mut reader: Reader,
    start: Start,
    wait: Duration,
    _seat: Seat,
) -> Result<Reply, ApiError> {
    let answer = match start {
        Start::Restored => Answer::end(&resync(ResyncReason::ServerRestored, None, None)),
        Start::Snapshot => snapshot(&mut reader, None).await?,
        Start::At(At::Snapshot { watermark, after }) => {
            snapshot(&mut reader, Some((watermark, after))).await?
        }
        Start::At(At::After(sequence)) => {
            reader.stand_at(sequence);
            live(&mut reader, wait).await
        }
    };
    answer.reply()
}

/// A page of the snapshot: at most 32 items, and a cursor that carries the place.
async fn snapshot(reader: &mut Reader, from: Option<(i64, ResourceKey)>) -> Result<Answer, ApiError> {
    let mut frames = Vec::new();
    if from.is_none() {
        frames.push(frames::other(&Frame::SnapshotBegin));
    }
    let (mut watermark, mut place) = from.map_or((None, None), |(mark, after)| (Some(mark), Some(after)));
    watermark = watermark.filter(|mark| *mark != NOT_READ);
    let page_begins = place.clone().unwrap_or_default();
    let mut found: Vec<Stored> = Vec::new();
    loop {
        let looked = look(reader, place.clone()).await?;
        let watermark = *watermark.get_or_insert(looked.head.last);
        reader.stand_within(watermark, page_begins.clone());
        if let Err(end) = reader.same_epoch(looked.head).await {
            frames.push(frames::other(&end));
            return Ok(Answer { frames, cursor: end.cursor().map(str::to_owned) });
        }
        for (key, event) in looked.items {
            if reader.may_read(&event) {
                found.push(event);
            }
            if found.len() == STREAM_PAGE {
                return Ok(page(reader, frames, &found, At::Snapshot { watermark, after: key }));
            }
        }
        place = looked.last;
        if looked.whole {
            reader.stand_at(watermark);
            let mut answer = page(reader, frames, &found, At::After(watermark));
            let cursor = answer.cursor.clone().unwrap_or_default();
            answer.frames.push(frames::other(&Frame::SnapshotEnd { cursor }));
            return Ok(answer);
        }
    }
}

fn page(reader: &Reader, mut frames: Vec<String>, found: &[Stored], place: At) -> Answer {
    frames.extend(found.iter().map(frames::snapshot_item));
    Answer { frames, cursor: Some(reader.cursor_at(&place)) }
}

/// Some of a snapshot's resources, in order.
struct Looked {
    head: Head,
    /// Those that were asked for, with their current events: at most a page.
    items: Vec<(ResourceKey, Stored)>,
    /// The last that was looked at.
    last: Option<ResourceKey>,
    /// There are no more.
    whole: bool,
}

async fn look(reader: &Reader, after: Option<ResourceKey>) -> Result<Looked, ApiError> {
    let scope = reader.scope().clone();
    reader
        .app()
        .store
        .read(move |conn| {
            let team = scope.team();
            let head = rows::head(conn, team)?.ok_or_else(|| ApiError::not_found("team"))?;
            let currents = rows::current(conn, team, scope.source(), after.as_ref(), LOOK)?;
            let mut whole = currents.len() < LOOK;
            let (mut items, mut last) = (Vec::new(), after);
            for current in currents {
                if items.len() == STREAM_PAGE {
                    whole = false;
                    break;
                }
                last = Some(current.key.clone());
                if scope.admits_current(&current)
                    && let Some(event) = rows::at(conn, team, current.sequence)?
                {
                    items.push((current.key, event));
                }
            }
            Ok(Looked { head, items, last, whole })
        })
        .await
}

/// What comes after where the reader stands, at once or within the wait.
async fn live(reader: &mut Reader, wait: Duration) -> Answer {
    let clock = reader.app().clock.clone();
    let until = clock.monotonic() + wait;
    let end = reader.app().tasks.token().clone();
    let (mut waited, mut over) = (false, false);
    loop {
        let before = reader.cursor();
        match round(reader).await {
            Err(end) => return Answer::end(&end),
            Ok(found) if !found.frames.is_empty() => return found.answer(reader, before.filter(|_| waited)),
            Ok(_) if over => return Answer { frames: Vec::new(), cursor: reader.cursor() },
            Ok(_) => waited = true,
        }
        tokio::select! {
            biased;
            // A server that ends does not wait for idle readers.
            () = end.cancelled() => return Answer { frames: Vec::new(), cursor: reader.cursor() },
            () = reader.woken() => {}
            () = clock.sleep_until(until) => {
                // The wake-up for what came meanwhile may be lost: the table is looked at once more.
                reader.doubt();
                over = true;
            }
        }
    }
}

/// What one look found.
struct Found {
    frames: Vec<String>,
    /// Nothing is left behind it.
    whole: bool,
}

impl Found {
    /// Its answer, which says where the replay ended and live began: before the events, where the reader
    /// had waited for them, else behind the last.
    fn answer(self, reader: &Reader, waited_at: Option<String>) -> Answer {
        let checkpoint =
            |cursor: Option<String>| cursor.map(|cursor| frames::other(&Frame::Checkpoint { cursor }));
        let mut all: Vec<String> = checkpoint(waited_at).into_iter().collect();
        let first = all.is_empty() && self.whole;
        all.extend(self.frames);
        if first {
            all.extend(checkpoint(reader.cursor()));
        }
        Answer { frames: all, cursor: reader.cursor() }
    }
}

/// The next events that the reader gets, at most a page, past those that it does not.
async fn round(reader: &mut Reader) -> Result<Found, Frame> {
    reader.begin_round();
    loop {
        let step = reader.next().await?;
        let mut frames = Vec::new();
        for item in &step.items {
            let cursor = reader.cursor_at(&At::After(item.event.sequence));
            frames.push(frames::event(&item.event, &cursor));
        }
        reader.stand_at(step.looked);
        if !frames.is_empty() || step.looked >= step.last {
            return Ok(Found { frames, whole: step.looked >= step.last });
        }
        tokio::task::yield_now().await;
    }
}
