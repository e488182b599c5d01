//! The connector of this computer, asked through its local door (spec 06). Bodies are bare: the door is
//! no server, and has no envelopes but that of an error.

use crate::call::Call;
use crate::client::Client;
use crate::error::{ClientError, TransportFault};
use crate::follow::{FollowQuery, Followed};
use crate::net::Http;
use crate::path::Path;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use std::sync::Arc;
use teamlamp_clock::{Chance, Clock};
use teamlamp_wire::frame::Frame;
use teamlamp_wire::local::{PauseRequest, Status};

/// The door of the connector that runs for a home, if one does.
#[derive(Clone, Debug)]
pub struct Door(Client);

impl Door {
    /// The door behind a socket. Nothing is asked yet.
    ///
    /// # Errors
    /// Where the HTTP client can't be made.
    pub fn at(
        socket: &std::path::Path,
        clock: Clock,
        chance: Chance,
        program: &str,
    ) -> Result<Self, TransportFault> {
        Ok(Self(Client::new(Arc::new(Http::to_socket(socket)?), clock, chance, program)))
    }

    /// How the connector is. One try: nobody waits for a connector that doesn't run.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] where none runs.
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.0.poll(Path::new("/v1/status"), 5_000).await
    }

    /// Pauses or resumes reporting; answers how the connector is then.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] where none runs.
    pub async fn pause(&self, request: &PauseRequest) -> Result<Status, ClientError> {
        self.0.decode(&self.0.call(&Call::post(Path::new("/v1/pause"), request)).await?)
    }

    /// Has every waiting connection made now.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] where none runs.
    pub async fn connect_now(&self) -> Result<(), ClientError> {
        self.0.change_quietly(Call::post_nothing(Path::new("/v1/connect-now"))).await
    }

    /// Follows a context's events from the one stream that the connector holds. Its cursors are the
    /// server's, so that a reader can go over to the server with them.
    pub fn follow(&self, context: &str, after: Option<String>) -> BoxStream<'static, Followed> {
        self.0.follow_path(Path::new("/v1/events").ask("context", Some(context)), after)
    }

    /// Follows a team through the door while it has what is asked for, and from the server itself from
    /// there on: where no connector runs, where it ends, and where it can't serve the cursor. A query with
    /// filters is the server's alone.
    pub fn follow_or_server(
        &self,
        context: &str,
        server: &Client,
        query: &FollowQuery,
        after: Option<String>,
    ) -> BoxStream<'static, Followed> {
        if *query != FollowQuery::all(query.team.clone()) {
            return server.follow(query, after);
        }
        let here = self.follow(context, after.clone());
        let way = Way { stream: here, cursor: after, server: Some((server.clone(), query.clone())) };
        stream::unfold(way, |mut way| async move { way.next().await.map(|item| (item, way)) }).boxed()
    }
}

/// A stream that may still go over to the server.
struct Way {
    stream: BoxStream<'static, Followed>,
    cursor: Option<String>,
    server: Option<(Client, FollowQuery)>,
}

impl Way {
    async fn next(&mut self) -> Option<Followed> {
        loop {
            let item = self.stream.next().await?;
            match &item {
                Followed::Frame { frame, .. } => {
                    if let Some(cursor) = frame.cursor() {
                        self.cursor = Some(cursor.to_owned());
                    }
                }
                Followed::Gap { .. } => self.cursor = None,
                _ => {}
            }
            // What the door calls the end may be the end of the connector's credential, not of this one's.
            let is_over = matches!(
                &item,
                Followed::Dropped { .. }
                    | Followed::Ended { .. }
                    | Followed::Frame { frame: Frame::AccessRevoked { .. }, .. }
            );
            match self.server.take_if(|_| is_over) {
                Some((server, query)) => self.stream = server.follow(&query, self.cursor.clone()),
                None => return Some(item),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FaultKind;
    use crate::scripted::{Part, SSE, Script, Step};

    fn stream(parts: &[&str]) -> Step {
        let parts = parts.iter().map(|json| Part::Bytes(format!("data: {json}\n\n")));
        Step::Answer(200, SSE, parts.chain([Part::Break]).collect())
    }

    const C1: &str = r#"{"type":"checkpoint","cursor":"c1"}"#;
    const C2: &str = r#"{"type":"checkpoint","cursor":"c2"}"#;

    async fn cursors(door: Step, after: Option<&str>, count: usize) -> (Vec<String>, Vec<String>) {
        let (here, there) = (Script::of([door]), Script::of([stream(&[C2])]));
        let query = FollowQuery::all("team_1".into());
        let all =
            Door(here.client()).follow_or_server("acme", &there.client(), &query, after.map(str::to_owned));
        let all: Vec<_> = all.take(count).collect().await;
        let cursors = all.iter().filter_map(|item| match item {
            Followed::Frame { frame, .. } => frame.cursor().map(str::to_owned),
            Followed::Connected { .. } => None,
            other => panic!("{other:?}"),
        });
        let asked = [&here, &there].map(|s| s.asked()[0].path_and_query.clone());
        (cursors.collect(), asked.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_goes_over_to_the_server_with_its_cursor_when_the_connector_ends() {
        let (cursors, asked) = cursors(stream(&[C1]), Some("c0"), 4).await;
        assert_eq!(cursors, ["c1", "c2"]);
        assert_eq!(asked, ["/v1/events?context=acme&after=c0", "/v1/teams/team_1/events?after=c1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_door_or_with_one_that_can_not_serve_it_the_server_is_asked() {
        let revoked = r#"{"type":"access_revoked","reason":"x","terminal":true}"#;
        for (door, heard) in [
            (Step::Fault(FaultKind::Refused), 2),
            (Step::refusal(404, "unsupported"), 2),
            (stream(&[revoked]), 3),
        ] {
            let (cursors, asked) = cursors(door, Some("c0"), heard).await;
            assert_eq!(cursors, ["c2"]);
            assert_eq!(asked[1], "/v1/teams/team_1/events?after=c0");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_with_filters_is_the_servers() {
        let (here, there) = (Script::of([]), Script::of([stream(&[C2])]));
        let query = FollowQuery { kinds: vec!["session.turn".into()], ..FollowQuery::all("team_1".into()) };
        let mut all = Door(here.client()).follow_or_server("acme", &there.client(), &query, None);
        all.next().await;
        assert!(here.asked().is_empty());
    }
}
