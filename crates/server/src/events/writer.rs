//! The task's side of a stream: messages into the reader's outlet, with the deadline for slow ones.

use super::outlet::Inlet;
use super::sse;
use crate::app::App;
use crate::request::Call;
use crate::serve::Cut;
use bytes::Bytes;
use teamlamp_clock::{Clock, Moment, ms};
use teamlamp_wire::frame::Frame;
use teamlamp_wire::limits::{STREAM_COMMENT_MS, STREAM_SLOW_MS};

/// Writes one stream.
#[derive(Debug)]
pub struct Writer {
    inlet: Inlet,
    clock: Clock,
    last_sent: Moment,
    cut: Option<Cut>,
    app: App,
}

/// Why a stream stops.
#[derive(Debug)]
pub enum Stop {
    /// The reader went away.
    Gone,
    /// The reader took nothing for too long.
    Slow,
    /// With this frame.
    End(Box<Frame>),
}

impl From<Frame> for Stop {
    fn from(frame: Frame) -> Self {
        Self::End(Box::new(frame))
    }
}

impl Writer {
    /// Begins the stream that a call asked for.
    pub fn new(inlet: Inlet, call: &Call) -> Self {
        inlet.push_last(&sse::opening());
        let clock = call.app.clock.clone();
        let last_sent = clock.monotonic();
        Self {
            inlet,
            clock,
            last_sent,
            cut: call.parts.extensions.get::<Cut>().cloned(),
            app: call.app.clone(),
        }
    }

    /// Gives a message to the reader; false where it must wait for room first.
    ///
    /// # Errors
    /// The reader went away.
    pub fn offer(&mut self, message: &Bytes) -> Result<bool, Stop> {
        if self.inlet.is_gone() {
            return Err(Stop::Gone);
        }
        let given = self.inlet.push(message);
        if given {
            self.app.metrics.deliveries.add(1);
            self.last_sent = self.clock.monotonic();
        }
        Ok(given)
    }

    /// Waits until a message of this size may wait for the reader.
    ///
    /// # Errors
    /// The reader went away, or made no room for 10 s.
    pub async fn room(&self, size: usize) -> Result<(), Stop> {
        match self.clock.within(ms(STREAM_SLOW_MS), self.inlet.room(size)).await {
            None => {
                self.app.metrics.slow_readers.add(1);
                Err(Stop::Slow)
            }
            Some(()) if self.inlet.is_gone() => Err(Stop::Gone),
            Some(()) => Ok(()),
        }
    }

    /// Gives a message to the reader, with room or after waiting for it.
    ///
    /// # Errors
    /// The reader went away, or made no room for 10 s.
    pub async fn send(&mut self, message: &Bytes) -> Result<(), Stop> {
        while !self.offer(message)? {
            self.room(message.len()).await?;
        }
        Ok(())
    }

    /// Waits until the next comment is due or the reader goes away, and gives the comment.
    ///
    /// # Errors
    /// The reader went away.
    pub async fn comment(&mut self) -> Result<(), Stop> {
        let due = self.last_sent + ms(STREAM_COMMENT_MS);
        tokio::select! {
            biased;
            () = self.inlet.gone() => return Err(Stop::Gone),
            () = self.clock.sleep_until(due) => {}
        }
        // What still waits says as well that the stream lives.
        if self.inlet.is_empty() {
            self.inlet.push_last(&sse::comment());
        }
        self.last_sent = self.clock.monotonic();
        Ok(())
    }

    /// Ends the stream with a last frame.
    pub async fn finish(self, frame: &Frame) {
        self.inlet.push_last(&sse::message(frame.cursor(), &super::frames::other(frame)));
        self.close().await;
    }

    /// Ends the stream. A reader that does not take what waits for it within 10 s loses it, and the
    /// connection: nothing else would ever end one whose other side only does not read.
    pub async fn close(self) {
        if self.clock.within(ms(STREAM_SLOW_MS), self.inlet.taken()).await.is_none() {
            self.inlet.discard();
            if let Some(cut) = &self.cut {
                cut.now();
            }
        }
    }
}
