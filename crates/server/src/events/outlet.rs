//! What waits for one reader of a stream: a bounded queue between the task that writes and the body that
//! the connection reads. Deadlines are the writing task's, so that a reader who stops reading can't
//! freeze them.

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use teamlamp_wire::limits::STREAM_WAITING_BYTES;
use tokio::sync::Notify;

/// What one read of the connection takes at most when several messages wait: they leave in one write.
const ONE_WRITE_BYTES: usize = 64 << 10;

/// The writing end. Dropping it ends the body after what waits.
#[derive(Debug)]
pub struct Inlet(Arc<Shared>);

/// The reading end: a response's body.
#[derive(Debug)]
pub struct Outlet(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    taken: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Bytes>,
    bytes: usize,
    ended: bool,
    gone: bool,
    reader: Option<Waker>,
}

/// A queue for one reader.
pub fn outlet() -> (Inlet, Outlet) {
    let shared = Arc::new(Shared::default());
    (Inlet(shared.clone()), Outlet(shared))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fits(&self, size: usize) -> bool {
        self.waiting.is_empty() || self.bytes + size <= STREAM_WAITING_BYTES
    }
    fn put(&mut self, message: Bytes) -> Option<Waker> {
        self.bytes += message.len();
        self.waiting.push_back(message);
        self.reader.take()
    }
}

impl Inlet {
    /// Gives a message to the reader; false, and nothing given, where too much waits already.
    #[must_use]
    pub fn push(&self, message: &Bytes) -> bool {
        let mut state = self.0.state();
        if !state.fits(message.len()) {
            return false;
        }
        let reader = state.put(message.clone());
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        true
    }

    /// Gives a last message, whatever waits.
    pub fn push_last(&self, message: &Bytes) {
        let reader = self.0.state().put(message.clone());
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.state().waiting.is_empty()
    }

    /// Whether the reader went away.
    pub fn is_gone(&self) -> bool {
        self.0.state().gone
    }

    /// Waits until a message of this size fits, or the reader went away.
    pub async fn room(&self, size: usize) {
        self.until(|state| state.gone || state.fits(size)).await;
    }

    /// Waits until everything was taken, or the reader went away.
    pub async fn taken(&self) {
        self.until(|state| state.gone || state.waiting.is_empty()).await;
    }

    /// Waits until the reader went away.
    pub async fn gone(&self) {
        self.until(|state| state.gone).await;
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        loop {
            // Made before the look, so that what happens in between is not missed.
            let taken = self.0.taken.notified();
            if holds(&self.0.state()) {
                return;
            }
            taken.await;
        }
    }

    /// Forgets what still waits: of a reader that does not even take the last message.
    pub fn discard(&self) {
        let mut state = self.0.state();
        state.waiting = VecDeque::new();
        state.bytes = 0;
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.ended = true;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.gone = true;
        state.waiting = VecDeque::new();
        state.bytes = 0;
        drop(state);
        self.0.taken.notify_waiters();
    }
}

impl Body for Outlet {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut state = self.0.state();
        let Some(first) = state.waiting.pop_front() else {
            if state.ended {
                return Poll::Ready(None);
            }
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        state.bytes -= first.len();
        let mut size = first.len();
        let more = state.waiting.iter().take_while(|next| {
            size += next.len();
            size <= ONE_WRITE_BYTES
        });
        let count = more.count();
        let data = if count == 0 {
            first
        } else {
            let mut joined = BytesMut::with_capacity(ONE_WRITE_BYTES.min(first.len() + state.bytes));
            joined.extend_from_slice(&first);
            for next in state.waiting.drain(..count).collect::<Vec<_>>() {
                state.bytes -= next.len();
                joined.extend_from_slice(&next);
            }
            joined.freeze()
        };
        drop(state);
        self.0.taken.notify_waiters();
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn several_messages_leave_in_one_write() {
        let (inlet, mut outlet) = outlet();
        for text in ["a", "b", "c"] {
            assert!(inlet.push(&Bytes::from_static(text.as_bytes())));
        }
        assert_eq!(outlet.frame().await.unwrap().unwrap().into_data().unwrap(), "abc");
        drop(inlet);
        assert!(outlet.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn at_most_a_mebibyte_waits_and_the_writer_is_told_of_room() {
        let (inlet, mut outlet) = outlet();
        let quarter = Bytes::from(vec![b'x'; STREAM_WAITING_BYTES / 4]);
        for _ in 0..4 {
            assert!(inlet.push(&quarter));
        }
        assert!(!inlet.push(&Bytes::from_static(b"y")), "one byte more than a mebibyte must not wait");
        let reading = async {
            outlet.frame().await.unwrap().unwrap();
            outlet
        };
        let ((), outlet) = tokio::join!(inlet.room(1), reading);
        assert!(inlet.push(&Bytes::from_static(b"y")));
        drop(outlet);
        inlet.gone().await;
        inlet.taken().await;
        assert!(inlet.is_gone() && inlet.is_empty());
    }
}
