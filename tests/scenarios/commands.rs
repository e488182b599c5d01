//! The commands one by one: what each says to programs, and what it does where the usual is missing.

use crate::home::Home;
use crate::wait::until;
use serde_json::json;

#[tokio::test]
async fn what_each_command_says_to_programs() {
    let (a, b) = (Home::new(), Home::new());
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let link = a.run(&["invite", "--json"]).await.json()["link"].as_str().expect("a link").to_owned();
    let words = ["join", &link, "--as", "Mate", "--machine", "second-laptop", "--yes", "--json"];
    let joined = b.run(&words).await.json();
    assert_eq!((&joined["team"], &joined["machine"]), (&json!("Acme"), &json!("second-laptop")));
    let context = joined["context"].as_str().expect("a context");

    let alone = b.run(&["status", "--json"]).await;
    assert_eq!(alone.code, 3, "{alone:?}");
    let alone: serde_json::Value = serde_json::from_str(&alone.out).expect("JSON");
    assert_eq!((&alone["running"], &alone["contexts"][0]["id"]), (&json!(false), &json!(context)));
    assert!(alone["contexts"][0]["credential_expires_at"].is_i64(), "{alone}");

    let connector = b.connect().await;
    let status = b.run(&["status", "--json"]).await.json();
    assert_eq!((&status["running"], &status["pid"]), (&json!(true), &json!(connector.pid())));
    for (word, paused) in [("pause", true), ("resume", false)] {
        let said = b.run(&[word, "--json"]).await.json();
        assert_eq!(said, json!({"paused": paused, "connector_runs": true}));
        b.run(&[word, "--context", "Acme"]).await.refused(2, &["all of its teams"]);
    }
    let told = b.run(&["events", "publish", "deploy", "--json"]).await.json();
    assert!(told.is_object(), "{told}");
    b.run(&["machines", "--context", "nope"]).await.refused(2, &[context]);
    b.run(&["events", "--follow", "--since", "1d", "--json"]).await.refused(2, &["--since"]);

    // Its connector goes on for whatever team comes next.
    let left = b.run(&["leave", "--yes", "--json"]).await.json();
    assert_eq!(left, json!({"team": "Acme", "untold": null}));
    b.run(&["machines"]).await.refused(3, &["join"]);
    until("its machine is gone from the team", async || {
        let list = a.run(&["machines", "--json"]).await.json();
        list["items"].as_array().is_some_and(|all| all.iter().any(|m| m["enrollment"] == "revoked"))
    })
    .await;
    assert_eq!(connector.stop().await, 0);
}

