//! The frames of the one connection that a machine's connector holds open (spec 02). Both sides ignore
//! types that they don't know, which the last variant of each enum stands for.

use crate::Millis;
use crate::heartbeat::Watched;
use crate::id::NoteId;
use crate::machine::AwayReason;
use serde::{Deserialize, Serialize};

/// What a machine says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromMachine {
    /// First, within 5 s.
    Hello {
        /// The run of the connector.
        incarnation_id: String,
        /// The connector's version.
        version: String,
        /// The machine's clock.
        now: Millis,
    },
    /// A note was shown.
    Ack {
        /// Which.
        id: NoteId,
    },
    /// The machine goes on purpose.
    Away {
        /// Why.
        reason: AwayReason,
    },
    /// A type of a later version.
    #[serde(other)]
    Unknown,
}

/// What the server says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromServer {
    /// The answer to hello.
    Welcome {
        /// The server's clock.
        server_time: Millis,
        /// How often to report.
        heartbeat_ms: i64,
    },
    /// The machine's sessions that someone follows; at most 90.
    Watched {
        /// Which.
        items: Vec<Watched>,
    },
    /// Read the configuration again.
    ConfigurationChanged,
    /// A teammate's short message, sent until it is acknowledged.
    Note {
        /// Which.
        id: NoteId,
        /// The teammate's name.
        from: String,
        /// What they say.
        text: String,
        /// When.
        at: Millis,
    },
    /// Before the server closes.
    Closing {
        /// Why.
        reason: ClosingReason,
    },
    /// A type of a later version.
    #[serde(other)]
    Unknown,
}

/// Why the server closes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosingReason {
    /// The same machine linked again: the newer one wins.
    Replaced,
    /// Another run of this identity took its place.
    IncarnationSuperseded,
    /// The machine, or the credential that opened the link, was revoked.
    MachineRevoked,
    /// The credential ended.
    CredentialExpired,
    /// What came was not of this protocol.
    Protocol,
    /// The server can't serve now.
    Unavailable,
    /// The server ends.
    Shutdown,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_frames_are_unknown_and_known_ones_read_back() {
        let strange: FromServer = serde_json::from_str(r#"{"type":"sing"}"#).unwrap();
        assert_eq!(strange, FromServer::Unknown);
        let hello = FromMachine::Hello { incarnation_id: "i".into(), version: "0.1.0".into(), now: 5 };
        let text = serde_json::to_string(&hello).unwrap();
        assert_eq!(text, r#"{"type":"hello","incarnation_id":"i","version":"0.1.0","now":5}"#);
        assert_eq!(serde_json::from_str::<FromMachine>(&text).unwrap(), hello);
    }
}
