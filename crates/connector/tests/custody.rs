//! Custody against a real keyring daemon on a real session bus, both of this test alone: open, closed,
//! without a keyring, without a service, without a bus.
//!
//! The bus is found through the environment of a process, so each situation runs a part of this file
//! (the ignored tests of `inside`) as a process of its own, whose environment is made for it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test at its place")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use teamlamp_clock::Clock;

const PASSWORD: &str = "the login password";
/// No situation takes longer, on however slow a machine.
const BOUND: Duration = Duration::from_secs(120);

/// A bus that starts no service by itself.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:dir=FOLDER</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>"#;

/// A person's session: a home, a runtime folder, a bus, and perhaps a keyring daemon. Ends with the test.
struct Session {
    folder: tempfile::TempDir,
    address: String,
    processes: Vec<Child>,
}

impl Drop for Session {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Session {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let configuration = folder.path().join("bus.conf");
        std::fs::write(&configuration, BUS.replace("FOLDER", folder.path().to_str().unwrap())).unwrap();
        let mut bus = Command::new("dbus-daemon")
            .args(["--nofork", "--nopidfile", "--print-address"])
            .arg(format!("--config-file={}", configuration.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon is missing: install the Debian package dbus (scripts/setup does)");
        let mut address = String::new();
        BufReader::new(bus.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { folder, address: address.trim().to_owned(), processes: vec![bus] }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env("TEAMLAMP_HOME", self.folder.path().join("teamlamp"))
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address);
        command
    }

    /// Starts the daemon; with a password it makes and opens the login keyring.
    fn with_daemon(mut self, password: Option<&str>) -> Self {
        let mut command = self.command("gnome-keyring-daemon");
        command.args(["--foreground", "--components=secrets"]);
        if password.is_some() {
            command.arg("--unlock");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut daemon = command.spawn().expect(
            "gnome-keyring-daemon is missing: install the Debian package gnome-keyring (scripts/setup does)",
        );
        let mut input = daemon.stdin.take().unwrap();
        input.write_all(password.unwrap_or_default().as_bytes()).unwrap();
        drop(input);
        self.processes.push(daemon);
        self.wait_for_service();
        self
    }

    /// Waits until the service has its name on the bus.
    fn wait_for_service(&self) {
        let began = Clock::system().monotonic();
        loop {
            let asked = self
                .command("dbus-send")
                .args(["--session", "--print-reply", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus"])
                .args(["org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets"])
                .output()
                .expect("dbus-send is missing: install the Debian package dbus (scripts/setup does)");
            if String::from_utf8_lossy(&asked.stdout).contains("true") {
                return;
            }
            assert!(began.elapsed() < BOUND, "the keyring daemon does not come up");
            std::thread::yield_now();
        }
    }

    /// Opens the keyring as the next login does: with a daemon that has the password.
    fn log_in_again(mut self) -> Self {
        if let Some(mut daemon) = self.processes.pop() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
        self.with_daemon(Some(PASSWORD))
    }

    /// Runs a part of this file in the session.
    fn run(&self, part: &str) {
        run(self.command(std::env::current_exe().unwrap()), part);
    }
}

fn run(mut command: Command, part: &str) {
    let done = command.args(["--ignored", "--exact", &format!("inside::{part}")]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{part} failed:\n{said}");
}

#[test]
fn an_open_keyring_keeps_secrets_over_programs_and_forgets_them() {
    let session = Session::new().with_daemon(Some(PASSWORD));
    session.run("keeps");
    session.run("has_kept_and_forgets");
    session.run("has_nothing");
}

#[test]
fn a_closed_keyring_is_told_at_once_and_works_again_once_it_is_open() {
    let session = Session::new().with_daemon(Some(PASSWORD));
    session.run("keeps");
    session.run("closes_and_is_told_locked");
    session.log_in_again().run("has_kept_and_forgets");
}

#[test]
fn a_service_without_a_lasting_keyring_is_no_custody() {
    Session::new().with_daemon(None).run("is_absent");
}

#[test]
fn a_bus_without_a_service_has_no_keyring() {
    Session::new().run("is_absent");
}

#[test]
fn without_a_bus_there_is_no_keyring() {
    let session = Session::new();
    let mut nowhere = session.command(std::env::current_exe().unwrap());
    nowhere.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus");
    run(nowhere, "is_absent");
    let mut unset = session.command(std::env::current_exe().unwrap());
    unset.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("XDG_RUNTIME_DIR");
    run(unset, "is_absent");
}

#[test]
fn the_file_is_used_only_where_the_person_chose_it() {
    let session = Session::new();
    session.run("falls_back_only_by_choice");
    assert!(Path::new(&session.folder.path().join("teamlamp/secrets.json")).exists());
}

mod inside {
    use dbus_secret_service::{EncryptionType, SecretService};
    use secrecy::ExposeSecret;
    use teamlamp_clock::{Chance, Clock};
    use teamlamp_connector::custody::{Fault, Kind};
    use teamlamp_connector::{Custody, Home, Place};

    fn custody() -> Custody {
        let home = Home::locate(std::env::var_os("TEAMLAMP_HOME").as_deref()).unwrap();
        home.prepare().unwrap();
        Custody::of(&home, None, Clock::system(), Chance::system()).unwrap()
    }

    async fn kept(custody: &Custody, kind: Kind) -> Result<Option<String>, Fault> {
        let kept = custody.read(Place::Keyring, "acme-1", kind).await?;
        Ok(kept.map(|secret| secret.expose_secret().to_owned()))
    }

    #[tokio::test]
    #[ignore = "run by the tests above, in a session of their own"]
    async fn keeps() {
        let custody = custody();
        assert_eq!(custody.prove().await, Ok(Place::Keyring));
        custody.write(Place::Keyring, "acme-1", Kind::User, "older".into()).await.unwrap();
        custody.write(Place::Keyring, "acme-1", Kind::User, "s3cret".into()).await.unwrap();
        assert_eq!(kept(&custody, Kind::User).await, Ok(Some("s3cret".into())));
        assert_eq!(kept(&custody, Kind::Machine).await, Ok(None));
    }

    #[tokio::test]
    #[ignore = "run by the tests above, in a session of their own"]
    async fn has_kept_and_forgets() {
        let custody = custody();
        assert_eq!(kept(&custody, Kind::User).await, Ok(Some("s3cret".into())));
        custody.forget(Place::Keyring, "acme-1").await.unwrap();
        assert_eq!(kept(&custody, Kind::User).await, Ok(None));
    }

    #[tokio::test]
    #[ignore = "run by the tests above, in a session of their own"]
    async fn has_nothing() {
        assert_eq!(kept(&custody(), Kind::User).await, Ok(None));
        let service = SecretService::connect(EncryptionType::Plain).unwrap();
        let left = service.search_items([("service", "dev.teamlamp")].into()).unwrap();
        assert!(left.unlocked.is_empty() && left.locked.is_empty(), "probes leave nothing behind");
    }

    #[tokio::test]
    #[ignore = "run by the tests above, in a session of their own"]
    async fn closes_and_is_told_locked() {
        let service = SecretService::connect(EncryptionType::Plain).unwrap();
        service.get_default_collection().unwrap().lock().unwrap();
        let custody = custody();
        assert_eq!(custody.prove().await, Err(Fault::Locked));
        assert_eq!(kept(&custody, Kind::User).await, Err(Fault::Locked));
        // 'No entry' of a closed keyring would be taken for 'signed out'.
        assert_eq!(kept(&custody, Kind::Machine).await, Err(Fault::Locked));
        let written = custody.write(Place::Keyring, "acme-1", Kind::Machine, "x".into()).await;
        assert_eq!(written, Err(Fault::Locked));
        // Nobody can be asked for the password here: there is no display.
        assert_eq!(custody.unlock().await, Err(Fault::Locked));
    }

    #[tokio::test]
    #[ignore = "run by the tests above, in a session of their own"]
    async fn is_absent() {
        let custody = custody();
        for fault in [custody.prove().await.unwrap_err(), kept(&custody, Kind::User).await.unwrap_err()] {
            assert!(matches!(fault, Fault::Absent(_)), "{fault:?}");
            assert!(fault.to_string().contains("TEAMLAMP_CUSTODY=file"), "{fault}");
        }
    }

    #[tokio::test]
    #[ignore = "run by the tests above, in a session of their own"]
    async fn falls_back_only_by_choice() {
        let custody = custody();
        assert!(custody.prove().await.is_err(), "never in silence");
        custody.choose(Place::File).unwrap();
        assert_eq!(custody.prove().await, Ok(Place::File));
        custody.write(Place::File, "acme-1", Kind::User, "s3cret".into()).await.unwrap();
        assert_eq!(self::custody().chosen(), Place::File, "the choice is remembered");
    }
}
