//! A keyring in memory, for tests and the simulation: keeps what it is given, or fails as it is told.

use super::{Fault, Keyring};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Secrets of a simulated person. Clones are the same keyring, so that it outlives a simulated crash.
#[derive(Clone, Default)]
pub struct MemoryKeyring(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    secrets: BTreeMap<String, SecretString>,
    fault: Option<Fault>,
}

impl std::fmt::Debug for MemoryKeyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryKeyring(***)")
    }
}

impl MemoryKeyring {
    /// From now on every call fails like this, or none any more.
    pub fn fail(&self, fault: Option<Fault>) {
        self.inner().fault = fault;
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.inner().secrets.is_empty()
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<std::sync::MutexGuard<'_, Inner>, Fault> {
        let inner = self.inner();
        match &inner.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(inner),
        }
    }
}

impl Keyring for MemoryKeyring {
    fn read(&self, account: &str) -> Result<Option<SecretString>, Fault> {
        Ok(self.open()?.secrets.get(account).cloned())
    }
    fn write(&self, account: &str, secret: &SecretString) -> Result<(), Fault> {
        self.open()?.secrets.insert(account.to_owned(), secret.clone());
        Ok(())
    }
    fn forget(&self, account: &str) -> Result<(), Fault> {
        self.open()?.secrets.remove(account);
        Ok(())
    }
    fn unlock(&self) -> Result<(), Fault> {
        let mut inner = self.inner();
        if inner.fault == Some(Fault::Locked) {
            inner.fault = None;
        }
        inner.fault.clone().map_or(Ok(()), Err)
    }
    fn may_hang(&self) -> bool {
        false
    }
}
