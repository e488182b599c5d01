//! The connector's state towards one team: a pure function of facts. Events change facts and nothing
//! else; who shows the state is `board`'s business.

use std::time::Duration;
use teamlamp_wire::Millis;
use teamlamp_wire::limits::{CREDENTIAL_WARNING_MS, ONLINE_MS};
use teamlamp_wire::local::{Pause, State};

/// How long a connection that was lost may be dialled again before a person hears of it.
pub const AGAIN_MS: i64 = 3_000;

/// One of the three connections: heartbeat, link, stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// It is being made; `again` where it was there just before.
    Dialling {
        /// Since when.
        since: Millis,
        /// Whether it was lost rather than never had.
        again: bool,
    },
    /// It works.
    Up,
    /// It failed, and is tried again.
    Down {
        /// What happened, in a sentence.
        why: String,
        /// Since when it has failed.
        since: Millis,
        /// When it is tried again.
        next_try_at: Option<Millis>,
    },
}

impl Channel {
    /// It failed: since the first failure, with the latest reason.
    pub fn failed(&mut self, now: Millis, why: String, next_try_at: Option<Millis>) {
        let since = match self {
            Self::Down { since, .. } => *since,
            _ => now,
        };
        *self = Self::Down { why, since, next_try_at };
    }

    /// It was lost and is made again at once; one that failed before stays failed until it works.
    pub fn lost(&mut self, now: Millis) {
        if *self == Self::Up {
            *self = Self::Dialling { since: now, again: true };
        }
    }

    /// It is made from nothing.
    pub fn begin(&mut self, now: Millis) {
        *self = Self::Dialling { since: now, again: false };
    }

    fn counts(&self, now: Millis) -> bool {
        match self {
            Self::Up => true,
            Self::Dialling { since, again } => *again && now.saturating_sub(*since) < AGAIN_MS,
            Self::Down { .. } => false,
        }
    }
}

impl Default for Channel {
    fn default() -> Self {
        Self::Dialling { since: 0, again: false }
    }
}

/// What only a person mends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The machine was revoked, or is no more.
    Revoked,
    /// No credential is good any more.
    Expired,
    /// This identity runs on another computer too.
    Cloned,
}

/// Whether a credential is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// It was not looked for yet.
    #[default]
    Unknown,
    /// It is.
    Yes,
    /// There is none.
    No,
}

/// Everything that the state follows from. Times are this machine's wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// A viewer's context has no machine: it reads only.
    pub reads_only: bool,
    /// The machine is being enrolled again.
    pub enrolling: bool,
    /// What is wrong with the keyring, in a sentence.
    pub custody: Option<String>,
    /// Whether the context's credential is kept.
    pub kept: Kept,
    /// What only a person mends.
    pub ended: Option<Ended>,
    /// The pause that the person made.
    pub paused: Option<Pause>,
    /// The reports.
    pub heartbeat: Channel,
    /// The link.
    pub link: Channel,
    /// The stream of events.
    pub stream: Channel,
    /// The events are asked for, because something on the way holds streams back.
    pub polls: bool,
    /// When a heartbeat was last answered.
    pub heartbeat_at: Option<Millis>,
    /// When the link was established; none while there is no link.
    pub linked_at: Option<Millis>,
    /// When the machine credential ends.
    pub credential_expires_at: Option<Millis>,
    /// This machine's clock minus the server's.
    pub clock_offset_ms: Option<i64>,
}

impl Facts {
    /// The pause, while it lasts.
    pub fn pause(&self, now: Millis) -> Option<Pause> {
        self.paused.filter(|p| p.until.is_none_or(|until| until > now))
    }
}

/// The state that follows from the facts now.
pub fn state(facts: &Facts, now: Millis) -> State {
    if let Some(state) = by_person(facts, now) {
        return state;
    }
    if let Some(pause) = facts.pause(now) {
        return State::Paused { until: pause.until };
    }
    if facts.reads_only {
        return match &facts.stream {
            Channel::Down { why, since, next_try_at } => {
                State::Offline { why: why.clone(), since: *since, next_try_at: *next_try_at }
            }
            _ => State::ReadOnly,
        };
    }
    reporting(facts, now)
}

