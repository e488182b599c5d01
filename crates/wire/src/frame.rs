//! The frames of the event stream (spec 03). On SSE each is one message whose `id` is its cursor.

use crate::event::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Frame {
    /// First, when there is no cursor.
    SnapshotBegin,
    /// A resource's current event.
    SnapshotItem {
        /// Its place in the team's order.
        sequence: i64,
        /// The event.
        data: Event,
    },
    /// The snapshot was whole; live begins after this cursor.
    SnapshotEnd {
        /// From where to go on.
        cursor: String,
    },
    /// An event, in order of sequence.
    Event {
        /// Its place in the team's order.
        sequence: i64,
        /// From where to go on.
        cursor: String,
        /// The event.
        data: Event,
    },
    /// How far the stream has looked, also past what this reader may not see.
    Checkpoint {
        /// From where to go on.
        cursor: String,
    },
    /// The stream ends: come back with the cursor, or, without one, for a snapshot.
    ResyncRequired {
        /// Why.
        reason: ResyncReason,
        /// From where to go on; absent: forget the cursor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        /// `pruned_through`, `events_missed`: what is known of the gap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// Always true.
        terminal: bool,
    },
    /// The credential, the membership or the machine ended: stop and tell the person.
    AccessRevoked {
        /// Why.
        reason: String,
        /// Always true.
        terminal: bool,
    },
    /// A type of a later version.
    #[serde(other)]
    Unknown,
}

/// Why a stream asks its reader to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ResyncReason {
    /// What anyone may do has changed; with a cursor.
    AuthorizationChanged,
    /// The reader was too slow; with a cursor.
    SlowReader,
    /// The server can't serve now; with a cursor.
    Unavailable,
    /// What the cursor names is gone.
    Retention,
    /// Retention took an item while the snapshot was sent.
    SnapshotRetention,
    /// The database was restored since.
    ServerRestored,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

impl Frame {
    /// The cursor from which a reader that has this frame goes on.
    pub fn cursor(&self) -> Option<&str> {
        match self {
            Self::SnapshotEnd { cursor } | Self::Event { cursor, .. } | Self::Checkpoint { cursor } => {
                Some(cursor)
            }
            Self::ResyncRequired { cursor, .. } => cursor.as_deref(),
            _ => None,
        }
    }
    /// Whether nothing follows.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::ResyncRequired { .. } | Self::AccessRevoked { .. })
    }
}

/// The answer of the stream as a long poll.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FramePage {
    /// In order.
    pub frames: Vec<Frame>,
    /// From where to go on.
    pub cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_shapes_of_the_spec() {
        let frame = Frame::ResyncRequired {
            reason: ResyncReason::Retention,
            cursor: None,
            details: None,
            terminal: true,
        };
        assert_eq!(
            serde_json::to_string(&frame).unwrap(),
            r#"{"type":"resync_required","reason":"retention","terminal":true}"#
        );
        let item = r#"{"type":"checkpoint","cursor":"c"}"#;
        assert_eq!(serde_json::from_str::<Frame>(item).unwrap().cursor(), Some("c"));
        assert_eq!(serde_json::from_str::<Frame>(r#"{"type":"new"}"#).unwrap(), Frame::Unknown);
    }
}
