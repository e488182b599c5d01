//! The names of session files below one folder, kept without opening a file or asking after one: 20,000
//! old sessions cost one listing of their folders, and later only of those that changed.

use super::tail::{file_id, modified_ms};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;

/// The most folders that are listed, newest names first.
const FOLDERS_MAX: usize = 20_000;
/// The most names that are kept of one folder.
const NAMES_MAX: usize = 100_000;

/// A tree of folders of fixed depth, with the names of files in its lowest ones.
#[derive(Debug)]
pub(super) struct Folders {
    base: PathBuf,
    depth: usize,
    keep: fn(&str) -> bool,
    listed: BTreeMap<PathBuf, Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    stamp: Option<Stamp>,
    names: BTreeSet<String>,
    below: BTreeSet<String>,
}

#[derive(Debug, PartialEq)]
struct Stamp {
    id: (u64, u64),
    modified_at: Millis,
}

impl Folders {
    /// Files that `keep` wants, `depth` folders below `base`.
    pub(super) fn new(base: PathBuf, depth: usize, keep: fn(&str) -> bool) -> Self {
        Self { base, depth, keep, listed: BTreeMap::new() }
    }

    /// Lists the folders that changed since the last time.
    pub(super) fn refresh(&mut self, now: Millis) {
        let mut seen = BTreeMap::new();
        self.refresh_folder(self.base.clone(), self.depth, now, &mut seen);
        self.listed = seen;
    }

    fn refresh_folder(
        &mut self,
        folder: PathBuf,
        depth: usize,
        now: Millis,
        seen: &mut BTreeMap<PathBuf, Listed>,
    ) {
        let Some(stamp) = stamp(&folder).filter(|_| seen.len() < FOLDERS_MAX) else { return };
        let settled = stamp.modified_at + super::FILE_TIME_SETTLED_MS < now;
        let listed = match self.listed.remove(&folder) {
            Some(known) if known.stamp.as_ref() == Some(&stamp) => known,
            _ => self.list(&folder, depth, settled.then_some(stamp)),
        };
        let below = listed.below.clone();
        seen.insert(folder.clone(), listed);
        for name in below.iter().rev() {
            self.refresh_folder(folder.join(name), depth - 1, now, seen);
        }
    }

    fn list(&self, folder: &Path, depth: usize, stamp: Option<Stamp>) -> Listed {
        let mut listed = Listed { stamp, ..Listed::default() };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.take(NAMES_MAX) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if depth == 0 {
                if (self.keep)(&name) {
                    listed.names.insert(name);
                }
            } else if entry.path().is_dir() {
                listed.below.insert(name);
            }
        }
        listed
    }

    /// The files whose name is wanted, in the order of their folders' names.
    pub(super) fn find(&self, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let files = self.listed.iter().flat_map(|(folder, listed)| {
            listed.names.iter().filter(|name| wanted(name)).map(move |name| folder.join(name))
        });
        files.collect()
    }

    /// The files of exactly that name.
    pub(super) fn named(&self, name: &str) -> Vec<PathBuf> {
        let holding = self.listed.iter().filter(|(_, listed)| listed.names.contains(name));
        holding.map(|(folder, _)| folder.join(name)).collect()
    }

    /// Every folder on the way to the one whose name sorts last at each level: where dated folders grow.
    pub(super) fn newest_path(&self) -> Vec<PathBuf> {
        let (mut path, mut folder) = (vec![self.base.clone()], self.base.clone());
        while let Some(name) = self.listed.get(&folder).and_then(|listed| listed.below.last()) {
            folder = folder.join(name);
            path.push(folder.clone());
        }
        path
    }
}

fn stamp(folder: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(folder).ok().filter(std::fs::Metadata::is_dir)?;
    Some(Stamp { id: file_id(&meta), modified_at: modified_ms(&meta)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use teamlamp_clock::Clock;

    fn jsonl(name: &str) -> bool {
        name.ends_with(".jsonl")
    }

    fn names(folders: &Folders) -> Vec<String> {
        folders.find(|_| true).iter().map(|p| p.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn files_are_found_at_their_depth_and_folders_that_appear_later_too() {
        let home = tempfile::tempdir().unwrap();
        let base = home.path().join("sessions");
        let mut folders = Folders::new(base.clone(), 2, jsonl);
        let now = Clock::system().now_ms();
        folders.refresh(now);
        assert!(names(&folders).is_empty());
        fs::create_dir_all(base.join("2026/08")).unwrap();
        fs::write(base.join("2026/08/a.jsonl"), "").unwrap();
        fs::write(base.join("2026/08/a.txt"), "").unwrap();
        fs::write(base.join("2026/too-high.jsonl"), "").unwrap();
        folders.refresh(now);
        assert_eq!(names(&folders), ["a.jsonl"]);
        fs::create_dir_all(base.join("2026/09/too-deep")).unwrap();
        fs::write(base.join("2026/09/b.jsonl"), "").unwrap();
        fs::write(base.join("2026/09/too-deep/c.jsonl"), "").unwrap();
        folders.refresh(now);
        assert_eq!(names(&folders), ["a.jsonl", "b.jsonl"]);
        assert_eq!(folders.newest_path().last(), Some(&base.join("2026/09")));
        fs::remove_dir_all(base.join("2026/08")).unwrap();
        folders.refresh(now);
        assert_eq!(names(&folders), ["b.jsonl"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_did_not_change_is_not_listed_again() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("a.jsonl"), "").unwrap();
        let mut folders = Folders::new(home.path().to_owned(), 0, jsonl);
        let much_later = Clock::system().now_ms() + 60_000;
        folders.refresh(much_later);
        assert_eq!(names(&folders), ["a.jsonl"]);
        // Its stamp is as it was, so what is remembered stays: proof that the folder was not read.
        folders.listed.get_mut(home.path()).unwrap().names.insert("remembered.jsonl".into());
        folders.refresh(much_later);
        assert_eq!(names(&folders), ["a.jsonl", "remembered.jsonl"]);
        fs::write(home.path().join("b.jsonl"), "").unwrap();
        // Both files may be made within one tick of the folder's time.
        let later =
            std::time::UNIX_EPOCH + std::time::Duration::from_millis(much_later.unsigned_abs() - 30_000);
        fs::File::open(home.path()).unwrap().set_modified(later).unwrap();
        folders.refresh(much_later);
        assert_eq!(names(&folders), ["a.jsonl", "b.jsonl"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_made_within_one_tick_of_the_folders_time_is_found() {
        let (home, now) = (tempfile::tempdir().unwrap(), Clock::system().now_ms());
        let mut folders = Folders::new(home.path().to_owned(), 0, jsonl);
        let time = fs::metadata(home.path()).unwrap().modified().unwrap();
        for (name, count) in [("a.jsonl", 1), ("b.jsonl", 2)] {
            fs::write(home.path().join(name), "").unwrap();
            fs::File::open(home.path()).unwrap().set_modified(time).unwrap();
            folders.refresh(now);
            assert_eq!(names(&folders).len(), count);
        }
    }
}
