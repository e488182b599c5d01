//! Faults of the libraries as the window reads them: a code to branch on, a sentence, what to do next.

use crate::local_server::LocalFault;
use teamlamp_client::ClientError;
use teamlamp_connector::install::SignInFault;
use teamlamp_connector::{ActFault, JoinFault};
use teamlamp_wire::window::Failure;

/// A failure with a code and a sentence that says what to do.
pub(crate) fn failure(code: &str, message: impl Into<String>) -> Failure {
    Failure { code: code.to_owned(), message: message.into(), next: None }
}

/// The window asked for something of a team, and none is shown.
pub(crate) fn not_connected() -> Failure {
    failure("not_connected", "This install is in no team yet: start one, or join one with a link or a code.")
}

/// The connector of this home is not there to be asked.
pub(crate) fn no_connector() -> Failure {
    failure("not_connected", "The connector does not run. Quit Teamlamp and open it again.")
}

/// A call of a server failed.
pub(crate) fn of_client(fault: &ClientError) -> Failure {
    let code = fault.code().and_then(|code| serde_json::to_value(code).ok());
    let code = code.as_ref().and_then(serde_json::Value::as_str).unwrap_or("unreachable");
    failure(code, fault.sentence())
}

/// A team can't be spoken to as its person.
pub(crate) fn of_sign_in(fault: &SignInFault) -> Failure {
    match fault {
        SignInFault::Custody(fault) => failure("keyring", fault.to_string()),
        SignInFault::Absent(_) => failure("not_connected", fault.to_string()),
        SignInFault::Client(fault) => of_client(fault),
    }
}

/// A team was not joined.
pub(crate) fn of_join(fault: &JoinFault) -> Failure {
    failure(&fault.code(), fault.to_string())
}

/// What the person wanted of the connector did not work.
pub(crate) fn of_act(fault: &ActFault) -> Failure {
    match fault {
        ActFault::Custody(fault) => failure("keyring", fault.to_string()),
        ActFault::Join(fault) => of_join(fault),
        ActFault::Unknown(_) => failure("not_found", fault.to_string()),
        ActFault::Settings(_) | ActFault::Contexts(_) | ActFault::Unreadable(_) | ActFault::Outbox(_) => {
            failure("internal", fault.to_string())
        }
    }
}

/// The server of this computer does not start.
pub(crate) fn of_local(fault: &LocalFault) -> Failure {
    failure("local_server", fault.to_string())
}
