//! Claude Code in one of its configuration roots: which registry entries have a live process, which
//! transcripts are theirs, and the processes that keep no entry. It opens registry files and transcripts,
//! nothing else of that folder.

use super::claude_code::Transcript;
use super::claude_registry::{self, ENTRY_BYTES, Entry};
use super::folders::Folders;
use super::harness::{Candidate, Harness, Live, Look, TurnSeen, Written, by_folder, is_uuid};
use super::liveness::{Liveness, Process, began_at};
use super::tail::{Tail, file_id, modified_ms};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;

/// Ids of sessions that had a registry entry; a process without one is never taken for theirs.
const REGISTERED_MAX: usize = 4_096;
/// Transcripts that are considered for processes without an entry, newest first.
const WRITTEN_MAX: usize = 16;
/// The longest name of a project that is not cut.
const PROJECT_NAME_MAX: usize = 200;
/// First arguments that make the program something else than a session (2.1.168 and later, and commands).
const NOT_A_SESSION: [&str; 9] =
    ["daemon", "mcp", "--bg-pty-host", "--bg-spare", "update", "doctor", "install", "agents", "config"];

/// One root.
#[derive(Debug)]
pub(super) struct ClaudeHome {
    registry: PathBuf,
    projects: Folders,
    projects_path: PathBuf,
    entries: BTreeMap<u32, Kept>,
    registered: BTreeSet<String>,
    transcripts: BTreeMap<String, Tail<Transcript>>,
    listed_at: Option<Millis>,
}

/// A registry file as it was read last. A file seen half written leaves the entry before it in force.
#[derive(Debug)]
struct Kept {
    stamp: ((u64, u64), u64, Option<Millis>),
    entry: Option<Entry>,
}

impl ClaudeHome {
    /// The root at `root`, which need not exist yet.
    pub(super) fn new(root: &Path) -> Self {
        let projects_path = root.join("projects");
        let is_transcript = |name: &str| name.strip_suffix(".jsonl").is_some_and(is_uuid);
        Self {
            registry: root.join("sessions"),
            projects: Folders::new(projects_path.clone(), 1, is_transcript),
            projects_path,
            entries: BTreeMap::new(),
            registered: BTreeSet::new(),
            transcripts: BTreeMap::new(),
            listed_at: None,
        }
    }

    /// Reads the registry files that changed.
    fn read_registry(&mut self, now: Millis) {
        let mut before = std::mem::take(&mut self.entries);
        for file in fs::read_dir(&self.registry).into_iter().flatten().flatten() {
            let Some(pid) = file.file_name().to_str().and_then(claude_registry::pid_of) else { continue };
            let Ok(meta) = fs::metadata(file.path()) else { continue };
            if !meta.is_file() || meta.len() > ENTRY_BYTES {
                continue;
            }
            let stamp = (file_id(&meta), meta.len(), modified_ms(&meta));
            let known = before.remove(&pid);
            // One word can replace another of its length within one tick of the file's time.
            let settled = stamp.2.is_some_and(|at| at + super::FILE_TIME_SETTLED_MS < now);
            if let Some(known) = known.as_ref().filter(|k| settled && k.stamp == stamp && k.entry.is_some()) {
                let entry = known.entry.clone();
                self.entries.insert(pid, Kept { stamp, entry });
                continue;
            }
            let read = fs::read(file.path()).ok().and_then(|bytes| claude_registry::read(pid, &bytes));
            let entry = read.or_else(|| known.and_then(|known| known.entry));
            self.entries.insert(pid, Kept { stamp, entry });
        }
    }

    /// The entries with a live process, one for each session: the one a person wants to know most of.
    fn live_entries(&mut self, liveness: &Liveness, now: Millis) -> BTreeMap<String, Entry> {
        let mut live: BTreeMap<String, Entry> = BTreeMap::new();
        for entry in self.entries.values().filter_map(|kept| kept.entry.as_ref()) {
            if self.registered.len() < REGISTERED_MAX {
                self.registered.insert(entry.session_id.clone());
            }
            if !is_live(entry, liveness, now) {
                continue;
            }
            let other = live.get(&entry.session_id);
            if other.is_none_or(|other| other.weight() < entry.weight()) {
                live.insert(entry.session_id.clone(), entry.clone());
            }
        }
        live
    }

