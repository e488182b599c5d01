//! How many streams may be open: of one install, and of one credential (spec 03, rule 8).

use crate::error::ApiError;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_wire::id::{CredentialId, MachineId};
use teamlamp_wire::limits::{STREAMS_PER_CREDENTIAL, STREAMS_PER_INSTALL};

const RETRY_AFTER_SECONDS: u64 = 30;

type Counts = BTreeMap<CredentialId, BTreeMap<Option<MachineId>, usize>>;

/// The open streams of every install. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<Mutex<Counts>>);

/// One open stream; dropping it gives its place back.
#[derive(Debug)]
pub struct Place {
    places: Places,
    credential: CredentialId,
    machine: Option<MachineId>,
}

impl Places {
    /// Takes a place for a stream of the install (credential, machine).
    ///
    /// # Errors
    /// `rate_limited` where the install or its credential has as many as it may.
    pub fn take(&self, credential: &CredentialId, machine: Option<&MachineId>) -> Result<Place, ApiError> {
        let machine = machine.cloned();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = counts.get(credential);
        let of_install = held.and_then(|h| h.get(&machine)).copied().unwrap_or(0);
        let of_credential: usize = held.map_or(0, |h| h.values().sum());
        if of_install >= STREAMS_PER_INSTALL || of_credential >= STREAMS_PER_CREDENTIAL {
            let details = json!({ "streams_per_install": STREAMS_PER_INSTALL, "machine": machine });
            let message = "Too many streams of this install are open: close one, or wait.";
            return Err(ApiError::rate_limited(message, RETRY_AFTER_SECONDS, details));
        }
        *counts.entry(credential.clone()).or_default().entry(machine.clone()).or_default() += 1;
        Ok(Place { places: self.clone(), credential: credential.clone(), machine })
    }

    /// How many streams are open.
    pub fn open(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().flat_map(BTreeMap::values).sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = counts.get_mut(&self.credential) else { return };
        if let Some(count) = held.get_mut(&self.machine) {
            *count -= 1;
        }
        held.retain(|_, count| *count > 0);
        if held.is_empty() {
            counts.remove(&self.credential);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_has_ten_places_and_a_credential_forty() {
        let places = Places::default();
        let credential = CredentialId::from("cred_1");
        let machine = |n: usize| MachineId::from(format!("mach_{n}"));
        let mut held = Vec::new();
        for n in 0..4 {
            for _ in 0..10 {
                held.push(places.take(&credential, Some(&machine(n))).unwrap());
            }
            let full = places.take(&credential, Some(&machine(n))).unwrap_err();
            let details = full.body.details.clone().unwrap();
            assert_eq!((full.status, full.retry_after_seconds), (429, Some(30)));
            assert_eq!(
                details,
                json!({"retry_after_seconds": 30, "streams_per_install": 10, "machine": machine(n)})
            );
        }
        let full = places.take(&credential, None).unwrap_err();
        assert_eq!(full.into_refusal().body.details.unwrap()["machine"], serde_json::Value::Null);
        assert!(places.take(&"cred_2".into(), None).is_ok(), "another's places are not counted");
        held.pop();
        assert!(places.take(&credential, Some(&machine(3))).is_ok(), "a place that is given back is free");
        drop(held);
        assert_eq!(places.open(), 0);
    }
}
