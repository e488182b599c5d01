//! Why a command failed: its exit status, and the sentence for standard error.

use crate::out::Out;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use teamlamp_client::ClientError;
use teamlamp_connector::contexts::ContextsFault;
use teamlamp_connector::install::SignInFault;
use teamlamp_connector::{ActFault, JoinFault, LeaveFault, StartFault};

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Fail {
    status: u8,
    sentence: Option<String>,
}

impl Fail {
    /// Status 1.
    pub(crate) fn failed(sentence: impl Display) -> Self {
        Self { status: 1, sentence: Some(sentence.to_string()) }
    }

    /// Status 2: what was asked for can't be meant.
    pub(crate) fn usage(sentence: impl Display) -> Self {
        Self { status: 2, sentence: Some(sentence.to_string()) }
    }

    /// Status 3: no context, no server that answers, or no connector where one is needed.
    pub(crate) fn not_connected(sentence: impl Display) -> Self {
        Self { status: 3, sentence: Some(sentence.to_string()) }
    }

    /// Status 3 without a word, where the output has said it.
    pub(crate) fn not_connected_as_shown() -> Self {
        Self { status: 3, sentence: None }
    }

    /// Says why on standard error.
    pub(crate) fn tell(&self, out: &Out) -> ExitCode {
        if let Some(sentence) = &self.sentence {
            out.note(&as_sentence(sentence));
        }
        ExitCode::from(self.status)
    }

    #[cfg(test)]
    pub(crate) fn parts(&self) -> (u8, &str) {
        (self.status, self.sentence.as_deref().unwrap_or_default())
    }
}

/// Errors of libraries begin in lower case and end without a stop; a person reads a sentence.
pub(crate) fn as_sentence(text: &str) -> String {
    let text = teamlamp_wire::text::visible(text.trim());
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let stop = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{stop}", chars.as_str())
}

/// Whoever reads the output has read enough: no failure.
impl From<io::Error> for Fail {
    fn from(fault: io::Error) -> Self {
        match fault.kind() {
            io::ErrorKind::BrokenPipe => Self { status: 0, sentence: None },
            _ => Self::failed(format!("The output can't be written ({fault}).")),
        }
    }
}

impl From<ClientError> for Fail {
    fn from(fault: ClientError) -> Self {
        match fault {
            ClientError::Refused(_) => Self::failed(fault.sentence()),
            _ => Self::not_connected(fault.sentence()),
        }
    }
}

impl From<ContextsFault> for Fail {
    fn from(fault: ContextsFault) -> Self {
        Self::failed(fault)
    }
}

impl From<SignInFault> for Fail {
    fn from(fault: SignInFault) -> Self {
        match fault {
            SignInFault::Client(fault) => fault.into(),
            SignInFault::Absent(_) => Self::not_connected(fault),
            SignInFault::Custody(_) => Self::failed(fault),
        }
    }
}

impl From<JoinFault> for Fail {
    fn from(fault: JoinFault) -> Self {
        match fault {
            JoinFault::Server(fault) => fault.into(),
            JoinFault::Link(_) | JoinFault::Name(_) => Self::usage(fault),
            _ => Self::failed(fault),
        }
    }
}

impl From<LeaveFault> for Fail {
    fn from(fault: LeaveFault) -> Self {
        Self::failed(fault)
    }
}

impl From<StartFault> for Fail {
    fn from(fault: StartFault) -> Self {
        Self::failed(fault)
    }
}

impl From<ActFault> for Fail {
    fn from(fault: ActFault) -> Self {
        Self::failed(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use teamlamp_client::{FaultKind, TransportFault};

    #[test]
    fn a_server_that_does_not_answer_is_status_3_and_one_that_refuses_1() {
        let unreachable = TransportFault::new(FaultKind::Refused, "http://127.0.0.1:1", "x");
        let fail = Fail::from(ClientError::from(unreachable));
        assert_eq!(
            fail.parts(),
            (3, "Nothing answers at http://127.0.0.1:1: the server may not be running.")
        );
        assert_eq!(Fail::from(JoinFault::Spent).parts().0, 1);
        assert_eq!(Fail::from(JoinFault::Link("no code".into())).parts().0, 2);
    }

    #[test]
    fn a_pipe_that_was_closed_is_no_failure() {
        assert_eq!(Fail::from(io::Error::from(io::ErrorKind::BrokenPipe)).parts(), (0, ""));
        assert_eq!(Fail::from(io::Error::from(io::ErrorKind::StorageFull)).parts().0, 1);
    }

    #[test]
    fn what_a_library_says_becomes_a_sentence_without_power() {
        assert_eq!(as_sentence("the port is taken"), "The port is taken.");
        assert_eq!(as_sentence("Gone. Ask again?"), "Gone. Ask again?");
        assert_eq!(as_sentence("a\u{1b}[2J"), "A␛[2J.");
    }
}
