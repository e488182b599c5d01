//! What goes wrong at the command line: each gets a plain sentence, the right status, and loses nothing.

use crate::home::Home;
use crate::wait::until;
use std::io::{Read, Write};

#[tokio::test]
async fn codes_that_do_not_fit_are_refused_with_a_next_step() {
    let (a, b, c) = (Home::new(), Home::new(), Home::new());
    let (_server, origin) = a.serve_new("127.0.0.1:0").await;
    let join = |code: &str| {
        ["join", code, "--server", &origin, "--as", "Mate", "--machine", "m", "--yes"].map(str::to_owned)
    };
    let words = |all: &[String]| all.iter().map(String::clone).collect::<Vec<_>>();
    let run = async |home: &Home, code: &str| {
        let all = words(&join(code));
        home.run(&all.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    run(&b, "7K3QF-9XW2M").await.refused(1, &["code"]);
    run(&b, "not a code").await.refused(2, &["ten letters"]);
    let code = a.run(&["invite", "--json"]).await.json()["code"].as_str().expect("a code").to_owned();
    run(&b, &code.to_lowercase().replace('-', "")).await.done();
    run(&c, &code).await.refused(1, &["used"]);
    c.run(&["machines"]).await.refused(3, &["join"]);
}

#[tokio::test]
async fn a_server_that_is_not_there_or_not_one_is_named() {
    let a = Home::new();
    let words = |origin: &str| {
        ["join", "7K3QF-9XW2M", "--server", origin, "--as", "A", "--machine", "m", "--yes"].map(str::to_owned)
    };
    let nobody =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let all = words(&format!("http://{nobody}"));
    a.run(&all.each_ref().map(String::as_str)).await.refused(3, &[&nobody.to_string()]);

    let portal = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = portal.local_addr().expect("an address");
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's process")]
    let answering = std::thread::spawn(move || {
        let page = "<html>Please sign in to the hotel's network</html>";
        while let Ok((mut socket, _)) = portal.accept() {
            let _ = socket.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                page.len()
            );
            let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(page.as_bytes()));
        }
    });
    let all = words(&format!("http://{address}"));
    let said = a.run(&all.each_ref().map(String::as_str)).await;
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("web page") || said.err.contains("HTML"), "{said:?}");
    // It waits for connections until this test's process ends.
    drop(answering);
    let public =
        a.run(&["join", "7K3QF-9XW2M", "--server", "http://example.org", "--as", "A", "--yes"]).await;
    public.refused(2, &["https"]);
}

#[tokio::test]
async fn a_second_server_a_taken_port_and_bad_data_are_told_apart() {
    let a = Home::new();
    let (_server, origin) = a.serve_new("127.0.0.1:0").await;
    let data = a.data();
    a.run(&["serve", "--data", &data, "--listen", "127.0.0.1:0"])
        .await
        .refused(1, &["nother server is running"]);
    let port = origin.rsplit(':').next().expect("a port");
    let other = a.path().join("other").to_string_lossy().into_owned();
    a.run(&["serve", "--data", &other, "--listen", &format!("127.0.0.1:{port}")])
        .await
        .refused(1, &["taken by another program"]);
    let file = a.path().join("a-file");
    std::fs::write(&file, "").expect("the home can be written");
    let below = file.join("data").to_string_lossy().into_owned();
    // The second is a folder in which nobody writes, whoever asks.
    for data in [below.as_str(), "/proc/teamlamp"] {
        a.run(&["serve", "--data", data, "--listen", "127.0.0.1:0"]).await.refused(1, &["can't be written"]);
    }

    let newer = Home::new();
    std::fs::create_dir_all(newer.data()).expect("the home can be written");
    let path = std::path::Path::new(&newer.data()).join("teamlamp.db");
    rusqlite::Connection::open(&path)
        .and_then(|db| db.execute_batch("PRAGMA user_version = 999"))
        .expect("a database");
    newer
        .run(&["serve", "--data", &newer.data(), "--listen", "127.0.0.1:0"])
        .await
        .refused(1, &["newer", "update"]);

    let again = ["serve", "--data", &data, "--listen", "127.0.0.1:0", "--init-team", "Acme", "--as", "Owner"];
    drop(_server);
    until("the old server is gone", async || !a.run(&again).await.err.contains("another server")).await;
    a.run(&again).await.refused(1, &["team"]);
}

#[tokio::test]
async fn a_second_connector_of_a_home_ends_and_names_the_first() {
    let a = Home::new();
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let first = a.connect().await;
    a.run(&["connect"]).await.refused(1, &["already runs", &first.pid().to_string()]);
    a.sees(&[("first-laptop", "online")]).await;
}

#[tokio::test]
async fn saved_connections_that_can_not_be_read_are_kept_aside() {
    let a = Home::new();
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let contexts = a.path().join("tl/contexts.json");
    std::fs::write(&contexts, "{ half a fi").expect("the home can be written");
    let said = a.run(&["machines"]).await;
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("contexts.json.broken-"), "{said:?}");
    let kept = std::fs::read_dir(a.path().join("tl")).expect("a home").flatten();
    let kept = kept.filter(|e| e.file_name().to_string_lossy().starts_with("contexts.json.broken-"));
    let texts: Vec<String> = kept.map(|e| std::fs::read_to_string(e.path()).expect("it is kept")).collect();
    assert_eq!(texts, ["{ half a fi"]);
}

#[tokio::test]
async fn a_viewer_reads_and_is_told_why_nothing_is_reported() {
    let (a, b) = (Home::new(), Home::new());
    let (_server, _) = a.serve_new("127.0.0.1:0").await;
    let invited = a.run(&["invite", "--role", "viewer", "--json"]).await.json();
    let link = invited["link"].as_str().expect("a link");
    b.run(&["join", link, "--as", "Guest", "--yes"]).await.done();
    b.sees(&[("first-laptop", "offline")]).await;
    let mut connector = b.start(&["connect", "--json"]);
    assert_eq!(connector.ended().await, 1);
    until("it says why", async || connector.messages().contains("viewer")).await;
}
