//! Links that the system hands over: shown and asked about, never acted on, and never written down.

use crate::computer::{Computer, With};
use crate::story::{confirm_join, connection, invite, start_team};
use crate::trouble::no_secret_is_anywhere;
use crate::wait::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn an_opened_link_joins_after_one_confirmation_and_not_before() {
    let ada = Computer::boot("ada-links", With::default()).await;
    let ben = Computer::boot("ben-links", With { dark: true, ..With::default() }).await;
    let window = ada.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    let (link, _) = invite(&window).await;

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
    no_secret_is_anywhere(&ben);
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
