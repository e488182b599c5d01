//! `contexts.json`: the saved team connections of this install, without any secret. A file that can't be
//! read is kept aside and said, never overwritten.

use crate::config::Server;
use crate::custody::Place;
use crate::home::Home;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use teamlamp_wire::Millis;
use teamlamp_wire::account::Role;
use teamlamp_wire::id::{MachineId, PrincipalId, ServerId, SourceId, TeamId};

pub(crate) const FILE: &str = "contexts.json";
const VERSION: u32 = 1;

/// One saved team connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// What names it here, on the command line and in the keyring: the team's name and a random part,
    /// since several homes of one person share one keyring.
    pub id: String,
    /// Where the server is, `scheme://host[:port]`.
    pub origin: String,
    /// The SHA-256 of the server's public key, in hex, where it is pinned.
    pub fingerprint: Option<String>,
    /// The server.
    pub server_id: ServerId,
    /// Its name.
    pub server_name: String,
    /// The team.
    pub team_id: TeamId,
    /// Its name.
    pub team_name: String,
    /// Who is signed in.
    pub principal_id: PrincipalId,
    /// Their name.
    pub principal_name: String,
    /// What they may do there, as it was told when they joined.
    pub role: Role,
    /// This machine in the team; a viewer has none.
    pub machine: Option<ContextMachine>,
    /// Where the secrets are.
    pub credential_ref: Place,
}

impl Context {
    /// Where its server is.
    pub fn server(&self) -> Server {
        Server { origin: self.origin.clone(), fingerprint: self.fingerprint.clone() }
    }
}

/// This machine in a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextMachine {
    /// Which.
    pub id: MachineId,
    /// Its name.
    pub name: String,
    /// Under which it publishes.
    pub source_id: SourceId,
    /// When its credential ends.
    pub credential_expires_at: Millis,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The contexts, in the order in which they were made.
    pub contexts: Vec<Context>,
    /// Where a file that could not be read was put, if there was one.
    pub kept_aside: Option<PathBuf>,
}

/// Why the contexts can't be read or saved.
#[derive(Debug, thiserror::Error)]
pub enum ContextsFault {
    /// The system refuses.
    #[error(
        "The file {path} can't be used ({cause}): mend its owner and permissions, and that its disk has room."
    )]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// A later version wrote it.
    #[error("The file {path} was written by a later version of Teamlamp: update this one.")]
    Newer {
        /// Which.
        path: PathBuf,
    },
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    contexts: Vec<Context>,
}

/// The saved contexts of a home.
#[derive(Clone, Debug)]
pub struct Contexts(Home);

impl Contexts {
    /// The contexts of a home.
    pub fn of(home: &Home) -> Self {
        Self(home.clone())
    }

    /// Reads them. `now` names the file that is kept aside.
    pub fn load(&self, now: Millis) -> Result<Loaded, ContextsFault> {
        match self.read()? {
            Some(contexts) => Ok(Loaded { contexts, kept_aside: None }),
            // Another process may mend it at this moment: it is judged while nobody changes it.
            None => self.read_or_keep_aside(&self.lock()?, now),
        }
    }

    /// The contexts where there is a file that says them, which is left as it is.
    pub(crate) fn saved(&self) -> Result<Option<Vec<Context>>, ContextsFault> {
        if self.0.path(FILE).exists() { self.read() } else { Ok(None) }
    }

    fn read_or_keep_aside(&self, _locked: &File, now: Millis) -> Result<Loaded, ContextsFault> {
        if let Some(contexts) = self.read()? {
            return Ok(Loaded { contexts, kept_aside: None });
        }
        let aside = self.keep_aside(now)?;
        tracing::error!(kept = %aside.display(), "contexts.json could not be read and was kept aside; join again, or mend that file and put it back");
        Ok(Loaded { contexts: Vec::new(), kept_aside: Some(aside) })
    }

