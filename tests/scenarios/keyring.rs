//! Secrets in a real keyring on a session bus of the test's own: open, and locked.

use crate::home::Home;
use crate::wait::until;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

const PASSWORD: &str = "the login password";
/// What the person reads while it is locked.
const LOCKED: &str = "The keyring is locked. Unlock it";

const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:dir=FOLDER</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>"#;

/// A bus and a keyring daemon of one home. Both end with it.
struct Session {
    bus: Child,
    daemon: Option<Child>,
    environment: Vec<(String, String)>,
}

impl Drop for Session {
    fn drop(&mut self) {
        for process in self.daemon.iter_mut().chain([&mut self.bus]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Session {
    /// A person who has just logged in: the keyring is open.
    async fn open(home: &mut Home) -> Self {
        let folder = home.path().join("run");
        std::fs::create_dir(&folder).expect("the home can be written");
        let configuration = folder.join("bus.conf");
        let folder = folder.to_str().expect("scratch paths are plain");
        std::fs::write(&configuration, BUS.replace("FOLDER", folder)).expect("the home can be written");
        let mut bus = Command::new("dbus-daemon")
            .args(["--nofork", "--nopidfile", "--print-address"])
            .arg(format!("--config-file={}", configuration.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon is there: scripts/setup installs it");
        let mut address = String::new();
        BufReader::new(bus.stdout.take().expect("an output")).read_line(&mut address).expect("its address");
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        home.environment = vec![
            variable("DBUS_SESSION_BUS_ADDRESS", address.trim()),
            variable("XDG_RUNTIME_DIR", folder),
            variable("TEAMLAMP_CUSTODY", "keyring"),
        ];
        let mut environment = home.environment.clone();
        environment.push(variable("HOME", home.path().to_str().expect("scratch paths are plain")));
        let mut session = Self { bus, daemon: None, environment };
        session.log_in().await;
        session
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").envs(self.environment.iter().cloned());
        command
    }

    /// Opens the keyring, as a login does.
    async fn log_in(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().expect("it runs");
            daemon.wait().expect("it ends");
            until("the old daemon's name is free", async || !self.has_service()).await;
        }
        let mut daemon = self
            .command("gnome-keyring-daemon")
            .args(["--foreground", "--components=secrets", "--unlock"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("gnome-keyring-daemon is there: scripts/setup installs it");
        daemon.stdin.take().expect("an input").write_all(PASSWORD.as_bytes()).expect("it reads");
        self.daemon = Some(daemon);
        until("the keyring is there", async || self.has_service()).await;
    }

    fn has_service(&self) -> bool {
        let asked = self.send(
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            &["org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets"],
        );
        asked.contains("true")
    }

    /// Locks the keyring.
    fn lock(&self) {
        let answer = self.send(
            "org.freedesktop.secrets",
            "/org/freedesktop/secrets",
            &[
                "org.freedesktop.Secret.Service.Lock",
                "array:objpath:/org/freedesktop/secrets/collection/login",
            ],
        );
        assert!(answer.contains("/org/freedesktop/secrets/collection/login"), "{answer}");
    }

    fn send(&self, to: &str, path: &str, words: &[&str]) -> String {
        let sent = self
            .command("dbus-send")
            .args(["--session", "--print-reply", &format!("--dest={to}"), path])
            .args(words)
            .output()
            .expect("dbus-send is there: scripts/setup installs it");
        String::from_utf8_lossy(&sent.stdout).into_owned() + &String::from_utf8_lossy(&sent.stderr)
    }
}

#[tokio::test]
async fn secrets_are_in_the_keyring_and_a_locked_one_is_waited_for() {
    let mut home = Home::new();
    let mut session = Session::open(&mut home).await;
    let (_server, _) = home.serve_new("127.0.0.1:0").await;
    let connector = home.connect().await;
    home.sees(&[("first-laptop", "online")]).await;
    assert!(!home.path().join("tl/secrets.json").exists(), "no file in the keyring's place");
    let token = file_with_a_token(&home);
    assert_eq!(token, None, "a token stands in a file");

    connector.stop().await;
    session.lock();
    home.run(&["machines"]).await.refused(1, &[LOCKED]);
    let waiting = home.start(&["connect", "--json"]);
    until("it says why it waits", async || waiting.messages().contains(LOCKED)).await;

    // Unlocked, the same machine goes on: a locked keyring is no reason to enroll again.
    waiting.stop().await;
    session.log_in().await;
    let _connector = home.connect().await;
    home.sees(&[("first-laptop", "online")]).await;
}

#[tokio::test]
async fn a_locked_keyring_spends_no_invitation() {
    let (owner, mut mate) = (Home::new(), Home::new());
    let (_server, _) = owner.serve_new("127.0.0.1:0").await;
    let _connector = owner.connect().await;
    let mut session = Session::open(&mut mate).await;
    session.lock();
    let link = owner.run(&["invite", "--json"]).await.json()["link"].as_str().expect("a link").to_owned();
    let join = ["join", &link, "--as", "Mate", "--machine", "second-laptop", "--yes"];
    mate.run(&join).await.refused(1, &[LOCKED]);
    owner.sees(&[("first-laptop", "online")]).await;
    session.log_in().await;
    mate.run(&join).await.done();
    owner.sees(&[("first-laptop", "online"), ("second-laptop", "offline")]).await;
}

/// A file of the home in which the shape of a whole token stands: `cred_`, 32 hex digits, a dot.
fn file_with_a_token(home: &Home) -> Option<String> {
    let is_token = |window: &[u8]| {
        window.starts_with(b"cred_") && window[37] == b'.' && window[5..37].iter().all(u8::is_ascii_hexdigit)
    };
    let mut folders = vec![home.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if std::fs::read(&path).is_ok_and(|bytes| bytes.windows(38).any(is_token)) {
                return Some(path.display().to_string());
            }
        }
    }
    None
}
