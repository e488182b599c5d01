//! One launch of the app, from its arguments to its end: single instance before all else, the runtime, the
//! parts, Tauri. Nothing is decided here that could be decided without a desktop.

use crate::arguments::{self, Start, USAGE};
use crate::desktop::Desktop;
use crate::local_server::LocalTeamServer;
use crate::shell::{self, Shell};
use crate::teams::Teams;
use crate::tray::Tray;
use crate::{commands, parts, platform, react};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use tauri::{AppHandle, Manager, RunEvent};
use teamlamp_clock::{Chance, Clock, Tasks};
use teamlamp_connector::{Home, names};
use teamlamp_wire::words::color_is_allowed;
use tokio::sync::watch;

/// Runs the app; ends with it.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let start = match arguments::parse(arguments) {
        Ok(Start::Help) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(start) => start,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    log();
    match launch(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("TEAMLAMP_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,teamlamp=info"));
    let colour = std::io::stderr().is_terminal() && color_is_allowed(std::env::var_os("NO_COLOR").as_deref());
    let written = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        .with_writer(std::io::stderr)
        .try_init();
    debug_assert!(written.is_ok(), "logging is set up once");
}

/// Makes the parts and hands the main thread to Tauri until the app ends.
fn launch(start: Start) -> Result<(), String> {
    platform::prepare()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|fault| format!("The system gives no threads ({fault})."))?;
    tauri::async_runtime::set(runtime.handle().clone());
    let home = std::env::var_os("TEAMLAMP_HOME");
    let instance = platform::instance_name(home.as_deref());
    let home = Home::locate(home.as_deref()).map_err(|fault| fault.to_string())?;
    let single = tauri_plugin_single_instance::Builder::new().dbus_id(instance).callback(later_start).build();
    let app = tauri::Builder::default()
        .manage(Early::default())
        .plugin(single)
        .plugin(tauri_plugin_deep_link::init())
        .plugin(tauri_plugin_notification::init())
        .invoke_handler(tauri::generate_handler![
            commands::patches,
            commands::state,
            commands::start_team,
            commands::join_preview,
            commands::join_accept,
            commands::join_dismiss,
            commands::invite,
            commands::connect_now,
            commands::pause,
            commands::resume,
            commands::history,
            commands::set_custody,
            commands::retry_custody,
            commands::open_place,
            commands::show_team,
        ])
        .setup(move |app| {
            set_up(app.handle(), home, start);
            Ok(())
        })
        .build(tauri::generate_context!())
        .map_err(|fault| format!("Teamlamp can't start on this desktop: {fault}."))?;
    app.run(|_, event| {
        // The last window is gone; the tray and the connector go on. Only quitting brings a code.
        if let RunEvent::ExitRequested { code: None, api, .. } = event {
            api.prevent_exit();
        }
    });
    Ok(())
}

/// The program was started again: its window comes up, or what that start was for. Arguments are not
/// logged, for they may hold a link.
fn later_start(app: &AppHandle, arguments: Vec<String>, _folder: String) {
    let start = arguments::parse(arguments.get(1..).unwrap_or_default()).unwrap_or(Start::Window);
    tracing::info!(?start, "the program was started again");
    let early = app.state::<Early>();
    // Held to the end, so that a start can't fall between the look and the note of it.
    let mut early = early.0.lock().unwrap_or_else(PoisonError::into_inner);
    match app.try_state::<Shell>() {
        Some(_) => shell::start(app, start),
        None => *early = Some(start),
    }
}

/// A later start that came while this one was still coming up; the last one counts.
#[derive(Default)]
struct Early(Mutex<Option<Start>>);

/// Starts everything, once Tauri is there.
fn set_up(app: &AppHandle, home: Home, start: Start) {
    let (clock, desktop) = (Clock::system(), Arc::new(Desktop::default()));
    let suggested = names::suggested();
    let server_name = suggested.machine.clone();
    desktop.change(|model| model.suggested = suggested);
    let tasks = Tasks::new();
    let config = {
        let _inside = tauri::async_runtime::handle().inner().enter();
        parts::make(&home, &clock, &desktop, &tasks)
    };
    let local =
        LocalTeamServer::of(home.clone(), server_name, clock.clone(), Chance::system(), desktop.clone());
    let teams = Teams::of(config, desktop.clone());
    app.manage(Shell::new(desktop, teams.clone(), Arc::new(local), clock, tasks));
    let shell = app.state::<Shell>();
    match Tray::make(app, &home.path("tray"), shell::choose) {
        Ok(tray) => drop(shell.tray.set(tray)),
        Err(why) => tracing::warn!(%why, "there is no tray icon"),
    }
    let (tell, panel) = watch::channel(platform::panel());
    shell::spawn(app, "react", react::react(app.clone(), panel));
    shell::spawn(app, "tray", platform::watch_tray(app.clone(), tell));
    let local = shell.local.clone();
    shell::spawn(app, "teams", async move {
        // The server first, so that the connector finds it.
        local.start_again().await;
        teams.run().await;
    });
    shell::spawn(app, "signals", platform::quit_on_signal(app.clone()));
    platform::take_links(app);
    shell::start(app, start);
    let early = app.state::<Early>();
    let early = early.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(start) = early {
        shell::start(app, start);
    }
}
