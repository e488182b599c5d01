//! The main job: a team from nothing, a second home, and an agent whose every turn both see.

use crate::agent::Agent;
use crate::home::{Home, Running};
use crate::wait::until;
use serde_json::Value;

/// Kind and what changed of each session event among the frames, in their order.
fn told(follower: &Running) -> Vec<String> {
    follower
        .frames()
        .iter()
        .filter(|frame| frame["type"] == "event")
        .filter_map(|frame| {
            let event = &frame["data"];
            let kind = event["kind"].as_str()?.strip_prefix("session.")?;
            let data = &event["data"];
            let detail = [&data["to"], &data["reason"], &data["turn"]].into_iter().find_map(Value::as_str)?;
            Some(format!("{kind} {detail}"))
        })
        .collect()
}

fn assert_in_order(follower: &Running) {
    let sequences: Vec<i64> = follower
        .frames()
        .iter()
        .filter(|frame| frame["type"] == "event")
        .map(|frame| frame["sequence"].as_i64().expect("a sequence"))
        .collect();
    assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]), "out of order or doubled: {sequences:?}");
}

#[tokio::test]
async fn two_homes_see_each_other_and_every_turn_of_an_agent() {
    let (a, b) = (Home::new(), Home::new());
    let (server, _) = a.serve_new("127.0.0.1:0").await;
    let first = a.connect().await;
    a.invite(&b, "Mate", "second-laptop").await;
    let second = b.connect().await;
    let both = [("first-laptop", "online"), ("second-laptop", "online")];
    a.sees(&both).await;
    b.sees(&both).await;

    let follower = b.start(&["events", "--follow", "--json"]);
    until("a whole snapshot", async || follower.frames().iter().any(|f| f["type"] == "snapshot_end")).await;
    let mut claude = Agent::start(&a, "claude", "billing-api", "11111111-1111-4111-8111-111111111111").await;
    until("it is there", async || told(&follower).len() == 1).await;
    claude.does("prompt Rename the helper").await;
    until("it works", async || told(&follower).last().is_some_and(|t| t.ends_with(" working"))).await;
    claude.does("ask").await;
    until("it asks", async || told(&follower).last().is_some_and(|t| t == "turn waiting_approval")).await;
    let waiting = b.run(&["sessions", "--waiting", "--json"]).await.json();
    assert_eq!(waiting["items"][0]["root"], "billing-api", "{waiting}");
    assert_eq!(
        waiting["items"][0]["title"],
        Value::Null,
        "what is written in a session stays on its machine"
    );
    claude.does("answer").await;
    until("it is idle", async || told(&follower).last().is_some_and(|t| t == "turn idle")).await;
    claude.kill().await;
    until("it ended", async || told(&follower).last().is_some_and(|t| t == "ended ended")).await;
    let all = told(&follower);
    assert_eq!(all.iter().filter(|t| t.starts_with("started")).count(), 1, "{all:?}");
    assert_in_order(&follower);

    assert_eq!(second.stop().await, 0);
    assert_eq!(first.stop().await, 0);
    assert_eq!(server.stop().await, 0);
}

#[tokio::test]
async fn codex_is_seen_as_well_and_a_half_written_line_says_nothing() {
    let a = Home::new();
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let _connector = a.connect().await;
    let follower = a.start(&["events", "--follow", "--json"]);
    until("a whole snapshot", async || follower.frames().iter().any(|f| f["type"] == "snapshot_end")).await;
    let mut codex = Agent::start(&a, "codex", "mobile", "01a00000-0000-7000-8000-000000000001").await;
    codex.does("prompt List the modules").await;
    until("it works", async || told(&follower).last().is_some_and(|t| t.ends_with(" working"))).await;
    codex.does("half").await;
    let before = told(&follower);
    a.run(&["events", "publish", "custom.cli.mark"]).await.done();
    let marked = |frame: &Value| frame["data"]["kind"] == "custom.cli.mark";
    until("the mark", async || follower.frames().iter().any(marked)).await;
    assert_eq!(told(&follower), before, "half a line is no record");
    codex.does("rest").await;
    codex.does("answer").await;
    until("it is idle", async || told(&follower).last().is_some_and(|t| t == "turn idle")).await;
    codex.does("quit").await;
    until("it ended", async || told(&follower).last().is_some_and(|t| t == "ended ended")).await;
    assert_in_order(&follower);
}

