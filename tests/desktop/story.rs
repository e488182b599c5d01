//! From nothing to a lit lamp, and what two people see of each other: the story that must always work.

use crate::agent::Agent;
use crate::computer::{Computer, With};
use crate::panel::{choose, entries, tray_shows};
use crate::processes::{below, runs, signal};
use crate::trouble::no_secret_is_anywhere;
use crate::wait::{eventually, until};
use crate::window::Window;
use serde_json::Value;

/// Starts a team in a fresh window, by the one click, with names that tell people and machines apart.
pub(crate) async fn start_team(window: &Window, team: &str, person: &str, machine: &str) {
    window.says("See what your team’s agents do").await;
    window.click("Change names").await;
    window.fill("Team", team).await;
    window.fill("Your name", person).await;
    window.fill("This machine’s name", machine).await;
    window.click("Start").await;
    window.says(machine).await;
}

/// Makes an invitation in the window: the link and the code.
pub(crate) async fn invite(window: &Window) -> (String, String) {
    window.go("Invite").await;
    window.click("Make invitation").await;
    window.says("The invitation is ready").await;
    let link = window.text_of("//dd[preceding-sibling::dt[1][.='Link']]//code").await;
    let code = window.text_of("//dd[preceding-sibling::dt[1][.='Code']]//code").await;
    (link, code)
}

/// Confirms an invitation that the window shows.
pub(crate) async fn confirm_join(window: &Window, team: &str, person: &str, machine: &str) {
    window.says(&format!("Join {team}?")).await;
    window.fill("Your name", person).await;
    window.fill("This machine’s name", machine).await;
    window.click(&format!("Join {team}")).await;
    window.says(machine).await;
}

/// How a machine is to the team, as a window's state has it.
pub(crate) fn connection(state: &Value, machine: &str) -> Option<String> {
    let machines = state["machines"].as_array()?;
    let machine = machines.iter().find(|m| m["name"] == machine)?;
    Some(machine["connection"].as_str()?.to_owned())
}

