//! All harnesses of this machine put together: one map of sessions, those that ended kept for a while, roots
//! named without their paths. It does no waiting: a caller says when to look.

use super::claude_home::ClaudeHome;
use super::codex_home::CodexHome;
use super::found::{ENDED_SHOWN_MS, FoundRoot, FoundSession, PrivateTitle, SessionKey, SessionsConfig};
use super::harness::{Harness, Live};
use super::liveness::Liveness;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;
use teamlamp_wire::limits::BINDINGS_MAX;
use teamlamp_wire::session::Turn;

/// The most ended sessions that are kept.
const ENDED_MAX: usize = 512;
/// The longest name of a root, in characters (spec 02).
const ROOT_NAME_CHARS: usize = 128;

/// What is known of all harnesses.
#[derive(Debug)]
pub(super) struct Scene {
    harnesses: Vec<Box<dyn Harness>>,
    liveness: Liveness,
    root_salt: String,
    sessions: BTreeMap<SessionKey, FoundSession>,
}

impl Scene {
    /// Nothing looked at yet.
    pub(super) fn new(config: &SessionsConfig, liveness: Liveness) -> Self {
        let claude =
            config.homes.claude_code.iter().map(|root| Box::new(ClaudeHome::new(root)) as Box<dyn Harness>);
        let codex = config.homes.codex.iter().map(|home| Box::new(CodexHome::new(home)) as Box<dyn Harness>);
        Self {
            harnesses: claude.chain(codex).collect(),
            liveness,
            root_salt: config.root_salt.clone(),
            sessions: BTreeMap::new(),
        }
    }

    /// The sessions as of the last look.
    pub(super) fn sessions(&self) -> &BTreeMap<SessionKey, FoundSession> {
        &self.sessions
    }

    /// The folders in which a change means to look again.
    pub(super) fn folders(&self) -> BTreeSet<PathBuf> {
        self.harnesses.iter().flat_map(|harness| harness.folders()).collect()
    }

    /// The folders under which all of it lies.
    pub(super) fn roots(&self) -> BTreeSet<PathBuf> {
        self.harnesses.iter().flat_map(|harness| harness.roots()).collect()
    }

    /// Looks at everything that changed; when looking again tells more although nothing changes by then.
    pub(super) fn look(&mut self, now: Millis) -> Option<Millis> {
        let (mut live, mut again_at) = (BTreeMap::<SessionKey, Live>::new(), None::<Millis>);
        for harness in &mut self.harnesses {
            let look = harness.look(&mut self.liveness, now);
            again_at = again_at.into_iter().chain(look.again_at).min();
            for found in look.live {
                let key = SessionKey { harness: harness.name(), native_id: found.native_id.clone() };
                // One session in two homes is a copied file: what changed last is the one in use.
                if live.get(&key).is_none_or(|other| other.seen.since < found.seen.since) {
                    live.insert(key, found);
                }
            }
        }
        let before = std::mem::take(&mut self.sessions);
        self.sessions =
            live.into_iter().take(BINDINGS_MAX).map(|(key, live)| (key, self.told(live, now))).collect();
        self.keep_ended(before, now);
        again_at
    }

    /// What was there before and has no process now has ended; it is shown for a while.
    fn keep_ended(&mut self, before: BTreeMap<SessionKey, FoundSession>, now: Millis) {
        let gone = before.into_iter().filter(|(key, _)| !self.sessions.contains_key(key));
        let mut ended: Vec<_> = gone
            .map(|(key, session)| {
                let since = if session.live { Some(now) } else { session.since };
                let (turn, confirmed, live, pid) = (Turn::Ended, true, false, None);
                (key, FoundSession { turn, since, confirmed, live, pid, ..session })
            })
            .filter(|(_, session)| session.since.is_some_and(|since| now - since < ENDED_SHOWN_MS))
            .collect();
        ended.sort_by_key(|(_, session)| std::cmp::Reverse(session.since));
        self.sessions.extend(ended.into_iter().take(ENDED_MAX));
    }

    fn told(&self, live: Live, now: Millis) -> FoundSession {
        FoundSession {
            root: root(&live.cwd, &self.root_salt),
            cwd: live.cwd,
            title: live.title.map(PrivateTitle::new),
            model: live.model,
            started_at: live.started_at,
            turn: live.seen.turn,
            // A file from a machine whose clock runs ahead tells of no future.
            since: live.seen.since.map(|since| since.min(now)),
            confirmed: live.seen.confirmed,
            live: true,
            pid: live.pid,
        }
    }
}

