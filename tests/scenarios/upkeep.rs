//! The server's data as its owner keeps it: backups and their way back, numbers, upkeep, and the log.

use crate::home::Home;
use crate::wait::until;
use serde_json::{Value, json};
use std::path::Path;

#[tokio::test]
async fn a_backup_of_a_running_server_is_put_back_and_the_team_goes_on() {
    let a = Home::new();
    let (server, origin) = a.serve_new("127.0.0.1:0").await;
    let (data, file) = (a.data(), a.path().join("team.backup").to_string_lossy().into_owned());
    a.run(&["events", "publish", "kept", "--json"]).await.done();
    let made = a.run(&["server", "backup", &file, "--data", &data, "--json"]).await.json();
    assert_eq!((&made["file"], &made["files"]), (&json!(file), &json!(["server-keys.json"])));
    a.run(&["server", "backup", &file, "--data", &data]).await.refused(1, &["there already", "--force"]);
    a.run(&["events", "publish", "lost", "--json"]).await.done();
    a.run(&["server", "restore", &file, "--data", &data]).await.refused(1, &["running", "stop it first"]);
    a.run(&["server", "maintain", "--data", &data]).await.refused(1, &["running", "--check"]);
    let checked = a.run(&["server", "maintain", "--check", "--data", &data, "--json"]).await.json();
    assert_eq!(checked, json!({ "sound": true, "complaints": [] }));
    let stats = a.run(&["server", "stats", "--data", &data, "--json"]).await.json();
    assert_eq!((&stats["teams"][0]["name"], &stats["teams"][0]["machines"]), (&json!("Acme"), &json!(1)));
    assert!(stats["last_backup_at"].is_i64() && stats["oldest_event_at"].is_i64(), "{stats}");
    let shown = a.run(&["server", "stats", "--data", &data]).await.done();
    assert!(shown.contains("Acme") && shown.contains("last backup"), "{shown}");
    assert_eq!(server.stop().await, 0);

    a.run(&["server", "restore", &file, "--data", &data]).await.refused(1, &["--force"]);
    let restored = a.run(&["server", "restore", &file, "--data", &data, "--force", "--json"]).await.json();
    let aside = restored["aside"].as_str().expect("what was there");
    assert!(Path::new(aside).join("teamlamp.db").exists());
    let listen = origin.trim_start_matches("http://");
    let server = a.start(&["serve", "--data", &data, "--listen", listen, "--json"]);
    server.ready().await;
    let lines = a.run(&["events", "--json", "--kinds", "custom.cli.*"]).await.done();
    let kinds: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<&str> = kinds.iter().filter_map(|item| item["event"]["kind"].as_str()).collect();
    assert_eq!(kinds, ["custom.cli.kept"], "the sign-in of the home still holds");
    assert_eq!(server.stop().await, 0);

    let kept = a.run(&["server", "maintain", "--data", &data, "--json"]).await.json();
    assert_eq!((&kept["sound"], &kept["failed"]), (&json!(true), &json!([])));
    let said = a.run(&["server", "maintain", "--data", &data]).await.done();
    assert!(said.contains("to its end") && said.contains("sound"), "{said}");
    let nowhere = a.path().join("nowhere").to_string_lossy().into_owned();
    for words in [&["server", "stats"][..], &["server", "maintain"], &["server", "backup", "x.backup"]] {
        a.run(&[words, &["--data", &nowhere]].concat()).await.refused(1, &["no server's data", "--data"]);
    }
    assert!(!Path::new(&nowhere).exists());
}

#[tokio::test]
async fn a_damaged_database_is_told_with_what_to_do() {
    let a = Home::new();
    let (server, _) = a.serve_new("127.0.0.1:0").await;
    assert_eq!(server.stop().await, 0);
    let path = Path::new(&a.data()).join("teamlamp.db");
    let mut bytes = std::fs::read(&path).expect("a database");
    bytes.iter_mut().skip(8 * 4096).take(16 * 4096).for_each(|byte| *byte = 0xA5);
    std::fs::write(&path, bytes).expect("it is written");
    let data = a.data();
    a.run(&["server", "maintain", "--check", "--data", &data])
        .await
        .refused(1, &["damaged", "server restore"]);
}

/// What a server logged of its requests, once a hostile one was answered.
async fn log_of(format: &str) -> String {
    let mut a = Home::new();
    a.environment.push(("TEAMLAMP_LOG".into(), "info".into()));
    let data = a.data();
    let server =
        a.start(&["serve", "--data", &data, "--listen", "127.0.0.1:0", "--json", "--log-format", format]);
    let origin = server.ready().await["origin"].as_str().expect("an origin").to_owned();
    let mut socket =
        tokio::net::TcpStream::connect(origin.trim_start_matches("http://")).await.expect("it listens");
    // What a header may hold of what a log must not.
    let request = b"POST /v1/teams/x?secret=in-a-query HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        x-supercode-caller: evil\" status=200 took_ms=0\t\x9b2J request_id=forged\r\n\
        content-type: application/json\r\ncontent-length: 22\r\n\r\n{\"password\":\"in-body\"}";
    tokio::io::AsyncWriteExt::write_all(&mut socket, request).await.expect("it reads");
    let mut answer = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut answer).await.expect("it answers");
    assert!(answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    until("the request is logged", async || server.messages().contains("evil")).await;
    let log = server.messages();
    assert!(!log.contains("in-body") && !log.contains("in-a-query"), "{log}");
    log
}

#[tokio::test]
async fn a_request_is_one_line_of_the_log_and_cannot_forge_another() {
    let text = log_of("text").await;
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("evil")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    for fact in ["request_id=req_", "method=POST", "status=4", "took_ms="] {
        assert!(lines[0].contains(fact), "no {fact}: {}", lines[0]);
    }
    assert!(lines[0].contains(r#"caller="evil\" status=200"#), "its quote ends no field: {}", lines[0]);
    assert!(!lines[0].contains(['\t', '\u{1b}', '\u{9b}']));

    let json = log_of("json").await;
    let line = json.lines().find(|line| line.contains("evil")).expect("a line");
    let line: Value = serde_json::from_str(line).expect("JSON");
    assert!(line["caller"].as_str().is_some_and(|caller| caller.starts_with("evil\" status=200")), "{line}");
    assert!(line["status"].as_u64().is_some_and(|status| status >= 400), "{line}");
    assert!(line["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{line}");
}
