//! The simulated person's keyring: the connector's own one in memory, whose every secret is kept in mind
//! so that logs and files can be searched for it.

use crate::record::Record;
use secrecy::{ExposeSecret, SecretString};
use teamlamp_connector::MemoryKeyring;
use teamlamp_connector::custody::{Fault, Keyring};

/// A keyring that outlives the crashes of its machine.
#[derive(Clone, Debug)]
pub struct SimKeyring {
    /// What it keeps.
    pub memory: MemoryKeyring,
    record: Record,
}

impl SimKeyring {
    /// An empty keyring.
    pub fn new(record: &Record) -> Self {
        Self { memory: MemoryKeyring::default(), record: record.clone() }
    }
}

impl Keyring for SimKeyring {
    fn read(&self, account: &str) -> Result<Option<SecretString>, Fault> {
        self.memory.read(account)
    }
    fn write(&self, account: &str, secret: &SecretString) -> Result<(), Fault> {
        self.record.secret(secret.expose_secret());
        self.memory.write(account, secret)
    }
    fn forget(&self, account: &str) -> Result<(), Fault> {
        self.memory.forget(account)
    }
    fn unlock(&self) -> Result<(), Fault> {
        self.memory.unlock()
    }
    fn may_hang(&self) -> bool {
        false
    }
}
