//! The one upstream stream of a context as its readers on this computer see it: the latest event of each
//! resource, the last 10,000 frames, and a cursor for each reader. Who follows the server is `team`'s
//! business; who is let in, the door's.
//!
//! A reader pulls: what waits for it is a place in the kept frames, so that a slow one costs nothing, and
//! is told to come back once the frames went past it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use teamlamp_client::{Ending, Followed};
use teamlamp_clock::Clock;
use teamlamp_wire::Millis;
use teamlamp_wire::event::{self, Event, KindOf, kind_of};
use teamlamp_wire::frame::{Frame, ResyncReason};
use teamlamp_wire::limits::DOOR_FRAMES;
use tokio::sync::watch;

/// Resources whose latest event is kept: a team with more is read from its server.
const RESOURCES: usize = 20_000;

/// What the kept frames can't serve: go to the server itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

/// What a reader is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// A frame, a gap, or the end; never `Connected` or `Dropped`, which the status shows.
    pub what: Followed,
    /// How old it is, where it came before the upstream stream was last lost.
    pub age_ms: Option<i64>,
}

/// The kept frames of one context.
#[derive(Debug)]
pub(crate) struct Hub {
    clock: Clock,
    inner: Mutex<Inner>,
    /// Rises with everything that readers may want to see.
    moved: watch::Sender<u64>,
    kept: usize,
    resources: usize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Each resource's latest event; none before the first snapshot was whole.
    current: Option<BTreeMap<Resource, (i64, Event)>>,
    /// There are more resources than are kept: no reader begins with a snapshot here.
    too_many: bool,
    /// The snapshot that is being read.
    coming: BTreeMap<Resource, (i64, Event)>,
    frames: VecDeque<Kept>,
    /// The number of the first kept frame.
    first: u64,
    /// From where the first kept frame goes on.
    base: Option<String>,
    /// From where a reader goes on that has seen everything.
    tip: Option<String>,
    snapshot_at: Millis,
    /// Since when the upstream is there; none while it is lost.
    live_since: Option<Millis>,
    /// Rises with each gap: what was read before does not go on.
    generation: u64,
    gap: Option<Followed>,
    ended: Option<Ending>,
}

type Resource = (String, String);

#[derive(Debug)]
struct Kept {
    frame: Frame,
    replayed: bool,
    at: Millis,
}

