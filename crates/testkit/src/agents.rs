//! The coding agents of one simulated machine: which native sessions live and what they do, told to the
//! connector the way its watchers tell it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use teamlamp_clock::{Chance, Clock};
use teamlamp_connector::sessions::{
    ENDED_SHOWN_MS, Found, FoundRoot, FoundSession, PrivateTitle, SessionKey,
};
use teamlamp_wire::session::Turn;
use tokio::sync::watch;

/// What an agent may do next.
const TURNS: [Turn; 4] = [Turn::Working, Turn::WaitingApproval, Turn::WaitingInput, Turn::Idle];
/// Sessions that live at once on one machine.
const LIVE: usize = 5;
/// Words of a prompt, which must not leave the machine.
pub const TITLE: &str = "plan of the unannounced merger";

/// The agents of one machine. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Agents {
    machine: String,
    clock: Clock,
    found: Arc<watch::Sender<Arc<Found>>>,
    count: Arc<Mutex<u64>>,
}

impl Agents {
    /// No agent yet.
    pub fn new(machine: &str, clock: Clock) -> Self {
        let found = Found { settled: true, ..Found::default() };
        Self {
            machine: machine.to_owned(),
            clock,
            found: Arc::new(watch::Sender::new(Arc::new(found))),
            count: Arc::default(),
        }
    }

    /// What the connector reads.
    pub fn watch(&self) -> watch::Receiver<Arc<Found>> {
        self.found.subscribe()
    }

    /// The sessions that live, with what they do.
    pub fn live(&self) -> BTreeMap<SessionKey, Turn> {
        let found = self.found.borrow().clone();
        found.sessions.iter().filter(|(_, s)| s.live).map(|(k, s)| (k.clone(), s.turn)).collect()
    }

    /// One of them does something; what, in a word.
    pub fn act(&self, chance: &Chance) -> String {
        self.forget_old();
        let live: Vec<SessionKey> = self.live().into_keys().collect();
        if live.is_empty() || (live.len() < LIVE && chance.percent(20)) {
            return self.begin(chance);
        }
        let which = usize::try_from(chance.below(live.len() as u64)).unwrap_or(0);
        if chance.percent(15) {
            self.end(&live[which]);
            return format!("ends {}", live[which].native_id);
        }
        let turn = TURNS[usize::try_from(chance.below(TURNS.len() as u64)).unwrap_or(0)];
        self.change(&live[which], |session| session.turn = turn);
        format!("{} is {}", live[which].native_id, turn.as_str())
    }

    fn begin(&self, chance: &Chance) -> String {
        let number = {
            let mut count = self.count();
            *count += 1;
            *count
        };
        let harness = if chance.percent(50) { "claude-code" } else { "codex" };
        let key = SessionKey { harness, native_id: format!("{}-{number}", self.machine) };
        let now = self.clock.now_ms();
        let root = chance.below(3);
        let session = FoundSession {
            cwd: PathBuf::from(format!("/home/dev/project-{root}")),
            root: FoundRoot { id: format!("root_{:032x}", root + 1), name: format!("project-{root}") },
            title: Some(PrivateTitle::new(TITLE)),
            model: Some("model-1".into()),
            started_at: Some(now),
            turn: Turn::Working,
            since: Some(now),
            confirmed: true,
            live: true,
            pid: None,
        };
        let what = format!("begins {}", key.native_id);
        self.found.send_modify(|found| {
            Arc::make_mut(found).sessions.insert(key, session);
        });
        what
    }

    /// All of them end: the machine lost its power.
    pub fn end_all(&self) {
        self.live().keys().for_each(|key| self.end(key));
    }

    fn end(&self, key: &SessionKey) {
        self.change(key, |session| (session.turn, session.live) = (Turn::Ended, false));
    }

    fn change(&self, key: &SessionKey, change: impl FnOnce(&mut FoundSession)) {
        let now = self.clock.now_ms();
        self.found.send_modify(|found| {
            if let Some(session) = Arc::make_mut(found).sessions.get_mut(key) {
                change(session);
                session.since = Some(now);
            }
        });
    }

    /// What ended a while ago is no longer found.
    fn forget_old(&self) {
        let old = self.clock.now_ms() - ENDED_SHOWN_MS;
        self.found.send_if_modified(|found| {
            let before = found.sessions.len();
            let keep = |session: &FoundSession| session.live || session.since.is_none_or(|since| since > old);
            if found.sessions.values().all(keep) {
                return false;
            }
            Arc::make_mut(found).sessions.retain(|_, session| keep(session));
            found.sessions.len() < before
        });
    }

    fn count(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