/// What stands before any connection: identity and custody.
fn by_person(facts: &Facts, now: Millis) -> Option<State> {
    match facts.ended {
        Some(Ended::Cloned) => return Some(State::Cloned),
        Some(Ended::Revoked) => return Some(State::Revoked { why: REVOKED.into() }),
        Some(Ended::Expired) => return Some(State::Expired { why: EXPIRED.into() }),
        None => {}
    }
    if facts.enrolling {
        return Some(State::Enrolling);
    }
    if let Some(why) = &facts.custody {
        return Some(State::KeyringNeeded { why: why.clone() });
    }
    if facts.kept == Kept::No {
        return Some(State::SignedOut);
    }
    // The moment of expiry shows at once, whatever the last answer was.
    let expired = facts.credential_expires_at.is_some_and(|end| end <= now) && facts.heartbeat != Channel::Up;
    expired.then(|| State::Expired { why: EXPIRED.into() })
}

const REVOKED: &str = "This machine was disconnected from the team. Enroll it again to go on.";
const EXPIRED: &str = "The sign-in of this machine has ended. Join again with a new invitation to go on.";

fn reporting(facts: &Facts, now: Millis) -> State {
    let degraded = |why: String| State::Degraded { why };
    match &facts.heartbeat {
        Channel::Dialling { .. } => State::Connecting,
        Channel::Down { why, since, next_try_at } => {
            let recent = facts.heartbeat_at.is_some_and(|at| now.saturating_sub(at) < ONLINE_MS);
            if recent && facts.link == Channel::Up {
                return degraded(why.clone());
            }
            State::Offline { why: why.clone(), since: *since, next_try_at: *next_try_at }
        }
        Channel::Up => {
            for (channel, what) in [(&facts.link, "live link"), (&facts.stream, "stream of events")] {
                match channel {
                    _ if channel.counts(now) => {}
                    Channel::Down { why, .. } => return degraded(format!("The {what} is down: {why}")),
                    Channel::Dialling { again: true, .. } => {
                        return degraded(format!("The {what} was lost and is being made again."));
                    }
                    _ => return State::Connecting,
                }
            }
            match facts.credential_expires_at.map(|end| end.saturating_sub(now)) {
                Some(left) if left < CREDENTIAL_WARNING_MS => degraded(ending(left)),
                _ => State::Online,
            }
        }
    }
}

fn ending(left_ms: i64) -> String {
    let when = match left_ms / 86_400_000 {
        i64::MIN..=0 => "within a day".to_owned(),
        1 => "in one day".to_owned(),
        days => format!("in {days} days"),
    };
    format!("The sign-in of this machine ends {when} and could not be renewed so far.")
}

