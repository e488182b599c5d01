//! The operating system's keyring through the `keyring` crate. What its errors mean is decided here, and
//! their own text is never shown whole: one of them holds the secret.

use super::{Fault, Keyring};
use keyring::{Entry, Error};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

const SERVICE: &str = "dev.teamlamp";

/// macOS Keychain, Windows Credential Manager, or the Secret Service of the session bus.
#[derive(Clone, Copy, Debug)]
pub struct OsKeyring;

impl OsKeyring {
    fn entry(account: &str) -> Result<Entry, Fault> {
        // A closed keyring is noticed before an entry is asked for: the crate would have the service
        // prompt for its password, at every try.
        platform::check_open()?;
        Entry::new(SERVICE, account).map_err(meaning)
    }
}

impl Keyring for OsKeyring {
    fn read(&self, account: &str) -> Result<Option<SecretString>, Fault> {
        match Self::entry(account)?.get_password() {
            Ok(secret) => Ok(Some(SecretString::from(Zeroizing::new(secret).as_str()))),
            Err(Error::NoEntry) => Ok(None),
            Err(fault) => Err(meaning(fault)),
        }
    }
    fn write(&self, account: &str, secret: &SecretString) -> Result<(), Fault> {
        Self::entry(account)?.set_password(secret.expose_secret()).map_err(meaning)
    }
    fn forget(&self, account: &str) -> Result<(), Fault> {
        match Self::entry(account)?.delete_credential() {
            Ok(()) | Err(Error::NoEntry) => Ok(()),
            Err(fault) => Err(meaning(fault)),
        }
    }
    fn unlock(&self) -> Result<(), Fault> {
        platform::unlock()
    }
    fn may_hang(&self) -> bool {
        true
    }
}

fn meaning(fault: Error) -> Fault {
    match fault {
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => platform::meaning(cause),
        Error::NoEntry => Fault::Broken("an entry vanished".into()),
        Error::BadEncoding(_) => Fault::Broken("what it holds is not ours".into()),
        Error::Ambiguous(all) => Fault::Broken(format!("it holds {} entries of one name", all.len())),
        Error::TooLong(name, _) | Error::Invalid(name, _) => Fault::Broken(format!("it refuses the {name}")),
        _ => Fault::Broken("an unknown fault".into()),
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use super::Fault;
    use dbus_secret_service::{Collection, EncryptionType, Error, SecretService};

    type Cause = Box<dyn std::error::Error + Send + Sync>;

    pub(super) fn meaning(cause: Cause) -> Fault {
        match cause.downcast::<Error>() {
            Ok(fault) => of_service(&fault),
            Err(other) => Fault::Broken(other.to_string()),
        }
    }

    fn of_service(fault: &Error) -> Fault {
        match fault {
            Error::Locked | Error::Prompt => Fault::Locked,
            // No keyring that outlives a boot: the service may offer a volatile one, which is no custody.
            Error::NoResult => Fault::Absent("the service has no default keyring".into()),
            Error::Unavailable => Fault::Absent("no session bus, or no service on it".into()),
            Error::Dbus(fault) => {
                match fault.name().unwrap_or_default().rsplit('.').next().unwrap_or_default() {
                    "AccessDenied" | "AuthFailed" => Fault::Denied("the session bus".into()),
                    "NoReply" | "Timeout" | "TimedOut" => Fault::Hung,
                    name => Fault::Absent(format!("the session bus says {name}")),
                }
            }
            other => Fault::Broken(other.to_string()),
        }
    }

    fn with_default<R>(then: impl FnOnce(&Collection<'_>) -> Result<R, Error>) -> Result<R, Fault> {
        // Nothing secret goes over this connection.
        let service = SecretService::connect(EncryptionType::Plain).map_err(|f| of_service(&f))?;
        service.get_default_collection().and_then(|c| then(&c)).map_err(|f| of_service(&f))
    }

    pub(super) fn check_open() -> Result<(), Fault> {
        if with_default(|c| c.is_locked())? { Err(Fault::Locked) } else { Ok(()) }
    }

    pub(super) fn unlock() -> Result<(), Fault> {
        with_default(|c| c.unlock())
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::Fault;

    pub(super) fn meaning(cause: Box<dyn std::error::Error + Send + Sync>) -> Fault {
        Fault::Denied(cause.to_string())
    }

    pub(super) fn check_open() -> Result<(), Fault> {
        Ok(())
    }

    /// macOS and Windows ask by themselves when an entry is used.
    pub(super) fn unlock() -> Result<(), Fault> {
        Ok(())
    }
}
