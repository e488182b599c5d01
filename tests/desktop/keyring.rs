//! Keyrings that are absent or locked: a plain sentence, and a file only by the person's own choice.

use crate::computer::{Computer, Keyring, With};
use crate::panel::tray_shows;
use crate::story::{invite, start_team};
use crate::wait::until;
use serde_json::Value;

fn contexts(computer: &Computer) -> Value {
    let text = std::fs::read_to_string(computer.teamlamp_home().join("contexts.json"));
    serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn without_a_keyring_nothing_is_made_before_the_person_allows_a_file() {
    let computer = Computer::boot("no-keyring", With { keyring: Keyring::Absent, ..With::default() }).await;
    let window = computer.open_app(&[]).await;
    window.click("Start").await;
    window.says("The keyring can’t be used").await;
    window.says("There is no keyring on this computer").await;
    window.picture("no-keyring-light").await;
    assert_eq!(contexts(&computer), Value::Null, "no credential was made that can't be kept");
    tray_shows(&computer.bus, "that the person is needed", |t| t.lamp == "broken").await;

    window.click("Try again").await;
    window.says("There is no keyring on this computer").await;
    window.click("Keep it in a private file instead").await;
    window.says("1 machine online").await;
    tray_shows(&computer.bus, "a lit lamp", |t| t.lamp == "steady").await;
    assert_eq!(contexts(&computer)["contexts"][0]["credential_ref"], "file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_locked_keyring_says_so_and_goes_on_once_it_is_open() {
    let mut computer =
        Computer::boot("locked-keyring", With { keyring: Keyring::Locked, ..With::default() }).await;
    let window = computer.open_app(&[]).await;
    window.click("Start").await;
    window.says("The keyring is locked").await;
    window.picture("locked-keyring-light").await;
    assert_eq!(contexts(&computer), Value::Null);
    computer.stop_keyring();
    computer.start_keyring(Some("pw")).await;
    window.click("Try again").await;
    window.says("1 machine online").await;
    assert_eq!(contexts(&computer)["contexts"][0]["credential_ref"], "keyring");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_keyring_that_comes_up_after_the_app_is_waited_for_and_nothing_is_enrolled_again() {
    let mut computer = Computer::boot("late-keyring", With::default()).await;
    let window = computer.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    window.says("1 machine online").await;
    let machine = contexts(&computer)["contexts"][0]["machine"]["id"].clone();
    window.shut_down().await;
    computer.stop_keyring();
    let window = computer.open_app(&[]).await;
    tray_shows(&computer.bus, "that the keyring is needed", |t| t.lamp == "broken").await;
    window.picture("late-keyring-light").await;
    computer.start_keyring(Some("pw")).await;
    until("it goes on by itself or by one click", async || {
        let text = window.text().await;
        if text.contains("Try again") {
            window.click("Try again").await;
        }
        text.contains("1 machine online")
    })
    .await;
    assert_eq!(
        contexts(&computer)["contexts"][0]["machine"]["id"],
        machine,
        "the same machine, not a new one"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn who_joins_without_a_keyring_joins_once_and_by_the_same_invitation() {
    let ada = Computer::boot("ada-keyring", With::default()).await;
    let ben = Computer::boot("ben-no-keyring", With { keyring: Keyring::Absent, ..With::default() }).await;
    let window = ada.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    let (link, _) = invite(&window).await;
    let other = ben.open_app(&[&link]).await;
    other.says("Join Acme?").await;
    other.fill("This machine’s name", "ben-desk").await;
    other.click("Join Acme").await;
    other.says("The keyring can’t be used").await;
    other.picture("join-no-keyring-light").await;
    assert_eq!(
        contexts(&ben),
        Value::Null,
        "the invitation was not spent on a credential that can't be kept"
    );
    other.click("Keep it in a private file instead").await;
    other.says("2 machines online").await;
    assert_eq!(contexts(&ben)["contexts"].as_array().map(Vec::len), Some(1), "joined once");
}
