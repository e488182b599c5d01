//! Being told of changes in a few folders, by the operating system where it does, and knowing where it does
//! not. It reads no files and keeps no list of changes: each is a reason to look, and looking is cheap.

use super::found::PollReason;
use super::tail::file_id;
use notify::{ErrorKind, Event, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;

/// What the system's watcher calls.
pub(super) type Handler = Box<dyn FnMut(notify::Result<Event>) + Send>;
/// How a watcher is made; tests make ones that refuse.
pub(super) type Open = fn(Handler) -> notify::Result<Box<dyn Watcher + Send>>;

/// The system's own watcher.
pub(super) fn open_system(handler: Handler) -> notify::Result<Box<dyn Watcher + Send>> {
    Ok(Box::new(notify::recommended_watcher(handler)?))
}

/// The watched folders.
pub(super) struct Watch {
    open: Open,
    watcher: Option<Box<dyn Watcher + Send>>,
    watched: BTreeMap<PathBuf, (u64, u64)>,
    polled: BTreeMap<PathBuf, PollReason>,
    changed: Arc<Notify>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("watched", &self.watched).field("polled", &self.polled).finish()
    }
}

impl Watch {
    /// Nothing watched yet; `changed` is told of each change, many at once as one.
    pub(super) fn new(open: Open, changed: Arc<Notify>) -> Self {
        Self { open, watcher: None, watched: BTreeMap::new(), polled: BTreeMap::new(), changed }
    }

    /// The folders where the system tells nothing, and why.
    pub(super) fn polled(&self) -> &BTreeMap<PathBuf, PollReason> {
        &self.polled
    }

    /// Watches exactly these folders: those that exist, anew those that were replaced. What is refused is
    /// tried again at the next call. A folder watched from now on may have changed since it was looked at,
    /// which is told as a change.
    pub(super) fn follow(&mut self, folders: &BTreeSet<PathBuf>, mode: RecursiveMode) {
        let existing: BTreeMap<_, _> =
            folders.iter().filter_map(|folder| Some((folder.clone(), folder_id(folder)?))).collect();
        let left: Vec<_> = self
            .watched
            .iter()
            .filter(|(path, id)| existing.get(*path) != Some(*id))
            .map(|(p, _)| p.clone())
            .collect();
        for folder in left {
            self.watched.remove(&folder);
            if let Some(watcher) = &mut self.watcher {
                // The system drops the watch of a folder that is gone by itself.
                let _ = watcher.unwatch(&folder);
            }
        }
        let before = std::mem::take(&mut self.polled);
        for (folder, id) in existing {
            if self.watched.contains_key(&folder) {
                continue;
            }
            match self.watch(&folder, mode) {
                Ok(()) => {
                    self.watched.insert(folder, id);
                    self.changed.notify_one();
                }
                Err(reason) => {
                    if before.get(&folder) != Some(&reason) {
                        tracing::warn!(folder = %folder.display(), code = reason.code(), "{reason}");
                    }
                    self.polled.insert(folder, reason);
                }
            }
        }
    }

    fn watch(&mut self, folder: &Path, mode: RecursiveMode) -> Result<(), PollReason> {
        if let Some(name) = silent_file_system(folder) {
            return Err(PollReason::FileSystem(name));
        }
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            None => {
                let changed = self.changed.clone();
                let handler = move |event| {
                    if is_change(&event) {
                        changed.notify_one();
                    }
                };
                self.watcher.insert((self.open)(Box::new(handler)).map_err(|error| refused(&error))?)
            }
        };
        watcher.watch(folder, mode).map_err(|error| refused(&error))
    }
}

/// Reading a file is an event too, and would make each look the reason of the next. Errors and overflows of
/// the system's queue mean that something may have been missed.
fn is_change(event: &notify::Result<Event>) -> bool {
    !matches!(event, Ok(event) if event.kind.is_access())
}

fn refused(error: &notify::Error) -> PollReason {
    match &error.kind {
        ErrorKind::MaxFilesWatch => PollReason::WatchLimit,
        // inotify_init says EMFILE where the person's instances are used up, which reads as 'too many open files'.
        #[cfg(unix)]
        ErrorKind::Io(io) if io.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            PollReason::InstanceLimit
        }
        _ => PollReason::Other(error.to_string()),
    }
}

fn folder_id(folder: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(folder).ok().filter(std::fs::Metadata::is_dir).map(|meta| file_id(&meta))
}

/// The name of a file system whose changes may be made elsewhere, untold.
#[cfg(target_os = "linux")]
fn silent_file_system(folder: &Path) -> Option<&'static str> {
    // statfs(2) lists these numbers.
    let kind = rustix::fs::statfs(folder).ok()?.f_type;
    let kinds = [
        (0x6969, "nfs"),
        (0xFF53_4D42, "cifs"),
        (0xFE53_4D42, "smb"),
        (0x517B, "smb"),
        (0x6573_5546, "fuse"),
        (0x0102_1997, "9p"),
    ];
    // The field's width differs between processors; the number is 32 bits.
    kinds.into_iter().find(|(magic, _)| *magic == kind as u32).map(|(_, name)| name)
}

#[cfg(not(target_os = "linux"))]
fn silent_file_system(_folder: &Path) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests;
