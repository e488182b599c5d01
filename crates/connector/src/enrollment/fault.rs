//! Why a team is not joined or not left: a code for programs, a sentence for people.

use crate::contexts::ContextsFault;
use crate::custody::Fault;
use teamlamp_client::ClientError;

/// Why a team is not joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinFault {
    /// The link, the code or the address can't be used.
    #[error("{0}")]
    Link(String),
    /// A name is none.
    #[error("{0}")]
    Name(String),
    /// The credential could not be kept, so none was made; or it can't be read.
    #[error(transparent)]
    Custody(#[from] Fault),
    /// No credential of the person is kept.
    #[error("The sign-in of this team is gone: join it again with a new invitation.")]
    SignedOut,
    /// The answer that held the credential was lost for good.
    #[error("This invitation was used from here before, and its sign-in is gone: ask for a new one.")]
    Spent,
    /// The server does not answer, or refuses.
    #[error("{}", .0.sentence())]
    Server(#[from] ClientError),
    /// The context can't be saved.
    #[error(transparent)]
    Contexts(#[from] ContextsFault),
    /// What is needed to go on after an interruption can't be saved.
    #[error(
        "The file joining.json in the home can't be used ({0}): mend its owner, and that its disk has room."
    )]
    Pending(std::io::Error),
}

impl JoinFault {
    /// What a program may branch on: `keyring`, `unreachable`, `bad_link`, or a code of the protocol.
    pub fn code(&self) -> String {
        let word = match self {
            Self::Link(_) => "bad_link",
            Self::Name(_) => "invalid_request",
            Self::Custody(_) => "keyring",
            Self::SignedOut => "not_connected",
            Self::Spent => "gone",
            Self::Contexts(_) | Self::Pending(_) => "internal",
            Self::Server(fault) => return server_code(fault),
        };
        word.to_owned()
    }
}

fn server_code(fault: &ClientError) -> String {
    let code = fault.code().and_then(|code| serde_json::to_value(code).ok());
    match code.as_ref().and_then(serde_json::Value::as_str) {
        Some(word) => word.to_owned(),
        None => "unreachable".to_owned(),
    }
}

/// Why a team is not left.
#[derive(Debug, thiserror::Error)]
pub enum LeaveFault {
    /// There is no such context.
    #[error("{0}")]
    Unknown(String),
    /// The secrets can't be reached, and so not forgotten.
    #[error(transparent)]
    Custody(#[from] Fault),
    /// The context can't be removed.
    #[error(transparent)]
    Contexts(#[from] ContextsFault),
}
