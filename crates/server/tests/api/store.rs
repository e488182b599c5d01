//! The store: changes that wait are committed together, each stands or falls alone.

use crate::world::World;
use std::sync::mpsc;
use teamlamp_server::error::ApiError;
use teamlamp_server::store::{Store, meta};

async fn value(store: &Store, name: &'static str) -> Option<String> {
    store.read(move |db| Ok(meta::get(db, name)?)).await.unwrap()
}

/// Keeps the writer busy until the sender is used, so that what comes meanwhile waits together.
fn busy(store: &Store) -> (mpsc::Sender<()>, impl Future<Output = Result<bool, ApiError>> + use<>) {
    let (release, hold) = mpsc::channel::<()>();
    let store = store.clone();
    (release, async move { store.write(move |_| Ok(hold.recv().is_ok())).await })
}

#[tokio::test]
async fn many_changes_are_few_commits() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    let (release, blocked) = busy(&store);
    let before = store.commits();
    let changes = (0..200).map(|number| {
        let store = store.clone();
        async move { store.write(move |tx| Ok(meta::set(tx, &format!("n{number}"), "1")?)).await }
    });
    let all = futures_util::future::join_all(changes);
    let (_, results, ()) = tokio::join!(blocked, all, async { release.send(()).unwrap() });
    assert!(results.iter().all(Result::is_ok));
    let commits = store.commits() - before;
    assert!(commits <= 4, "200 changes took {commits} commits");
    assert_eq!(value(&store, "n199").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_read_that_nobody_waits_for_keeps_its_place_while_it_runs() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    let (begun, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
    let mut releases = Vec::new();
    for _ in 0..6 {
        let ((release, hold), begun) = (mpsc::channel::<()>(), begun.clone());
        releases.push(release);
        let read = store.read(move |_| {
            let _ = begun.send(());
            Ok(hold.recv().is_ok())
        });
        // Its request is over once it runs.
        tokio::select! {
            biased;
            Some(()) = beginnings.recv() => {}
            _ = read => panic!("it was not released"),
        }
    }
    let mut seventh = std::pin::pin!(value(&store, "schema"));
    let none = tokio::time::timeout(std::time::Duration::from_millis(300), seventh.as_mut()).await;
    assert!(none.is_err(), "six readers run: there is no seventh");
    drop(releases);
    seventh.await;
}

#[tokio::test]
async fn a_failing_change_rolls_back_alone() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    let (release, blocked) = busy(&store);
    let write = |name: &'static str, end: fn() -> Result<(), ApiError>| {
        store.write(move |tx| {
            meta::set(tx, name, "1")?;
            end()
        })
    };
    let (_, good, refused, panicked, late, ()) = tokio::join!(
        blocked,
        write("good", || Ok(())),
        write("refused", || Err(ApiError::conflict("No."))),
        write("panicked", || panic!("on purpose")),
        write("late", || Ok(())),
        async { release.send(()).unwrap() },
    );
    assert!(good.is_ok() && late.is_ok());
    assert_eq!(refused.unwrap_err().status, 409);
    assert_eq!(panicked.unwrap_err().status, 500);
    for (name, kept) in [("good", true), ("refused", false), ("panicked", false), ("late", true)] {
        assert_eq!(value(&store, name).await.is_some(), kept, "{name}");
    }
    // The writer goes on.
    assert!(write("after", || Ok(())).await.is_ok());
}

#[tokio::test]
async fn reads_see_one_snapshot_and_cannot_write() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    store.write(|tx| Ok(meta::set(tx, "a", "1")?)).await.unwrap();
    let (started, begun) = tokio::sync::oneshot::channel();
    let (release, hold) = mpsc::channel::<()>();
    let read = store.read(move |db| {
        let first = meta::get(db, "a")?;
        started.send(()).unwrap();
        hold.recv().unwrap();
        Ok((first, meta::get(db, "a")?))
    });
    let change = async {
        begun.await.unwrap();
        store.write(|tx| Ok(meta::set(tx, "a", "2")?)).await.unwrap();
        release.send(()).unwrap();
    };
    let (seen, ()) = tokio::join!(read, change);
    assert_eq!(seen.unwrap(), (Some("1".into()), Some("1".into())));
    assert_eq!(value(&store, "a").await.as_deref(), Some("2"));
    let refused = store.read(|db| Ok(db.execute("DELETE FROM meta", [])?)).await;
    assert!(refused.is_err());
    assert_eq!(value(&store, "a").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn the_log_stays_bounded_while_much_is_written() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    for number in 0..150 {
        // Another content each time: SQLite writes no page that stays as it is.
        let (name, large) = (format!("large{}", number % 7), format!("{number:05}").repeat(40_000));
        store.write(move |tx| Ok(meta::set(tx, &name, &large)?)).await.unwrap();
    }
    // Thirty MiB were written, three times what the log may hold.
    let log = std::fs::metadata(world.folder.path().join("data/teamlamp.db-wal")).unwrap().len();
    assert!(log < 10 << 20, "{log} bytes");
}