/// How long until the state may change by time alone; `None` where it can't.
pub fn due(facts: &Facts, now: Millis) -> Option<Duration> {
    let again =
        [&facts.heartbeat, &facts.link, &facts.stream].into_iter().filter_map(|channel| match channel {
            Channel::Dialling { since, again: true } => Some(since + AGAIN_MS),
            _ => None,
        });
    let ends = facts.credential_expires_at;
    again
        .chain(facts.paused.and_then(|p| p.until))
        .chain(ends)
        .chain(ends.map(|end| end - CREDENTIAL_WARNING_MS + 1))
        .chain(facts.heartbeat_at.map(|at| at + ONLINE_MS))
        .filter(|at| *at > now)
        .min()
        .map(|at| teamlamp_clock::ms(at - now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_000_000_000_000;
    const DAY: Millis = 86_400_000;

    fn online() -> Facts {
        Facts {
            kept: Kept::Yes,
            heartbeat: Channel::Up,
            link: Channel::Up,
            stream: Channel::Up,
            heartbeat_at: Some(NOW - 1_000),
            linked_at: Some(NOW - 1_000),
            credential_expires_at: Some(NOW + 20 * DAY),
            ..Facts::default()
        }
    }

    fn down() -> Channel {
        Channel::Down { why: "Nothing answers.".into(), since: NOW - 5, next_try_at: Some(NOW + 5) }
    }

    fn dialling(ago: Millis, again: bool) -> Channel {
        Channel::Dialling { since: NOW - ago, again }
    }

    type Row = (&'static str, &'static str, fn(&mut Facts));

    #[test]
    fn the_state_is_what_the_facts_say() {
        let table: &[Row] = &[
            ("all is well", "online", |_| {}),
            ("nothing was looked at yet", "connecting", |f| *f = Facts::default()),
            ("no credential is kept", "signed_out", |f| f.kept = Kept::No),
            ("it is being enrolled", "enrolling", |f| f.enrolling = true),
            ("the keyring is closed", "keyring_needed", |f| f.custody = Some("Locked.".into())),
            ("it was revoked", "revoked", |f| f.ended = Some(Ended::Revoked)),
            ("it was revoked while it is paused", "revoked", |f| {
                f.ended = Some(Ended::Revoked);
                f.paused = Some(Pause { until: None });
            }),
            ("another computer has its identity", "cloned", |f| f.ended = Some(Ended::Cloned)),
            ("no credential is good any more", "expired", |f| f.ended = Some(Ended::Expired)),
            ("the credential ended while nothing is answered", "expired", |f| {
                f.heartbeat = down();
                f.credential_expires_at = Some(NOW);
            }),
            ("the credential ends soon", "degraded", |f| f.credential_expires_at = Some(NOW + 4 * DAY)),
            ("the person paused it", "paused", |f| f.paused = Some(Pause { until: None })),
            ("its pause lasts", "paused", |f| f.paused = Some(Pause { until: Some(NOW + 1) })),
            ("its pause is over", "online", |f| f.paused = Some(Pause { until: Some(NOW) })),
            ("the first heartbeat is under way", "connecting", |f| f.heartbeat = dialling(9_000, false)),
            ("the first link is under way", "connecting", |f| f.link = dialling(9_000, false)),
            ("the link was lost just now", "online", |f| f.link = dialling(2_999, true)),
            ("the link was lost a while ago", "degraded", |f| f.link = dialling(3_000, true)),
            ("the link fails", "degraded", |f| f.link = down()),
            ("the stream fails", "degraded", |f| f.stream = down()),
            ("one heartbeat failed, the link holds", "degraded", |f| f.heartbeat = down()),
            ("heartbeats fail, the link seems to hold", "offline", |f| {
                f.heartbeat = down();
                f.heartbeat_at = Some(NOW - 45_000);
            }),
            ("nothing is answered", "offline", |f| {
                f.heartbeat = down();
                f.link = down();
            }),
            ("nothing was ever answered", "offline", |f| {
                *f = Facts { kept: Kept::Yes, heartbeat: down(), ..Facts::default() };
            }),
            ("a viewer reads", "read_only", |f| f.reads_only = true),
            ("a viewer's stream fails", "offline", |f| {
                f.reads_only = true;
                f.stream = down();
            }),
        ];
        for (when, word, change) in table {
            let mut facts = online();
            change(&mut facts);
            assert_eq!(state(&facts, NOW).word(), *word, "{when}");
        }
    }

    #[test]
    fn a_failure_keeps_its_beginning_and_shows_its_latest_reason() {
        let mut channel = Channel::Up;
        channel.failed(10, "first".into(), None);
        channel.failed(20, "second".into(), Some(30));
        channel.lost(25);
        let expected = Channel::Down { why: "second".into(), since: 10, next_try_at: Some(30) };
        assert_eq!(channel, expected);
    }

    #[test]
    fn what_time_alone_changes_is_due_then() {
        let mut facts = online();
        facts.heartbeat_at = None;
        assert_eq!(due(&facts, NOW), Some(Duration::from_millis(15 * DAY as u64 + 1)));
        facts.paused = Some(Pause { until: Some(NOW + 70) });
        assert_eq!(due(&facts, NOW), Some(Duration::from_millis(70)));
        facts.link = dialling(2_990, true);
        assert_eq!(due(&facts, NOW), Some(Duration::from_millis(10)));
        assert_eq!(due(&Facts::default(), NOW), None);
        for (mut facts, at) in [(facts.clone(), 10), (facts, 70)] {
            facts.paused = facts.paused.filter(|_| at == 70);
            assert_ne!(state(&facts, NOW), state(&facts, NOW + at), "the state does change at +{at}");
        }
    }
}