#[tokio::test]
async fn a_team_is_looked_after_from_a_terminal() {
    let (a, b) = (Home::new(), Home::new());
    let (_server, origin) = a.serve_new("127.0.0.1:0").await;
    a.invite(&b, "Mate", "second-laptop").await;
    assert!(a.run(&["members", "role", "mate", "admin"]).await.done().contains("Mate: admin."));
    b.run(&["members", "remove", "Mate"]).await.refused(2, &["--yes"]);
    a.run(&["members", "role", "Nobody", "viewer"]).await.refused(2, &["`teamlamp members`"]);

    let open = b.run(&["invite", "--role", "admin", "--json"]).await.json();
    let id = open["invitation"]["id"].as_str().expect("an id");
    assert!(a.run(&["invitations"]).await.done().contains(id));
    a.run(&["invitations", "revoke", id]).await.done();
    a.run(&["invitations", "revoke", id]).await.refused(1, &["ended already"]);
    let code = open["code"].as_str().expect("a code");
    let words = ["join", code, "--server", &origin, "--yes"];
    Home::new().run(&words).await.refused(1, &["revoked"]);

    let sent = a.run_with_input(&["note", "SECOND-laptop", "-", "--json"], "lunch?").await.json();
    assert!(sent["note"]["id"].as_str().is_some_and(|id| id.starts_with("note_")), "{sent}");
    a.run(&["note", "second-laptop", " "]).await.refused(1, &["1 to 2000"]);

    a.run(&["members", "deactivate", "Mate", "--yes"]).await.done();
    b.run(&["members"]).await.refused(1, &[]);
    let members = a.run(&["members", "--json"]).await.json();
    assert_eq!(members["items"][0]["active"], false, "{members}");
    a.run(&["members", "reactivate", "Mate"]).await.done();
    a.run(&["members", "remove", "Mate", "--yes"]).await.done();
    assert_eq!(a.run(&["members", "--json"]).await.json()["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_terminal_that_closes_is_a_goodbye() {
    let a = Home::new();
    let (mut server, _) = a.serve_new("127.0.0.1:0").await;
    let mut connector = a.connect().await;
    connector.signal("HUP");
    assert_eq!(connector.ended().await, 0);
    let list = a.run(&["machines", "--json"]).await.json();
    assert_eq!(list["items"][0]["away"]["reason"], "shutdown", "{list}");
    server.signal("HUP");
    assert_eq!(server.ended().await, 0);
}

#[tokio::test]
async fn a_pause_without_a_connector_is_the_next_ones_and_one_that_is_not_heard_is_no_success() {
    let a = Home::new();
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    assert!(a.run(&["pause"]).await.done().contains("paused until you resume it"));
    let connector = a.start(&["connect", "--json"]);
    until("it begins paused", async || a.run(&["status"]).await.out.contains("aused")).await;
    assert_eq!(a.run(&["machines", "--json"]).await.json()["items"][0]["connection"], "offline");
    a.run(&["resume"]).await.done();
    a.sees(&[("first-laptop", "online")]).await;

    std::fs::remove_file(a.path().join("tl/door.sock")).expect("its door");
    let pid = connector.pid().to_string();
    for word in ["pause", "status"] {
        a.run(&[word]).await.refused(1, &["does not answer", &pid]);
    }
    assert_eq!(connector.stop().await, 0);
    a.run(&["pause"]).await.done();
}

#[tokio::test]
async fn a_team_whose_server_is_gone_can_be_left() {
    let (a, b) = (Home::new(), Home::new());
    let (server, _) = a.serve_new("127.0.0.1:0").await;
    a.invite(&b, "Mate", "second-laptop").await;
    server.kill().await;
    let left = b.run(&["leave", "--yes", "--json"]).await.json();
    assert!(left["untold"].as_str().is_some_and(|why| why.contains("may not be running")), "{left}");
    b.run(&["machines"]).await.refused(3, &["join"]);
    let secrets = std::fs::read_to_string(b.path().join("tl/secrets.json")).expect("custody");
    assert_eq!(secrets.trim(), "{}");
}

#[tokio::test]
async fn damaged_files_of_the_home_are_said_and_lose_nothing() {
    let (a, b) = (Home::new(), Home::new());
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let file = |home: &Home, name: &str| home.path().join("tl").join(name);
    let aside = |home: &Home, name: &str| {
        let all = std::fs::read_dir(home.path().join("tl")).expect("a home").flatten();
        all.map(|e| e.path()).find(|p| p.to_string_lossy().contains(&format!("{name}.broken-")))
    };
    // An outbox: put aside, and reporting goes on.
    std::fs::write(file(&a, "outbox.db"), "no database at all, but long enough to be read as one").unwrap();
    let connector = a.connect().await;
    assert!(aside(&a, "outbox.db").is_some());

    // The saved teams, under a running connector: it goes on, also when another program put them aside.
    let whole = std::fs::read(file(&a, "contexts.json")).expect("it was saved");
    std::fs::write(file(&a, "contexts.json"), "{").unwrap();
    a.run(&["machines"]).await.refused(3, &["contexts.json.broken-"]);
    std::fs::write(file(&a, "contexts.json"), whole).unwrap();
    a.sees(&[("first-laptop", "online")]).await;

    // The same, before joining: said, kept, and joined.
    let link = a.run(&["invite", "--json"]).await.json()["link"].as_str().expect("a link").to_owned();
    std::fs::create_dir_all(b.path().join("tl")).unwrap();
    std::fs::write(file(&b, "contexts.json"), "[]").unwrap();
    let joined = b.run(&["join", &link, "--as", "Mate", "--machine", "second-laptop", "--yes"]).await;
    assert!(joined.err.contains("contexts.json.broken-"), "{joined:?}");
    joined.done();
    let kept = aside(&b, "contexts.json").expect("it is kept");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "[]");

    // Decisions can't be guessed: nothing is done until they are mended.
    std::fs::write(file(&b, "settings.json"), "{").unwrap();
    for words in [&["connect"][..], &["pause"], &["machines"]] {
        b.run(words).await.refused(1, &["settings.json", "mend"]);
    }
    assert_eq!(std::fs::read_to_string(file(&b, "settings.json")).unwrap(), "{");
    assert_eq!(connector.stop().await, 0);
}
