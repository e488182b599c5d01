//! A computer of one person: a home of its own, a screen, a session bus and perhaps a keyring, all of which
//! end with the test. Its machine's real home is never touched.

use crate::bus::Bus;
use crate::processes::{Running, built, kept};
use crate::wait::{eventually, until};
use crate::window::Window;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The secret that opens the keyring; no file or log may hold a team's secret, so this one is told apart.
const PASSWORD: &str = "pw";

/// What a computer has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct With {
    /// A keyring: none at all, a locked one, or an open one.
    pub keyring: Keyring,
    /// A session bus that its programs find.
    pub session_bus: bool,
    /// A panel with a tray.
    pub tray: bool,
    /// A desktop whose person prefers dark windows.
    pub dark: bool,
}

/// How the keyring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyring {
    Absent,
    Locked,
    Open,
}

impl Default for With {
    fn default() -> Self {
        Self { keyring: Keyring::Open, session_bus: true, tray: true, dark: false }
    }
}

/// A computer.
pub(crate) struct Computer {
    name: String,
    with: With,
    home: tempfile::TempDir,
    display: String,
    /// Its session bus, and what stands in for its desktop.
    pub bus: Bus,
    keyring: Option<Running>,
    _windows: Running,
    _screen: Running,
}

impl Computer {
    /// Boots one. Pictures and logs are kept under its name.
    pub(crate) async fn boot(name: &str, with: With) -> Self {
        let home = tempfile::Builder::new().prefix("teamlamp-").tempdir().expect("a folder can be made");
        for folder in ["run", "run-without-bus"] {
            std::fs::create_dir(home.path().join(folder)).expect("the home can be written");
            private(&home.path().join(folder));
        }
        let run = home.path().join("run");
        let log = log_of(name);
        // A run before left its own.
        std::fs::write(&log, b"").expect("the log can be written");
        let (screen, display) = screen(home.path(), &log).await;
        let bus = Bus::start(&run, with.tray, &log).await;
        // Windows get a frame, and are closed as a person closes them.
        let mut windows = Command::new("openbox");
        windows.env("DISPLAY", &display).env("HOME", home.path()).env_remove("DBUS_SESSION_BUS_ADDRESS");
        let windows = Running::start(windows.args(["--sm-disable"]), &log);
        let name = name.to_owned();
        let mut computer =
            Self { name, with, home, display, bus, keyring: None, _windows: windows, _screen: screen };
        match with.keyring {
            Keyring::Absent => {}
            Keyring::Open => computer.start_keyring(Some(PASSWORD)).await,
            Keyring::Locked => {
                // Opened once, it exists; started without its password, it is locked.
                computer.start_keyring(Some(PASSWORD)).await;
                computer.stop_keyring();
                computer.start_keyring(None).await;
            }
        }
        computer
    }

    /// The person's home folder.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Teamlamp's own folder.
    pub(crate) fn teamlamp_home(&self) -> PathBuf {
        self.home().join("teamlamp")
    }

