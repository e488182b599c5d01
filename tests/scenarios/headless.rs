//! The main job where there is no display, by its script: server, team, connector and feed; and again.

use crate::home::{Home, Running};
use crate::wait::until;
use serde_json::Value;
use std::path::Path;

fn script() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/headless")
}

fn port(home: &Home) -> u64 {
    let kept = std::fs::read(home.path().join("tl/local-server.json")).expect("the port is kept");
    let kept: Value = serde_json::from_slice(&kept).expect("JSON");
    kept["port"].as_u64().expect("a number")
}

#[tokio::test]
async fn one_script_lights_the_lamp_and_a_second_start_finds_all_of_it_again() {
    let (a, b) = (Home::new(), Home::new());
    // Two homes of one machine: the second finds the usual port taken, whoever has it.
    let (mut first, mut second) = (a.command(script()), b.command(script()));
    let first = Running::start(&mut first);
    until("the first is online", async || first.lines().join("\n").contains("is online")).await;
    let second = Running::start(&mut second);
    until("the second is online", async || second.lines().join("\n").contains("is online")).await;
    assert_ne!(port(&a), port(&b));
    let before = port(&a);
    for running in [first, second] {
        assert_eq!(running.stop().await, 143, "a signal ends all of it");
    }

    let mut again = a.command(script());
    let again = Running::start(&mut again);
    until("it goes on where it was", async || {
        let said = again.lines().join("\n");
        said.contains("quit Teamlamp") && said.matches("is online").count() == 2
    })
    .await;
    assert_eq!(port(&a), before);
    assert_eq!(again.stop().await, 143);
}

#[tokio::test]
async fn a_first_start_that_was_cut_off_is_gone_on_with() {
    let a = Home::new();
    let data = a.path().join("tl/server");
    let server = a.start(&["serve", "--data", &data.to_string_lossy(), "--listen", "127.0.0.1:0", "--json"]);
    server.ready().await;
    server.kill().await;
    assert!(data.join("teamlamp.db").exists(), "the server got as far as its database");
    // Only one of the tests that run at once may want the usual port.
    let mut script = a.command(script());
    script.env("TEAMLAMP_LISTEN", "127.0.0.1:0");
    let running = Running::start(&mut script);
    until("the lamp is lit", async || running.lines().join("\n").contains("is online")).await;
    assert_eq!(running.stop().await, 143);
}
