//! The app without its window: what stays, what goes, and how it comes back.

use crate::computer::{Computer, With};
use crate::panel::{choose, tray_shows};
use crate::processes::below;
use crate::story::start_team;
use crate::wait::until;

const WEB: &str = "WebKitWebProcess";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_closed_window_leaves_the_lamp_and_no_web_process() {
    let computer = Computer::boot("closed", With::default()).await;
    let mut app = computer.start_app(&["--hidden"]);
    tray_shows(&computer.bus, "the lamp", |t| t.lamp == "off").await;
    assert!(
        !computer.shows_window() && below(app.pid(), WEB).is_empty(),
        "hidden: no window, no web process"
    );

    choose(&computer.bus, "Open Teamlamp").await;
    until("the window is there", async || computer.shows_window()).await;
    until("it shows a page", async || !below(app.pid(), WEB).is_empty()).await;
    computer.close_window();
    until("the window is gone", async || !computer.shows_window()).await;
    until("its web process is gone", async || below(app.pid(), WEB).is_empty()).await;
    assert!(app.ended().is_none(), "the app goes on");
    tray_shows(&computer.bus, "the lamp still", |t| t.lamp == "off").await;

    let mut second = computer.start_app(&[]);
    until("a second start ends", async || second.ended().is_some_and(|s| s.success())).await;
    until("and brings up the window", async || computer.shows_window()).await;
    let mut hidden = computer.start_app(&["--hidden"]);
    until("one more ends too", async || hidden.ended().is_some_and(|s| s.success())).await;

    choose(&computer.bus, "Quit Teamlamp").await;
    until("quitting ends it", async || app.ended().is_some_and(|s| s.success())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_pause_is_one_choice_and_a_launch_is_the_same_machine_again() {
    let computer = Computer::boot("pause", With::default()).await;
    let window = computer.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    let machine =
        |s: &serde_json::Value| s["status"]["contexts"][0]["machine_id"].as_str().map(str::to_owned);
    let first = window.state_has("the machine", machine).await;
    choose(&computer.bus, "Pause reporting until I resume").await;
    let tray = tray_shows(&computer.bus, "the struck lamp", |t| t.lamp == "paused").await;
    assert_eq!(tray.lines[0], "Reporting is paused until you resume it");
    window.says("Reporting paused").await;
    window.picture("paused-light").await;
    choose(&computer.bus, "Resume reporting").await;
    tray_shows(&computer.bus, "a lit lamp", |t| t.lamp == "steady").await;

    choose(&computer.bus, "Stop the local server").await;
    tray_shows(&computer.bus, "that nothing answers", |t| t.lamp == "off").await;
    choose(&computer.bus, "Start the local server").await;
    tray_shows(&computer.bus, "a lit lamp again", |t| t.lamp == "steady").await;

    window.shut_down().await;
    let window = computer.open_app(&[]).await;
    window.says("1 machine online").await;
    assert_eq!(window.state_has("the machine", machine).await, first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_connector_that_runs_already_is_read_from_and_taken_over_when_it_ends() {
    let computer = Computer::boot("reader", With::default()).await;
    let window = computer.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    window.shut_down().await;
    let mut connector = computer.start_teamlamp(&["connect"]);
    until("it has the home", async || {
        let status = computer.teamlamp(&["status", "--json"]).stdout;
        serde_json::from_slice::<serde_json::Value>(&status).is_ok_and(|status| status["running"] == true)
    })
    .await;
    let window = computer.open_app(&[]).await;
    window.says("runs the connector of this home").await;
    window.says("1 machine online").await;
    window.picture("reader-light").await;
    connector.kill();
    until("the app takes over", async || !window.text().await.contains("runs the connector")).await;
    window.says("1 machine online").await;
}
