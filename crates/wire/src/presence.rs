//! Presence as a decision over facts, its transitions, and flapping (spec 02).

use crate::Millis;
use crate::id::MachineId;
use crate::limits::{FLAP_MS, ONLINE_MS, RESTART_GRACE_MS};
use crate::machine::{Away, Connection};
use serde::{Deserialize, Serialize};

/// The facts from which a machine's presence follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// When the machine was last heard from.
    pub last_seen_at: Option<Millis>,
    /// Whether the store says that it is linked.
    pub linked: bool,
    /// Whether this process of the server holds its link.
    pub link_held: bool,
    /// The presence of the last committed transition.
    pub before: Connection,
    /// When this process of the server started.
    pub server_started_at: Millis,
}

/// A machine's presence now, and when time alone would change it.
pub fn connection(facts: &Facts, now: Millis) -> (Connection, Option<Millis>) {
    let Some(last_seen_at) = facts.last_seen_at else { return (Connection::Offline, None) };
    // A restart must not say that everybody left: what was up counts as heard from at the start.
    let heard_at = match facts.before {
        Connection::Offline => last_seen_at,
        _ => last_seen_at.max(facts.server_started_at),
    };
    let heard_until = heard_at + ONLINE_MS;
    if now >= heard_until {
        return (Connection::Offline, None);
    }
    // A link that the store names and nobody holds yet may be dialling back.
    let grace_until = facts.server_started_at + RESTART_GRACE_MS;
    if facts.link_held {
        (Connection::Online, Some(heard_until))
    } else if facts.linked && now < grace_until {
        (Connection::Online, Some(heard_until.min(grace_until)))
    } else {
        (Connection::Unlinked, Some(heard_until))
    }
}

/// A change of a machine's presence, as the presence stream says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transition {
    /// Counts per team, in commit order.
    pub sequence: i64,
    /// When.
    pub at: Millis,
    /// Whose.
    pub machine_id: MachineId,
    /// Before.
    pub from: Connection,
    /// After.
    pub to: Connection,
    /// Whether it is linked after.
    pub linked: bool,
}

/// The frames of `GET …/machines/events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PresenceFrame {
    /// First, without `after`.
    SnapshotBegin,
    /// One for each machine.
    Machine {
        /// The machine's presence.
        machine: PresenceItem,
    },
    /// The snapshot was whole.
    SnapshotEnd {
        /// Live begins after it.
        sequence: i64,
    },
    /// A change.
    Transition(Transition),
    /// Start again without `after`.
    ResyncRequired {
        /// `retention`.
        reason: String,
        /// Always true: nothing follows.
        terminal: bool,
    },
    /// The credential, the membership or the machine ended: stop and tell the person.
    AccessRevoked {
        /// Why.
        reason: String,
        /// Always true: nothing follows.
        terminal: bool,
    },
}

/// A machine in a presence snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PresenceItem {
    /// Which.
    pub id: MachineId,
    /// Its name.
    pub name: String,
    /// Its presence.
    pub connection: Connection,
    /// What it announced when it went.
    pub away: Option<Away>,
    /// When it was last heard from.
    pub last_seen_at: Option<Millis>,
}

/// One line of what a person reads of a machine's transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresenceLine {
    /// It changed, and stayed so for a while.
    Changed {
        /// Whose.
        machine: MachineId,
        /// When.
        at: Millis,
        /// After.
        to: Connection,
    },
    /// It went to and fro within 20 s and ended where it began; nobody is notified.
    Flapped {
        /// Whose.
        machine: MachineId,
        /// When it began.
        at: Millis,
        /// How many transitions.
        times: usize,
    },
}

