//! Where secrets are kept: the operating system's keyring, or, by an explicit and remembered choice, a
//! private file in the home. Tells apart what can be wrong with a keyring, and bounds every call of it.

mod file;
mod memory;
mod os;
mod worker;

pub use file::FileKeyring;
pub use memory::MemoryKeyring;
pub use os::OsKeyring;

use crate::home::Home;
use crate::settings::{Settings, SettingsFault};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use teamlamp_clock::{Chance, Clock};
use worker::Worker;

/// How long a call of a keyring may take: they hang, on a prompt that nobody sees for instance.
const CALL: Duration = Duration::from_secs(10);
/// How long a person may take to answer the keyring's own prompt.
const PROMPT: Duration = Duration::from_secs(120);

/// Where a context's secrets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The operating system's keyring.
    Keyring,
    /// A file in the home, mode 0600.
    File,
}

/// Which secret of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The person's credential.
    User,
    /// This machine's credential.
    Machine,
    /// The random key by which an enrollment finds the same machine again.
    Enrollment,
}

impl Kind {
    const ALL: [Self; 3] = [Self::User, Self::Machine, Self::Enrollment];

    fn account(self, context: &str) -> String {
        let kind = match self {
            Self::User => "user",
            Self::Machine => "machine",
            Self::Enrollment => "enrollment",
        };
        format!("{context}/{kind}")
    }
}

/// What is wrong with a keyring, and what a person can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is none: no session bus, no service on it, or no keyring in it.
    #[error(
        "There is no keyring on this computer ({0}). Start one (GNOME Keyring or KWallet), or allow a private file instead (TEAMLAMP_CUSTODY=file)."
    )]
    Absent(String),
    /// It is there and closed. It is waited for: a locked keyring is no reason to enroll again.
    #[error("The keyring is locked. Unlock it, then it goes on by itself.")]
    Locked,
    /// The person or the system refused.
    #[error("The keyring refused ({0}). Allow Teamlamp to use it, then try again.")]
    Denied(String),
    /// It did not answer in time.
    #[error(
        "The keyring does not answer. Perhaps it asks for its password in a window: answer it, then try again."
    )]
    Hung,
    /// It answered something else than asked for.
    #[error(
        "The keyring failed ({0}). Try again; if it stays so, allow a private file instead (TEAMLAMP_CUSTODY=file)."
    )]
    Broken(String),
    /// The private file, not the keyring, can't be used.
    #[error("The file {0}. Mend its owner and permissions, and that its disk has room.")]
    File(String),
}

/// A store of secrets. Calls may block; [`Keyring::may_hang`] says whether for long. It leaves out
/// listing: what is kept is known by its account.
pub trait Keyring: Send + Sync + std::fmt::Debug {
    /// The secret of an account; `None` only where it is certain that there is none.
    fn read(&self, account: &str) -> Result<Option<SecretString>, Fault>;
    /// Keeps a secret, in place of an older one.
    fn write(&self, account: &str, secret: &SecretString) -> Result<(), Fault>;
    /// Forgets a secret; one that is not there is no fault.
    fn forget(&self, account: &str) -> Result<(), Fault>;
    /// Asks the person to open the store, where that can be asked.
    fn unlock(&self) -> Result<(), Fault>;
    /// Whether calls must be bounded by a thread of their own.
    fn may_hang(&self) -> bool;
}

/// The two places of one install and which of them is chosen. Clones are the same custody.
#[derive(Clone, Debug)]
pub struct Custody {
    keyring: Arc<Worker>,
    file: Arc<Worker>,
    chosen: Arc<Mutex<Place>>,
    settings: Option<Settings>,
    clock: Clock,
    chance: Chance,
}

impl Custody {
    /// The custody of a home: `wish` is what `TEAMLAMP_CUSTODY` says (`keyring` or `file`), else the
    /// remembered choice counts, else the keyring.
    pub fn of(home: &Home, wish: Option<&str>, clock: Clock, chance: Chance) -> Result<Self, String> {
        let settings = Settings::of(home);
        let remembered = settings.load().map_err(|fault| fault.to_string())?.custody;
        let chosen = match wish.filter(|w| !w.is_empty()) {
            None => remembered.unwrap_or(Place::Keyring),
            Some("keyring") => Place::Keyring,
            Some("file") => Place::File,
            Some(_) => {
                return Err("TEAMLAMP_CUSTODY is neither `keyring` nor `file`: set it to one of them.".into());
            }
        };
        Ok(Self {
            keyring: Arc::new(Worker::new(Arc::new(OsKeyring))),
            file: Arc::new(Worker::new(Arc::new(FileKeyring::of(home)))),
            chosen: Arc::new(Mutex::new(chosen)),
            settings: Some(settings),
            clock,
            chance,
        })
    }

    /// A custody whose keyring is this one, for tests and simulation: its file place is the same.
    pub fn with(keyring: Arc<dyn Keyring>, clock: Clock, chance: Chance) -> Self {
        let worker = Arc::new(Worker::new(keyring));
        Self {
            keyring: worker.clone(),
            file: worker,
            chosen: Arc::new(Mutex::new(Place::Keyring)),
            settings: None,
            clock,
            chance,
        }
    }

