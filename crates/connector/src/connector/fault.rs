//! Why a connector does not start, or does not do what a person wants: sentences that say what to do.

use crate::claim::ClaimFault;
use crate::contexts::ContextsFault;
use crate::enrollment::JoinFault;
use crate::home::HomeFault;
use crate::outbox::OutboxFault;
use crate::settings::SettingsFault;

/// Why a connector does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    /// Another process runs it, or its lock can't be used.
    #[error(transparent)]
    Claim(#[from] ClaimFault),
    /// The home can't be used.
    #[error(transparent)]
    Home(#[from] HomeFault),
    /// The settings can't be read.
    #[error(transparent)]
    Settings(#[from] SettingsFault),
    /// The outbox can't be opened.
    #[error(transparent)]
    Outbox(#[from] OutboxFault),
    /// The contexts can't be connected.
    #[error(transparent)]
    Contexts(#[from] ActFault),
    /// The local door can't be opened.
    #[error(
        "The local door {path} can't be opened ({cause}): mend the folder's owner, or set TEAMLAMP_HOME to a short path that is yours."
    )]
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
    /// The saved contexts are damaged, or gone, while teams of them are connected.
    #[error(
        "The saved teams in {0} can't be read: what is connected stays so. Mend that file, or join again."
    )]
    Unreadable(std::path::PathBuf),
    /// The outbox can't be used.
    #[error(transparent)]
    Outbox(#[from] OutboxFault),
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
