//! One direction of a connection: bytes that travel for a while, at most a window of them, and how it
//! ends. [`SimIo`] is one end of two such pipes.

use super::{Trap, Weather};
use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use teamlamp_clock::{Chance, Clock, Moment, ms};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What may be on its way at once: a writer beyond it waits, as for a full socket buffer.
const WINDOW_BYTES: usize = 64 << 10;

/// How long a kernel sends again what nobody acknowledges before it tells the writer (Linux, by default).
const UNHEARD: Duration = Duration::from_secs(924);

/// How bytes travel on one pipe.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) weather: Weather,
    pub(super) chance: Chance,
    pub(super) trap: Arc<Trap>,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Pipe {
    clock: Clock,
    way: Way,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is on its way and when it arrives, in order.
    flying: VecDeque<(Moment, Bytes)>,
    bytes: usize,
    end: Option<(Moment, End)>,
    /// The path is blocked: nothing arrives, not even an end.
    held: bool,
    /// What is written vanishes, and so does the end.
    lost: bool,
    /// Since when bytes vanish that were written.
    unheard_since: Option<Moment>,
    /// What is written vanishes because its writer is dying; its end is told.
    muted: bool,
    /// Whoever read here is gone.
    unread: bool,
    /// Both sides were told that the connection broke.
    broken: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Reset,
}

impl State {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    fn last_arrival(&self) -> Option<Moment> {
        self.flying.back().map(|(at, _)| *at)
    }
}

