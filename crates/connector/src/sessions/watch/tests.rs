//! Which folders are watched, and what happens where the system refuses.

use super::*;
use notify::{Config, Error, WatcherKind};
use std::fs;
use std::time::Duration;
use teamlamp_clock::Clock;

/// A watcher that refuses every folder, as the kernel does when its watches are used up.
#[derive(Debug)]
struct UsedUp;

impl Watcher for UsedUp {
    fn new<F: notify::EventHandler>(_: F, _: Config) -> notify::Result<Self> {
        Ok(Self)
    }
    fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
        Err(Error::new(ErrorKind::MaxFilesWatch))
    }
    fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
        Ok(())
    }
    fn kind() -> WatcherKind {
        WatcherKind::NullWatcher
    }
}

fn follow(watch: &mut Watch, folders: &[&Path]) {
    watch.follow(&folders.iter().map(|p| p.to_path_buf()).collect(), RecursiveMode::NonRecursive);
}

/// Whether a change is told within ten seconds.
async fn told(changed: &Notify) -> bool {
    Clock::system().within(Duration::from_secs(10), changed.notified()).await.is_some()
}

#[tokio::test]
async fn a_new_line_in_a_watched_folder_is_told_and_reading_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    fs::write(&file, "one\n").unwrap();
    let changed = Arc::new(Notify::new());
    let mut watch = Watch::new(open_system, changed.clone());
    follow(&mut watch, &[folder.path()]);
    assert!(told(&changed).await, "a folder watched from now on is looked at once more");
    fs::read(&file).unwrap();
    fs::write(folder.path().join("b.jsonl"), "two\n").unwrap();
    assert!(told(&changed).await);
    assert!(watch.polled().is_empty());
    assert!(!is_change(&Ok(Event::new(notify::EventKind::Access(notify::event::AccessKind::Read)))));
}

#[tokio::test]
async fn a_folder_that_is_made_again_is_watched_again() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("sessions");
    let changed = Arc::new(Notify::new());
    let mut watch = Watch::new(open_system, changed.clone());
    follow(&mut watch, &[&folder]);
    assert!(watch.watched.is_empty() && watch.polled().is_empty());
    for _ in 0..2 {
        fs::create_dir(&folder).unwrap();
        follow(&mut watch, &[&folder]);
        assert!(told(&changed).await);
        fs::write(folder.join("a"), "x").unwrap();
        assert!(told(&changed).await);
        fs::remove_dir_all(&folder).unwrap();
        assert!(told(&changed).await);
        follow(&mut watch, &[&folder]);
        assert!(watch.watched.is_empty());
    }
    follow(&mut watch, &[]);
}

#[test]
fn used_up_watches_and_watchers_are_named_with_what_mends_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = Watch::new(|_| Ok(Box::new(UsedUp)), Arc::default());
    follow(&mut watch, &[folder.path()]);
    assert_eq!(watch.polled().get(folder.path()), Some(&PollReason::WatchLimit));
    let mut watch = Watch::new(
        |_| Err(Error::io(std::io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()))),
        Arc::default(),
    );
    follow(&mut watch, &[folder.path()]);
    assert_eq!(watch.polled().get(folder.path()), Some(&PollReason::InstanceLimit));
    let mut watch = Watch::new(|_| Err(Error::generic("no luck")), Arc::default());
    follow(&mut watch, &[folder.path()]);
    assert_eq!(watch.polled().get(folder.path()), Some(&PollReason::Other("no luck".into())));
}

#[test]
fn a_refused_folder_is_watched_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = Watch::new(|_| Ok(Box::new(UsedUp)), Arc::default());
    follow(&mut watch, &[folder.path()]);
    (watch.open, watch.watcher) = (open_system, None);
    follow(&mut watch, &[folder.path()]);
    assert!(watch.polled().is_empty() && watch.watched.contains_key(folder.path()));
}

#[test]
fn a_full_queue_of_events_means_to_look() {
    let overflow = Event::new(notify::EventKind::Other).set_flag(notify::event::Flag::Rescan);
    assert!(is_change(&Ok(overflow)));
    assert!(is_change(&Err(Error::new(ErrorKind::MaxFilesWatch))));
}

#[cfg(target_os = "linux")]
#[test]
fn a_local_folder_is_told_of() {
    assert_eq!(silent_file_system(tempfile::tempdir().unwrap().path()), None);
}
