//! What the connector says of itself: to the window, the tray, `teamlamp status` and, through the local
//! door, to other programs of this machine (spec 06). One value, from which all of them show.

use crate::Millis;
use crate::id::{MachineId, PrincipalId, ServerId, TeamId};
use serde::{Deserialize, Serialize};

/// `GET /v1/status` of the local door: everything that the connector knows of its own state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct Status {
    /// The connector's version.
    pub version: String,
    /// The process that runs the connector.
    pub pid: u32,
    /// The run of this connector.
    pub incarnation_id: String,
    /// One for each saved team connection.
    pub contexts: Vec<ContextStatus>,
    /// The native sessions found on this machine, whatever the contexts' state.
    pub sessions: Vec<LocalSession>,
    /// Until when reporting is paused; absent: not paused. `indefinite` has no end.
    pub paused: Option<Pause>,
}

/// A pause that the person at the machine made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct Pause {
    /// When it ends by itself; null: when the person resumes.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub until: Option<Millis>,
}

/// One saved team connection and how it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct ContextStatus {
    /// The context's id, which names it on the command line too.
    pub id: String,
    /// The server's origin.
    pub origin: String,
    /// The server.
    pub server_id: ServerId,
    /// The server's name.
    pub server_name: String,
    /// The team.
    pub team_id: TeamId,
    /// The team's name.
    pub team_name: String,
    /// Who is signed in.
    pub principal_id: PrincipalId,
    /// Their name.
    pub principal_name: String,
    /// This machine in that team; null for a viewer.
    pub machine_id: Option<MachineId>,
    /// This machine's name there.
    pub machine_name: Option<String>,
    /// How the connection is.
    pub state: State,
    /// Since when.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub state_since: Millis,
    /// When the last heartbeat was answered.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub heartbeat_at: Option<Millis>,
    /// When the link was last established; null while there is none.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub linked_at: Option<Millis>,
    /// Whether the team's events come; also in a pause, which stops reporting and not reading.
    #[serde(default)]
    pub streaming: bool,
    /// Whether they are asked for again and again instead, because something on the way holds streams back.
    #[serde(default)]
    pub polls: bool,
    /// When the machine credential ends.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub credential_expires_at: Option<Millis>,
    /// The machine's clock minus the server's.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub clock_offset_ms: Option<i64>,
    /// The last 20 changes of state, oldest first: 'why offline?'.
    pub changes: Vec<StateChange>,
}

/// A change of state and what caused it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct StateChange {
    /// When.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub at: Millis,
    /// The word of the new state.
    pub to: String,
    /// The sentence that a person reads.
    pub why: String,
}

/// The connector's state towards one team: one value, computed from facts in one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub enum State {
    /// No credential is kept.
    SignedOut,
    /// The machine is being enrolled.
    Enrolling,
    /// Nothing was answered yet.
    Connecting,
    /// Heartbeats are answered, link and stream are held.
    Online,
    /// Heartbeats are answered, something else is missing.
    Degraded {
        /// What, in a sentence.
        why: String,
    },
    /// Nothing is answered.
    Offline {
        /// What happened, in a sentence.
        why: String,
        /// Since when.
        #[cfg_attr(feature = "ts", ts(type = "number"))]
        since: Millis,
        /// When it is tried again.
        #[cfg_attr(feature = "ts", ts(type = "number | null"))]
        next_try_at: Option<Millis>,
    },
    /// The person paused reporting.
    Paused {
        /// When it ends by itself.
        #[cfg_attr(feature = "ts", ts(type = "number | null"))]
        until: Option<Millis>,
    },
    /// The keyring is locked, absent or refuses.
    KeyringNeeded {
        /// What is wrong with it and how to mend it, in a sentence.
        why: String,
    },
    /// The machine was revoked.
    Revoked {
        /// What to do, in a sentence.
        why: String,
    },
    /// The credential ended.
    Expired {
        /// What to do, in a sentence.
        why: String,
    },
    /// This machine's identity runs on another computer too.
    Cloned,
    /// A viewer's context: it reads, and reports nothing.
    ReadOnly,
}

impl State {
    /// The state's word, as the wire and `teamlamp status` say it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::SignedOut => "signed_out",
            Self::Enrolling => "enrolling",
            Self::Connecting => "connecting",
            Self::Online => "online",
            Self::Degraded { .. } => "degraded",
            Self::Offline { .. } => "offline",
            Self::Paused { .. } => "paused",
            Self::KeyringNeeded { .. } => "keyring_needed",
            Self::Revoked { .. } => "revoked",
            Self::Expired { .. } => "expired",
            Self::Cloned => "cloned",
            Self::ReadOnly => "read_only",
        }
    }
    /// Whether only a person can go on from here.
    pub fn needs_person(&self) -> bool {
        matches!(
            self,
            Self::KeyringNeeded { .. } | Self::Revoked { .. } | Self::Expired { .. } | Self::Cloned
        )
    }
    /// The sentence that a person reads.
    pub fn sentence(&self) -> String {
        match self {
            Self::SignedOut => "Not part of a team yet.".into(),
            Self::Enrolling => "Enrolling this machine.".into(),
            Self::Connecting => "Connecting.".into(),
            Self::Online => "Live.".into(),
            Self::Degraded { why }
            | Self::Offline { why, .. }
            | Self::KeyringNeeded { why }
            | Self::Revoked { why }
            | Self::Expired { why } => why.clone(),
            Self::Paused { until: None } => "Reporting is paused until you resume it.".into(),
            Self::Paused { until: Some(_) } => "Reporting is paused for a while.".into(),
            Self::Cloned => {
                "This machine's identity is in use on another computer: enroll this one as a new machine."
                    .into()
            }
            Self::ReadOnly => "Reading as a viewer; this machine is not enrolled.".into(),
        }
    }
}

/// A native session found on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct LocalSession {
    /// The program.
    pub harness: String,
    /// Its own id of the session.
    pub native_id: String,
    /// The root's name.
    pub root: String,
    /// What it does.
    pub turn: crate::session::Turn,
    /// Since when.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub since: Option<Millis>,
    /// Whether that is known, not read from a tail.
    pub confirmed: bool,
}

/// `POST /v1/pause` of the local door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// False resumes.
    pub paused: bool,
    /// How long; absent: until resumed.
    #[serde(default)]
    pub for_seconds: Option<i64>,
}