#[tokio::test]
async fn a_pause_shows_as_such_and_ends_when_resumed() {
    let a = Home::new();
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let _connector = a.connect().await;
    a.sees(&[("first-laptop", "online")]).await;
    a.run(&["pause"]).await.done();
    until("status says so", async || a.run(&["status"]).await.out.contains("paused")).await;
    until("the team is told", async || {
        let list = a.run(&["machines", "--json"]).await.json();
        list["items"][0]["away"]["reason"] == "paused"
    })
    .await;
    a.run(&["resume"]).await.done();
    a.sees(&[("first-laptop", "online")]).await;
}

#[tokio::test]
async fn who_leaves_is_gone_and_keeps_no_secret() {
    let (a, b) = (Home::new(), Home::new());
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let _first = a.connect().await;
    a.invite(&b, "Mate", "second-laptop").await;
    let second = b.connect().await;
    a.sees(&[("first-laptop", "online"), ("second-laptop", "online")]).await;
    let secrets = secrets_of(&b);
    second.stop().await;
    b.run(&["leave", "--yes"]).await.done();
    b.run(&["machines"]).await.refused(3, &["join"]);
    let listed = a.run(&["machines", "--json"]).await.json();
    let revoked =
        listed["items"].as_array().expect("items").iter().filter(|m| m["enrollment"] == "revoked").count();
    assert_eq!(revoked + 1, listed["items"].as_array().expect("items").len(), "{listed}");
    for file in files_below(b.path()) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap_or_default()).into_owned();
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{} keeps a secret", file.display());
    }
}

#[tokio::test]
async fn no_credential_is_anywhere_but_in_custody() {
    let (mut a, mut b) = (Home::new(), Home::new());
    for home in [&mut a, &mut b] {
        home.environment.push(("TEAMLAMP_LOG".into(), "trace".into()));
    }
    let (server, _) = a.serve_new("127.0.0.1:0").await;
    let first = a.connect().await;
    a.invite(&b, "Mate", "second-laptop").await;
    let follower = b.start(&["events", "--follow", "--json"]);
    until("a whole snapshot", async || follower.frames().iter().any(|f| f["type"] == "snapshot_end")).await;
    let secrets = [secrets_of(&a), secrets_of(&b)].concat();
    let mut running = [follower, first, server];
    let mut said = String::new();
    for program in &mut running {
        program.signal("TERM");
        program.ended().await;
        said += &(program.lines().join("\n") + &program.messages());
    }
    assert!(said.contains("TRACE"), "all of the log is looked at");
    for secret in &secrets {
        assert!(!said.contains(secret), "a secret was printed");
    }
    for file in [files_below(a.path()), files_below(b.path())].concat() {
        if !file.ends_with("tl/secrets.json") {
            let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap_or_default()).into_owned();
            assert!(secrets.iter().all(|secret| !text.contains(secret)), "{} holds a secret", file.display());
        }
    }
}

/// What a home keeps secret: the secret part of both credentials, and the key of its enrollment.
fn secrets_of(home: &Home) -> Vec<String> {
    let kept = std::fs::read(home.path().join("tl/secrets.json")).expect("custody");
    let kept: std::collections::BTreeMap<String, String> = serde_json::from_slice(&kept).expect("JSON");
    assert_eq!(kept.len(), 3, "a user's and a machine's credential, and the key: {:?}", kept.keys());
    let secret = |text: String| text.split_once('.').map_or(text.clone(), |(_, secret)| secret.to_owned());
    kept.into_values().map(secret).collect()
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}