    /// Processes that write no registry entry, and the transcripts that they write.
    fn unregistered(&mut self, liveness: &mut Liveness, now: Millis) -> Vec<(String, u32)> {
        let entries = &self.entries;
        let could_be = |p: &&Process| {
            // The native program's own file is named by its version.
            let is_version = p.name.starts_with(|c: char| c.is_ascii_digit());
            (is_version || matches!(p.name.as_str(), "claude" | "claude.exe" | "node"))
                && !entries.contains_key(&p.pid)
                && !entries.contains_key(&p.parent)
        };
        let processes: Vec<_> = liveness.processes(now).iter().filter(could_be).cloned().collect();
        let candidates: Vec<Candidate> = processes
            .into_iter()
            .filter(|p| is_session_program(&p.name, &liveness.arguments(p.pid)))
            .filter_map(|p| {
                Some(Candidate { cwd: Some(liveness.cwd(p.pid)?), pid: p.pid, started_at: p.started_at })
            })
            .filter(|c| liveness.process(c.pid, now).is_some())
            .collect();
        let files = self.written_for(&candidates);
        by_folder(candidates, files)
    }

    /// The folder of a working folder's transcripts. Names above 200 characters end in a hash that is not
    /// recomputed here: what goes before it has to do.
    fn project(&self, folder: &Path) -> PathBuf {
        let name = project_name(folder);
        let Some(beginning) = name.get(..PROJECT_NAME_MAX).filter(|_| name.len() > PROJECT_NAME_MAX) else {
            return self.projects_path.join(name);
        };
        let mut projects = fs::read_dir(&self.projects_path).into_iter().flatten().flatten();
        let long = projects.find(|entry| entry.file_name().to_string_lossy().starts_with(beginning));
        long.map_or_else(|| self.projects_path.join(&name), |entry| entry.path())
    }

    /// The transcripts written since these processes began that no registry entry was ever seen for: in the
    /// projects of their folders, and in those that changed since, for a project may have been given a name.
    fn written_for(&mut self, candidates: &[Candidate]) -> Vec<Written> {
        let Some(first) = candidates.iter().map(|candidate| candidate.started_at).min() else {
            return Vec::new();
        };
        let since = first - super::CLOCK_SLACK_MS;
        let named = candidates.iter().filter_map(|candidate| Some(self.project(candidate.cwd.as_deref()?)));
        let mut projects: BTreeSet<PathBuf> = named.collect();
        projects.extend(lately_changed(&self.projects_path, since).into_iter().map(|(_, path)| path));
        let mut found: Vec<_> = projects.iter().flat_map(|project| lately_changed(project, since)).collect();
        found.retain(|(_, path)| session_of(path).is_some_and(|id| !self.registered.contains(id)));
        found.sort_unstable_by(|a, b| b.cmp(a));
        let mut files = Vec::new();
        for (modified_at, path) in found.into_iter().take(WRITTEN_MAX) {
            let Some(native_id) = session_of(&path).map(str::to_owned) else { continue };
            let tail = self.transcripts.entry(native_id.clone()).or_insert_with(|| Tail::new(path));
            if let Some(cwd) = tail.refresh().ok().and_then(|()| tail.facts().cwd.clone()) {
                files.push(Written { native_id, cwd, modified_at });
            }
        }
        files
    }

    /// The transcript of a session, read up to now; the newest where a move left two.
    fn transcript(&mut self, id: &str) -> Option<&Transcript> {
        let known = self.transcripts.get(id).map(|tail| tail.path().to_owned()).into_iter();
        let found = self.projects.named(&format!("{id}.jsonl")).into_iter().chain(known);
        let dated = found.filter_map(|path| Some((modified_ms(&fs::metadata(&path).ok()?)?, path)));
        let (_, path) = dated.max()?;
        let tail = self.transcripts.entry(id.to_owned()).or_insert_with(|| Tail::new(path.clone()));
        if tail.path() != path {
            *tail = Tail::new(path);
        }
        if let Err(error) = tail.refresh() {
            tracing::debug!(%error, session = id, "a transcript could not be read");
        }
        Some(tail.facts())
    }

    /// Lists the projects again where a session's transcript is missing, and every 15 s.
    fn find_transcripts(&mut self, ids: &BTreeSet<&str>, now: Millis) {
        let missing = ids.iter().any(|id| self.transcripts.get(*id).is_none_or(|t| !t.path().exists()));
        if missing || super::is_due(self.listed_at, super::SWEEP_MS, now) {
            self.projects.refresh(now);
            self.listed_at = Some(now);
        }
    }
}

