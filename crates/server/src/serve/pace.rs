//! How long the other side may take: a request's head 10 s from its first byte, and the first head of a
//! connection from the connection's beginning (hyper's own limit counts the idle time of a kept
//! connection too, so it is set to that); an answer of which nothing is taken, 30 s.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use teamlamp_clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long a head may take.
const HEAD: Duration = Duration::from_secs(10);
/// How long an answer may wait without a byte of it being taken. Streams end their readers earlier.
const TAKEN: Duration = Duration::from_secs(30);

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection whose heads are watched.
pub(super) struct Paced<IO> {
    io: IO,
    clock: Clock,
    requests: Arc<Requests>,
    /// How many requests had begun when it was last read.
    seen: u64,
    timer: Option<Timer>,
    writing: Option<Timer>,
}

/// The requests of a connection: how many have begun, and whether one is under way.
#[derive(Debug, Default)]
struct Requests {
    begun: AtomicU64,
    busy: AtomicBool,
}

/// Marks a connection busy with a request: what arrives then is a body, in its own time.
#[derive(Clone, Debug)]
pub(super) struct Pace(Arc<Requests>);

/// A request under way; dropping it ends it.
#[derive(Debug)]
pub(super) struct Busy(Option<Arc<Requests>>);

impl Pace {
    pub(super) fn begin(&self) -> Busy {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        self.0.busy.store(true, Ordering::Release);
        Busy(Some(self.0.clone()))
    }
}

impl Busy {
    /// No head comes over this connection any more: it speaks another protocol from here on.
    pub(super) fn for_good(mut self) {
        self.0 = None;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(requests) = &self.0 {
            requests.busy.store(false, Ordering::Release);
        }
    }
}

impl<IO> Paced<IO> {
    pub(super) fn new(io: IO, clock: Clock) -> (Self, Pace) {
        let requests = Arc::<Requests>::default();
        let pace = Pace(requests.clone());
        let mut paced = Self { io, clock, requests, seen: 0, timer: None, writing: None };
        paced.arm();
        (paced, pace)
    }

    fn arm(&mut self) {
        self.timer = Some(timer(&self.clock, HEAD));
    }

    /// What came of a write, unless none has come of any for too long.
    fn taken(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let writing = self.writing.get_or_insert_with(|| timer(&self.clock, TAKEN));
        writing
            .as_mut()
            .poll(context)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "nothing of the answer was taken")))
    }
}

fn timer(clock: &Clock, wait: Duration) -> Timer {
    let clock = clock.clone();
    Box::pin(async move { clock.sleep(wait).await })
}

impl<IO: AsyncRead + Unpin> AsyncRead for Paced<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        // A request that began since the last read, and may have ended too, had a whole head.
        let begun = self.requests.begun.load(Ordering::Acquire);
        if begun != self.seen {
            self.seen = begun;
            self.timer = None;
        }
        if self.requests.busy.load(Ordering::Acquire) {
            return read;
        }
        if self.timer.is_none() && buffer.filled().len() > before {
            self.arm();
        }
        let overdue = self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready());
        if overdue {
            self.timer = None;
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the head took too long")));
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Paced<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.taken(context, written)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, pieces);
        self.taken(context, written)
    }
    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
