//! Ids: a prefix, `_`, 32 lower-case hex digits of a UUIDv7. Clients treat them as opaque.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The 32 hex digits of a UUIDv7 (RFC 9562, section 5.7) of a moment and 74 random bits.
pub fn uuid_v7_hex(now_ms: i64, random: u128) -> String {
    let time = (now_ms.max(0) as u128 & 0xffff_ffff_ffff) << 80;
    let version = 0x7u128 << 76;
    let high = ((random >> 64) & 0x0fff) << 64;
    let variant = 0b10u128 << 62;
    let low = random & 0x3fff_ffff_ffff_ffff;
    format!("{:032x}", time | version | high | variant | low)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(type = "string", export))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name(pub String);

        impl $name {
            /// What ids of this kind begin with, without the `_`.
            pub const PREFIX: &'static str = $prefix;
            /// A new id of a moment and of randomness that the caller's `Chance` gives.
            pub fn new(now_ms: i64, random: u128) -> Self {
                Self(format!("{}_{}", $prefix, uuid_v7_hex(now_ms, random)))
            }
            /// The moment that a new id was given: 0 where it is none of [`Self::new`]'s.
            pub fn made_at_ms(&self) -> i64 {
                let time = self.0.strip_prefix(Self::PREFIX).and_then(|rest| rest.get(1..13));
                time.and_then(|time| i64::from_str_radix(time, 16).ok()).unwrap_or(0)
            }
            /// The id as text.
            pub fn as_str(&self) -> &str { &self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
        impl From<&str> for $name { fn from(text: &str) -> Self { Self(text.to_owned()) } }
        impl From<String> for $name { fn from(text: String) -> Self { Self(text) } }
        impl AsRef<str> for $name { fn as_ref(&self) -> &str { &self.0 } }
    )*};
}

ids! {
    /// A server, made once with its database.
    ServerId = "srv";
    /// A team: the unit of membership and isolation.
    TeamId = "team";
    /// A person or an app.
    PrincipalId = "prin";
    /// A bearer credential; the part of a token before the dot.
    CredentialId = "cred";
    /// An enrolled computer.
    MachineId = "mach";
    /// A publisher of sessions and events in a team.
    SourceId = "src";
    /// A published event.
    EventId = "evt";
    /// A native session as the team knows it.
    SessionId = "sess";
    /// An invitation.
    InvitationId = "inv";
    /// A request, as the server's log names it.
    RequestId = "req";
    /// A row of the audit.
    AuditId = "aud";
    /// A teammate's short note to a machine.
    NoteId = "note";
}

/// Whether `text` may stand in the machine header: `^mach_[A-Za-z0-9_-]{1,64}$` (spec 01).
pub fn is_machine_header(text: &str) -> bool {
    text.strip_prefix("mach_").is_some_and(|rest| {
        (1..=64).contains(&rest.len())
            && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_says_version_7_and_its_moment() {
        let hex = uuid_v7_hex(0x0199_8877_6655, u128::MAX);
        assert_eq!(hex.len(), 32);
        assert_eq!(&hex[..12], "019988776655");
        assert_eq!(&hex[12..13], "7");
        assert!(matches!(&hex[16..17], "8" | "9" | "a" | "b"));
    }

    #[test]
    fn ids_of_later_moments_sort_later() {
        assert!(TeamId::new(1_000, u128::MAX) < TeamId::new(1_001, 0));
    }

    #[test]
    fn an_id_says_its_moment_and_any_text_says_none() {
        assert_eq!(NoteId::new(1_760_000_000_123, u128::MAX).made_at_ms(), 1_760_000_000_123);
        for other in ["", "note_", "note_1", "team_0199887766557fff", "note_éééééééééé", "note_zzzzzzzzzzzz"]
        {
            assert_eq!(NoteId::from(other).made_at_ms(), 0, "{other}");
        }
    }

    #[test]
    fn machine_header_is_checked_to_the_letter() {
        assert!(is_machine_header("mach_A-b_9"));
        for bad in ["mach_", "team_1", "mach_a b", "mach_é", &format!("mach_{}", "a".repeat(65))] {
            assert!(!is_machine_header(bad), "{bad}");
        }
    }
}
