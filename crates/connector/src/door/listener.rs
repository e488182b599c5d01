//! The door's socket: who may come in (this person alone), and how long a reader that stops reading is
//! waited for.

use crate::claim::SOCKET;
use crate::home::Home;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use teamlamp_clock::{Clock, ms};
use teamlamp_wire::limits::STREAM_SLOW_MS;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

/// The wait after a connection could not be taken, for want of file descriptors for instance.
const AGAIN: Duration = Duration::from_secs(1);

/// The socket of a home, which only the home's person may use.
#[derive(Debug)]
pub(super) struct PrivateListener {
    listener: UnixListener,
    clock: Clock,
}

impl PrivateListener {
    /// Binds it. The claim has removed what a dead owner left.
    pub(super) fn bind(home: &Home, clock: Clock) -> io::Result<Self> {
        let path = home.path(SOCKET);
        let listener = UnixListener::bind(&path)?;
        // The home is private already; this is for those who loosen it.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(Self { listener, clock })
    }
}

/// Whether a peer may come in: the same person, or the system's administrator, who may all anyway.
fn may_enter(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

impl axum::serve::Listener for PrivateListener {
    type Io = Deadlined;
    type Addr = ();

    async fn accept(&mut self) -> (Deadlined, ()) {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(fault) => {
                    tracing::warn!(%fault, "the local door could not take a connection");
                    self.clock.sleep(AGAIN).await;
                    continue;
                }
            };
            let own = rustix::process::geteuid().as_raw();
            match stream.peer_cred() {
                Ok(peer) if may_enter(peer.uid(), own) => return (Deadlined::new(stream, &self.clock), ()),
                Ok(peer) => {
                    tracing::warn!(uid = peer.uid(), "another user was turned away from the local door")
                }
                Err(fault) => {
                    tracing::warn!(%fault, "a connection of nobody known was turned away from the local door")
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection whose writes end after a while: the deadline is outside what is written, since a reader
/// that stops reading stops that too.
pub(super) struct Deadlined {
    stream: UnixStream,
    clock: Clock,
    patience: Duration,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl std::fmt::Debug for Deadlined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deadlined").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Deadlined {
    fn new(stream: UnixStream, clock: &Clock) -> Self {
        Self { stream, clock: clock.clone(), patience: ms(STREAM_SLOW_MS), waiting: None }
    }

    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let (clock, patience) = (self.clock.clone(), self.patience);
        let waiting =
            self.waiting.get_or_insert_with(|| Box::pin(async move { clock.sleep(patience).await }));
        ready!(waiting.as_mut().poll(cx));
        tracing::info!("a reader of the local door was too slow");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Deadlined {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Deadlined {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(cx, written)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(cx, flushed)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn only_the_homes_person_comes_in() {
        assert!(may_enter(1000, 1000) && may_enter(0, 1000));
        assert!(!may_enter(1001, 1000) && !may_enter(1000, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_reading_is_dropped() {
        let (near, far) = UnixStream::pair().unwrap();
        let clock = Clock::starting_at(0);
        let mut writer = Deadlined::new(near, &clock);
        let filled = clock.within(Duration::from_secs(60), async {
            loop {
                if let Err(fault) = writer.write_all(&[7; 65_536]).await {
                    return fault.kind();
                }
            }
        });
        assert_eq!(filled.await, Some(io::ErrorKind::TimedOut));
        assert_eq!(clock.now_ms(), STREAM_SLOW_MS);
        drop(far);
    }
}
