//! What goes wrong on real desktops: each says what to do, and loses nothing. And the look into every file
//! and log for a secret that should not be there.

use crate::computer::{Computer, Keyring, With};
use crate::panel::{choose, tray_shows};
use crate::story::start_team;
use crate::wait::until;
use std::fs;
use std::path::{Path, PathBuf};

/// Whether a text holds a token of the protocol: `cred_`, 32 hex digits, a dot, 43 characters.
fn holds_token(text: &str) -> bool {
    text.match_indices("cred_").any(|(at, _)| {
        let rest = &text.as_bytes()[at + 5..];
        rest.len() >= 76
            && rest[..32].iter().all(u8::is_ascii_hexdigit)
            && rest[32] == b'.'
            && rest[33..76].iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    })
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), all),
            Ok(kind) if kind.is_file() => all.push(entry.path()),
            _ => {}
        }
    }
}

/// Looks into every file of a computer and everything that was said there, for tokens and for these codes.
pub(crate) fn no_secret_is_anywhere(computer: &Computer, codes: &[&str]) {
    let mut all = vec![computer.log_path()];
    files(computer.home(), &mut all);
    assert!(all.len() > 5, "there is something to look into");
    for path in all {
        let bytes = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!holds_token(&text), "{} holds a token", path.display());
        let holds = |code: &&str| text.contains(*code) || text.contains(&code.replace('-', ""));
        assert!(!codes.iter().any(holds), "{} holds a code", path.display());
    }
    let log = computer.log();
    assert!(!log.contains("code="), "the log holds a link with its code");
}

#[test]
fn a_token_is_found_wherever_it_stands() {
    let token = format!("cred_{}.{}", "0123456789abcdef".repeat(2), "A".repeat(43));
    assert!(holds_token(&format!("cred_1 {token}\n")));
    assert!(!holds_token("cred_0123"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn without_a_tray_the_window_opens_and_says_so_even_when_it_was_to_stay_hidden() {
    let computer = Computer::boot("no-tray", With { tray: false, ..With::default() }).await;
    let hidden = computer.start_app(&["--hidden"]);
    until("the window opens", async || computer.shows_window()).await;
    drop(hidden);
    let window = computer.open_app(&[]).await;
    window.says("This desktop shows no tray").await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    window.says("This desktop shows no tray").await;
    window.picture("no-tray-light").await;

    computer.bus.show_panel().await;
    until("the notice goes once a panel is there", async || !window.text().await.contains("shows no tray"))
        .await;
    tray_shows(&computer.bus, "the lamp in the panel that came late", |t| t.lamp == "steady").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn without_a_session_bus_the_window_does_all_of_it_and_secrets_wait_for_a_choice() {
    let with = With { session_bus: false, keyring: Keyring::Absent, tray: false, ..With::default() };
    let computer = Computer::boot("no-bus", with).await;
    let window = computer.open_app(&["--hidden"]).await;
    window.says("This desktop shows no tray").await;
    window.click("Start").await;
    window.says("The keyring can’t be used").await;
    window.picture("no-bus-light").await;
    window.click("Keep it in a private file instead").await;
    window.says("1 machine online").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_panel_that_ends_brings_the_window_in_its_place() {
    let computer = Computer::boot("panel-ends", With::default()).await;
    let _app = computer.start_app(&["--hidden"]);
    tray_shows(&computer.bus, "the lamp", |t| t.lamp == "off").await;
    assert!(!computer.shows_window());
    computer.bus.hide_panel().await;
    until("the window opens", async || computer.shows_window()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_list_of_teams_that_cannot_be_read_is_kept_and_said() {
    let computer =
        Computer::boot("broken-contexts", With { keyring: Keyring::Absent, ..With::default() }).await;
    fs::create_dir_all(computer.teamlamp_home()).unwrap();
    fs::write(computer.teamlamp_home().join("contexts.json"), "{\"version\":1,").unwrap();
    let window = computer.open_app(&[]).await;
    window.says("The list of your teams could not be read. It is kept as ").await;
    window.says("Start a team on this computer").await;
    window.picture("broken-contexts-light").await;
    let names = fs::read_dir(computer.teamlamp_home()).unwrap().flatten().map(|e| e.file_name());
    let kept: Vec<_> = names.filter(|n| n.to_string_lossy().starts_with("contexts.json.broken-")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read_to_string(computer.teamlamp_home().join(&kept[0])).unwrap(), "{\"version\":1,");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_port_in_use_is_no_obstacle_and_the_port_stays_afterwards() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 8720));
    let computer = Computer::boot("port-in-use", With::default()).await;
    let window = computer.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    let origin = |s: &serde_json::Value| s["local_server"]["origin"].as_str().map(str::to_owned);
    let first = window.state_has("the server runs", origin).await;
    assert!(!first.ends_with(":8720"), "{first}");
    window.shut_down().await;
    drop(taken);
    let window = computer.open_app(&[]).await;
    assert_eq!(window.state_has("the server runs again", origin).await, first);
    window.says("1 machine online").await;

    // A team in which nothing happens is read again by itself while somebody looks, so that its window
    // never calls what it shows old.
    let read_at = |s: &serde_json::Value| s["team"]["read_at"].as_i64();
    let began = window.state_has("its lists were read", read_at).await;
    window.state_has("its lists are read again", |s| (read_at(s)? > began + 14_000).then_some(())).await;
    assert!(!window.text().await.contains("What you see is from"));

    // A port that somebody took meanwhile: said, wherever it was asked for, and mended without a restart.
    choose(&computer.bus, "Stop the local server").await;
    window.state_has("the server stopped", |s| (s["local_server"]["running"] == false).then_some(())).await;
    let port = first.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).expect("it is free now");
    choose(&computer.bus, "Start the local server").await;
    window.says(&format!("another program has its port {port}. End that program")).await;
    window.picture("port-taken-light").await;
    drop(taken);
    window.click("Connect now").await;
    window.says("1 machine online").await;
}
