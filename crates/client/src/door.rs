//! The connector of this computer, asked through its local door (spec 06). Bodies are bare: the door is
//! no server, and has no envelopes but that of an error.

use crate::call::Call;
use crate::client::Client;
use crate::error::{ClientError, TransportFault};
use crate::follow::Followed;
use crate::net::Http;
use crate::path::Path;
use futures_util::stream::BoxStream;
use std::sync::Arc;
use teamlamp_clock::{Chance, Clock};
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
}