    /// Where new secrets are put.
    pub fn chosen(&self) -> Place {
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses where new secrets are put, and remembers it. What is kept already stays where it is.
    pub fn choose(&self, place: Place) -> Result<(), SettingsFault> {
        if let Some(settings) = &self.settings {
            settings.change(|s| s.custody = Some(place))?;
        }
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = place;
        Ok(())
    }

    /// Reads a secret of a context.
    pub async fn read(&self, place: Place, context: &str, kind: Kind) -> Result<Option<SecretString>, Fault> {
        let account = kind.account(context);
        self.worker(place).call(&self.clock, CALL, move |keyring| keyring.read(&account)).await
    }

    /// Keeps a secret of a context.
    pub async fn write(
        &self,
        place: Place,
        context: &str,
        kind: Kind,
        secret: SecretString,
    ) -> Result<(), Fault> {
        let account = kind.account(context);
        self.worker(place).call(&self.clock, CALL, move |keyring| keyring.write(&account, &secret)).await
    }

    /// Forgets all secrets of a context; goes on after a fault, and tells the first one.
    pub async fn forget(&self, place: Place, context: &str) -> Result<(), Fault> {
        let mut told = Ok(());
        for kind in Kind::ALL {
            let account = kind.account(context);
            let forgotten =
                self.worker(place).call(&self.clock, CALL, move |keyring| keyring.forget(&account)).await;
            told = told.and(forgotten);
        }
        told
    }

    /// Proves that the chosen place keeps what it is given, before a credential is made that could not be
    /// kept: writes a probe, reads it back, forgets it.
    pub async fn prove(&self) -> Result<Place, Fault> {
        let place = self.chosen();
        let probe = format!("{:032x}", self.chance.bits());
        let account = format!("probe-{probe}/probe");
        self.worker(place)
            .call(&self.clock, CALL, move |keyring| {
                keyring.write(&account, &SecretString::from(probe.clone()))?;
                let back = keyring.read(&account);
                keyring.forget(&account)?;
                match back? {
                    Some(kept) if kept.expose_secret() == probe => Ok(()),
                    _ => Err(Fault::Broken("it does not keep what it is given".into())),
                }
            })
            .await?;
        Ok(place)
    }

    /// Has the keyring ask its person to open it.
    pub async fn unlock(&self) -> Result<(), Fault> {
        self.keyring.call(&self.clock, PROMPT, |keyring| keyring.unlock()).await
    }

    fn worker(&self, place: Place) -> &Worker {
        match place {
            Place::Keyring => &self.keyring,
            Place::File => &self.file,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custody(memory: &MemoryKeyring) -> Custody {
        Custody::with(Arc::new(memory.clone()), Clock::starting_at(0), Chance::seeded(1))
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_is_kept_by_context_and_kind_and_forgotten_as_a_whole() {
        let memory = MemoryKeyring::default();
        let custody = custody(&memory);
        for (context, kind) in [("a", Kind::User), ("a", Kind::Machine), ("b", Kind::User)] {
            custody.write(Place::Keyring, context, kind, format!("{context}{kind:?}").into()).await.unwrap();
        }
        custody.forget(Place::Keyring, "a").await.unwrap();
        assert!(custody.read(Place::Keyring, "a", Kind::User).await.unwrap().is_none());
        let kept = custody.read(Place::Keyring, "b", Kind::User).await.unwrap().unwrap();
        assert_eq!(kept.expose_secret(), "bUser");
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_is_kept_and_leaves_nothing() {
        let memory = MemoryKeyring::default();
        assert_eq!(custody(&memory).prove().await, Ok(Place::Keyring));
        assert!(memory.is_empty());
        memory.fail(Some(Fault::Locked));
        assert_eq!(custody(&memory).prove().await, Err(Fault::Locked));
    }

    #[tokio::test]
    async fn the_choice_of_the_file_is_remembered_and_never_made_in_silence() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let of = |wish| Custody::of(&home, wish, Clock::system(), Chance::system());
        assert_eq!(of(None).unwrap().chosen(), Place::Keyring);
        of(None).unwrap().choose(Place::File).unwrap();
        assert_eq!(of(None).unwrap().chosen(), Place::File);
        assert_eq!(of(Some("keyring")).unwrap().chosen(), Place::Keyring);
        assert!(of(Some("paper")).unwrap_err().contains("TEAMLAMP_CUSTODY"));
    }

    #[test]
    fn every_fault_says_what_to_do() {
        for fault in [
            Fault::Absent("x".into()),
            Fault::Locked,
            Fault::Denied("x".into()),
            Fault::Hung,
            Fault::Broken("x".into()),
        ] {
            let said = fault.to_string();
            assert!(["again", "Unlock", "TEAMLAMP_CUSTODY"].iter().any(|word| said.contains(word)), "{said}");
        }
    }
}
