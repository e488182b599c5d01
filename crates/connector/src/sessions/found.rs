//! What the watchers tell: sessions with a live process, or just ended, and where watching is limited.
//! It owns no state; `Sessions` publishes these values whole.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// A native session's identity on this machine: the program and its own id (never a path, which moves).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    /// The program, as the wire names it: `claude-code`, `codex`.
    pub harness: &'static str,
    /// Its own id of the session; 1 to 256 characters.
    pub native_id: String,
}

/// The folder that a session began in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundRoot {
    /// `root_` and 32 hex digits: the same for the same folder and salt, and no path can be read from it.
    pub id: String,
    /// The folder's own name; 1 to 128 characters.
    pub name: String,
}

/// A session's title. It often holds words of a prompt, so it leaves the machine only where the root's
/// sharing says so; `Debug` prints `***`, and taking it out has a name that shows in a review.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateTitle(String);

impl PrivateTitle {
    /// Keeps a title to itself.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The title, for a root that shares titles, or for this machine's own window.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateTitle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One native session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSession {
    /// The folder that it began in: stays on this machine.
    pub cwd: PathBuf,
    /// That folder as it may be named to others.
    pub root: FoundRoot,
    /// What it is called.
    pub title: Option<PrivateTitle>,
    /// The model that answered last.
    pub model: Option<String>,
    /// When it began, as its own files say.
    pub started_at: Option<Millis>,
    /// What it does.
    pub turn: Turn,
    /// Since when, from the record that caused the turn; `None` where no record has a time.
    pub since: Option<Millis>,
    /// Whether the turn is known, not the best reading of a file's tail.
    pub confirmed: bool,
    /// Whether a process of it lives. Only live sessions are bindings. One that ended stays in the map for
    /// [`ENDED_SHOWN_MS`] with [`Turn::Ended`], so that a report says `ended` before it is gone.
    pub live: bool,
    /// The process, where it is known.
    pub pid: Option<u32>,
}

/// How long a session that ended stays in the map: long enough to be told after a short loss of network. Who
/// is offline for longer has to remember by itself what it has not told yet.
pub const ENDED_SHOWN_MS: i64 = 600_000;

/// Why changes of a folder are looked for by polling instead of being told by the operating system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PollReason {
    /// The system gives no more watches (Linux: `fs.inotify.max_user_watches`).
    WatchLimit,
    /// The system gives no more watchers (Linux: `fs.inotify.max_user_instances`).
    InstanceLimit,
    /// The file system tells of no changes made elsewhere (network, FUSE); its name.
    FileSystem(&'static str),
    /// Something else; the system's words.
    Other(String),
}

impl PollReason {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::WatchLimit => "watch_limit",
            Self::InstanceLimit => "instance_limit",
            Self::FileSystem(_) => "file_system",
            Self::Other(_) => "watch_failed",
        }
    }
}

impl fmt::Display for PollReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WatchLimit => f.write_str(
                "The system gives no more file watches: changes are looked for every 2 seconds. \
                 Raising fs.inotify.max_user_watches (sysctl) mends it.",
            ),
            Self::InstanceLimit => f.write_str(
                "The system gives no more file watchers: changes are looked for every 2 seconds. \
                 Raising fs.inotify.max_user_instances (sysctl) mends it.",
            ),
            Self::FileSystem(name) => write!(
                f,
                "This folder is on a {name} file system, which tells of no changes: \
                 they are looked for every 2 seconds."
            ),
            Self::Other(words) => {
                write!(f, "Watching failed ({words}): changes are looked for every 2 seconds.")
            }
        }
    }
}

/// Everything that the watchers know now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether the first scan is done. A report made before would say that nothing runs.
    pub settled: bool,
    /// The sessions, sorted.
    pub sessions: BTreeMap<SessionKey, FoundSession>,
    /// The folders that are polled and why: for `doctor`.
    pub polled: BTreeMap<PathBuf, PollReason>,
}

/// Where the harnesses of one person keep their files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HarnessHomes {
    /// Claude Code's configuration roots; several may be in use at once.
    pub claude_code: Vec<PathBuf>,
    /// Codex' homes.
    pub codex: Vec<PathBuf>,
}

impl HarnessHomes {
    /// The usual places under `home` and those that the environment names: `CLAUDE_CONFIG_DIR` (one path,
    /// or several with the platform's separator of paths) and `CODEX_HOME`. The usual ones are watched too,
    /// because the variable of another shell need not be this process's.
    pub fn of(home: &Path, claude_config_dir: Option<&str>, codex_home: Option<&str>) -> Self {
        let listed = |value: Option<&str>, usual: &str| {
            let mut paths = vec![home.join(usual)];
            for path in std::env::split_paths(value.unwrap_or_default()) {
                if path.is_absolute() && !paths.contains(&path) {
                    paths.push(path);
                }
            }
            paths
        };
        Self { claude_code: listed(claude_config_dir, ".claude"), codex: listed(codex_home, ".codex") }
    }
}

/// What watching needs to know.
#[derive(Clone, Debug)]
pub struct SessionsConfig {
    /// Where to look.
    pub homes: HarnessHomes,
    /// Text that stays the same for this install and is told to nobody: it keeps the ids of roots from
    /// being recomputed from guessed paths.
    pub root_salt: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn homes_are_the_usual_ones_and_those_of_the_environment() {
        let homes = HarnessHomes::of(Path::new("/h"), Some("/work/.claude:/h/.claude:relative"), None);
        assert_eq!(homes.claude_code, [PathBuf::from("/h/.claude"), PathBuf::from("/work/.claude")]);
        assert_eq!(homes.codex, [PathBuf::from("/h/.codex")]);
    }

    #[test]
    fn a_title_is_not_printed() {
        assert_eq!(format!("{:?}", PrivateTitle::new("my secret plan")), "***");
    }

    #[test]
    fn a_limit_says_what_to_do() {
        assert!(PollReason::WatchLimit.to_string().contains("max_user_watches"));
        assert!(PollReason::InstanceLimit.to_string().contains("max_user_instances"));
        assert_eq!(PollReason::FileSystem("nfs").code(), "file_system");
    }
}
