//! Backups: a copy of the database and of the keys beside it in one file, made while a server runs or not; and
//! the way back. The file holds what the data folder holds: it is a secret.

use crate::folder::{self, DATABASE, Held, HoldFault, LAST_BACKUP, UNFINISHED};
use crate::store::{OpenError, copy};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use teamlamp_clock::Chance;
use teamlamp_wire::Millis;

/// Why no backup is made, or none restored. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BackupFault {
    /// There is nothing to copy.
    #[error("there is no server's data in {}: name the folder with --data", .0.display())]
    NoData(PathBuf),
    /// The file is there already.
    #[error("{} is there already: choose another name, or overwrite it with --force", .0.display())]
    Exists(PathBuf),
    /// The folder has a database.
    #[error("{} holds a server's data already: name another folder, or replace it with --force (what is there is kept aside)", .0.display())]
    Occupied(PathBuf),
    /// A server holds the folder.
    #[error("a server is running with the data in {}: stop it first", .0.display())]
    Running(PathBuf),
    /// The file is no backup, or is damaged or newer.
    #[error(transparent)]
    Database(#[from] OpenError),
    /// The copy can't be made.
    #[error("the copy can't be made ({0}): make room on the disk, or look at the server's log")]
    Copy(#[from] rusqlite::Error),
    /// A file or folder can't be read or written.
    #[error("{} can't be read or written ({cause}): mend its permissions, or make room", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> BackupFault {
    let path = path.to_owned();
    move |cause| BackupFault::File { path, cause }
}

/// A backup that was made.
#[derive(Debug, Serialize)]
pub struct Made {
    /// Its bytes.
    pub bytes: u64,
    /// The files that it carries besides the database.
    pub files: Vec<String>,
}

/// A backup that was restored.
#[derive(Debug, Serialize)]
pub struct Restored {
    /// When it was made; `None` of a bare database, such as a copy from before a migration.
    pub made_at: Option<Millis>,
    /// Its schema: an older one is brought up to date at the next start.
    pub schema: i64,
    /// The files that it carried.
    pub files: Vec<String>,
    /// Where what was in the folder now lies.
    pub aside: Option<PathBuf>,
}

/// When a backup was last made of a data folder.
#[derive(Debug, Serialize, Deserialize)]
struct Last {
    at: Millis,
    bytes: u64,
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Writes a backup of the data folder `data` into `file`, as of one moment, whether a server runs on it or
/// not: whole and on disk, or not at all. Only its owner may read it.
///
/// # Errors
/// No data there, a file that is there already (unless `overwrite`), a disk that fails.
pub fn make(data: &Path, file: &Path, overwrite: bool, now_ms: Millis) -> Result<Made, BackupFault> {
    let database = data.join(DATABASE);
    if !std::fs::metadata(&database).is_ok_and(|file| file.len() > 0) {
        return Err(BackupFault::NoData(data.to_owned()));
    }
    if file.exists() && !overwrite {
        return Err(BackupFault::Exists(file.to_owned()));
    }
    let half = beside(file, ".half");
    let made = copy_whole(data, &half, now_ms).and_then(|made| {
        std::fs::rename(&half, file).and_then(|()| folder::settle(file)).map_err(at(file))?;
        Ok(made)
    });
    if made.is_err() {
        // What was begun is of no use, and holds secrets.
        let _ = std::fs::remove_file(&half);
        let _ = std::fs::remove_file(beside(&half, "-journal"));
    }
    let made = made?;
    let last = serde_json::to_vec(&Last { at: now_ms, bytes: made.bytes }).unwrap_or_default();
    // The backup stands without this note, which `stats` shows.
    if let Err(fault) = folder::write_private(&data.join(LAST_BACKUP), &last) {
        tracing::warn!(%fault, "when the backup was made could not be noted");
    }
    Ok(made)
}

fn copy_whole(data: &Path, half: &Path, now_ms: Millis) -> Result<Made, BackupFault> {
    let files = folder::carried(data).map_err(at(data))?;
    let file = folder::private_file().write(true).truncate(true).open(half);
    let file = file.and_then(|file| folder::make_private(half, 0o600).map(|()| file)).map_err(at(half))?;
    copy::copy_out(&data.join(DATABASE), half, &files, now_ms)?;
    file.sync_all().map_err(at(half))?;
    let bytes = file.metadata().map_err(at(half))?.len();
    Ok(Made { bytes, files: files.into_iter().map(|file| file.name).collect() })
}

/// When a backup was last made of a data folder.
pub fn last(data: &Path) -> Option<Millis> {
    let bytes = std::fs::read(data.join(LAST_BACKUP)).ok()?;
    Some(serde_json::from_slice::<Last>(&bytes).ok()?.at)
}

/// Puts a backup into the data folder `data`, which no server may hold. What is there (`force`) is kept aside
/// in it. The database gets a new history: clients' cursors of the old one are told that it was restored.
///
/// # Errors
/// A file that is no sound database of this or an older program, a folder in use or occupied, a disk that
/// fails; then what was in the folder is still there.
pub fn restore(
    file: &Path,
    data: &Path,
    force: bool,
    chance: &Chance,
    now_ms: Millis,
) -> Result<Restored, BackupFault> {
    std::fs::metadata(file).map_err(at(file))?;
    let held = Held::lock(data).map_err(|fault| match fault {
        HoldFault::Unwritable(cause) => at(data)(cause),
        HoldFault::InUse | HoldFault::Unfinished => BackupFault::Running(data.to_owned()),
    })?;
    if data.join(DATABASE).exists() && !force {
        return Err(BackupFault::Occupied(data.to_owned()));
    }
    // Looked at where it will lie, so that what was looked at is what is served.
    let (database, fresh) = (data.join(DATABASE), beside(&data.join(DATABASE), ".restoring"));
    let copied = take_in(file, &fresh).and_then(|()| Ok(copy::read(&fresh)?)).and_then(|copied| {
        copy::begin_history(&fresh, &format!("{:032x}", chance.bits()))?;
        let synced = std::fs::File::open(&fresh).and_then(|file| file.sync_all());
        synced.map_err(at(&fresh))?;
        Ok(copied)
    });
    let copied = match copied {
        Ok(copied) => copied,
        Err(fault) => {
            let _ = std::fs::remove_file(&fresh);
            return Err(named(fault, &fresh, file));
        }
    };
    let marker = data.join(UNFINISHED);
    folder::write_private(&marker, b"").map_err(at(&marker))?;
    let files: Vec<_> = copied.files.into_iter().filter(|file| folder::may_carry(&file.name)).collect();
    let leaving = [DATABASE, "teamlamp.db-wal", "teamlamp.db-shm", "teamlamp.db-journal"].into_iter();
    let aside = put_aside(data, leaving.chain(files.iter().map(|file| file.name.as_str())), now_ms)?;
    for carried in &files {
        let path = data.join(&carried.name);
        folder::write_private(&path, &carried.bytes).map_err(at(&path))?;
    }
    std::fs::rename(&fresh, &database).and_then(|()| folder::settle(&database)).map_err(at(&database))?;
    std::fs::remove_file(&marker).and_then(|()| folder::settle(&marker)).map_err(at(&marker))?;
    drop(held);
    let files = files.into_iter().map(|file| file.name).collect();
    Ok(Restored { made_at: copied.made_at, schema: copied.schema, files, aside })
}

/// Copies a backup's bytes into a private file.
fn take_in(from: &Path, to: &Path) -> Result<(), BackupFault> {
    let mut source = std::fs::File::open(from).map_err(at(from))?;
    let target = folder::private_file().write(true).truncate(true).open(to);
    let mut target = target.map_err(at(to))?;
    io::copy(&mut source, &mut target).map_err(at(to))?;
    target.sync_all().map_err(at(to))
}

/// A fault of the copy is said of the file that the person named.
fn named(fault: BackupFault, copy: &Path, file: &Path) -> BackupFault {
    let named = |path: PathBuf| if path == copy { file.to_owned() } else { path };
    match fault {
        BackupFault::Database(OpenError::Damaged { path, cause }) => {
            OpenError::Damaged { path: named(path), cause }.into()
        }
        BackupFault::Database(OpenError::Newer { path, found, known }) => {
            OpenError::Newer { path: named(path), found, known }.into()
        }
        BackupFault::Database(OpenError::Unwritable { path, cause }) => {
            OpenError::Unwritable { path: named(path), cause }.into()
        }
        fault => fault,
    }
}

/// Moves files of the folder into one of their own; `None` where there were none.
fn put_aside<'a>(
    data: &Path,
    names: impl Iterator<Item = &'a str>,
    now_ms: Millis,
) -> Result<Option<PathBuf>, BackupFault> {
    let aside = data.join(format!("before-restore-{now_ms}"));
    let mut moved = None;
    for name in names {
        let from = data.join(name);
        if !from.exists() {
            continue;
        }
        if moved.is_none() {
            std::fs::create_dir_all(&aside).map_err(at(&aside))?;
            folder::make_private(&aside, 0o700).map_err(at(&aside))?;
            moved = Some(aside.clone());
        }
        std::fs::rename(&from, aside.join(name)).map_err(at(&from))?;
    }
    if let Some(aside) = &moved {
        folder::settle(&aside.join(DATABASE)).and_then(|()| folder::settle(aside)).map_err(at(aside))?;
    }
    Ok(moved)
}
