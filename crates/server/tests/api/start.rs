//! Starting and ending: what can be wrong with data and ports, and an end that loses nothing.

use crate::world::{World, config};
use serde_json::json;
use std::path::Path;
use std::sync::mpsc;
use teamlamp_clock::Clock;
use teamlamp_server::store::OpenError;
use teamlamp_server::{Server, StartError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn refused(config: teamlamp_server::config::Config) -> (StartError, String) {
    let fault = Server::start(config).await.expect_err("this must not start");
    let sentence = fault.to_string();
    assert!(sentence.contains(": ") && sentence.len() > 40, "it says what to do: {sentence}");
    (fault, sentence)
}

#[tokio::test]
async fn data_is_served_by_one_server_at_a_time() {
    let world = World::new().await;
    let (fault, sentence) = refused(config(&world.folder, &world.clock)).await;
    assert!(matches!(fault, StartError::InUse { .. }), "{sentence}");
    assert_eq!(world.get("/readyz").send().await.status, 200, "the first one is not disturbed");
    world.restart().await;
}

#[tokio::test]
async fn a_port_in_use_is_said_and_costs_nothing() {
    let first = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut second = config(&folder, &Clock::system());
    second.listen = first.server.local_addr();
    let (fault, sentence) = refused(second).await;
    assert!(matches!(fault, StartError::PortInUse { .. }), "{sentence}");
    assert!(sentence.contains(&first.server.local_addr().unwrap().to_string()));
    Server::start(config(&folder, &Clock::system())).await.unwrap();
}

#[tokio::test]
async fn an_origin_that_nobody_may_follow_is_said() {
    for bad in ["http://example.org", "example.org", "https://a/b", "ftp://10.0.0.1"] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(&folder, &Clock::system());
        config.origin = Some(bad.into());
        let (fault, sentence) = refused(config).await;
        assert!(matches!(fault, StartError::Origin { .. }) && sentence.contains("`origin`"), "{sentence}");
    }
    let world = World::with(|config| config.origin = Some("https://teams.example.org/".into())).await;
    assert_eq!(world.server.origin(), "https://teams.example.org");
    assert_eq!(world.server.owner_link().unwrap().server, "https://teams.example.org");
    assert_eq!(world.get("/v1/capabilities").header("host", "teams.example.org").send().await.status, 200);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data"), "a file").unwrap();
    let (fault, sentence) = refused(config(&folder, &Clock::system())).await;
    assert!(matches!(fault, StartError::Folder { .. }), "{sentence}");
}

#[tokio::test]
async fn strange_databases_are_refused_and_left_alone() {
    for (newer, bytes) in [(true, None), (false, Some(b"this is no database, ".repeat(400)))] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let file = data.join("teamlamp.db");
        match &bytes {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => {
                rusqlite::Connection::open(&file).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
            }
        }
        let before = std::fs::read(&file).unwrap();
        let (fault, sentence) = refused(config(&folder, &Clock::system())).await;
        match fault {
            StartError::Database(OpenError::Newer { .. }) => assert!(newer && sentence.contains("update")),
            StartError::Database(OpenError::Damaged { .. }) => assert!(!newer && sentence.contains("backup")),
            _ => panic!("{sentence}"),
        }
        assert!(std::fs::read(&file).unwrap() == before, "it was touched");
    }
}

#[tokio::test]
async fn damaged_keys_are_refused_and_left_alone() {
    let world = World::new().await;
    let World { server, folder, clock } = world;
    server.shutdown().await;
    let file = folder.path().join("data/server-keys.json");
    std::fs::write(&file, "{}").unwrap();
    let (fault, sentence) = refused(config(&folder, &clock)).await;
    assert!(matches!(fault, StartError::Keys { .. }), "{sentence}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}");
}

#[cfg(unix)]
#[tokio::test]
async fn everything_in_the_data_folder_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new().await;
    let data = world.folder.path().join("data");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    for name in ["teamlamp.db", "server-keys.json", "first-owner-link"] {
        assert!(names.iter().any(|n| n == name), "{names:?}");
    }
}

#[tokio::test]
async fn a_database_that_was_copied_to_another_folder_begins_a_new_history() {
    let world = World::new().await;
    let history = world.server.app().history_id.clone();
    let world = world.restart().await;
    assert_eq!(world.server.app().history_id, history);
    let World { server, folder, clock } = world;
    server.shutdown().await;
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("data")).unwrap();
    std::fs::copy(folder.path().join("data/teamlamp.db"), other.path().join("data/teamlamp.db")).unwrap();
    let copy = Server::start(config(&other, &clock)).await.unwrap();
    assert_ne!(copy.app().history_id, history);
}

#[tokio::test]
async fn shutdown_finishes_what_runs_and_leaves_one_whole_file() {
    let world = World::new().await;
    let owner = world.owner().await;
    assert_eq!(world.get("/v1/me").by(&owner.token).send().await.status, 200);
    let mut idle = tokio::net::TcpStream::connect(world.server.local_addr().unwrap()).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(idle.read(&mut [0; 4096]).await.unwrap() > 0);
    // A request that waits for the writer while the end comes.
    let (release, hold) = mpsc::channel::<()>();
    let app = world.server.app().clone();
    let blocked = app.store.write(move |_| Ok(hold.recv().is_ok()));
    let body = json!({"name": "Beta"}).to_string();
    let request = format!(
        "POST /v1/teams HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\nidempotency-key: k\r\ncontent-length: {}\r\n\r\n{body}",
        owner.token,
        body.len()
    );
    let mut busy = tokio::net::TcpStream::connect(world.server.local_addr().unwrap()).await.unwrap();
    busy.write_all(request.as_bytes()).await.unwrap();
    let token = app.tasks.token().clone();
    let end = async {
        // The request is in the server once its key is under way.
        tokio::time::timeout(std::time::Duration::from_secs(10), async {
            while app.flights.under_way() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        let World { server, folder, .. } = world;
        tokio::join!(server.shutdown(), async {
            token.cancelled().await;
            release.send(()).unwrap();
        });
        folder
    };
    let mut answer = String::new();
    let (_, folder, _) = tokio::join!(blocked, end, busy.read_to_string(&mut answer));
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let wal = std::fs::metadata(folder.path().join("data/teamlamp.db-wal")).map_or(0, |m| m.len());
    assert_eq!(wal, 0);
}
