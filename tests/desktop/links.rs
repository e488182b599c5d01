//! Links that the system hands over: shown and asked about, never acted on, and never written down.

use crate::computer::{Computer, With};
use crate::story::{confirm_join, connection, invite, start_team};
use crate::trouble::no_secret_is_anywhere;
use crate::wait::until;
use std::io::{Read, Write};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn an_opened_link_joins_after_one_confirmation_and_not_before() {
    let ada = Computer::boot("ada-links", With::default()).await;
    let ben = Computer::boot("ben-links", With { dark: true, ..With::default() }).await;
    let window = ada.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    let (link, code) = invite(&window).await;

    let other = ben.open_app(&[]).await;
    other.says("Start a team on this computer").await;
    let mut second = ben.start_app(&[&link]);
    until("the second start hands its link over and ends", async || {
        second.ended().is_some_and(|s| s.success())
    })
    .await;
    other.says("Join Acme?").await;
    other.picture("deep-link-dark").await;
    assert_eq!(
        other.state().await["status"]["contexts"],
        serde_json::json!([]),
        "nothing was joined by itself"
    );

    other.click("Don’t join").await;
    other.state_has("the link is forgotten", |s| s["pending_join"].is_null().then_some(())).await;
    let mut third = ben.start_app(&[&link]);
    until("the third start ends", async || third.ended().is_some()).await;
    confirm_join(&other, "Acme", "Ben", "ben-desk").await;
    window.state_has("both are there", |s| (connection(s, "ben-desk")? == "online").then_some(())).await;

    let mut bad = ben.start_app(&["teamlamp://join?server=http://example.org&code=7K3QF-9XW2M"]);
    until("a bad link ends too", async || bad.ended().is_some()).await;
    other.says("Plain http is only allowed to this computer or a private address").await;

    // The code is used up by now: whoever opens its link is told so, each time anew.
    for _ in 0..2 {
        other.go("Now").await;
        other.says("2 machines online").await;
        let mut again = ben.start_app(&[&link]);
        until("one more start ends", async || again.ended().is_some()).await;
        other.says("This invitation was used up").await;
    }
    other.picture("join-used-up-dark").await;
    no_secret_is_anywhere(&ben, &[&code]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_mistyped_code_and_an_address_of_something_else_say_what_to_do() {
    let computer = Computer::boot("mistyped", With::default()).await;
    let (_server, server) = teamlamp_server(&computer).await;
    let window = computer.open_app(&["--open", "join"]).await;
    let ask = async |code: &str, address: &str| {
        window.fill("Link or code", code).await;
        window.fill("Server address", address).await;
        window.click("Continue").await;
    };
    ask("7K3QF-9XW2M", &server).await;
    window.says("No invitation has this code: copy it once more, or ask for a new one.").await;
    ask("7K3QF-9XW", &server).await;
    window.says("Paste a link, or type a code of ten letters and digits.").await;
    ask("7K3QF-9XW2M", &hotel()).await;
    window.says("A web page came back in place of").await;
    window.picture("join-web-page-light").await;
    assert_eq!(window.state().await["status"]["contexts"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn the_command_line_joins_by_the_typed_code() {
    let ada = Computer::boot("ada-code", With::default()).await;
    let ci = Computer::boot("ci-code", With::default()).await;
    let window = ada.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    let (_, code) = invite(&window).await;
    let origin = window.state().await["local_server"]["origin"].as_str().map(str::to_owned).expect("it runs");
    let typed = code.to_lowercase().replace('-', " ");
    let joined =
        ci.teamlamp(&["join", &typed, "--server", &origin, "--as", "Ci", "--machine", "ci-runner", "--yes"]);
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
    let _connector = ci.start_teamlamp(&["connect"]);
    window.go("Now").await;
    window.says("ci-runner").await;
    window.says("2 machines online").await;
}

/// A server with a team, beside the app of its computer; its address.
async fn teamlamp_server(computer: &Computer) -> (crate::processes::Running, String) {
    let data = computer.home().join("server");
    let data = data.to_str().expect("a path in UTF-8");
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let address = port.expect("a port is free").to_string();
    let server = computer.start_teamlamp(&["serve", "--data", data, "--listen", &address]);
    until("the server listens", async || std::net::TcpStream::connect(&address).is_ok()).await;
    (server, format!("http://{address}"))
}

/// A network that wants a sign-in first: it answers everybody with its own page.
fn hotel() -> String {
    let portal = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = portal.local_addr().expect("it is bound");
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's process")]
    let answering = std::thread::spawn(move || {
        let page = "<html>Please sign in to the hotel's network</html>";
        while let Ok((mut guest, _)) = portal.accept() {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length:";
            let _ = guest.read(&mut [0; 4096]);
            let _ = guest.write_all(format!("{head} {}\r\n\r\n{page}", page.len()).as_bytes());
        }
    });
    drop(answering);
    format!("http://{address}")
}
