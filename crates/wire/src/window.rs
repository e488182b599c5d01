//! The contract between the app and its window: the state that the window shows, the patches that change
//! it, and what the window may ask for. The app owns the truth; the window can ask for all of it at any
//! time and be right. Nothing here travels to a server.
//!
//! Every command is called by the name in this table, with one argument called `request` where there is
//! one, and fails with a [`Failure`].
//!
//! | command | request | answer |
//! | --- | --- | --- |
//! | `patches` | a channel, called `channel` | nothing: from then on [`Patch`]es come through it |
//! | `state` | | [`WindowState`] |
//! | `start_team` | [`StartTeam`] | [`Joined`] |
//! | `join_preview` | [`JoinFrom`] | [`JoinPreview`] |
//! | `join_accept` | [`JoinAccept`] | [`Joined`] |
//! | `join_dismiss` | | nothing: `pending_join` is forgotten |
//! | `invite` | [`Invite`] | [`Invited`] |
//! | `connect_now` | | nothing |
//! | `pause` | [`PauseFor`] | nothing |
//! | `resume` | | nothing |
//! | `history` | [`HistoryAsk`] | [`HistoryPage`] |
//! | `set_custody` | [`SetCustody`] | nothing |
//! | `retry_custody` | | nothing |
//! | `open_place` | [`OpenPlace`] | nothing |
//! | `show_team` | [`ShowTeam`] | nothing: a patch says that the state is stale |
//!
//! The window first sends its channel, then asks for the state. It drops patches whose version is not
//! above its state's, applies the next one, and asks for the whole state when one is missing.

use crate::Millis;
use crate::account::Role;
use crate::event::Event;
use crate::id::{MachineId, SessionId};
use crate::local::Status;
use crate::machine::Machine;
use crate::session::{Session, Turn};
use serde::{Deserialize, Serialize};
use std::fmt;

mod commands;
#[cfg(all(test, feature = "ts"))]
mod tables;

pub use commands::{
    Failure, HistoryAsk, HistoryPage, Invite, Invited, JoinAccept, JoinFrom, JoinPreview, Joined, PauseFor,
    SetCustody, ShowTeam, StartTeam,
};

/// The most items of the feed that app and window keep; older ones are asked for by `history`.
pub const FEED_MAX: usize = 10_000;
/// Patches come at most this often, in milliseconds.
pub const PATCH_MIN_MS: i64 = 100;
/// How much of a session's past its strip shows, in milliseconds.
pub const HOUR_MS: i64 = 3_600_000;
/// The most points of one session's hour.
pub const HOUR_POINTS_MAX: usize = 120;
/// The most events that one `history` may ask for.
pub const HISTORY_MAX: usize = 200;

/// Everything that the window shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct WindowState {
    /// Rises by one with every patch; a new run of the app may begin anywhere.
    pub version: u64,
    /// What the connector says of itself, all contexts included.
    pub status: Status,
    /// The team that is shown; null before the first one.
    pub team: Option<ShownTeam>,
    /// Its active machines, in no order that matters.
    pub machines: Vec<Machine>,
    /// Its sessions that are live or ended within the last hour, in no order that matters.
    pub sessions: Vec<SessionRow>,
    /// The latest events of the feed, oldest first; at most [`FEED_MAX`].
    pub feed: Vec<FeedItem>,
    /// The team server inside this app; null where it has never been started.
    pub local_server: Option<LocalServer>,
    /// The keyring's problem that waits for the person's choice.
    pub custody: Option<CustodyQuestion>,
    /// A deep link that waits for confirmation.
    pub pending_join: Option<PendingJoin>,
    /// What the person should know of this desktop.
    pub notices: Vec<Notice>,
    /// Where the window is: a new window begins there.
    pub place: OpenPlace,
    /// What the fields for names begin with.
    pub suggested: SuggestedNames,
}

/// The team that the window shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct ShownTeam {
    /// The id of its context, one of [`Status::contexts`].
    pub context: String,
    /// What the person may do there; null until the server said so.
    pub role: Option<Role>,
    /// For how many days the team keeps events; null until the server said so.
    pub retention_days: Option<u32>,
    /// When machines and sessions were last read from the server, or confirmed by its stream; null while
    /// they never were. Renewed at least every 60 s while the stream is held: in the states `degraded` and
    /// `paused` the window greys what is older than 90 s.
    pub read_at: Option<Millis>,
}

/// A session and its last hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct SessionRow {
    /// The session.
    pub session: Session,
    /// Its turns, oldest first; the first may be older than an hour, the last is the present one. At most
    /// [`HOUR_POINTS_MAX`].
    pub hour: Vec<TurnPoint>,
}

