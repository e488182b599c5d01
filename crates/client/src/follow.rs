//! The endless event stream (spec 03, 'The client's side'): it resumes from its last cursor, never gives
//! up, and holds one connection at a time. It owns when to dial, when to wait and when to change over to
//! long polls; what an event means is its reader's business.

use crate::client::Client;
use crate::error::{ClientError, FaultKind, TransportFault};
use crate::path::Path;
use crate::sse::{self, Message, StreamFault};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use std::collections::VecDeque;
use std::time::Duration;
use teamlamp_clock::{Backoff, Moment, ms};
use teamlamp_wire::frame::{Frame, FramePage, ResyncReason};
use teamlamp_wire::id::{SourceId, TeamId};
use teamlamp_wire::limits::{LONG_POLL_SECONDS, STREAM_BACKOFF_MS, STREAM_FIRST_BYTE_MS, STREAM_SILENCE_MS};

/// How long a client polls before it tries streaming again.
const POLLING: Duration = Duration::from_secs(3_600);
/// Polls of a busy team come at most this often.
const POLL_PAUSE: Duration = Duration::from_millis(250);
const POLL_LIMIT_MS: i64 = LONG_POLL_SECONDS as i64 * 1_000 + 15_000;

/// What to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowQuery {
    /// The team.
    pub team: TeamId,
    /// Only what one source published.
    pub source: Option<SourceId>,
    /// Only these kinds; empty: all. `custom.cli.*` and the like are kinds too.
    pub kinds: Vec<String>,
}

impl FollowQuery {
    /// Everything of a team.
    pub fn all(team: TeamId) -> Self {
        Self { team, source: None, kinds: Vec::new() }
    }

    fn path(&self) -> Path {
        let kinds = (!self.kinds.is_empty()).then(|| self.kinds.join(","));
        Path::team(&self.team).to("events").ask("source", self.source.as_ref()).ask("kinds", kinds)
    }
}

/// How frames come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As they happen.
    Streaming,
    /// By long polls, because something on the way holds streams back.
    Polling,
}

/// What a followed stream says.
#[derive(Clone, Debug, PartialEq)]
pub enum Followed {
    /// Frames come now, in this way.
    Connected {
        /// How.
        mode: Mode,
    },
    /// A frame, with its cursor where it has one.
    Frame {
        /// The frame as the server sent it.
        frame: Frame,
        /// It tells of the past: a snapshot, or what happened while there was no connection. Nobody is
        /// notified of it.
        replayed: bool,
    },
    /// What happened in between is gone; a snapshot follows. Shown as a receipt, never as silence.
    Gap {
        /// Why; `Unknown` where the server no longer takes the cursor.
        reason: ResyncReason,
        /// Up to which sequence events are gone, where that is known.
        pruned_through: Option<i64>,
        /// How many events are gone, where that is known.
        events_missed: Option<i64>,
    },
    /// The connection is lost, or could not be made.
    Dropped {
        /// Why.
        why: ClientError,
        /// After which time it is made again.
        wait: Duration,
    },
    /// The last item: going on needs a person.
    Ended {
        /// Why.
        why: Ending,
    },
}

/// Why a followed stream ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The server refused, and would refuse again.
    Refused(ClientError),
    /// The credential, the membership or the machine ended; the server's reason.
    AccessRevoked(String),
}

impl Client {
    /// Follows a team's events from a cursor, or from a snapshot. Endless but for [`Followed::Ended`].
    pub fn follow(&self, query: &FollowQuery, after: Option<String>) -> BoxStream<'static, Followed> {
        self.follow_path(query.path(), after)
    }

    pub(crate) fn follow_path(&self, path: Path, after: Option<String>) -> BoxStream<'static, Followed> {
        let follower = Follower {
            client: self.clone(),
            path,
            cursor: after,
            highest: 0,
            catching_up: false,
            announced: None,
            way: Way::Streaming,
            phase: Phase::Dial,
            backoff: Backoff::new(STREAM_BACKOFF_MS),
            ready: VecDeque::new(),
        };
        stream::unfold(follower, |mut it| async move { it.next().await.map(|item| (item, it)) }).boxed()
    }
}

struct Follower {
    client: Client,
    path: Path,
    cursor: Option<String>,
    /// The highest sequence of an event that was yielded outside a snapshot.
    highest: i64,
    /// Between a resumption and its first checkpoint.
    catching_up: bool,
    /// The mode that was last said, while connected.
    announced: Option<Mode>,
    way: Way,
    phase: Phase,
    backoff: Backoff,
    ready: VecDeque<Followed>,
}

