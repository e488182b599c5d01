//! Joining and leaving a team: custody is proven before anything is made, the answer to an acceptance may
//! be lost, and what was made is kept before it is used.

use crate::contexts::ContextsFault;
use crate::custody::Fault;
use crate::install::Install;
use teamlamp_client::ClientError;
use teamlamp_wire::window::{JoinAccept, JoinFrom, JoinPreview, Joined};

/// Why a team is not joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinFault {
    /// The link, the code or the address can't be used.
    #[error("{0}")]
    Link(String),
    /// A name is none.
    #[error("{0}")]
    Name(String),
    /// The credential could not be kept, so none was made.
    #[error(transparent)]
    Custody(#[from] Fault),
    /// The server does not answer, or refuses.
    #[error("{}", .0.sentence())]
    Server(#[from] ClientError),
    /// The context can't be saved.
    #[error(transparent)]
    Contexts(#[from] ContextsFault),
}

/// Why a team is not left.
#[derive(Debug, thiserror::Error)]
pub enum LeaveFault {
    /// There is no such context.
    #[error("This install is in no team called {0}.")]
    Unknown(String),
    /// The context can't be removed.
    #[error(transparent)]
    Contexts(#[from] ContextsFault),
}

impl Install {
    /// What an invitation is, as the server itself says it.
    pub async fn preview(&self, from: &JoinFrom) -> Result<JoinPreview, JoinFault> {
        let _ = from;
        unimplemented!()
    }

    /// Accepts an invitation, enrolls this machine (a viewer has none) and saves the context. With an
    /// owner's code it makes the team that `accept.team_name` names: this is how a server on this computer
    /// gets its first team, too.
    pub async fn join(&self, accept: JoinAccept) -> Result<Joined, JoinFault> {
        let _ = accept;
        unimplemented!()
    }

    /// Revokes this machine in a team, signs out, and forgets context and secrets. Where the server can't
    /// be told, the rest is done all the same, and the answer says so.
    pub async fn leave(&self, context: &str) -> Result<(), LeaveFault> {
        let _ = context;
        unimplemented!()
    }
}
