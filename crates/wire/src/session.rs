//! Sessions as the team knows them, turns, and registering (spec 04).

use crate::Millis;
use crate::id::{MachineId, PrincipalId, SessionId};
use serde::{Deserialize, Serialize};

/// What a native session does now (spec 06). The wire carries it as a word, so that a turn that this
/// program does not know passes through unharmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Turn {
    /// The agent works.
    Working,
    /// It waits for a person to allow something.
    WaitingApproval,
    /// It asked a person something.
    WaitingInput,
    /// Its turn is over.
    Idle,
    /// Its process is gone.
    Ended,
    /// It can't be told.
    #[serde(other)]
    Unknown,
}

impl Turn {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::WaitingApproval => "waiting_approval",
            Self::WaitingInput => "waiting_input",
            Self::Idle => "idle",
            Self::Ended => "ended",
            Self::Unknown => "unknown",
        }
    }
    /// The turn of a word; what is not known is [`Turn::Unknown`].
    pub fn parse(word: &str) -> Self {
        [Self::Working, Self::WaitingApproval, Self::WaitingInput, Self::Idle, Self::Ended]
            .into_iter()
            .find(|t| t.as_str() == word)
            .unwrap_or(Self::Unknown)
    }
    /// Whether a person is needed.
    pub fn waits(self) -> bool {
        matches!(self, Self::WaitingApproval | Self::WaitingInput)
    }
}

/// `POST /v1/teams/{team}/sessions`: at most 100.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisterSessions {
    /// What to make or update.
    pub sessions: Vec<RegisterSession>,
}

/// One native session, without its content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisterSession {
    /// The program; 1 to 64 characters.
    pub harness: String,
    /// Its own id of the session; 1 to 256 characters.
    pub native_id: String,
    /// The root; one that no heartbeat has told yet is resolved later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_id: Option<String>,
    /// Only where the root's sharing allows it; the server drops it where it doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
}

/// The answer to [`RegisterSessions`], in its order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisteredSessions {
    /// One for each.
    pub sessions: Vec<RegisteredSession>,
}

/// What a native session is to the team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisteredSession {
    /// The team's id of it.
    pub id: SessionId,
    /// The program.
    pub harness: String,
    /// Its own id.
    pub native_id: String,
    /// Rises with every change of it.
    pub revision: i64,
}

/// A session in lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// Which.
    pub id: SessionId,
    /// The program.
    pub harness: String,
    /// Its own id of it.
    pub native_id: String,
    /// Where it runs.
    pub machine_id: MachineId,
    /// Its root's name; null while no heartbeat told it.
    pub root: Option<String>,
    /// Its title, where that is shared.
    pub title: Option<String>,
    /// The model's name.
    pub model: Option<String>,
    /// What it does.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub turn: Turn,
    /// Since when.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub turn_since: Option<Millis>,
    /// Whether the turn is known, not the best reading of a file's tail.
    pub confirmed: bool,
    /// It has a binding and its machine is not offline.
    pub live: bool,
    /// When it began.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub started_at: Option<Millis>,
    /// When something of it last changed.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub updated_at: Millis,
    /// `restricted` or `team`; governs content only.
    pub visibility: String,
    /// Rises with every change of it.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub revision: i64,
    /// Who said 'mine' while it waits.
    pub claimed_by: Option<PrincipalId>,
}

/// The frames of `GET …/sessions/{id}/follow`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SessionFrame {
    /// The session as it is: first, and after each change.
    Session {
        /// All of it.
        session: Box<Session>,
    },
    /// The credential or the membership ended.
    AccessRevoked {
        /// Why.
        reason: String,
        /// Always true: nothing follows.
        terminal: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_read_back_and_strange_ones_are_unknown() {
        for word in ["working", "waiting_approval", "waiting_input", "idle", "ended"] {
            assert_eq!(Turn::parse(word).as_str(), word);
            assert_eq!(serde_json::to_value(Turn::parse(word)).unwrap(), word);
        }
        assert_eq!(Turn::parse("dreaming"), Turn::Unknown);
        assert_eq!(serde_json::from_str::<Turn>("\"dreaming\"").unwrap(), Turn::Unknown);
    }
}
