//! `joining.json`: what an interrupted joining needs to go on: the key under which a lost answer is asked
//! for again, and the context of a code that was spent while the machine was not enrolled yet. Neither
//! the code nor a secret is in it.

use super::JoinFault;
use crate::config::Server;
use crate::contexts::Context;
use crate::home::Home;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use teamlamp_client::IdempotencyKey;
use teamlamp_clock::{Chance, Clock};
use teamlamp_wire::Millis;
use teamlamp_wire::id::ServerId;
use teamlamp_wire::invitation::Code;
use teamlamp_wire::limits::IDEMPOTENCY_MS;

const FILE: &str = "joining.json";

/// What the person wants: the same wish again is the same joining.
pub(super) struct Wish {
    pub(super) server: Server,
    pub(super) code: Code,
    pub(super) person: String,
    pub(super) team_name: Option<String>,
}

impl Wish {
    fn digest(&self) -> String {
        let Self { server, code, person, team_name } = self;
        let parts =
            [server.origin.as_str(), code.canonical(), person, team_name.as_deref().unwrap_or_default()];
        Sha256::digest(parts.join("\0")).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    key: String,
    at: Millis,
    accepted: Option<Context>,
}

type Entries = BTreeMap<String, Entry>;

/// One joining that is under way.
pub(super) struct Pending {
    home: Home,
    digest: String,
    key: String,
}

impl Pending {
    /// The joining of a wish: begun now, or within the last day.
    pub(super) fn of(home: &Home, wish: &Wish, clock: &Clock, chance: &Chance) -> Result<Self, JoinFault> {
        let (digest, now) = (wish.digest(), clock.now_ms());
        let _lock = lock(home)?;
        let mut entries = load(home)?;
        // A spent code whose machine was not enrolled keeps its context for as long as it takes.
        entries.retain(|_, e| e.accepted.is_some() || (now - e.at).abs() < IDEMPOTENCY_MS);
        let fresh = || Entry { key: format!("{:032x}", chance.bits()), at: now, accepted: None };
        let key = entries.entry(digest.clone()).or_insert_with(fresh).key.clone();
        save(home, &entries)?;
        Ok(Self { home: home.clone(), digest, key })
    }

    /// The joining of a server whose code was spent and that was not finished.
    pub(super) fn of_server(home: &Home, server: &ServerId) -> Result<Option<(Self, Context)>, JoinFault> {
        let found = load(home)?.into_iter().find_map(|(digest, entry)| {
            let context = entry.accepted.filter(|context| context.server_id == *server)?;
            Some((Self { home: home.clone(), digest, key: entry.key }, context))
        });
        Ok(found)
    }

    /// The key of the acceptance by somebody new to the server.
    pub(super) fn key(&self) -> Result<IdempotencyKey, JoinFault> {
        key(&self.key)
    }

    /// The key of the acceptance by somebody whom the server knows.
    pub(super) fn key_as_known(&self) -> Result<IdempotencyKey, JoinFault> {
        key(&format!("{}-known", self.key))
    }

    /// The context, where the code was spent before.
    pub(super) fn accepted(&self) -> Result<Option<Context>, JoinFault> {
        Ok(load(&self.home)?.remove(&self.digest).and_then(|entry| entry.accepted))
    }

    /// The code is spent and the credential is kept.
    pub(super) fn accept(&self, context: &Context) -> Result<(), JoinFault> {
        let _lock = lock(&self.home)?;
        let mut entries = load(&self.home)?;
        if let Some(entry) = entries.get_mut(&self.digest) {
            entry.accepted = Some(context.clone());
        }
        save(&self.home, &entries)
    }

    /// It is done.
    pub(super) fn finish(&self) -> Result<(), JoinFault> {
        let _lock = lock(&self.home)?;
        let mut entries = load(&self.home)?;
        entries.remove(&self.digest);
        if entries.is_empty() {
            self.home.remove(FILE).map_err(JoinFault::Pending)
        } else {
            save(&self.home, &entries)
        }
    }
}

fn key(text: &str) -> Result<IdempotencyKey, JoinFault> {
    IdempotencyKey::kept(text).ok_or_else(|| JoinFault::Pending(std::io::ErrorKind::InvalidData.into()))
}

/// Two joinings of one home change the file one after the other.
fn lock(home: &Home) -> Result<std::fs::File, JoinFault> {
    home.lock("joining.lock").map_err(JoinFault::Pending)
}

fn load(home: &Home) -> Result<Entries, JoinFault> {
    let bytes = home.read(FILE).map_err(JoinFault::Pending)?;
    // A damaged file is no reason not to join: what it could have gone on with is begun anew.
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
}

fn save(home: &Home, entries: &Entries) -> Result<(), JoinFault> {
    let bytes = serde_json::to_vec(entries).map_err(|fault| JoinFault::Pending(fault.into()))?;
    home.write(FILE, &bytes).map_err(JoinFault::Pending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::tests::context;

    fn wish(code: u64) -> Wish {
        Wish {
            server: Server { origin: "http://127.0.0.1:1".into(), fingerprint: None },
            code: Code::from_random(code),
            person: "Ada".into(),
            team_name: None,
        }
    }

    #[test]
    fn the_same_wish_keeps_its_key_for_a_day_and_the_file_holds_no_code() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let (clock, chance) = (Clock::system(), Chance::system());
        let pending = |code, late| {
            let clock = clock.skewed_by(late);
            Pending::of(&home, &wish(code), &clock, &chance).unwrap().key().unwrap()
        };
        let first = pending(7, 0);
        assert_eq!(pending(7, 3_600_000), first);
        assert_ne!(pending(8, 0), first);
        assert_ne!(pending(7, 2 * IDEMPOTENCY_MS), first);
        let text = String::from_utf8(home.read(FILE).unwrap().unwrap()).unwrap();
        assert!(!text.contains(wish(7).code.canonical()) && !text.contains(&wish(7).code.to_string()));
    }

    #[test]
    fn joinings_at_the_same_time_lose_nothing_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let begin = |code| {
            let (clock, chance) = (Clock::system(), Chance::system());
            Pending::of(&home, &wish(code), &clock, &chance).unwrap().accept(&context("a")).unwrap();
        };
        std::thread::scope(|all| (0..8).for_each(|code| drop(all.spawn(move || begin(code)))));
        assert_eq!(load(&home).unwrap().into_values().filter(|e| e.accepted.is_some()).count(), 8);
    }

    #[test]
    fn a_spent_code_is_gone_on_with_until_it_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let (clock, chance) = (Clock::system(), Chance::system());
        let pending = |late| Pending::of(&home, &wish(7), &clock.skewed_by(late), &chance).unwrap();
        assert_eq!(pending(0).accepted().unwrap(), None);
        pending(0).accept(&context("a")).unwrap();
        assert_eq!(pending(3 * IDEMPOTENCY_MS).accepted().unwrap().unwrap().id, "a");
        pending(0).finish().unwrap();
        assert!(!home.path(FILE).exists());
    }
}
