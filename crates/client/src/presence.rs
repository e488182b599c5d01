//! The stream of presence transitions (spec 02): one connection, whose reader comes back by itself.

use crate::call::READ_MS;
use crate::client::Client;
use crate::error::{ClientError, FaultKind, TransportFault};
use crate::follow::stream_fault;
use crate::path::Path;
use crate::sse;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use teamlamp_clock::ms;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::limits::STREAM_SILENCE_MS;
use teamlamp_wire::presence::PresenceFrame;

impl Client {
    /// A snapshot of a team's machines and their transitions from then on, or those after a sequence.
    /// The stream ends with its connection; an error is its last item.
    ///
    /// # Errors
    /// As [`ClientError`] says, where no stream begins.
    pub async fn presence(
        &self,
        team: &TeamId,
        after: Option<i64>,
    ) -> Result<BoxStream<'static, Result<PresenceFrame, ClientError>>, ClientError> {
        let path = Path::team(team).to("machines").to("events").ask("after", after);
        let Some(opened) = self.clock.within(ms(READ_MS), self.open_stream(&path)).await else {
            let detail = "the stream did not begin";
            return Err(TransportFault::new(FaultKind::Timeout, self.peer(), detail).into());
        };
        let peer = self.peer().to_owned();
        let messages = sse::messages(opened?, self.clock.clone(), ms(STREAM_SILENCE_MS));
        Ok(messages
            .filter_map(move |message| {
                let frame = match message {
                    // A frame of a later version is passed over.
                    Ok(message) => serde_json::from_str(&message.data).ok().map(Ok),
                    Err(fault) => Some(Err(stream_fault(&peer, fault))),
                };
                std::future::ready(frame)
            })
            .boxed())
    }
}