/// From when on a session's turn was this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct TurnPoint {
    /// When it began.
    pub at: Millis,
    /// What it was.
    pub turn: Turn,
}

/// One item of the feed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub enum FeedItem {
    /// An event.
    Event {
        /// Its place in the team's order; rises within the feed.
        sequence: i64,
        /// The event.
        event: Event,
        /// Whether it came by replay or from history rather than live: it is not announced.
        replay: bool,
    },
    /// Events that can't be had any more: shown as a receipt, never as silence.
    Gap {
        /// When it was noticed.
        at: Millis,
        /// Why.
        reason: GapReason,
        /// How many are gone, where that is known.
        missed: Option<i64>,
        /// The sequence through which they are gone, where that is known.
        pruned_through: Option<i64>,
    },
}

/// Why events are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub enum GapReason {
    /// They are older than the team keeps events.
    Retention,
    /// The server's database was restored from a backup.
    ServerRestored,
    /// It was not said.
    Unknown,
}

/// The team server inside this app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct LocalServer {
    /// Whether it answers.
    pub running: bool,
    /// Where.
    pub origin: Option<String>,
    /// Why it does not run, in a sentence that says what to do.
    pub error: Option<String>,
}

/// What is wrong with the keyring; the person tries again or allows a private file instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct CustodyQuestion {
    /// What is wrong and how to mend it, in a sentence.
    pub why: String,
}

/// A deep link that the system handed over. It holds a code, so it never prints itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct PendingJoin {
    /// The link as it came, well-formed or not: `join_preview` says what it is.
    pub link: String,
}

impl fmt::Debug for PendingJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingJoin(***)")
    }
}

/// What the person should know of this desktop; the window has the words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub enum Notice {
    /// The desktop shows no tray: everything of it is in this window.
    TrayMissing,
    /// Another process of this home runs the connector; this window reads from it.
    OtherConnector {
        /// That process.
        pid: u32,
    },
    /// Something of this app does not work, a file that can't be read for instance.
    Problem {
        /// What, and what to do, in a sentence: shown as it is.
        what: String,
    },
}

/// A place of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub enum Place {
    /// Machines and what their agents do.
    #[default]
    Now,
    /// The team's events.
    Feed,
    /// Making an invitation.
    Invite,
    /// Joining a team with a link or a code.
    Join,
}

/// A place, and what is to be seen there. From the app: go there; from the window: the person went there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct OpenPlace {
    /// Which.
    pub place: Place,
    /// The session to bring into view, as a notification or the tray's menu named it.
    pub session: Option<SessionId>,
}

/// What the fields for names begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct SuggestedNames {
    /// The person, as the computer knows them.
    pub person: String,
    /// The computer.
    pub machine: String,
    /// A team that is started here.
    pub team: String,
}

/// A step from one version of the state to the next; at most one each [`PATCH_MIN_MS`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct Patch {
    /// The version that it leads to: one more than the version that it changes.
    pub version: u64,
    /// What changed since, in order; several changes of one thing are one.
    pub changes: Vec<Change>,
}

/// A change of the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub enum Change {
    /// Another status.
    Status {
        /// All of it.
        status: Box<Status>,
    },
    /// Other facts of the shown team.
    Team {
        /// All of them.
        team: Option<ShownTeam>,
    },
    /// Machines changed, came or went.
    Machines {
        /// New and changed ones, whole.
        changed: Vec<Machine>,
        /// Those that are no more.
        gone: Vec<MachineId>,
    },
    /// Sessions changed, came or went.
    Sessions {
        /// New and changed ones, whole.
        changed: Vec<SessionRow>,
        /// Those that are no more.
        gone: Vec<SessionId>,
    },
    /// Items to append to the feed, whose oldest ones then fall out.
    Feed {
        /// Oldest first.
        items: Vec<FeedItem>,
    },
    /// The server inside this app changed.
    LocalServer {
        /// How it is.
        server: Option<LocalServer>,
    },
    /// The keyring has a question, or none any more.
    Custody {
        /// The question.
        question: Option<CustodyQuestion>,
    },
    /// A deep link came, or was dealt with.
    PendingJoin {
        /// The newest one.
        join: Option<PendingJoin>,
    },
    /// Other notices.
    Notices {
        /// All of them.
        notices: Vec<Notice>,
    },
    /// The window is to go to a place.
    Place {
        /// Where.
        open: OpenPlace,
    },
    /// More changed than a patch says, another team is shown for instance: ask for the whole state.
    Stale,
}
