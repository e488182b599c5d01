//! Stream cursors: opaque to clients, authenticated, and bound to the team, the filters and the history
//! of the database (spec 03, rule 4).

use super::scope::Scope;
use crate::keys::Keys;
use crate::store::events::ResourceKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const VERSION: u8 = 1;
const MAC_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + 8 + 16 + 8;
/// The longest cursor that is looked at: the place of a snapshot names a resource.
const LONGEST: usize = 4096;

/// The watermark of a snapshot that has begun, and of which nothing could be read yet.
pub const NOT_READ: i64 = -1;

/// Where a reader goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// After an event.
    After(i64),
    /// In a snapshot that is read in pages, after a resource; live begins after the watermark.
    Snapshot {
        /// The last sequence when the snapshot began; [`NOT_READ`] where it could not be read yet.
        watermark: i64,
        /// The last resource that was read.
        after: ResourceKey,
    },
}

/// Why a cursor is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorFault {
    /// It is not one of this server's: 400.
    Malformed,
    /// It belongs to another team or to other filters: 400.
    Foreign,
    /// It was made before the database was restored: start again.
    Restored,
}

/// Makes and reads the cursors of one history.
#[derive(Clone, Debug)]
pub struct Cursors {
    keys: Keys,
    history: [u8; 8],
}

impl Cursors {
    /// The cursors of a database with this history id.
    pub fn new(keys: Keys, history_id: &str) -> Self {
        let mut history = [0; 8];
        history.copy_from_slice(&Sha256::digest(history_id.as_bytes())[..8]);
        Self { keys, history }
    }

    /// The cursor of a place in a scope.
    pub fn encode(&self, scope: &Scope, place: &Place) -> String {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + MAC_BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.history);
        bytes.extend_from_slice(scope.digest());
        match place {
            Place::After(sequence) => bytes.extend_from_slice(&sequence.to_be_bytes()),
            Place::Snapshot { watermark, after } => {
                bytes.extend_from_slice(&watermark.to_be_bytes());
                for part in [&after.source, &after.kind, &after.id] {
                    bytes.extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
                    bytes.extend_from_slice(part.as_bytes());
                }
            }
        }
        let mac = self.keys.cursor_mac(&bytes);
        bytes.extend_from_slice(&mac[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place of a cursor.
    ///
    /// # Errors
    /// See [`CursorFault`].
    pub fn decode(&self, scope: &Scope, cursor: &str) -> Result<Place, CursorFault> {
        if cursor.len() > LONGEST {
            return Err(CursorFault::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| CursorFault::Malformed)?;
        let length = bytes.len().checked_sub(MAC_BYTES).ok_or(CursorFault::Malformed)?;
        let (said, mac) = bytes.split_at(length);
        if !bool::from(self.keys.cursor_mac(said)[..MAC_BYTES].ct_eq(mac)) {
            return Err(CursorFault::Malformed);
        }
        if said.len() < HEAD_BYTES || said[0] != VERSION {
            return Err(CursorFault::Malformed);
        }
        if said[9..25] != *scope.digest() {
            return Err(CursorFault::Foreign);
        }
        if said[1..9] != self.history {
            return Err(CursorFault::Restored);
        }
        let mut sequence = [0; 8];
        sequence.copy_from_slice(&said[25..HEAD_BYTES]);
        let sequence = i64::from_be_bytes(sequence);
        let mut rest = &said[HEAD_BYTES..];
        if rest.is_empty() {
            return Ok(Place::After(sequence));
        }
        let mut part = || {
            let (length, after) = rest.split_at_checked(2)?;
            let (text, after) =
                after.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))?;
            rest = after;
            String::from_utf8(text.to_vec()).ok()
        };
        match (part(), part(), part()) {
            (Some(source), Some(kind), Some(id)) => {
                Ok(Place::Snapshot { watermark: sequence, after: ResourceKey { source, kind, id } })
            }
            _ => Err(CursorFault::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use teamlamp_clock::Chance;

    fn cursors() -> Cursors {
        let folder = tempfile::tempdir().unwrap();
        Cursors::new(Keys::open(folder.path(), &Chance::seeded(1)).unwrap(), "history")
    }

    fn scope(team: &str, kinds: &str) -> Scope {
        let query = [("kinds".to_owned(), kinds.to_owned())].into();
        Scope::parse(&team.into(), &query).unwrap()
    }

    #[test]
    fn a_cursor_reads_back_and_can_stand_in_a_url() {
        let (cursors, scope) = (cursors(), scope("team_1", "session.turn"));
        let after = ResourceKey { source: String::new(), kind: "custom".into(), id: "ü/1".into() };
        for place in [Place::After(0), Place::After(i64::MAX), Place::Snapshot { watermark: 7, after }] {
            let text = cursors.encode(&scope, &place);
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{text}");
            assert_eq!(cursors.decode(&scope, &text), Ok(place));
        }
    }

    #[test]
    fn another_team_other_filters_and_another_history_are_told_apart() {
        let cursors = cursors();
        let text = cursors.encode(&scope("team_1", "session.turn"), &Place::After(5));
        let decode = |s: Scope| cursors.decode(&s, &text);
        assert_eq!(decode(scope("team_2", "session.turn")), Err(CursorFault::Foreign));
        assert_eq!(decode(scope("team_1", "session.ended")), Err(CursorFault::Foreign));
        assert_eq!(decode(scope("team_1", "session.turn,session.turn")), Ok(Place::After(5)));
        let restored = Cursors::new(cursors.keys.clone(), "another history");
        assert_eq!(restored.decode(&scope("team_1", "session.turn"), &text), Err(CursorFault::Restored));
    }

    #[test]
    fn each_changed_bit_is_a_forgery() {
        let (cursors, scope) = (cursors(), scope("team_1", "session.turn"));
        let good = URL_SAFE_NO_PAD.decode(cursors.encode(&scope, &Place::After(5))).unwrap();
        for i in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[i / 8] ^= 1 << (i % 8);
            let text = URL_SAFE_NO_PAD.encode(bad);
            assert_eq!(cursors.decode(&scope, &text), Err(CursorFault::Malformed), "bit {i}");
        }
        for bad in ["", "0", "five", "====", &"A".repeat(5000)] {
            assert_eq!(cursors.decode(&scope, bad), Err(CursorFault::Malformed), "{bad}");
        }
    }
}
