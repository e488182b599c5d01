//! Secrets in a file of the home that only its person may read (0600): for machines without a keyring,
//! and only where the person chose it.

use super::{Fault, Keyring};
use crate::home::Home;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;

const FILE: &str = "secrets.json";

/// The file `secrets.json` of a home.
#[derive(Clone, Debug)]
pub struct FileKeyring(Home);

type Secrets = BTreeMap<String, Zeroizing<String>>;

impl FileKeyring {
    /// The file of a home; made by the first secret.
    pub fn of(home: &Home) -> Self {
        Self(home.clone())
    }

    fn fault(&self, what: &str) -> Fault {
        Fault::File(format!("{} {what}", self.0.path(FILE).display()))
    }

    fn load(&self) -> Result<Secrets, Fault> {
        let Some(bytes) =
            self.0.read(FILE).map_err(|cause| self.fault(&format!("can't be read ({cause})")))?
        else {
            return Ok(Secrets::new());
        };
        let bytes = Zeroizing::new(bytes);
        // What the parser says is left out: it might quote the file.
        let secrets: BTreeMap<String, String> =
            serde_json::from_slice(&bytes).map_err(|_| self.fault("is damaged"))?;
        Ok(secrets.into_iter().map(|(account, secret)| (account, Zeroizing::new(secret))).collect())
    }

    fn change(&self, change: impl FnOnce(&mut Secrets)) -> Result<(), Fault> {
        let _lock =
            self.0.lock("secrets.lock").map_err(|cause| self.fault(&format!("can't be locked ({cause})")))?;
        // What a write that was cut off left is a secret too, and nothing of it may stay behind.
        self.0.sweep("secrets").map_err(|cause| self.fault(&format!("can't be tidied ({cause})")))?;
        let mut secrets = self.load()?;
        change(&mut secrets);
        let plain: BTreeMap<&str, &str> = secrets.iter().map(|(a, s)| (a.as_str(), s.as_str())).collect();
        let bytes = serde_json::to_vec_pretty(&plain).map_err(|_| self.fault("can't be written"))?;
        let bytes = Zeroizing::new(bytes);
        self.0.write(FILE, &bytes).map_err(|cause| self.fault(&format!("can't be written ({cause})")))
    }
}

impl Keyring for FileKeyring {
    fn read(&self, account: &str) -> Result<Option<SecretString>, Fault> {
        Ok(self.load()?.get(account).map(|secret| SecretString::from(secret.as_str())))
    }
    fn write(&self, account: &str, secret: &SecretString) -> Result<(), Fault> {
        self.change(|secrets| {
            secrets.insert(account.to_owned(), Zeroizing::new(secret.expose_secret().to_owned()));
        })
    }
    fn forget(&self, account: &str) -> Result<(), Fault> {
        if self.load()?.contains_key(account) {
            self.change(|secrets| drop(secrets.remove(account)))
        } else {
            Ok(())
        }
    }
    fn unlock(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn may_hang(&self) -> bool {
        false
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_private_and_survives_its_program() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        FileKeyring::of(&home).write("a/user", &"s1".into()).unwrap();
        FileKeyring::of(&home).write("b/user", &"s2".into()).unwrap();
        let mode = std::fs::metadata(home.path(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = FileKeyring::of(&home);
        assert_eq!(again.read("a/user").unwrap().unwrap().expose_secret(), "s1");
        std::fs::write(home.path("secrets.json.new-7-0"), "s1 half").unwrap();
        again.forget("a/user").unwrap();
        assert!(!home.path("secrets.json.new-7-0").exists(), "a write that was cut off");
        assert!(again.read("a/user").unwrap().is_none() && again.read("b/user").unwrap().is_some());
    }

    #[test]
    fn a_damaged_file_is_a_fault_that_quotes_nothing_and_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        home.write(FILE, b"{\"a\":\"hidden-thing\",").unwrap();
        let fault = FileKeyring::of(&home).write("b", &"s".into()).unwrap_err();
        assert!(!format!("{fault} {fault:?}").contains("hidden-thing"), "{fault}");
        assert!(home.read(FILE).unwrap().unwrap().starts_with(b"{\"a\""));
    }
}
