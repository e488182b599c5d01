//! A store that fails: what `/readyz` says, that reading goes on, that nothing acknowledged is lost, and that
//! the server recovers by itself when the cause ends.

use crate::world::{Answer, Person, World};
use rusqlite::Connection;
use serde_json::json;
use std::process::Command;
use teamlamp_server::maintenance::Upkeep;
use teamlamp_server::store::{Fault, copy};

async fn make(world: &World, owner: &Person, name: &str) -> Answer {
    world.post("/v1/teams", json!({ "name": name })).by(&owner.token).send().await
}

/// The server says why it is not ready, and goes on reading.
async fn ailing(world: &World, owner: &Person, reason: &str) {
    world.clock.sleep(std::time::Duration::from_millis(1_100)).await;
    let ready = world.get("/readyz").send().await;
    ready.refused(503, "unavailable");
    assert_eq!(ready.body["error"]["details"]["reason"], reason, "{}", ready.text);
    assert_eq!(world.get("/healthz").send().await.status, 200);
    assert_eq!(world.get("/v1/me").by(&owner.token).send().await.status, 200, "reading goes on");
    let metrics = world.get("/metrics").send().await.text;
    assert!(metrics.contains(&format!("teamlamp_store_fault{{reason=\"{reason}\"}} 1\n")), "{metrics}");
}

/// The server is ready by itself again, and has what it acknowledged.
async fn well(world: &World, owner: &Person, teams: usize) {
    world.clock.sleep(std::time::Duration::from_millis(1_100)).await;
    let ready = world.get("/readyz").send().await;
    assert_eq!(ready.status, 200, "{}", ready.text);
    assert_eq!(make(world, owner, "after").await.status, 201);
    assert_eq!(world.server.app().store.fault(), None);
    let me = world.get("/v1/me").by(&owner.token).send().await;
    assert_eq!(me.data()["memberships"].as_array().unwrap().len(), teams + 1, "nothing acknowledged is lost");
}

/// Lets maintenance run until nothing is left.
async fn keep_up(world: &World) {
    let mut upkeep = Upkeep::default();
    while upkeep.run(world.server.app()).await {}
}

/// A file system of a few MiB of its own, where this user may mount one; it goes with this value.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount() -> Option<Self> {
        let at = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at.path()).output();
        mounted.is_ok_and(|done| done.status.success()).then_some(Self(at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_disk_that_fills_is_said_and_room_mends_it() {
    let Some(disk) = Disk::mount() else { return println!("not run: no file system can be mounted here") };
    let data = disk.0.path().join("data");
    let database = data.join("teamlamp.db");
    let world = World::with(move |config| config.data = data).await;
    let owner = world.owner().await;
    let filler = disk.0.path().join("filler");
    let mut filling = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut filling, &[0; 4096]).is_ok() {}
    let mut teams = 1;
    let refusal = loop {
        let answer = make(&world, &owner, &format!("team {teams}")).await;
        if answer.status != 201 {
            break answer;
        }
        teams += 1;
        assert!(teams < 1_000, "the disk is full");
    };
    assert!(refusal.refused(503, "unavailable").contains("disk is full"));
    assert_eq!(refusal.body["error"]["details"]["reason"], "disk_full");
    // A full disk may end the log's growth in the middle of any statement: again and again.
    for number in 0..20 {
        assert_eq!(make(&world, &owner, &format!("none {number}")).await.status, 503);
    }
    ailing(&world, &owner, "disk_full").await;
    drop(filling);
    std::fs::remove_file(&filler).unwrap();
    well(&world, &owner, teams).await;
    assert_eq!(copy::complaints(&database).unwrap(), Vec::<String>::new());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_disk_that_becomes_read_only_is_said_and_mends_itself() {
    // A file system can't be remounted while a file of it is open for writing; its files can be made immutable.
    let world = World::new().await;
    let owner = world.owner().await;
    let data = world.folder.path().join("data");
    let files = ["teamlamp.db", "teamlamp.db-wal"].map(|name| data.join(name));
    let change = |flag: &str| Command::new("chattr").arg(flag).args(&files).output();
    if !change("+i").is_ok_and(|done| done.status.success()) {
        return println!("not run: no file can be made immutable here");
    }
    let refusal = make(&world, &owner, "none").await;
    let ailing = async {
        refusal.refused(503, "unavailable");
        ailing(&world, &owner, "read_only").await;
    };
    let seen = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(ailing)).await;
    // Given back whatever was found, so that the folder can be removed.
    assert!(change("-i").unwrap().status.success());
    seen.unwrap_or_else(|fault| std::panic::resume_unwind(fault));
    well(&world, &owner, 1).await;
}

#[tokio::test]
async fn a_database_that_another_program_locks_is_said_and_its_end_mends_it() {
    let world = World::new().await;
    let owner = world.owner().await;
    let other = Connection::open(world.server.app().store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refusal = make(&world, &owner, "none").await;
    assert!(refusal.refused(503, "unavailable").contains("locked by another program"));
    ailing(&world, &owner, "locked").await;
    other.execute_batch("ROLLBACK").unwrap();
    well(&world, &owner, 1).await;
}

#[tokio::test]
async fn a_damaged_page_is_said_what_does_not_stand_on_it_is_served_and_a_sound_file_mends_it() {
    let world = World::new().await;
    let owner = world.owner().await;
    let path = world.folder.path().join("data/teamlamp.db");
    // The pages of the audit, which nothing else needs, overwritten in the file.
    let looking = Connection::open(&path).unwrap();
    // A page that the log still holds would be read from there: waited for until nobody reads.
    while looking.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap() != 0 {
        tokio::task::yield_now().await;
    }
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'audit_by_team'";
    let root: i64 = looking.query_row(root, [], |row| row.get(0)).unwrap();
    drop(looking);
    let write = |bytes: &[u8]| {
        // By another process: closing the file in this one would drop the locks of the server.
        let mut child = Command::new("dd")
            .arg(format!("of={}", path.display()))
            .args(["bs=4096", "conv=notrunc", &format!("seek={}", root - 1)])
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), bytes).unwrap();
        assert!(child.wait().unwrap().success());
    };
    let page = {
        let out = Command::new("dd")
            .arg(format!("if={}", path.display()))
            .args(["bs=4096", "count=1", &format!("skip={}", root - 1)])
            .output()
            .unwrap();
        out.stdout
    };
    assert_eq!(page.len(), 4096);
    write(&[0x5A; 4096]);
    // New connections have nothing of it in memory.
    let store = world.server.app().store.clone();
    let reads = (0..8).map(|_| {
        store.read(|db| {
            db.execute_batch("PRAGMA shrink_memory")?;
            let sql = "SELECT count(*) FROM audit INDEXED BY audit_by_team WHERE team_id > ''";
            Ok(db.query_row(sql, [], |row| row.get::<_, i64>(0))?)
        })
    });
    let read = futures_util::future::join_all(reads).await;
    let fault = read.into_iter().find_map(Result::err).expect("the damage is met");
    assert_eq!(fault.fault, Some(Fault::Corrupt));
    ailing(&world, &owner, "corrupt").await;
    // It is looked for again, and found again.
    keep_up(&world).await;
    assert_eq!(world.server.app().store.fault(), Some(Fault::Corrupt));
    assert!(!copy::complaints(&path).unwrap_or_else(|fault| vec![fault.to_string()]).is_empty());
    write(&page);
    keep_up(&world).await;
    well(&world, &owner, 1).await;
}
