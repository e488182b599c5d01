//! What the command line says of events: the feed for people, and text of others that must stay text.

use crate::home::Home;

#[tokio::test]
async fn the_feed_is_readable_and_foreign_text_stays_text() {
    let a = Home::new();
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let hostile = "{\"text\":\"\\u001b[2J\\u202egpj.exe\"}";
    a.run(&["events", "publish", "custom.cli.deploy", "--data", hostile]).await.done();
    let feed = a.run(&["events"]).await.done();
    assert!(feed.contains("Acme was made"), "{feed}");
    assert!(feed.contains("deploy") && feed.contains("gpj.exe"), "{feed}");
    assert!(
        !feed.contains('\u{1b}') && !feed.contains('\u{202e}'),
        "control characters reached the terminal: {feed:?}"
    );

    let lines = a.run(&["events", "--json", "--kinds", "custom.cli.*"]).await.done();
    let only: Vec<serde_json::Value> =
        lines.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(only.len(), 1, "{lines}");
    assert_eq!(only[0]["event"]["kind"], "custom.cli.deploy");
    assert!(only[0]["sequence"].is_i64());
    a.run(&["events", "--kinds", "session.sang"]).await.refused(2, &["session.sang"]);
    a.run(&["events", "publish", "machine.online"]).await.refused(2, &["custom.cli"]);
}

#[tokio::test]
async fn without_a_team_every_command_says_what_to_do() {
    let a = Home::new();
    for words in [
        &["machines"][..],
        &["connect"],
        &["events"],
        &["invite"],
        &["sessions"],
        &["leave", "--yes"],
        &["status"],
        &["events", "publish", "custom.cli.mark"],
    ] {
        a.run(words).await.refused(3, &["teamlamp join"]);
    }
    a.run(&["join", "--yes"]).await.refused(2, &["link or code"]);
    // A pause is of this machine: it is remembered for whatever team comes.
    for (word, paused) in [("pause", true), ("resume", false)] {
        let said = a.run(&[word, "--json"]).await.json();
        assert_eq!(said, serde_json::json!({"paused": paused, "connector_runs": false}));
    }
    assert_eq!(a.run(&["frobnicate"]).await.code, 2);
    assert_eq!(a.run(&["serve", "--listen", "nowhere"]).await.code, 2);
}

#[tokio::test]
async fn a_link_may_come_by_standard_input() {
    let (a, b) = (Home::new(), Home::new());
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let link = a.run(&["invite", "--json"]).await.json()["link"].as_str().expect("a link").to_owned();
    let said = b.run_with_input(&["join", "-", "--as", "Mate", "--machine", "second", "--yes"], &link).await;
    assert!(said.done().contains("Acme"));
}