impl Harness for ClaudeHome {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn roots(&self) -> Vec<PathBuf> {
        vec![self.registry.clone(), self.projects_path.clone()]
    }

    fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::from([self.registry.clone(), self.projects_path.clone()]);
        let entries = self.entries.values().filter_map(|kept| kept.entry.as_ref());
        folders.extend(entries.map(|entry| self.project(&entry.cwd)));
        folders.extend(self.transcripts.values().filter_map(|t| t.path().parent().map(Path::to_owned)));
        folders
    }

    fn look(&mut self, liveness: &mut Liveness, now: Millis) -> Look {
        self.read_registry(now);
        let entries = self.live_entries(liveness, now);
        let unregistered = self.unregistered(liveness, now);
        let ids = entries.keys().map(String::as_str).chain(unregistered.iter().map(|(id, _)| id.as_str()));
        let ids: BTreeSet<&str> = ids.collect();
        self.find_transcripts(&ids, now);
        self.transcripts.retain(|id, _| ids.contains(id.as_str()));
        let registered = entries.iter().map(|(id, entry)| told_by_registry(id, entry, self.transcript(id)));
        let mut live: Vec<Live> = registered.collect();
        for (id, pid) in &unregistered {
            let began = liveness.process(*pid, now).map(|process| process.started_at);
            live.extend(self.transcript(id).and_then(|facts| told_by_transcript(id, facts, *pid, began)));
        }
        Look { live, again_at: None }
    }
}

/// What changed in a folder since then, and when.
fn lately_changed(folder: &Path, since: Millis) -> Vec<(Millis, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let dated =
        entries.filter_map(|entry| Some((modified_ms(&fs::metadata(entry.path()).ok()?)?, entry.path())));
    dated.filter(|(at, _)| *at >= since).collect()
}

fn is_live(entry: &Entry, liveness: &Liveness, now: Millis) -> bool {
    let Some(process) = liveness.process(entry.pid, now) else { return false };
    let same = entry.proc_start.as_deref().and_then(|start| began_at(&process, start));
    // Where the start can't be compared, the name must be right and the entry not older than the process.
    same.unwrap_or_else(|| {
        is_session_program(&process.name, &liveness.arguments(entry.pid))
            && entry.started_at.is_none_or(|at| at + super::CLOCK_SLACK_MS >= process.started_at)
    })
}

/// Whether a process is Claude Code in a session, by whole arguments: part of a path proves nothing.
fn is_session_program(name: &str, arguments: &[String]) -> bool {
    let program = arguments.first().map(|word| Path::new(word).file_stem().unwrap_or_default());
    let named = matches!(name, "claude" | "claude.exe") || program.is_some_and(|p| p == "claude");
    named && !arguments.iter().skip(1).take(1).any(|word| NOT_A_SESSION.contains(&word.as_str()))
}

fn told_by_registry(id: &str, entry: &Entry, transcript: Option<&Transcript>) -> Live {
    let read = transcript.map(|facts| facts.turn(entry.started_at));
    Live {
        native_id: id.to_owned(),
        cwd: transcript.and_then(|facts| facts.cwd.clone()).unwrap_or_else(|| entry.cwd.clone()),
        title: transcript.and_then(Transcript::title).map(str::to_owned).or_else(|| entry.name.clone()),
        model: transcript.and_then(|facts| facts.model.clone()),
        started_at: transcript.and_then(|facts| facts.started_at).or(entry.started_at),
        seen: entry.seen.or(read).unwrap_or_else(TurnSeen::unknown),
        pid: Some(entry.pid),
    }
}

fn told_by_transcript(id: &str, facts: &Transcript, pid: u32, began: Option<Millis>) -> Option<Live> {
    Some(Live {
        native_id: id.to_owned(),
        cwd: facts.cwd.clone()?,
        title: facts.title().map(str::to_owned),
        model: facts.model.clone(),
        started_at: facts.started_at,
        seen: facts.turn(began),
        pid: Some(pid),
    })
}

/// The name of a working folder's project: every character but ASCII letters and digits became `-`, one for
/// each UTF-16 unit. It can't be turned back, only compared.
fn project_name(folder: &Path) -> String {
    let text = folder.to_string_lossy();
    text.encode_utf16()
        .map(|unit| {
            u8::try_from(unit).map_or('-', |b| if b.is_ascii_alphanumeric() { char::from(b) } else { '-' })
        })
        .collect()
}

fn session_of(path: &Path) -> Option<&str> {
    let id = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    is_uuid(id).then_some(id)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
