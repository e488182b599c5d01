//! A reader that takes the event stream apart by itself: every byte counts, no repetition is forgiven.

use super::{AGAIN_MS, Reader};
use futures_util::StreamExt;
use http::{HeaderValue, Method};
use teamlamp_client::{Request, Transport};
use teamlamp_clock::ms;
use teamlamp_wire::frame::Frame;
use teamlamp_wire::limits::STREAM_SILENCE_MS;

impl Reader {
    pub(super) async fn read_raw(&self) {
        loop {
            match self.read_once().await {
                Ok(()) => {}
                Err(status @ (401 | 403 | 404)) => return self.seen().end(&format!("status {status}")),
                Err(status) => self.record.note(&self.name, format!("status {status}")),
            }
            if self.seen().has_ended() {
                return;
            }
            self.clock.sleep(ms(AGAIN_MS)).await;
        }
    }

    /// One connection; an error is a status other than 200.
    async fn read_once(&self) -> Result<(), u16> {
        let mut headers = self.person.headers();
        headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        if let Some(cursor) = self.seen().cursor()
            && let Ok(value) = HeaderValue::from_str(&cursor)
        {
            headers.insert("last-event-id", value);
        }
        let path_and_query = format!("/v1/teams/{}/events", self.team);
        let request = Request { method: Method::GET, path_and_query, headers, body: Default::default() };
        let Ok(response) = self.person.transport.send(request).await else { return Ok(()) };
        if response.status.as_u16() != 200 {
            return Err(response.status.as_u16());
        }
        let (mut body, mut text) = (response.body, Vec::new());
        while let Some(Some(Ok(chunk))) = self.clock.within(ms(STREAM_SILENCE_MS), body.next()).await {
            text.extend_from_slice(&chunk);
            while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                let message: Vec<u8> = text.drain(..end + 2).collect();
                self.take_message(&String::from_utf8_lossy(&message));
            }
        }
        Ok(())
    }

    fn take_message(&self, message: &str) {
        let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
        let Some(data) = field("data: ").or_else(|| field("data:")) else { return };
        let frame: Frame = match serde_json::from_str(data) {
            Ok(frame) => frame,
            Err(fault) => return self.record.broken(format!("{} can't read a frame: {fault}", self.name)),
        };
        let id = field("id: ").or_else(|| field("id:"));
        self.record.expect(id == frame.cursor(), || {
            format!("{} got a frame whose id is not its cursor: {data}", self.name)
        });
        let mut seen = self.seen();
        if let Frame::ResyncRequired { reason, cursor: None, .. } = &frame {
            return seen.gap(&format!("{reason:?}"));
        }
        seen.take(&frame);
    }
}