    /// The contexts; `None` where the file can't be understood.
    fn read(&self) -> Result<Option<Vec<Context>>, ContextsFault> {
        let Some(bytes) = self.0.read(FILE).map_err(|cause| self.io(cause))? else {
            return Ok(Some(Vec::new()));
        };
        // The version is looked at first: the shape of a later one is not ours to judge.
        let version = serde_json::from_slice::<serde_json::Value>(&bytes)
            .ok()
            .and_then(|document| document.get("version").and_then(serde_json::Value::as_u64));
        if version.is_some_and(|v| v > u64::from(VERSION)) {
            return Err(ContextsFault::Newer { path: self.0.path(FILE) });
        }
        let document = serde_json::from_slice::<Document>(&bytes)
            .inspect_err(|cause| tracing::warn!(%cause, "contexts.json can't be read"));
        Ok(document.ok().map(|document| document.contexts))
    }

    /// Changes them: read, change, write, while no other process of this home does.
    ///
    /// Gives them as they now are, and where a file that could not be read was put.
    pub fn update(
        &self,
        now: Millis,
        change: impl FnOnce(&mut Vec<Context>),
    ) -> Result<Loaded, ContextsFault> {
        let lock = self.lock()?;
        let mut loaded = self.read_or_keep_aside(&lock, now)?;
        change(&mut loaded.contexts);
        let document = Document { version: VERSION, contexts: loaded.contexts.clone() };
        let mut bytes = serde_json::to_vec_pretty(&document).map_err(|cause| self.io(cause.into()))?;
        bytes.push(b'\n');
        self.0.write(FILE, &bytes).map_err(|cause| self.io(cause))?;
        Ok(loaded)
    }

    fn lock(&self) -> Result<File, ContextsFault> {
        self.0.lock("contexts.lock").map_err(|cause| self.io(cause))
    }

    fn keep_aside(&self, now: Millis) -> Result<PathBuf, ContextsFault> {
        let free = (0..).map(|n| match n {
            0 => self.0.path(&format!("{FILE}.broken-{now}")),
            n => self.0.path(&format!("{FILE}.broken-{now}-{n}")),
        });
        let aside = free.into_iter().find(|path| !path.exists()).unwrap_or_else(|| self.0.path(FILE));
        fs::rename(self.0.path(FILE), &aside).map_err(|cause| self.io(cause))?;
        Ok(aside)
    }

    fn io(&self, cause: io::Error) -> ContextsFault {
        ContextsFault::Io { path: self.0.path(FILE), cause }
    }
}

/// The one context that `wanted` means: its id, its team's name or the beginning of its id; without a
/// wish, the only one. The sentence says what there is to choose from.
pub fn choose<'a>(contexts: &'a [Context], wanted: Option<&str>) -> Result<&'a Context, String> {
    let names = || contexts.iter().map(|c| c.id.as_str()).collect::<Vec<_>>().join(", ");
    let Some(wanted) = wanted else {
        return match contexts {
            [] => Err("This install is in no team yet: join one with a link or a code.".into()),
            [only] => Ok(only),
            _ => Err(format!("There are several teams: name one with --context ({}).", names())),
        };
    };
    let matching =
        |test: &dyn Fn(&Context) -> bool| match contexts.iter().filter(|c| test(c)).collect::<Vec<_>>()[..] {
            [only] => Some(only),
            _ => None,
        };
    matching(&|c| c.id == wanted)
        .or_else(|| matching(&|c| c.team_name.eq_ignore_ascii_case(wanted)))
        .or_else(|| matching(&|c| c.id.starts_with(wanted)))
        .ok_or_else(|| match contexts {
            [] => "This install is in no team yet: join one with a link or a code.".into(),
            _ => format!("No single team is named like that; there are: {}.", names()),
        })
}

