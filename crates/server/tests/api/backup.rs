//! Backups, as their owner sees them: made beside a running server, whole, private, and of use.

use crate::world::{World, config};
use serde_json::json;
use std::path::Path;
use teamlamp_clock::{Chance, Clock};
use teamlamp_server::Server;
use teamlamp_server::backup::{self, BackupFault};
use teamlamp_server::store::copy;
use tempfile::TempDir;

fn restore(file: &Path, data: &Path, force: bool) -> Result<backup::Restored, BackupFault> {
    backup::restore(file, data, force, &Chance::system(), Clock::system().now_ms())
}

/// A server on another folder.
async fn serve(folder: TempDir) -> World {
    let clock = Clock::system();
    let server = Server::start(config(&folder, &clock)).await.unwrap();
    World { server, clock, folder }
}

#[tokio::test]
async fn a_backup_of_a_running_server_restores_its_teams_its_codes_and_its_keys() {
    let world = World::new().await;
    let owner = world.owner().await;
    let code = world.invite(&owner, "member").await;
    let data = world.folder.path().join("data");
    std::fs::write(data.join("tls-key.pem"), "the key that clients pinned").unwrap();
    let file = world.folder.path().join("team.backup");
    let made = backup::make(&data, &file, false, 7).unwrap();
    assert_eq!(made.files, ["server-keys.json", "tls-key.pem"]);
    assert_eq!(made.bytes, std::fs::metadata(&file).unwrap().len());
    assert_eq!(backup::last(&data), Some(7));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let left: Vec<_> =
        std::fs::read_dir(world.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing but the data and the backup: {left:?}");
    // What comes after is not in it.
    let late = world.join(&owner, "member", "Late").await;

    let fresh = tempfile::tempdir().unwrap();
    let restored = restore(&file, &fresh.path().join("data"), false).unwrap();
    assert_eq!((restored.made_at, restored.aside), (Some(7), None));
    let again = serve(fresh).await;
    assert_eq!(again.server.server_id(), world.server.server_id());
    assert_ne!(again.server.app().history_id, world.server.app().history_id, "cursors must not fit");
    assert_eq!(again.get("/v1/me").by(&owner.token).send().await.status, 200);
    assert_eq!(again.get("/v1/me").by(&late.token).send().await.status, 401);
    let joined = again.post("/v1/invitations/accept", json!({ "code": code, "name": "Mika" })).send().await;
    assert_eq!(joined.status, 201, "the keys of codes came along: {}", joined.text);
    let pinned = std::fs::read_to_string(again.folder.path().join("data/tls-key.pem")).unwrap();
    assert_eq!(pinned, "the key that clients pinned");
    // A restored database is an ordinary one: it holds no keys, and keeps its history from now on.
    let history = again.server.app().history_id.clone();
    let held = again.server.app().store.read(|db| {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'backup%'";
        Ok(db.query_row(sql, [], |row| row.get::<_, i64>(0))?)
    });
    assert_eq!(held.await.unwrap(), 0);
    let again = again.restart().await;
    assert_eq!(again.server.app().history_id, history);
}

#[tokio::test]
async fn a_backup_overwrites_nothing_unasked_and_needs_data() {
    let world = World::new().await;
    let data = world.folder.path().join("data");
    let file = world.folder.path().join("team.backup");
    std::fs::write(&file, "something of mine").unwrap();
    assert!(matches!(backup::make(&data, &file, false, 1), Err(BackupFault::Exists(_))));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "something of mine");
    backup::make(&data, &file, true, 1).unwrap();
    assert!(copy::read(&file).unwrap().made_at.is_some());
    let nowhere = world.folder.path().join("nowhere");
    assert!(matches!(backup::make(&nowhere, &file, true, 1), Err(BackupFault::NoData(_))));
    assert!(!nowhere.exists());
    assert!(copy::read(&file).is_ok(), "the old backup stands where the new one fails");
    let unwritable = world.folder.path().join("no/such/folder/team.backup");
    let sentence = backup::make(&data, &unwritable, false, 1).unwrap_err().to_string();
    assert!(sentence.contains("no/such/folder"), "{sentence}");
}