/// How the next frames are asked for.
#[derive(Clone, Copy)]
enum Way {
    Streaming,
    /// Until a moment; `proven` once a poll was answered where a stream was not.
    Polling {
        until: Moment,
        proven: bool,
    },
}

enum Phase {
    Wait(Moment),
    Dial,
    Read(BoxStream<'static, Result<Message, StreamFault>>),
    Ended,
}

/// What to do after a fault.
#[derive(Debug, PartialEq, Eq)]
enum After {
    /// A person is needed.
    End,
    /// The cursor is no good: begin with a snapshot.
    Forget,
    /// Try again.
    Again,
}

fn after(fault: &ClientError, has_cursor: bool) -> After {
    match fault.status() {
        Some(401 | 403 | 404) => After::End,
        Some(400) if has_cursor => After::Forget,
        Some(400) => After::End,
        _ => After::Again,
    }
}

impl Follower {
    async fn next(&mut self) -> Option<Followed> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            match &mut self.phase {
                Phase::Ended => return None,
                Phase::Wait(until) => {
                    self.client.clock.sleep_until(*until).await;
                    self.phase = Phase::Dial;
                }
                Phase::Dial => match self.way {
                    Way::Polling { until, .. } if self.client.clock.monotonic() < until => self.poll().await,
                    _ => self.open().await,
                },
                Phase::Read(messages) => match messages.next().await {
                    Some(Ok(message)) => self.read(&message),
                    Some(Err(fault)) => {
                        let fault = stream_fault(self.client.peer(), fault);
                        self.dropped(fault);
                    }
                    None => self.closed("the stream ended"),
                },
            }
        }
    }

    /// Opens the stream; where nothing of it comes in time, the next try is a long poll.
    async fn open(&mut self) {
        self.way = Way::Streaming;
        let client = self.client.clone();
        let path = self.path.clone().ask("after", self.cursor.as_ref());
        // A proxy that holds a stream back may hold its head back too: both have to come in this time.
        let opening = async {
            let mut body = client.open_stream(&path).await?;
            let first = body.next().await;
            Ok((first, body))
        };
        let Some(opened) = client.clock.within(ms(STREAM_FIRST_BYTE_MS), opening).await else {
            return self.unheard();
        };
        match opened {
            Err(fault) => self.dropped(fault),
            Ok((None, _)) => self.closed("the stream ended at once"),
            Ok((Some(Err(fault)), _)) => self.dropped(fault.into()),
            Ok((Some(Ok(first)), body)) => {
                let body = stream::iter([Ok(first)]).chain(body).boxed();
                self.phase = Phase::Read(sse::messages(body, client.clock.clone(), ms(STREAM_SILENCE_MS)));
                self.connected(Mode::Streaming);
            }
        }
    }

    fn unheard(&mut self) {
        tracing::info!(peer = self.client.peer(), "no byte of the stream came: trying long polls");
        let until = self.client.clock.monotonic() + POLLING;
        self.way = Way::Polling { until, proven: false };
        self.phase = Phase::Dial;
    }

    async fn poll(&mut self) {
        let path = self.path.clone().ask("after", self.cursor.as_ref()).ask("wait", Some(LONG_POLL_SECONDS));
        let page: FramePage = match self.client.poll(path, POLL_LIMIT_MS).await {
            Ok(page) => page,
            Err(fault) => {
                // A server that answers neither is gone; it is met with a stream when it comes back.
                if matches!(self.way, Way::Polling { proven: false, .. }) {
                    self.way = Way::Streaming;
                }
                return self.dropped(fault);
            }
        };
        if let Way::Polling { proven, .. } = &mut self.way {
            *proven = true;
        }
        self.connected(Mode::Polling);
        let terminal = page.frames.iter().any(Frame::is_terminal);
        if !terminal {
            self.backoff.reset();
        }
        self.phase = Phase::Wait(self.client.clock.monotonic() + POLL_PAUSE);
        if page.frames.is_empty() {
            self.catching_up = false;
        }
        for frame in page.frames {
            self.take(frame);
        }
        if !terminal && page.cursor.is_some() {
            self.cursor = page.cursor;
        }
    }

    /// Frames come: says so once, and knows that what comes first is the past where there is a cursor.
    fn connected(&mut self, mode: Mode) {
        if self.announced.is_none() {
            self.catching_up = self.cursor.is_some();
        }
        if self.announced != Some(mode) {
            self.announced = Some(mode);
            self.ready.push_back(Followed::Connected { mode });
        }
    }

    fn read(&mut self, message: &Message) {
        match serde_json::from_str::<Frame>(&message.data) {
            Ok(frame) => {
                if brings_something(&frame) {
                    self.backoff.reset();
                }
                self.take(frame);
            }
            // One frame of a later version must not stop the feed for ever: its id leads past it.
            Err(fault) => {
                tracing::warn!(%fault, "skipped a frame that can't be read");
                if !message.id.is_empty() {
                    self.cursor = Some(message.id.clone());
                }
            }
        }
    }

    fn take(&mut self, frame: Frame) {
        let mut replayed = false;
        match &frame {
            Frame::Unknown => return,
            Frame::SnapshotBegin => self.catching_up = false,
            Frame::SnapshotItem { .. } => replayed = true,
            Frame::SnapshotEnd { cursor } | Frame::Checkpoint { cursor } => {
                self.cursor = Some(cursor.clone());
                self.catching_up = false;
            }
            Frame::Event { sequence, cursor, .. } => {
                self.cursor = Some(cursor.clone());
                if *sequence <= self.highest {
                    return;
                }
                self.highest = *sequence;
                replayed = self.catching_up;
            }
            Frame::ResyncRequired { .. } | Frame::AccessRevoked { .. } => return self.take_terminal(frame),
        }
        self.ready.push_back(Followed::Frame { frame, replayed });
    }

    fn take_terminal(&mut self, frame: Frame) {
        self.ready.push_back(Followed::Frame { frame: frame.clone(), replayed: false });
        match frame {
            Frame::AccessRevoked { reason, .. } => self.ended(Ending::AccessRevoked(reason)),
            Frame::ResyncRequired { cursor: Some(cursor), reason, .. } => {
                self.cursor = Some(cursor);
                self.closed(&format!("it asks to come back ({reason:?})"));
            }
            // The server was not far enough for a cursor yet: nothing is lost, it only begins anew.
            Frame::ResyncRequired {
                reason:
                    ResyncReason::AuthorizationChanged | ResyncReason::SlowReader | ResyncReason::Unavailable,
                ..
            } => {
                self.cursor = None;
                self.closed("it asks to begin anew");
            }
            Frame::ResyncRequired { reason, details, .. } => {
                let known = |field: &str| details.as_ref()?.get(field)?.as_i64();
                self.gap(reason, known("pruned_through"), known("events_missed"));
                self.closed(&format!("it asks to begin anew ({reason:?})"));
            }
            _ => {}
        }
    }

    /// Forgets where it was. Sequences may begin anew too (a restored database), and what follows the
    /// next snapshot is later than it by its construction.
    fn gap(&mut self, reason: ResyncReason, pruned_through: Option<i64>, events_missed: Option<i64>) {
        self.cursor = None;
        self.highest = 0;
        self.ready.push_back(Followed::Gap { reason, pruned_through, events_missed });
    }

    fn closed(&mut self, detail: &str) {
        let fault = TransportFault::new(FaultKind::Closed, self.client.peer(), detail);
        self.dropped(fault.into());
    }

    fn dropped(&mut self, why: ClientError) {
        match after(&why, self.cursor.is_some()) {
            After::End => return self.ended(Ending::Refused(why)),
            After::Forget => self.gap(ResyncReason::Unknown, None, None),
            After::Again => {}
        }
        let jittered = self.backoff.next(&self.client.chance);
        let wait = why.retry_after().map_or(jittered, |named| named.max(jittered));
        tracing::debug!(%why, ?wait, "the stream dropped");
        self.announced = None;
        self.phase = Phase::Wait(self.client.clock.monotonic() + wait);
        self.ready.push_back(Followed::Dropped { why, wait });
    }

    fn ended(&mut self, why: Ending) {
        self.phase = Phase::Ended;
        self.ready.push_back(Followed::Ended { why });
    }
}

/// Whether a frame shows that the server serves again. One that only begins, or ends the stream, comes of
/// a server whose store fails as well.
fn brings_something(frame: &Frame) -> bool {
    !frame.is_terminal() && *frame != Frame::SnapshotBegin
}

pub(crate) fn stream_fault(peer: &str, fault: StreamFault) -> ClientError {
    match fault {
        StreamFault::Broken(fault) => fault.into(),
        StreamFault::Silent(time) => {
            let detail = format!("not a byte for {} s", time.as_secs());
            TransportFault::new(FaultKind::Timeout, peer, detail).into()
        }
        StreamFault::Rules(detail) => {
            crate::error::Garbled::Stream { peer: peer.to_owned(), detail: detail.to_owned() }.into()
        }
    }
}

#[cfg(test)]
mod tests;
