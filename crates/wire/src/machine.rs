//! Machines, their sources, enrollment and configuration (spec 01).

use crate::Millis;
use crate::account::IssuedCredential;
use crate::id::{MachineId, NoteId, PrincipalId, SourceId};
use serde::{Deserialize, Serialize};

/// Whether an enrolled machine still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Enrollment {
    /// It may report.
    Active,
    /// It may not.
    Revoked,
}

/// A machine's presence (spec 02).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Connection {
    /// Heard from within 45 s and linked.
    Online,
    /// Heard from, not linked.
    Unlinked,
    /// Not heard from.
    Offline,
}

impl Connection {
    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Unlinked => "unlinked",
            Self::Offline => "offline",
        }
    }
    /// The presence of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Online, Self::Unlinked, Self::Offline].into_iter().find(|c| c.as_str() == word)
    }
}

/// Why a machine said that it would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AwayReason {
    /// The computer sleeps.
    Asleep,
    /// The connector ended.
    Shutdown,
    /// Its person paused reporting.
    Paused,
}

impl AwayReason {
    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::Shutdown => "shutdown",
            Self::Paused => "paused",
        }
    }
    /// The reason of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Asleep, Self::Shutdown, Self::Paused].into_iter().find(|r| r.as_str() == word)
    }
}

/// What a machine last announced when it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Away {
    /// Why.
    pub reason: AwayReason,
    /// Since when.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub since: Millis,
}

/// An enrolled computer as the team sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Which.
    pub id: MachineId,
    /// Its name.
    pub name: String,
    /// Who enrolled it.
    pub custodian_id: PrincipalId,
    /// Whether it still is enrolled.
    pub enrollment: Enrollment,
    /// Its presence.
    pub connection: Connection,
    /// When it was last heard from; null before the first time.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub last_seen_at: Option<Millis>,
    /// The run of its connector.
    pub incarnation_id: Option<String>,
    /// What it says of its hardware.
    pub host_key_id: Option<String>,
    /// Rises with every change and heartbeat.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub revision: i64,
    /// What it announced when it went.
    pub away: Option<Away>,
    /// Its clock minus the server's, for its custodian and admins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional, type = "number"))]
    pub clock_offset_ms: Option<i64>,
}

/// A publisher of sessions and events in a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// Which.
    pub id: SourceId,
    /// Its name: `"<machine> connector"`.
    pub name: String,
    /// `connector` or `app`.
    pub kind: String,
    /// `active` or `revoked`.
    pub state: String,
    /// The machine of a connector.
    pub machine_id: Option<MachineId>,
    /// Whose it is.
    pub custodian_id: PrincipalId,
    /// `restricted` or `team`.
    pub default_visibility: String,
    /// Rises with every change of it.
    pub revision: i64,
    /// When something of it last came.
    pub last_received_at: Option<Millis>,
    /// How its content is decoded; null for a connector.
    pub decoder: Option<String>,
}

/// `POST /v1/teams/{team}/machines`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enroll {
    /// The machine's name.
    pub name: String,
    /// The install's random key: 16 to 128 of `[A-Za-z0-9_-]`.
    pub enrollment_key: String,
}

impl std::fmt::Debug for Enroll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enroll").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether a text may be an enrollment key, or a host key's id.
pub fn is_key(text: &str) -> bool {
    (16..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The answer to an enrollment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enrolled {
    /// The machine.
    pub machine: Machine,
    /// Its source.
    pub source: Source,
    /// Its credential.
    pub credential: IssuedCredential,
}

/// `PATCH …/machines/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenameMachine {
    /// The new name.
    pub name: String,
}

/// `GET …/machines/{id}/configuration`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Configuration {
    /// The machine.
    pub machine: Machine,
    /// Its source.
    pub source: Source,
    /// What of its content is shared.
    pub sync_rules: Vec<SyncRule>,
    /// Rises with every change of what anyone may do.
    pub auth_epoch: i64,
    /// How often to do what.
    pub intervals: Intervals,
}

/// How often a connector does what, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Intervals {
    /// Between heartbeats.
    pub heartbeat_ms: i64,
    /// Between reports of changes, at least.
    pub report_min_ms: i64,
    /// Between pings of the link.
    pub link_ping_ms: i64,
}

/// What of a root's content is shared (spec 04).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncRule {
    /// Which.
    pub id: String,
    /// The machine.
    pub machine_id: MachineId,
    /// Its source.
    pub source_id: SourceId,
    /// The root; null for all.
    pub root_id: Option<String>,
    /// The harness; null for all.
    pub harness: Option<String>,
    /// `activity`, `titles` or `content`.
    pub level: String,
    /// `restricted` or `team`.
    pub visibility: String,
    /// `active`, `paused` or `removed`.
    pub state: String,
    /// Rises with every change of it.
    pub revision: i64,
}

/// `POST …/machines/{id}/notes`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendNote {
    /// At most 2000 characters.
    pub text: String,
}

/// The answer to a note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SentNote {
    /// The note.
    pub note: NoteRef,
}

/// A note without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoteRef {
    /// Which.
    pub id: NoteId,
    /// When it was sent.
    pub at: Millis,
}