    /// A program as this person starts it.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env_clear()
            .envs([("PATH", path.as_os_str()), ("HOME", self.home().as_os_str())])
            .env(
                "XDG_RUNTIME_DIR",
                self.home().join(if self.with.session_bus { "run" } else { "run-without-bus" }),
            )
            .env("TEAMLAMP_HOME", self.teamlamp_home())
            .env("DISPLAY", &self.display)
            .env("GTK_THEME", if self.with.dark { "Adwaita:dark" } else { "Adwaita" })
            .envs([("USER", "ada"), ("LANG", "C.UTF-8"), ("TZ", "UTC"), ("TEAMLAMP_LOG", "debug")])
            // Neither settings nor accessibility of this machine belong to this computer.
            .envs([("GSETTINGS_BACKEND", "memory"), ("NO_AT_BRIDGE", "1"), ("GIO_USE_VFS", "local")])
            .current_dir(self.home());
        if self.with.session_bus {
            command.env("DBUS_SESSION_BUS_ADDRESS", &self.bus.address);
        }
        command
    }

    /// Starts the app as a person does, and leaves it alone.
    pub(crate) fn start_app(&self, arguments: &[&str]) -> Running {
        self.start_program(app(), arguments)
    }

    /// Starts any program as this person does.
    pub(crate) fn start_program(&self, program: PathBuf, arguments: &[&str]) -> Running {
        Running::start(self.command(program).args(arguments), &log_of(&self.name))
    }

    /// Starts the app so that its window can be driven.
    pub(crate) async fn open_app(&self, arguments: &[&str]) -> Window {
        Window::open(self, arguments).await
    }

    /// Runs the command line program.
    pub(crate) fn teamlamp(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(built().join("teamlamp"));
        command.args(arguments).output().expect("the command line program is built")
    }

    /// Starts the command line program and leaves it running.
    pub(crate) fn start_teamlamp(&self, arguments: &[&str]) -> Running {
        self.start_program(built().join("teamlamp"), arguments)
    }

    /// Whether Teamlamp's window is on the screen.
    pub(crate) fn shows_window(&self) -> bool {
        let tree = self.command("xwininfo").args(["-root", "-tree"]).output().expect("xwininfo runs");
        String::from_utf8_lossy(&tree.stdout).contains("\"Teamlamp\"")
    }

    /// The person closes the window, as a window manager asks it to.
    pub(crate) fn close_window(&self) {
        let found =
            self.command("xdotool").args(["search", "--name", "^Teamlamp$"]).output().expect("xdotool runs");
        let ids = String::from_utf8_lossy(&found.stdout).into_owned();
        let id = ids.split_whitespace().last().expect("the window is there");
        let close = ["windowactivate", "--sync", id, "key", "alt+F4"];
        let closed = self.command("xdotool").args(close).status().expect("xdotool runs");
        assert!(closed.success());
    }

    /// What everything on this computer said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(log_of(&self.name)).unwrap_or_default()
    }

    /// Where this computer's programs write what they say.
    pub(crate) fn log_path(&self) -> PathBuf {
        log_of(&self.name)
    }

    /// Starts the keyring daemon: opened by a password, or as it was left.
    pub(crate) async fn start_keyring(&mut self, password: Option<&str>) {
        let mut command = self.command("gnome-keyring-daemon");
        command.args(["--foreground", "--components=secrets"]);
        if password.is_some() {
            command.arg("--unlock");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("gnome-keyring-daemon starts");
        let mut input = child.stdin.take().expect("it reads");
        input.write_all(password.unwrap_or_default().as_bytes()).expect("it reads the password");
        drop(input);
        self.keyring = Some(Running::of(child));
        until("the keyring answers", async || self.bus_has("org.freedesktop.secrets").await).await;
    }

    /// Ends the keyring daemon.
    pub(crate) fn stop_keyring(&mut self) {
        self.keyring = None;
    }

    async fn bus_has(&self, name: &'static str) -> bool {
        let bus = zbus::fdo::DBusProxy::new(&self.bus.connection).await.expect("the bus has an interface");
        bus.name_has_owner(name.try_into().expect("a name")).await.unwrap_or(false)
    }
}

/// The app's program.
pub(crate) fn app() -> PathBuf {
    built().join("teamlamp-desktop")
}

fn log_of(name: &str) -> PathBuf {
    kept("desktop-logs").join(format!("{name}.log"))
}

fn private(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
}

/// A screen of this computer's own; the server chooses a free number and writes it down once it is ready.
async fn screen(home: &Path, log: &Path) -> (Running, String) {
    let number = home.join("display");
    let file = std::fs::File::create(&number).expect("the home can be written");
    // `-displayfd` takes a number of an open file: standard output is one that is always there.
    let child = Command::new("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", "1280x800x24", "-nolisten", "tcp"])
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(std::fs::File::options().append(true).open(log).expect("the log is there"))
        .spawn()
        .expect("Xvfb starts");
    let screen = Running::of(child);
    let display = eventually("the screen is there", async || {
        let text = std::fs::read_to_string(&number).ok()?;
        text.ends_with('\n').then(|| format!(":{}", text.trim()))
    });
    (screen, display.await)
}