#[tokio::test]
async fn a_restore_replaces_nothing_unasked_and_keeps_what_was_there() {
    let world = World::new().await;
    let owner = world.owner().await;
    let data = world.folder.path().join("data");
    let file = world.folder.path().join("team.backup");
    backup::make(&data, &file, false, 1).unwrap();
    let later = world.join(&owner, "member", "Later").await;
    assert!(matches!(restore(&file, &data, true), Err(BackupFault::Running(_))), "a server holds it");
    assert_eq!(world.get("/v1/me").by(&later.token).send().await.status, 200);
    let World { server, clock, folder } = world;
    server.shutdown().await;
    assert!(matches!(restore(&file, &data, false), Err(BackupFault::Occupied(_))));
    let aside = restore(&file, &data, true).unwrap().aside.unwrap();
    assert!(aside.join("teamlamp.db").exists() && aside.join("server-keys.json").exists());
    let server = Server::start(config(&folder, &clock)).await.unwrap();
    let world = World { server, clock, folder };
    assert_eq!(world.get("/v1/me").by(&owner.token).send().await.status, 200);
    assert_eq!(world.get("/v1/me").by(&later.token).send().await.status, 401, "she came after the backup");
    // And back: what was kept aside is a database too.
    let (now, kept) = (world.folder.path().join("data"), aside.join("teamlamp.db"));
    let World { server, clock, folder } = world;
    server.shutdown().await;
    assert_eq!(restore(&kept, &now, true).unwrap().made_at, None, "a bare database");
    let server = Server::start(config(&folder, &clock)).await.unwrap();
    let world = World { server, clock, folder };
    assert_eq!(world.get("/v1/me").by(&later.token).send().await.status, 200);
}

#[tokio::test]
async fn a_damaged_a_newer_and_a_foreign_file_are_refused_and_change_nothing() {
    let world = World::new().await;
    world.owner().await;
    let World { server, folder, .. } = world;
    let data = folder.path().join("data");
    let file = folder.path().join("team.backup");
    backup::make(&data, &file, false, 1).unwrap();
    server.shutdown().await;
    let before = std::fs::read(data.join("teamlamp.db")).unwrap();
    let good = std::fs::read(&file).unwrap();
    let newer = folder.path().join("newer.backup");
    std::fs::write(&newer, &good).unwrap();
    rusqlite::Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    // The pages behind the first ones: tables' rows and indexes.
    let mut torn = good.clone();
    for byte in torn.iter_mut().skip(8 * 4096).take(16 * 4096) {
        *byte = 0xA5;
    }
    let cases: [(&str, Vec<u8>, &str); 4] = [
        ("newer.backup", std::fs::read(&newer).unwrap(), "newer Teamlamp"),
        ("torn.backup", torn, "not a sound database"),
        ("short.backup", good[..good.len() / 2].to_vec(), "not a sound database"),
        (
            "foreign.backup",
            b"not a database at all, but long enough to be read as one".repeat(40),
            "not a sound",
        ),
    ];
    for (name, bytes, word) in cases {
        let bad = folder.path().join(name);
        std::fs::write(&bad, bytes).unwrap();
        let sentence = restore(&bad, &data, true).unwrap_err().to_string();
        assert!(sentence.contains(word) && sentence.contains(name), "{sentence}");
        assert!(std::fs::read(data.join("teamlamp.db")).unwrap() == before, "{name}");
        assert!(!data.join("teamlamp.db.restoring").exists() && !data.join("restore-unfinished").exists());
    }
    assert!(restore(&folder.path().join("missing"), &data, true).is_err());
}

#[tokio::test]
async fn a_folder_in_which_a_restore_was_cut_off_is_not_served() {
    let world = World::new().await;
    let data = world.folder.path().join("data");
    let file = world.folder.path().join("team.backup");
    backup::make(&data, &file, false, 1).unwrap();
    let World { server, clock, folder } = world;
    server.shutdown().await;
    // Cut off where the old database lies aside and the new one is not there yet.
    std::fs::write(data.join("restore-unfinished"), "").unwrap();
    std::fs::rename(data.join("teamlamp.db"), folder.path().join("aside.db")).unwrap();
    let fault = Server::start(config(&folder, &clock)).await.unwrap_err().to_string();
    assert!(fault.contains("server restore --force"), "{fault}");
    assert!(!data.join("teamlamp.db").exists(), "no empty database in the place of the old one");
    restore(&file, &data, false).unwrap();
    Server::start(config(&folder, &clock)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_ends_however_much_is_written_meanwhile_and_is_of_one_moment() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writing = async {
        let mut number = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            number += 1;
            let text = format!("{number:09}").repeat(200);
            let pair = move |tx: &teamlamp_server::store::Tx<'_>| {
                teamlamp_server::store::meta::set(tx, "left", &text)?;
                Ok(teamlamp_server::store::meta::set(tx, "right", &text)?)
            };
            store.write(pair).await.unwrap();
        }
        number
    };
    let data = world.folder.path().join("data");
    let copying = async {
        let (data, folder, stop) = (data.clone(), world.folder.path().to_owned(), stop.clone());
        #[expect(clippy::disallowed_methods, reason = "awaited here")]
        tokio::task::spawn_blocking(move || {
            for number in 0..5 {
                let file = folder.join(format!("{number}.backup"));
                backup::make(&data, &file, false, 1).unwrap();
                let db = rusqlite::Connection::open(&file).unwrap();
                let value = |name: &str| -> Option<String> {
                    db.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).ok()
                };
                assert_eq!(value("left"), value("right"));
                assert_eq!(copy::complaints(&file).unwrap(), Vec::<String>::new());
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        })
        .await
        .unwrap();
    };
    let (written, ()) = tokio::join!(writing, copying);
    assert!(written > 5, "{written}");
}