/// A context's id: the team's name as far as it is plain, and a random part.
pub(crate) fn new_id(team_name: &str, random: u128) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut plain: String = team_name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(24)
        .collect();
    while plain.contains("--") {
        plain = plain.replace("--", "-");
    }
    let plain = plain.trim_matches('-');
    let tail: String = (0..8).map(|i| char::from(ALPHABET[(random >> (i * 5) & 31) as usize])).collect();
    if plain.is_empty() { format!("team-{tail}") } else { format!("{plain}-{tail}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn context(id: &str) -> Context {
        Context {
            id: id.into(),
            origin: "http://127.0.0.1:8720".into(),
            fingerprint: None,
            server_id: "srv_1".into(),
            server_name: "Office".into(),
            team_id: "team_1".into(),
            team_name: "Acme".into(),
            principal_id: "prin_1".into(),
            principal_name: "Ada".into(),
            role: Role::Owner,
            machine: Some(ContextMachine {
                id: "mach_1".into(),
                name: "laptop".into(),
                source_id: "src_1".into(),
                credential_expires_at: 30 * 86_400_000,
            }),
            credential_ref: Place::Keyring,
        }
    }

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        (dir, home)
    }

    #[test]
    fn contexts_are_read_back_and_several_are_kept() {
        let (_dir, home) = home();
        let contexts = Contexts::of(&home);
        assert_eq!(contexts.load(1).unwrap(), Loaded::default());
        contexts.update(1, |all| all.push(context("a"))).unwrap();
        contexts.update(2, |all| all.push(context("b"))).unwrap();
        let ids: Vec<_> = contexts.load(3).unwrap().contexts.into_iter().map(|c| c.id).collect();
        assert_eq!(ids, ["a", "b"]);
    }

    #[test]
    fn a_broken_file_is_kept_aside_each_time_and_never_overwritten() {
        let (_dir, home) = home();
        let contexts = Contexts::of(&home);
        for (n, text) in ["{\"version\":1,", "[]"].into_iter().enumerate() {
            fs::write(home.path(FILE), text).unwrap();
            let aside = contexts.load(77).unwrap().kept_aside.unwrap();
            let suffix = if n == 0 { "broken-77" } else { "broken-77-1" };
            assert!(aside.to_string_lossy().ends_with(suffix), "{aside:?}");
            assert_eq!(fs::read_to_string(aside).unwrap(), text);
        }
        fs::write(home.path(FILE), "{").unwrap();
        let updated = contexts.update(78, |all| all.push(context("a"))).unwrap();
        assert!(
            updated.kept_aside.unwrap().to_string_lossy().ends_with("broken-78"),
            "who changes them is told"
        );
        assert_eq!(contexts.load(79).unwrap().contexts.len(), 1);
        assert!(home.path("contexts.json.broken-77").exists());
    }

    #[test]
    fn a_later_versions_file_is_left_alone() {
        let (_dir, home) = home();
        fs::write(home.path(FILE), r#"{"version":2,"teams":{}}"#).unwrap();
        let said = Contexts::of(&home).update(1, |all| all.clear()).unwrap_err().to_string();
        assert!(said.contains("later version"), "{said}");
        assert!(fs::read_to_string(home.path(FILE)).unwrap().contains("teams"));
    }

    #[test]
    fn a_context_is_chosen_by_id_name_or_beginning() {
        let mut all = vec![context("acme-1"), context("other-2")];
        all[1].team_name = "Other".into();
        for wish in ["acme-1", "ACME", "acm"] {
            assert_eq!(choose(&all, Some(wish)).unwrap().id, "acme-1", "{wish}");
        }
        assert!(choose(&all, None).unwrap_err().contains("--context"));
        assert!(choose(&all, Some("x")).unwrap_err().contains("acme-1, other-2"));
        assert!(choose(&[], None).unwrap_err().contains("no team"));
        assert_eq!(choose(&all[..1], None).unwrap().id, "acme-1");
    }

    #[test]
    fn ids_are_plain_whatever_the_teams_name() {
        assert!(new_id("Acmé & Söhne  GmbH", 5).starts_with("acm-s-hne-gmbh-"));
        assert!(new_id("漢字", 5).starts_with("team-"));
        assert_ne!(new_id("Acme", 1), new_id("Acme", 2));
    }
}