impl Pipe {
    pub(super) fn new(clock: Clock, way: Way, held: bool) -> Self {
        Self { clock, way, state: Mutex::new(State { held, ..State::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When what leaves now arrives: never before what left earlier.
    fn arrival(&self, state: &State) -> Moment {
        let Weather { latency_ms, jitter_ms } = self.way.weather;
        let at = self.clock.monotonic() + ms(latency_ms) + self.jitter(jitter_ms);
        state.last_arrival().map_or(at, |last| last.max(at))
    }

    /// Whole milliseconds, which is what timers tell apart.
    fn jitter(&self, most_ms: i64) -> Duration {
        Duration::from_millis(self.way.chance.below(u64::try_from(most_ms).unwrap_or(0) + 1))
    }

    fn end(&self, end: End) {
        let mut state = self.lock();
        if state.end.is_none() && !state.lost {
            state.end = Some((self.arrival(&state), end));
        }
        state.wake();
    }

    /// The sending process ended: the reader is told once the way is open.
    pub(super) fn reset(&self) {
        self.lock().end = None;
        self.end(End::Reset);
    }

    /// The receiving process ended: nobody reads any more.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.unread = true;
        (state.bytes, state.flying) = (0, VecDeque::new());
        state.wake();
    }

    /// What is written vanishes, and nobody is told.
    pub(super) fn lose(&self) {
        let mut state = self.lock();
        state.lost = true;
        (state.bytes, state.flying, state.end) = (0, VecDeque::new(), None);
    }

    pub(super) fn hold(&self) {
        self.lock().held = true;
    }

    pub(super) fn release(&self, forgotten_percent: u64) {
        let mut state = self.lock();
        state.held = false;
        if self.way.chance.percent(forgotten_percent) {
            drop(state);
            return self.lose();
        }
        // What waited is sent again now.
        let again = self.clock.monotonic() + ms(self.way.weather.latency_ms) + self.jitter(400);
        for (at, _) in &mut state.flying {
            *at = (*at).max(again);
        }
        if let Some((at, _)) = &mut state.end {
            *at = (*at).max(again);
        }
        state.wake();
    }

    /// Breaks the connection in the middle of what is on its way.
    pub(super) fn cut(&self) {
        let mut state = self.lock();
        let kept = usize::try_from(self.way.chance.below(state.bytes as u64 + 1)).unwrap_or(0);
        let (mut bytes, now) = (0, self.clock.monotonic());
        for (at, chunk) in std::mem::take(&mut state.flying) {
            let take = chunk.len().min(kept - bytes);
            if take > 0 {
                state.flying.push_back((at.min(now), chunk.slice(..take)));
                bytes += take;
            }
        }
        state.bytes = bytes;
        state.end = Some((now, End::Reset));
        (state.broken, state.held) = (true, false);
        state.wake();
    }

    /// Whether the end of this pipe has arrived at its reader.
    fn has_ended(&self) -> bool {
        let state = self.lock();
        state.end.is_some_and(|(at, _)| !state.held && at <= self.clock.monotonic())
    }

    fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        if state.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let now = self.clock.monotonic();
        if state.unheard_since.is_some_and(|since| now - since > UNHEARD) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let room = WINDOW_BYTES - state.bytes;
        if room == 0 {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let taken = data.len().min(room);
        if !self.way.trap.lets_through(data) {
            state.muted = true;
        }
        if state.lost {
            state.unheard_since.get_or_insert(now);
        }
        // Bytes that vanish fill the sender's window like all that nobody acknowledges.
        state.bytes += taken;
        if !state.lost && !state.muted && !state.unread {
            let at = self.arrival(&state);
            state.flying.push_back((at, Bytes::copy_from_slice(&data[..taken])));
            if let Some(reader) = state.reader.take() {
                reader.wake();
            }
        }
        Poll::Ready(Ok(taken))
    }

    /// Reads what has arrived; `Err(moment)` says when to look again, where that is known.
    fn read(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Result<io::Result<()>, Option<Moment>> {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        state.reader = Some(cx.waker().clone());
        if state.held {
            return Err(None);
        }
        let before = buffer.filled().len();
        while buffer.remaining() > 0
            && let Some((at, chunk)) = state.flying.front_mut()
        {
            if *at > now {
                let at = *at;
                return if buffer.filled().len() > before { Ok(Ok(())) } else { Err(Some(at)) };
            }
            let taken = chunk.len().min(buffer.remaining());
            buffer.put_slice(&chunk[..taken]);
            chunk.advance(taken);
            if chunk.is_empty() {
                state.flying.pop_front();
            }
            state.bytes -= taken;
            if let Some(writer) = state.writer.take() {
                writer.wake();
            }
        }
        if buffer.filled().len() > before {
            return Ok(Ok(()));
        }
        match state.end {
            Some((at, _)) if at > now => Err(Some(at)),
            Some((_, End::Finished)) => Ok(Ok(())),
            Some((_, End::Reset)) => Ok(Err(io::ErrorKind::ConnectionReset.into())),
            None => Err(None),
        }
    }
}

/// One end of a connection.
pub struct SimIo {
    out: Arc<Pipe>,
    back: Arc<Pipe>,
    clock: Clock,
    /// Wakes the reader when what is on its way arrives.
    alarm: Option<(Moment, BoxFuture<'static, ()>)>,
}

impl fmt::Debug for SimIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimIo")
    }
}

impl SimIo {
    pub(super) fn new(out: Arc<Pipe>, back: Arc<Pipe>, clock: Clock) -> Self {
        Self { out, back, clock, alarm: None }
    }
}

impl AsyncRead for SimIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let at = match this.back.read(cx, buffer) {
                Ok(done) => return Poll::Ready(done),
                Err(None) => return Poll::Pending,
                Err(Some(at)) => at,
            };
            if this.alarm.as_ref().is_none_or(|(set, _)| *set != at) {
                let clock = this.clock.clone();
                this.alarm = Some((at, Box::pin(async move { clock.sleep_until(at).await })));
            }
            let Some((_, alarm)) = this.alarm.as_mut() else { return Poll::Pending };
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.alarm = None;
        }
    }
}

impl AsyncWrite for SimIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        // The other side closed both ways and this side has heard of it.
        if self.out.lock().unread && self.back.has_ended() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.out.poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.out.end(End::Finished);
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimIo {
    fn drop(&mut self) {
        self.out.end(End::Finished);
        self.back.abandon();
    }
}