/// A folder as it may be named to others. Symbolic links are resolved for the id, so that one folder is one
/// root; the name is the one that the session used.
fn root(folder: &Path, salt: &str) -> FoundRoot {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut hash = Sha256::new();
    hash.update(salt.as_bytes());
    hash.update([0]);
    hash.update(real.as_os_str().as_encoded_bytes());
    let digits: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let name = teamlamp_wire::text::visible(&name).chars().take(ROOT_NAME_CHARS).collect();
    FoundRoot { id: format!("root_{digits}"), name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::harness::{Look, TurnSeen};
    use std::sync::{Arc, Mutex};

    #[derive(Debug)]
    struct Scripted(Arc<Mutex<Vec<Live>>>);

    impl Harness for Scripted {
        fn name(&self) -> &'static str {
            "scripted"
        }
        fn roots(&self) -> Vec<PathBuf> {
            Vec::new()
        }
        fn folders(&self) -> BTreeSet<PathBuf> {
            BTreeSet::new()
        }
        fn look(&mut self, _: &mut Liveness, _: Millis) -> Look {
            Look { live: self.0.lock().unwrap().clone(), again_at: None }
        }
    }

    fn live(id: &str, since: Millis) -> Live {
        Live {
            native_id: id.into(),
            cwd: "/home/dev/acme".into(),
            title: Some("secret".into()),
            model: None,
            started_at: None,
            seen: TurnSeen::known(Turn::Working, Some(since)),
            pid: Some(7),
        }
    }

    fn scene(homes: usize) -> (Scene, Vec<Arc<Mutex<Vec<Live>>>>) {
        let scripts: Vec<Arc<Mutex<Vec<Live>>>> = (0..homes).map(|_| Arc::default()).collect();
        let harnesses = scripts.iter().map(|s| Box::new(Scripted(s.clone())) as Box<dyn Harness>).collect();
        let (liveness, root_salt) = (Liveness::system(), "salt".into());
        (Scene { harnesses, liveness, root_salt, sessions: BTreeMap::new() }, scripts)
    }

    fn only(scene: &Scene) -> FoundSession {
        assert_eq!(scene.sessions().len(), 1);
        scene.sessions().values().next().unwrap().clone()
    }

    #[test]
    fn a_session_whose_process_went_is_ended_then_gone() {
        let (mut scene, scripts) = scene(1);
        *scripts[0].lock().unwrap() = vec![live("s", 900)];
        scene.look(1_000);
        assert!(only(&scene).live);
        scripts[0].lock().unwrap().clear();
        scene.look(3_000);
        let ended = only(&scene);
        assert_eq!((ended.turn, ended.since, ended.live, ended.pid), (Turn::Ended, Some(3_000), false, None));
        scene.look(3_000 + ENDED_SHOWN_MS - 1);
        assert_eq!(only(&scene).since, Some(3_000));
        scene.look(3_000 + ENDED_SHOWN_MS);
        assert!(scene.sessions().is_empty());
    }

    #[test]
    fn a_session_that_is_resumed_lives_again() {
        let (mut scene, scripts) = scene(1);
        for (now, lives) in [(1_000, true), (2_000, false), (3_000, true)] {
            *scripts[0].lock().unwrap() = if lives { vec![live("s", now)] } else { Vec::new() };
            scene.look(now);
        }
        assert_eq!((only(&scene).turn, only(&scene).live), (Turn::Working, true));
    }

    #[test]
    fn of_one_session_in_two_homes_the_last_changed_counts_and_no_time_lies_ahead() {
        let (mut scene, scripts) = scene(2);
        *scripts[0].lock().unwrap() = vec![live("s", 9_000)];
        *scripts[1].lock().unwrap() = vec![live("s", 400)];
        scene.look(1_000);
        assert_eq!(only(&scene).since, Some(1_000));
    }

    #[test]
    fn thousands_of_ended_sessions_do_not_pile_up() {
        let (mut scene, scripts) = scene(1);
        *scripts[0].lock().unwrap() = (0..5_000).map(|at| live(&format!("s{at}"), 1)).collect();
        scene.look(1_000);
        assert_eq!(scene.sessions().len(), BINDINGS_MAX);
        scripts[0].lock().unwrap().clear();
        scene.look(2_000);
        assert_eq!(scene.sessions().len(), ENDED_MAX);
    }

    #[test]
    fn a_root_has_its_folders_name_and_an_id_that_hides_the_path() {
        let (a, b) = (root(Path::new("/home/dev/acme"), "salt"), root(Path::new("/srv/acme"), "salt"));
        assert_eq!((a.name.as_str(), b.name.as_str()), ("acme", "acme"));
        assert_ne!(a.id, b.id);
        assert_ne!(a.id, root(Path::new("/home/dev/acme"), "another install").id);
        assert_eq!(a, root(Path::new("/home/dev/acme"), "salt"));
        assert_eq!(a.id.len(), 37);
        assert_eq!(root(Path::new("/"), "salt").name, "/");
        let odd = root(Path::new(&format!("/x/\u{1b}[2J{}", "é".repeat(300))), "salt");
        assert_eq!(odd.name.chars().count(), 128);
        assert!(odd.name.starts_with("␛[2J"));
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_leads_to_the_same_root() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(root(&real, "salt").id, root(&link, "salt").id);
    }
}
