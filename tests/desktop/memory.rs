//! What the app costs while only its lamp shows, beside a Tauri app that has a tray icon and nothing else.
//! The figures are printed for docs/BENCHMARKS.md; of memory nothing is asserted.

use crate::computer::{Computer, With};
use crate::panel::{choose, tray_shows};
use crate::processes::{below, built, memory_kib};
use crate::story::start_team;
use crate::wait::{eventually, until};
use std::time::Duration;
use teamlamp_clock::Clock;

/// How long a program is left alone before it is weighed.
const SETTLED: Duration = Duration::from_secs(5);

async fn weigh(what: &str, app: u32) -> u64 {
    Clock::system().sleep(SETTLED).await;
    let kib = memory_kib(app);
    println!("{what}: {:.1} MiB", kib as f64 / 1024.0);
    kib
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a screen and a session bus: scripts/desktop-test runs it"]
async fn in_the_tray_no_web_process_runs_and_the_memory_is_printed() {
    let bare = Computer::boot("empty", With::default()).await;
    let empty = bare.start_program(built().join("examples/empty_tray"), &[]);
    eventually("the empty app's icon", async || bare.bus.icons().pop()).await;
    let theirs = weigh("an empty Tauri tray app (PSS)", empty.pid()).await;
    drop(empty);

    let computer = Computer::boot("weighed", With::default()).await;
    let window = computer.open_app(&[]).await;
    start_team(&window, "Acme", "Ada", "ada-laptop").await;
    window.shut_down().await;
    let app = computer.start_app(&["--hidden"]);
    tray_shows(&computer.bus, "a lit lamp", |t| t.lamp == "steady").await;
    assert!(below(app.pid(), "WebKit").is_empty(), "only the tray: nothing of the web view runs");
    let ours = weigh("Teamlamp in the tray, its server in it, one team (PSS)", app.pid()).await;
    println!("ratio: {:.2}", ours as f64 / theirs as f64);

    choose(&computer.bus, "Open Teamlamp").await;
    until("a page is shown", async || !below(app.pid(), "WebKitWebProcess").is_empty()).await;
    until("the window is there", async || computer.shows_window()).await;
    weigh("with its window open", app.pid()).await;
    computer.close_window();
    until("the web process is gone", async || below(app.pid(), "WebKitWebProcess").is_empty()).await;
    weigh("after its window was closed", app.pid()).await;
}
