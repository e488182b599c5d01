//! What the window asks of the app and what it gets: the requests and answers of the table in
//! [`super`]. What holds a code never prints it.

use crate::Millis;
use crate::account::Role;
use crate::event::Sequenced;
use crate::invitation::InvitationPreview;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Starts the bundled server, makes a team there, and enrolls this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct StartTeam {
    /// The team's name.
    pub team_name: String,
    /// The person's.
    pub person: String,
    /// This machine's.
    pub machine: String,
}

/// An invitation as the person has it. It never prints itself: it holds a code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub enum JoinFrom {
    /// A whole link.
    Link {
        /// As it was pasted or opened.
        link: String,
    },
    /// A code and where it is from.
    Code {
        /// As it was typed.
        code: String,
        /// The server's address as it was typed.
        server: String,
    },
}

impl fmt::Debug for JoinFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinFrom(***)")
    }
}

/// What the confirm dialog shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct JoinPreview {
    /// The server's origin.
    pub origin: String,
    /// Whether the server proved to hold the key that the link names.
    pub pinned: bool,
    /// Whether what is sent there can be read on the way: plain http beyond this computer.
    pub in_clear: bool,
    /// What the server itself says of the invitation.
    pub invitation: InvitationPreview,
}

/// The person's one confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct JoinAccept {
    /// The invitation that was shown.
    pub invitation: JoinFrom,
    /// The person's name.
    pub person: String,
    /// This machine's name.
    pub machine: String,
    /// The new team's name: where the preview named no team, and only there.
    pub team_name: Option<String>,
}

/// A team is joined, and shown from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct Joined {
    /// Its context's id.
    pub context: String,
    /// The team's name.
    pub team: String,
    /// This machine's name there; null for a viewer, whose machine is not enrolled.
    pub machine: Option<String>,
}

/// Makes an invitation to the shown team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct Invite {
    /// What who accepts will be.
    pub role: Role,
    /// 60 to 604800.
    pub expires_in_seconds: i64,
    /// 1 to 100.
    pub max_uses: i64,
}

/// An invitation, shown once. It never prints its code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct Invited {
    /// `XXXXX-XXXXX`.
    pub code: String,
    /// The deep link.
    pub link: String,
    /// The link as a QR code: one `<svg>` element with a `viewBox`, without script, style or reference.
    pub qr_svg: String,
    /// When it ends.
    pub expires_at: Millis,
    /// The server's origin, which goes with the code.
    pub origin: String,
    /// Whether that address is this computer's own, so that nobody elsewhere can use it.
    pub only_this_computer: bool,
}

impl fmt::Debug for Invited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invited").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Pauses reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct PauseFor {
    /// For how long; null: until the person resumes.
    pub for_seconds: Option<i64>,
}

/// Asks for older events of the shown team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct HistoryAsk {
    /// Only events with a smaller sequence; null: from the newest.
    pub before: Option<i64>,
    /// 1 to `HISTORY_MAX`.
    pub limit: u32,
    /// What they must contain; null: anything.
    pub text: Option<String>,
}

/// Older events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct HistoryPage {
    /// Newest first.
    pub items: Vec<Sequenced>,
    /// The next page's `before`; null where nothing older is kept.
    pub next_before: Option<i64>,
}

/// Where secrets are kept from now on, for machines without a keyring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct SetCustody {
    /// True: in a file that only this person may read; false: in the keyring.
    pub file: bool,
}

/// Shows another of the connected teams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct ShowTeam {
    /// Its context's id.
    pub context: String,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
pub struct Failure {
    /// What the window may branch on: a code of the protocol (`gone`, `not_found`, …), or `keyring` (the
    /// state's `custody` then asks), `unreachable`, `not_connected`, `bad_link`, `local_server`.
    pub code: String,
    /// What happened, in a sentence.
    pub message: String,
    /// What to do next, in a sentence, where the message does not say it.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Change, Patch, PendingJoin};

    #[test]
    fn what_holds_a_code_does_not_print_it() {
        let link = "teamlamp://join?server=http://127.0.0.1:8720&code=7K3QF-9XW2M".to_owned();
        let accept = JoinAccept {
            invitation: JoinFrom::Link { link: link.clone() },
            person: "Ada".into(),
            machine: "ada-laptop".into(),
            team_name: None,
        };
        let invited = Invited {
            code: "7K3QF-9XW2M".into(),
            link: link.clone(),
            qr_svg: "<svg/>".into(),
            expires_at: 1,
            origin: "http://127.0.0.1:8720".into(),
            only_this_computer: true,
        };
        let printed = format!("{accept:?} {invited:?} {:?}", PendingJoin { link });
        assert!(!printed.contains("7K3QF") && printed.contains("ada-laptop"), "{printed}");
    }

    #[test]
    fn changes_and_requests_have_the_shapes_that_the_window_reads() {
        let patch = Patch { version: 7, changes: vec![Change::Stale, Change::Custody { question: None }] };
        assert_eq!(
            serde_json::to_string(&patch).unwrap(),
            r#"{"version":7,"changes":[{"change":"stale"},{"change":"custody","question":null}]}"#
        );
        let from = r#"{"from":"code","code":"7K3QF-9XW2M","server":"http://127.0.0.1:8720"}"#;
        assert!(matches!(serde_json::from_str::<JoinFrom>(from).unwrap(), JoinFrom::Code { .. }));
        assert!(serde_json::from_str::<SetCustody>(r#"{"file":true,"also":1}"#).is_err());
    }
}