impl Hub {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            inner: Mutex::default(),
            moved: watch::Sender::new(0),
            kept: DOOR_FRAMES,
            resources: RESOURCES,
        }
    }

    /// From where the upstream is followed on.
    pub(crate) fn tip(&self) -> Option<String> {
        self.lock().tip.clone()
    }

    /// Takes what the upstream says.
    pub(crate) fn take(&self, said: &Followed) {
        let now = self.clock.now_ms();
        let mut inner = self.lock();
        match said {
            Followed::Connected { .. } => {
                inner.live_since = Some(now);
                inner.ended = None;
            }
            Followed::Dropped { .. } => inner.live_since = None,
            Followed::Gap { .. } => {
                inner.generation += 1;
                inner.gap = Some(said.clone());
                inner.current = None;
                inner.frames.clear();
                (inner.base, inner.tip) = (None, None);
            }
            Followed::Ended { why } => {
                inner.live_since = None;
                inner.ended = Some(why.clone());
            }
            Followed::Frame { frame, replayed } => {
                inner.take_frame(frame, *replayed, now, self.kept);
                inner.bound(self.resources);
            }
        }
        drop(inner);
        self.moved.send_modify(|n| *n += 1);
    }

    /// A reader from a snapshot on, or after a cursor.
    pub(crate) fn read(self: &Arc<Self>, after: Option<&str>) -> Result<Events, Unsupported> {
        let inner = self.lock();
        let start = match after {
            None if inner.too_many => {
                return Err(Unsupported(
                    "This team is larger than the connector keeps: ask the server itself.".into(),
                ));
            }
            None => Start::Snapshot,
            Some(cursor) => match inner.after(cursor) {
                Some(number) => Start::At(number),
                None => {
                    let why = "These events are older than the connector keeps: ask the server itself.";
                    return Err(Unsupported(why.into()));
                }
            },
        };
        let (generation, moved) = (inner.generation, self.moved.subscribe());
        drop(inner);
        let cursor = after.map(str::to_owned);
        Ok(Events {
            hub: self.clone(),
            moved,
            generation,
            start,
            cursor,
            snapshot: VecDeque::new(),
            over: false,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take_frame(&mut self, frame: &Frame, replayed: bool, now: Millis, kept: usize) {
        match frame {
            Frame::SnapshotBegin => {
                self.coming.clear();
                self.too_many = false;
            }
            Frame::SnapshotItem { sequence, data } => {
                self.coming.insert(resource(data), (*sequence, data.clone()));
            }
            Frame::SnapshotEnd { cursor } => {
                self.current = (!self.too_many).then(|| std::mem::take(&mut self.coming));
                self.first += self.frames.len() as u64;
                self.frames.clear();
                (self.base, self.tip) = (Some(cursor.clone()), Some(cursor.clone()));
                self.snapshot_at = now;
            }
            Frame::Event { sequence, cursor, data } => {
                if let Some(current) = &mut self.current
                    && (everybody_reads(&data.kind) || !current.contains_key(&resource(data)))
                {
                    current.insert(resource(data), (*sequence, data.clone()));
                }
                self.tip = Some(cursor.clone());
                self.keep(Kept { frame: frame.clone(), replayed, at: now }, kept);
            }
            Frame::Checkpoint { cursor } => {
                self.tip = Some(cursor.clone());
                self.keep(Kept { frame: frame.clone(), replayed, at: now }, kept);
            }
            // What ends the upstream for a moment is between it and us; a gap comes as such.
            Frame::ResyncRequired { .. } | Frame::AccessRevoked { .. } | Frame::Unknown => {}
        }
    }

    /// Keeps no more than so many resources: a part of them would be taken for all.
    fn bound(&mut self, most: usize) {
        if self.coming.len() > most || self.current.as_ref().is_some_and(|current| current.len() > most) {
            self.too_many = true;
            self.current = None;
        }
        if self.too_many {
            self.coming.clear();
        }
    }

    fn keep(&mut self, frame: Kept, most: usize) {
        self.frames.push_back(frame);
        while self.frames.len() > most {
            if let Some(gone) = self.frames.pop_front() {
                self.base = gone.frame.cursor().map(str::to_owned);
                self.first += 1;
            }
        }
    }

    /// The number of the frame that follows a cursor.
    fn after(&self, cursor: &str) -> Option<u64> {
        let place = self.frames.iter().rposition(|kept| kept.frame.cursor() == Some(cursor));
        match place {
            Some(place) => Some(self.first + place as u64 + 1),
            None => (self.base.as_deref() == Some(cursor)).then_some(self.first),
        }
    }

    fn age(&self, at: Millis, now: Millis) -> Option<i64> {
        self.live_since.is_none_or(|since| at < since).then(|| now.saturating_sub(at).max(0))
    }
}

/// Whether every member may read events of a kind. What not everybody may, a server's snapshot shows only
/// where its resource has nothing else.
fn everybody_reads(kind: &str) -> bool {
    !matches!(kind_of(kind), Some(KindOf::Listed(row)) if row.reader != event::Reader::Member)
}

fn resource(event: &Event) -> Resource {
    (event.resource.kind.clone(), event.resource.id.clone())
}

/// One reader of a context's events, at its own cursor.
#[derive(Debug)]
pub struct Events {
    hub: Arc<Hub>,
    moved: watch::Receiver<u64>,
    generation: u64,
    start: Start,
    cursor: Option<String>,
    snapshot: VecDeque<Told>,
    over: bool,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    /// With the next snapshot that is whole.
    Snapshot,
    /// With this frame.
    At(u64),
}

impl Events {
    /// The next item; `None` after the last one. It may be dropped and called again.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.snapshot.pop_front() {
                return Some(told);
            }
            if self.over {
                return None;
            }
            self.moved.mark_unchanged();
            if let Some(told) = self.now() {
                return Some(told);
            }
            if !self.snapshot.is_empty() || self.over {
                continue;
            }
            if self.moved.changed().await.is_err() {
                return None;
            }
        }
    }

    /// From where this reader goes on elsewhere.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// What there is without waiting.
    fn now(&mut self) -> Option<Told> {
        let hub = self.hub.clone();
        let (inner, now) = (hub.lock(), hub.clock.now_ms());
        if inner.generation != self.generation {
            self.generation = inner.generation;
            (self.start, self.cursor) = (Start::Snapshot, None);
            return inner.gap.clone().map(|what| Told { what, age_ms: None });
        }
        match self.start {
            Start::Snapshot if !inner.too_many => {
                self.begin(&inner, now);
                None
            }
            Start::At(number) if number >= inner.first => {
                match inner.frames.get(usize::try_from(number - inner.first).unwrap_or(usize::MAX)) {
                    Some(kept) => {
                        self.start = Start::At(number + 1);
                        self.cursor = kept.frame.cursor().map(str::to_owned);
                        let what = Followed::Frame { frame: kept.frame.clone(), replayed: kept.replayed };
                        Some(Told { what, age_ms: inner.age(kept.at, now) })
                    }
                    None => {
                        let why = inner.ended.clone()?;
                        self.over = true;
                        Some(Told { what: Followed::Ended { why }, age_ms: None })
                    }
                }
            }
            _ => {
                // The frames went past it, as a server's would, or there is no snapshot to begin with.
                self.over = true;
                let (reason, cursor) = (ResyncReason::SlowReader, self.cursor.clone());
                let frame = Frame::ResyncRequired { reason, cursor, details: None, terminal: true };
                Some(Told { what: Followed::Frame { frame, replayed: false }, age_ms: None })
            }
        }
    }

    fn begin(&mut self, inner: &Inner, now: Millis) {
        let (Some(current), Some(tip)) = (&inner.current, &inner.tip) else {
            if let Some(why) = inner.ended.clone() {
                self.over = true;
                self.snapshot.push_back(Told { what: Followed::Ended { why }, age_ms: None });
            }
            return;
        };
        let newest = inner.frames.back().map_or(inner.snapshot_at, |kept| kept.at);
        let age_ms = inner.age(newest, now);
        let mut tell = |frame| {
            self.snapshot.push_back(Told { what: Followed::Frame { frame, replayed: true }, age_ms });
        };
        tell(Frame::SnapshotBegin);
        for (sequence, data) in current.values() {
            tell(Frame::SnapshotItem { sequence: *sequence, data: data.clone() });
        }
        tell(Frame::SnapshotEnd { cursor: tip.clone() });
        self.cursor = Some(tip.clone());
        self.start = Start::At(inner.first + inner.frames.len() as u64);
    }
}

#[cfg(test)]
mod tests;