/// Folds transitions, in their order, into what a person reads: those of one machine within 20 s of the
/// first that return to where they began are one line.
pub fn fold(transitions: &[(MachineId, Millis, Connection, Connection)]) -> Vec<PresenceLine> {
    let mut lines = Vec::new();
    let mut taken = vec![false; transitions.len()];
    for i in 0..transitions.len() {
        if taken[i] {
            continue;
        }
        let (machine, at, from, to) = &transitions[i];
        let near: Vec<usize> = (i..transitions.len())
            .take_while(|&j| transitions[j].1 - at <= FLAP_MS)
            .filter(|&j| transitions[j].0 == *machine && !taken[j])
            .collect();
        match near.iter().rposition(|&j| transitions[j].3 == *from) {
            Some(end) => {
                near[..=end].iter().for_each(|&j| taken[j] = true);
                lines.push(PresenceLine::Flapped { machine: machine.clone(), at: *at, times: end + 1 });
            }
            None => lines.push(PresenceLine::Changed { machine: machine.clone(), at: *at, to: *to }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use Connection::{Offline, Online, Unlinked};

    fn facts(last_seen_at: Option<i64>, linked: bool, link_held: bool, before: Connection) -> Facts {
        Facts { last_seen_at, linked, link_held, before, server_started_at: 1_000_000 }
    }

    #[test]
    fn the_end_of_access_is_said_as_the_event_stream_says_it() {
        let (reason, terminal) = ("machine_revoked".to_owned(), true);
        let said = crate::frame::Frame::AccessRevoked { reason: reason.clone(), terminal };
        let read: PresenceFrame = serde_json::from_value(serde_json::to_value(said).unwrap()).unwrap();
        assert_eq!(read, PresenceFrame::AccessRevoked { reason, terminal });
    }

    #[test]
    fn presence_follows_from_facts() {
        let now = 1_100_000;
        let table = [
            (facts(None, false, false, Offline), Offline),
            (facts(Some(now - 44_999), true, true, Online), Online),
            (facts(Some(now - 45_000), true, true, Online), Offline),
            (facts(Some(now - 1), false, false, Online), Unlinked),
            (facts(Some(now - 1), true, false, Online), Unlinked),
        ];
        for (facts, expected) in table {
            assert_eq!(connection(&facts, now).0, expected, "{facts:?}");
        }
    }

    #[test]
    fn offline_falls_due_45_seconds_after_the_last_heartbeat() {
        let (now, due) = connection(&facts(Some(1_100_000), true, true, Online), 1_100_001);
        assert_eq!((now, due), (Online, Some(1_145_000)));
    }

    #[test]
    fn a_restart_does_not_say_that_everybody_left() {
        let up = facts(Some(900_000), true, false, Online);
        assert_eq!(connection(&up, 1_044_999).0, Online);
        assert_eq!(connection(&up, 1_045_000).0, Offline);
        let beating = facts(Some(1_040_000), true, false, Online);
        assert_eq!(connection(&beating, 1_045_000).0, Unlinked);
        let gone = facts(Some(900_000), false, false, Offline);
        assert_eq!(connection(&gone, 1_000_001).0, Offline);
    }

    /// The cases that the window's own folding reads too (`ui/src/features/feed/fold.ts`).
    #[test]
    fn flapping_folds_as_the_vectors_say() {
        #[derive(serde::Deserialize)]
        struct Case {
            what: String,
            transitions: Vec<(MachineId, Millis, Connection, Connection)>,
            /// Whose, when, and how often or to what.
            lines: Vec<(MachineId, Millis, serde_json::Value)>,
        }
        let cases: Vec<Case> = serde_json::from_str(include_str!("../vectors/flapping.json")).unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let lines: Vec<_> = fold(&case.transitions)
                .into_iter()
                .map(|line| match line {
                    PresenceLine::Flapped { machine, at, times } => (machine, at, times.into()),
                    PresenceLine::Changed { machine, at, to } => {
                        (machine, at, serde_json::to_value(to).unwrap())
                    }
                })
                .collect();
            assert_eq!(lines, case.lines, "{}", case.what);
        }
    }
}