#[tokio::test]
async fn a_full_disk_is_said_reading_goes_on_and_room_mends_it() {
    let world = World::new().await;
    let owner = world.owner().await;
    let store = world.server.app().store.clone();
    // SQLite refuses to grow beyond its pages as it does on a full disk.
    let pages =
        |sql: &'static str| store.write(move |tx| Ok(tx.query_row(sql, [], |row| row.get::<_, i64>(0))?));
    let now = pages("PRAGMA page_count").await.unwrap();
    assert_eq!(pages("PRAGMA max_page_count = 1").await.unwrap(), now);
    let make = async |name: &str| {
        world.post("/v1/teams", serde_json::json!({"name": name})).by(&owner.token).send().await
    };
    let mut refusal = make("0").await;
    for number in 1..100 {
        if refusal.status != 201 {
            break;
        }
        refusal = make(&number.to_string()).await;
    }
    assert!(refusal.refused(503, "unavailable").contains("disk is full"));
    assert_eq!(refusal.body["error"]["retryable"], true);
    assert_eq!(world.get("/v1/me").by(&owner.token).send().await.status, 200);
    assert_eq!(world.get("/healthz").send().await.status, 200);
    pages("PRAGMA max_page_count = 1000000").await.unwrap();
    assert_eq!(make("after").await.status, 201);
    assert_eq!(world.get("/readyz").send().await.status, 200);
}

/// The bytes of the write-ahead log.
fn log_bytes(store: &Store) -> u64 {
    let path = store.path().with_extension("db-wal");
    std::fs::metadata(path).unwrap().len()
}

/// Writes so many bytes of new content.
async fn write_bytes(store: &Store, name: &str, bytes: usize, number: usize) {
    let (name, large) = (name.to_owned(), format!("{number:08}").repeat(bytes / 8));
    store.write(move |tx| Ok(meta::set(tx, &name, &large)?)).await.unwrap();
}

#[tokio::test]
async fn a_log_that_was_copied_is_not_copied_again_for_each_small_change() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    for number in 0..5 {
        write_bytes(&store, "large", 1 << 20, number).await;
    }
    assert!(store.checkpoints() >= 1, "what has grown is copied");
    let before = store.checkpoints();
    for number in 0..50 {
        write_bytes(&store, "small", 8, number).await;
    }
    let copies = store.checkpoints() - before;
    assert!(copies <= 2, "{copies} copies for fifty small changes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_log_stays_bounded_though_somebody_always_reads() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    let (end, ended) = tokio::sync::watch::channel(());
    // Each reads for a moment; there is always one that has not ended yet.
    let readers = (0..4).map(|number| {
        let (store, ended) = (store.clone(), ended.clone());
        async move {
            while !ended.has_changed().unwrap_or(true) {
                let wait = std::time::Duration::from_millis(5 + number);
                store
                    .read(move |db| {
                        meta::get(db, "schema")?;
                        let (_held, never) = mpsc::channel::<()>();
                        let _ = never.recv_timeout(wait);
                        Ok(())
                    })
                    .await
                    .unwrap();
            }
        }
    });
    let writing = async {
        let mut longest = 0;
        for number in 0..100 {
            write_bytes(&store, &format!("large{}", number % 7), 500_000, number).await;
            longest = longest.max(log_bytes(&store));
        }
        end.send(()).unwrap();
        longest
    };
    let (_, longest) = tokio::join!(futures_util::future::join_all(readers), writing);
    assert!(longest < 32 << 20, "{longest} bytes of 50 MB that were written");
}

#[tokio::test]
async fn a_change_without_room_takes_neither_what_waits_behind_it_nor_the_next_batches() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    write_bytes(&store, "rubbish", 400_000, 1).await;
    for name in ["a", "b", "c", "d"] {
        write_bytes(&store, name, 8, 0).await;
    }
    let pages =
        |sql: &'static str| store.write(move |tx| Ok(tx.query_row(sql, [], |row| row.get::<_, i64>(0))?));
    pages("PRAGMA max_page_count = 1").await.unwrap();
    let small = |name: &'static str, number: usize| {
        store.write(move |tx| Ok(meta::set(tx, name, &format!("{number:08}"))?))
    };
    let large = || store.write(|tx| Ok(meta::set(tx, "large", &"x".repeat(400_000))?));
    for round in 1..=2 {
        let (release, blocked) = busy(&store);
        let (_, before, full, behind, last, ()) =
            tokio::join!(blocked, small("a", round), large(), small("b", round), small("c", round), async {
                release.send(()).unwrap()
            },);
        assert_eq!(full.unwrap_err().status, 503);
        assert!(behind.is_ok() && last.is_ok(), "round {round}");
        match before {
            // It shared the transaction that the full disk ended; its caller knows, and asks again.
            Err(lost) => assert_eq!((round, lost.status, lost.body.retryable), (1, 503, Some(true))),
            Ok(()) => assert_eq!(round, 2, "afterwards each change stands alone"),
        }
        let kept = value(&store, "b").await;
        assert_eq!(kept, Some(format!("{round:08}")));
    }
    // What makes room comes through behind what has none, and then there is room.
    let (release, blocked) = busy(&store);
    let delete = store.write(|tx| Ok(meta::set(tx, "rubbish", "")?));
    let (_, full, deleted, room, ()) =
        tokio::join!(blocked, large(), delete, large(), async { release.send(()).unwrap() });
    assert_eq!(full.unwrap_err().status, 503);
    assert!(deleted.is_ok() && room.is_ok(), "{room:?}");
}

#[tokio::test]
async fn the_writer_keeps_what_it_has_answered_and_copies_the_log_itself() {
    let world = World::new().await;
    let store = world.server.app().store.clone();
    for (pragma, value) in [
        ("journal_mode", "wal"),
        ("synchronous", "2"),
        ("foreign_keys", "1"),
        ("wal_autocheckpoint", "0"),
        ("journal_size_limit", "67108864"),
        ("busy_timeout", "5000"),
    ] {
        let asked = store.write(move |tx| {
            let read = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0);
            Ok(tx.query_row(&format!("PRAGMA {pragma}"), [], read)?)
        });
        let found = match asked.await.unwrap() {
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Integer(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(found, value, "{pragma}");
    }
}
