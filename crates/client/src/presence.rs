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
    /// The stream ends with its connection; an error, or [`PresenceFrame::AccessRevoked`], is its last item.
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
            .scan(false, |over, frame| {
                // A server that holds the connection after the end keeps nobody waiting.
                let last = matches!(frame, Ok(PresenceFrame::AccessRevoked { .. }));
                std::future::ready((!std::mem::replace(over, last)).then_some(frame))
            })
            .boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Part, SSE, Script, Step};
    use teamlamp_wire::presence::Transition;

    #[tokio::test(start_paused = true)]
    async fn transitions_are_read_until_the_connection_ends_and_its_end_is_told() {
        let message = |json: &str| Part::Bytes(format!("id: 7\ndata: {json}\n\n"));
        let transition = r#"{"type":"transition","sequence":7,"at":5,"machine_id":"mach_1","from":"offline",
            "to":"online","linked":true}"#
            .replace('\n', "");
        let parts = vec![
            message(r#"{"type":"snapshot_begin"}"#),
            message(r#"{"type":"later"}"#),
            message(&transition),
            Part::Hang,
        ];
        let script = Script::of([Step::Answer(200, SSE, parts)]);
        let stream = script.client().presence(&"team_1".into(), Some(6)).await.unwrap();
        let all: Vec<_> = stream.collect().await;
        assert_eq!(script.asked()[0].path_and_query, "/v1/teams/team_1/machines/events?after=6");
        assert_eq!(all[0], Ok(PresenceFrame::SnapshotBegin));
        let Ok(PresenceFrame::Transition(Transition { sequence: 7, linked: true, .. })) = &all[1] else {
            panic!("{all:?}")
        };
        let Err(ClientError::Unreachable(fault)) = &all[2] else { panic!("{all:?}") };
        assert_eq!((fault.kind, all.len()), (FaultKind::Timeout, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_access_is_told_and_is_the_last() {
        let revoked = r#"{"type":"access_revoked","reason":"machine_revoked","terminal":true}"#;
        let parts = vec![Part::Bytes(format!("data: {revoked}\n\n")), Part::Hang];
        let script = Script::of([Step::Answer(200, SSE, parts)]);
        let stream = script.client().presence(&"team_1".into(), Some(6)).await.unwrap();
        let expected = PresenceFrame::AccessRevoked { reason: "machine_revoked".into(), terminal: true };
        assert_eq!(stream.collect::<Vec<_>>().await, [Ok(expected)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_does_not_begin_is_an_error() {
        let script = Script::of([Step::refusal(404, "not_found"), Step::Hang]);
        let client = script.client();
        assert_eq!(client.presence(&"team_1".into(), None).await.err().and_then(|e| e.status()), Some(404));
        assert!(client.presence(&"team_1".into(), None).await.is_err());
    }
}
