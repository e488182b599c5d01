//! The small interface that each watched program is adapted to, and the words that adapters share. It
//! knows no program by name.

use super::liveness::Liveness;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// A turn as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnSeen {
    /// What is done.
    pub(super) turn: Turn,
    /// The time of the record that caused it.
    pub(super) since: Option<Millis>,
    /// Whether it is known.
    pub(super) confirmed: bool,
}

impl TurnSeen {
    /// A turn that a record says outright.
    pub(super) fn known(turn: Turn, since: Option<Millis>) -> Self {
        Self { turn, since, confirmed: true }
    }
    /// The best reading of what there is.
    pub(super) fn likely(turn: Turn, since: Option<Millis>) -> Self {
        Self { turn, since, confirmed: false }
    }
    /// Nothing can be told.
    pub(super) fn unknown() -> Self {
        Self::likely(Turn::Unknown, None)
    }
}

/// A native session with a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Live {
    /// Its own id.
    pub(super) native_id: String,
    /// The folder that it began in.
    pub(super) cwd: PathBuf,
    /// What it is called.
    pub(super) title: Option<String>,
    /// The model that answered last.
    pub(super) model: Option<String>,
    /// When it began.
    pub(super) started_at: Option<Millis>,
    /// What it does.
    pub(super) seen: TurnSeen,
    /// Its process.
    pub(super) pid: Option<u32>,
}

/// What one look at a program's files and processes told.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// The sessions with a process, in no order; none twice.
    pub(super) live: Vec<Live>,
    /// When looking again tells more although no file changes by then.
    pub(super) again_at: Option<Millis>,
}

/// One program, in one of its homes.
pub(super) trait Harness: Send + std::fmt::Debug {
    /// The program, as the wire names it.
    fn name(&self) -> &'static str;
    /// The folders under which everything that is read lies.
    fn roots(&self) -> Vec<PathBuf>;
    /// The few folders, not what is below them, in which a change means to look again.
    fn folders(&self) -> BTreeSet<PathBuf>;
    /// Looks at what changed since the last time.
    fn look(&mut self, liveness: &mut Liveness, now: Millis) -> Look;
}

/// A process of a program that keeps no file of its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its id.
    pub(super) pid: u32,
    /// Its folder, where that can be seen.
    pub(super) cwd: Option<PathBuf>,
    /// When it began.
    pub(super) started_at: Millis,
}

/// A session's file that a candidate may be writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// The session.
    pub(super) native_id: String,
    /// The session's folder.
    pub(super) cwd: PathBuf,
    /// When the file was last written.
    pub(super) modified_at: Millis,
}

/// Which process writes which session: one in the same folder that lived when the file was last written.
/// The newest process takes the newest file; an old session's file that no process has touched stays dead.
pub(super) fn by_folder(mut candidates: Vec<Candidate>, mut files: Vec<Written>) -> Vec<(String, u32)> {
    candidates.sort_by_key(|c| (std::cmp::Reverse(c.started_at), c.pid));
    files.sort_by(|a, b| b.modified_at.cmp(&a.modified_at).then_with(|| a.native_id.cmp(&b.native_id)));
    let mut pairs = Vec::new();
    for candidate in candidates {
        let fits = |file: &Written| {
            candidate.cwd.as_deref().is_none_or(|cwd| same_folder(cwd, &file.cwd))
                && file.modified_at + super::CLOCK_SLACK_MS >= candidate.started_at
        };
        if let Some(at) = files.iter().position(fits) {
            pairs.push((files.remove(at).native_id, candidate.pid));
        }
    }
    pairs
}

/// Whether two paths are one folder, symbolic links resolved where they exist.
pub(super) fn same_folder(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Whether a text is a UUID as harnesses write it: the only native ids that name files here.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, cwd: Option<&str>, started_at: Millis) -> Candidate {
        Candidate { pid, cwd: cwd.map(PathBuf::from), started_at }
    }

    fn file(id: &str, cwd: &str, modified_at: Millis) -> Written {
        Written { native_id: id.into(), cwd: cwd.into(), modified_at }
    }

    #[test]
    fn a_process_takes_the_newest_file_of_its_folder() {
        let pairs = by_folder(
            vec![process(1, Some("/a"), 100), process(2, Some("/a"), 200), process(3, Some("/b"), 100)],
            vec![file("old", "/a", 250), file("new", "/a", 300), file("other", "/b", 300)],
        );
        assert_eq!(pairs, [("new".into(), 2), ("old".into(), 1), ("other".into(), 3)]);
    }

    #[test]
    fn a_new_process_does_not_wake_a_session_of_yesterday() {
        assert_eq!(by_folder(vec![process(1, Some("/a"), 5_000)], vec![file("old", "/a", 3_999)]), []);
    }

    #[test]
    fn a_process_whose_folder_is_hidden_still_counts() {
        let pairs = by_folder(vec![process(1, None, 100)], vec![file("s", "/a", 200)]);
        assert_eq!(pairs, [("s".into(), 1)]);
    }

    #[test]
    fn ids_are_uuids_and_nothing_that_leads_elsewhere() {
        assert!(is_uuid("01a22dde-d6ae-7781-a8f0-c5311323cba8"));
        for other in [
            "agent-a0b1c2d3",
            "..",
            "",
            "01a22dde-d6ae-7781-a8f0-c5311323cba8x",
            "../../../../../../../../../../etc/pass",
        ] {
            assert!(!is_uuid(other), "{other}");
        }
    }
}
