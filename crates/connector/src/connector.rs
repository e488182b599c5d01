//! The running connector: a loop for each context, the local door, and what a person can make it do.

use crate::claim::{Claim, ClaimFault};
use crate::config::Config;
use crate::contexts::ContextsFault;
use crate::custody::Place;
use crate::enrollment::{JoinFault, LeaveFault, Left};
use crate::home::HomeFault;
use crate::install::Install;
use crate::settings::SettingsFault;
use crate::stream::{Events, Unsupported};
use std::sync::Arc;
use teamlamp_wire::local::Status;
use teamlamp_wire::window::{JoinAccept, JoinFrom, JoinPreview, Joined};
use tokio::sync::watch;

/// What a person makes a running connector do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stops reporting, everywhere, at once, also offline; remembered over restarts.
    Pause {
        /// For how long; `None`: until [`Action::Resume`].
        for_ms: Option<i64>,
    },
    /// Reports again.
    Resume,
    /// Reads the contexts again, then skips every wait: the keyring is asked again, what was refused is
    /// tried again, what is down is dialled.
    ConnectNow,
    /// Has the keyring ask its person to open it, then connects.
    UnlockKeyring,
    /// Chooses where secrets of later enrollments are put, and remembers it.
    SetCustody(Place),
    /// Enrolls this machine again by the person's credential: the one button of `revoked` and `expired`,
    /// and, with a new name, of `cloned`.
    EnrollAgain {
        /// The context's id.
        context: String,
        /// Its name as a new machine with a new identity; `None`: the same machine.
        as_new: Option<String>,
    },
}

/// Why a connector does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    /// Another process runs it, or its lock can't be used.
    #[error(transparent)]
    Claim(#[from] ClaimFault),
    /// The home can't be used.
    #[error(transparent)]
    Home(#[from] HomeFault),
    /// The contexts can't be read.
    #[error(transparent)]
    Contexts(#[from] ContextsFault),
    /// The settings can't be read.
    #[error(transparent)]
    Settings(#[from] SettingsFault),
    /// The outbox can't be opened.
    #[error(transparent)]
    Outbox(#[from] crate::outbox::OutboxFault),
    /// The local door can't be opened.
    #[error("The local door {path} can't be opened ({cause}): mend the folder's owner and permissions.")]
    Door {
        /// Its socket.
        path: std::path::PathBuf,
        /// What the system says.
        #[source]
        cause: std::io::Error,
    },
}

/// Why an action did not work.
#[derive(Debug, thiserror::Error)]
pub enum ActFault {
    /// The decision can't be remembered.
    #[error(transparent)]
    Settings(#[from] SettingsFault),
    /// The contexts can't be read or saved.
    #[error(transparent)]
    Contexts(#[from] ContextsFault),
    /// The keyring.
    #[error(transparent)]
    Custody(#[from] crate::custody::Fault),
    /// Enrolling again.
    #[error(transparent)]
    Join(#[from] JoinFault),
    /// There is no such context.
    #[error("This connector has no team called {0}.")]
    Unknown(String),
}

/// A running connector. It ends with [`Connector::shutdown`]; dropped without it, the team sees this
/// machine vanish rather than leave.
#[derive(Debug)]
pub struct Connector {
    install: Install,
}

impl Connector {
    /// Claims the home and starts: a loop for each context, and the local door.
    ///
    /// # Errors
    /// [`StartFault::Claim`] with [`ClaimFault::Held`] where another process runs the connector of this
    /// home: read from it through its local door (`teamlamp_client::Door`).
    pub async fn start(config: Config) -> Result<Self, StartFault> {
        let _ = (Claim::take(&config.install.home)?, config);
        unimplemented!()
    }

    /// The install that it runs for.
    pub fn install(&self) -> &Install {
        &self.install
    }

    /// Everything that it knows of its own state.
    pub fn status(&self) -> Arc<Status> {
        unimplemented!()
    }

    /// The present status, then each change of it.
    pub fn watch_status(&self) -> watch::Receiver<Arc<Status>> {
        unimplemented!()
    }

    /// A context's events: from its latest snapshot on, or after a cursor.
    ///
    /// # Errors
    /// Where the context is none of this connector's, or the cursor is older than the frames that it keeps:
    /// ask the server itself.
    pub fn events(&self, context: &str, after: Option<&str>) -> Result<Events, Unsupported> {
        let _ = (context, after);
        unimplemented!()
    }

    /// Does what a person wants.
    ///
    /// # Errors
    /// What did not work, with a sentence that says what to do.
    pub async fn act(&self, action: Action) -> Result<(), ActFault> {
        let _ = action;
        unimplemented!()
    }

    /// What an invitation is, as the server itself says it: what the confirm dialog shows.
    pub async fn preview(&self, from: &JoinFrom) -> Result<JoinPreview, JoinFault> {
        self.install.preview(from).await
    }

    /// Joins a team and connects to it.
    pub async fn join(&self, accept: JoinAccept) -> Result<Joined, JoinFault> {
        self.install.join(accept).await
    }

    /// Ends the connection to a team, revokes this machine there and forgets its secrets.
    pub async fn leave(&self, context: &str) -> Result<Left, LeaveFault> {
        self.install.leave(context).await
    }

    /// Ends, in order and within 3 s: a last report without bindings, `away`, the link, the local door, the
    /// outbox.
    pub async fn shutdown(self) {
        unimplemented!()
    }
}