/// The sequences of the events in a window's feed, in its order.
pub(crate) fn sequences(state: &Value) -> Vec<i64> {
    let items = state["feed"].as_array().into_iter().flatten();
    items.filter_map(|item| item["sequence"].as_i64()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn one_click_starts_a_team_and_an_agent_that_waits_calls_its_person() {
    let ada = Computer::boot("ada", With::default()).await;
    let window = ada.open_app(&[]).await;
    window.says("Start a team on this computer").await;
    window.picture("first-light").await;
    tray_shows(&ada.bus, "a lamp that is off", |t| t.lamp == "off" && t.lines[0] == "Not part of a team yet")
        .await;

    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    tray_shows(&ada.bus, "a lit lamp", |t| t.lamp == "steady" && t.lines[0] == "1 machine online").await;
    window.says("1 machine online").await;
    window.picture("now-alone-light").await;
    no_secret_is_anywhere(&ada, &[]);

    let mut agent = Agent::start(&ada, "billing-api");
    window.says("billing-api").await;
    let open = entries(&ada.bus).await;
    agent.prompt("Add a test");
    tray_shows(&ada.bus, "that an agent works", |t| {
        t.lamp == "working" && t.lines[0].ends_with("1 agent working")
    })
    .await;
    assert_eq!(entries(&ada.bus).await, open, "whoever has the menu open can still choose in it");
    window
        .state_has("the session works", |s| {
            s["sessions"].as_array()?.iter().find(|r| r["session"]["turn"] == "working").map(|_| ())
        })
        .await;
    window.picture("now-working-light").await;

    agent.says("waiting", Some("permission prompt"));
    let tray = tray_shows(&ada.bus, "that someone waits", |t| t.lamp == "waiting").await;
    assert_eq!(tray.lines[0], "1 machine online · 1 waiting");
    assert!(
        tray.lines[1].starts_with("billing-api asks for approval · Claude Code on ada-laptop"),
        "{tray:?}"
    );
    let note = eventually("a notification", async || ada.bus.notifications().pop()).await;
    assert_eq!(note.title, "billing-api waits on ada-laptop");
    assert_eq!(note.body, "Claude Code asks for approval.");
    window.says("asks for approval").await;
    window.picture("now-waiting-light").await;

    window.go("Feed").await;
    window.says("billing-api").await;
    window.picture("feed-light").await;
    ada.bus.click(&note).await;
    window.says("You are the first here.").await;

    agent.finish();
    tray_shows(&ada.bus, "that nobody waits", |t| t.lamp == "steady").await;
    until("the notification goes", async || ada.bus.notifications().is_empty()).await;
    agent.kill();
    window
        .state_has("the killed agent's session ends", |s| {
            let rows = s["sessions"].as_array()?;
            rows.iter().find(|r| r["session"]["live"] == false && r["session"]["turn"] == "ended").map(|_| ())
        })
        .await;
    let ended =
        |s: &Value| s["feed"].as_array()?.iter().find(|i| i["event"]["kind"] == "session.ended").map(|_| ());
    window.state_has("the feed tells that it ended", ended).await;
    assert_eq!(ada.bus.notifications(), [], "an agent that ends calls nobody");
    no_secret_is_anywhere(&ada, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn a_second_computer_joins_and_both_see_both_also_after_the_server_was_killed() {
    let ada = Computer::boot("ada-team", With::default()).await;
    let ben = Computer::boot("ben-team", With { dark: true, ..With::default() }).await;
    let window = ada.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    let (link, code) = invite(&window).await;
    assert!(link.starts_with("teamlamp://join?") && link.contains(&code), "the link holds the code");
    window.says("Only this computer can use it").await;
    window.picture("invite-light").await;

    let other = ben.open_app(&[]).await;
    other.says("Join with a link or a code").await;
    other.picture("first-dark").await;
    other.click("Join with a link or a code").await;
    other.fill("Link or code", &link).await;
    other.click("Continue").await;
    other.says("Invited by").await;
    other.picture("join-dark").await;
    confirm_join(&other, "Acme", "Ben", "ben-desk").await;
    window.go("Now").await;
    for each in [&window, &other] {
        for machine in ["ada-laptop", "ben-desk"] {
            each.state_has(&format!("{machine} is online"), |s| {
                (connection(s, machine)? == "online").then_some(())
            })
            .await;
        }
        each.says("2 machines online").await;
    }
    // Who pauses reports nothing, and is called for a teammate all the same.
    choose(&ada.bus, "Pause reporting until I resume").await;
    tray_shows(&ada.bus, "the struck lamp", |t| t.lamp == "paused").await;
    let agent = Agent::start(&ben, "mobile");
    agent.prompt("Look into the crash");
    agent.says("waiting", Some("input needed"));
    for (computer, window) in [(&ada, &window), (&ben, &other)] {
        window.says("asks a question").await;
        let note = eventually("a notification", async || computer.bus.notifications().pop()).await;
        assert_eq!(note.title, "mobile waits on ben-desk");
    }
    tray_shows(&ada.bus, "who waits, in a pause too", |t| {
        t.lines[0] == "Reporting is paused until you resume it · 1 waiting"
    })
    .await;
    choose(&ada.bus, "Resume reporting").await;
    for each in [&window, &other] {
        each.state_has("ada-laptop is online again", |s| {
            (connection(s, "ada-laptop")? == "online").then_some(())
        })
        .await;
    }
    other.picture("now-two-dark").await;
    window.picture("now-two-light").await;

    let before = sequences(&other.state().await);
    signal(window.app_pid(), "-KILL");
    drop(window);
    other.says("Offline for").await;
    tray_shows(&ben.bus, "that the server is gone", |t| t.lamp == "off").await;
    other.picture("now-offline-dark").await;

    let window = ada.open_app(&[]).await;
    window.says("ben-desk").await;
    agent.finish();
    other.state_has("ada-laptop is back", |s| (connection(s, "ada-laptop")? == "online").then_some(())).await;
    let live =
        |s: &Value| s["sessions"].as_array()?.iter().find(|r| r["session"]["turn"] == "idle").map(|_| ());
    other.state_has("the agent's turn came through", live).await;
    let after = sequences(&other.state().await);
    assert!(after.starts_with(&before), "nothing that was shown is lost");
    let expected: Vec<i64> = (after[0]..after[0] + after.len() as i64).collect();
    assert_eq!(after, expected, "no event is missing and none is there twice");
    other.go("Feed").await;
    other.says("ben-desk").await;
    other.picture("feed-dark").await;
    tray_shows(&ben.bus, "a lit lamp again", |t| t.lamp == "steady" && t.lines[0] == "2 machines online")
        .await;

    other
        .state_has("its own link is back", |s| {
            (s["status"]["contexts"][0]["state"]["state"] == "online").then_some(())
        })
        .await;

    // Quitting in order: the team sees this machine leave, at once and by name of the reason.
    let app = other.app_pid();
    choose(&ben.bus, "Quit Teamlamp").await;
    until("the app ends", async || !runs(app)).await;
    let left = |s: &Value| {
        let ben = s["machines"].as_array()?.iter().find(|m| m["name"] == "ben-desk")?;
        (ben["away"]["reason"] == "shutdown").then_some(())
    };
    window.state_has("ben-desk has quit", left).await;
    assert!(below(app, "WebKit").is_empty());
    for computer in [&ada, &ben] {
        no_secret_is_anywhere(computer, &[&code]);
    }
}
