//! What differs between operating systems at a launch: the display, the name by which instances find each
//! other, the tray's panel, signals, and how links reach the app.

use crate::shell::{self, Shell};
use crate::tray::panel::Panel;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use tauri::{AppHandle, Manager};
use tauri_plugin_deep_link::DeepLinkExt;
use teamlamp_wire::window::Notice;
use tokio::sync::watch;

const IDENTIFIER: &str = "dev.teamlamp";

/// Looks whether a window can be shown at all, and prepares for it.
///
/// # Errors
/// A sentence, where there is no display.
pub(crate) fn prepare() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") {
            return Err(
                "There is no display here: `teamlamp serve` and `teamlamp connect` run without one.".into()
            );
        }
        let nvidia = std::path::Path::new("/proc/driver/nvidia/version").exists();
        if nvidia && !is_set(RENDERER) {
            return Err(start_again_with_plain_renderer());
        }
    }
    Ok(())
}

/// With NVIDIA's own driver WebKitGTK's usual renderer shows an empty window on many desktops.
#[cfg(target_os = "linux")]
const RENDERER: &str = "WEBKIT_DISABLE_DMABUF_RENDERER";

/// Replaces this process by one with another environment, which can't be changed safely from within. It
/// returns only where that failed, with a sentence.
#[cfg(target_os = "linux")]
fn start_again_with_plain_renderer() -> String {
    let program = std::env::current_exe();
    let program = program.unwrap_or_else(|_| std::env::args_os().next().unwrap_or_default().into());
    let mut again = std::process::Command::new(program);
    again.args(std::env::args_os().skip(1)).env(RENDERER, "1");
    let fault = std::os::unix::process::CommandExt::exec(&mut again);
    format!(
        "The program could not be started for this graphics card ({fault}): set {RENDERER}=1 and start it again."
    )
}

/// The name by which instances of one home find each other on the session bus. Two homes of one person are
/// two installs, as two machines are.
pub(crate) fn instance_name(chosen_home: Option<&OsStr>) -> String {
    match chosen_home.filter(|home| !home.is_empty()) {
        None => IDENTIFIER.to_owned(),
        Some(home) => {
            let mut hasher = DefaultHasher::new();
            std::path::absolute(home).unwrap_or_else(|_| home.into()).hash(&mut hasher);
            format!("{IDENTIFIER}.home_{:016x}", hasher.finish())
        }
    }
}

/// The panel as far as it is known before anything was asked.
pub(crate) fn panel() -> Panel {
    Panel::of(&std::env::var("XDG_CURRENT_DESKTOP").unwrap_or_default(), None)
}

/// Looks whether the desktop shows the tray, and how its panel looks, for as long as the app runs. Without
/// a tray the window opens and says so: the app is never invisible.
#[cfg(target_os = "linux")]
pub(crate) async fn watch_tray(app: AppHandle, tell: watch::Sender<Panel>) {
    let shell = app.state::<Shell>();
    let bus = match shell.tray.get() {
        Some(_) => crate::tray::watcher::Bus::connect(shell.clock.clone()).await,
        None => None,
    };
    let Some(bus) = bus else {
        say_tray_missing(&app, true);
        return crate::windows::open(&app);
    };
    follow_bus(&app, &bus, &tell).await;
    // The bus ended, or never told what happens on it: the lamp may be gone, and nobody would know.
    say_whether_shown(&app, bus.shows_our_icon().await);
}

#[cfg(target_os = "linux")]
async fn follow_bus(app: &AppHandle, bus: &crate::tray::watcher::Bus, tell: &watch::Sender<Panel>) {
    use crate::tray::watcher::panel;
    use futures_util::StreamExt;

    let (mut panels, mut schemes) = (bus.panel_changes().await, bus.colour_schemes().await);
    tell.send_replace(panel(bus.colour_scheme().await));
    say_whether_shown(app, bus.shows_our_icon().await);
    loop {
        tokio::select! {
            biased;
            Some(()) = panels.next() => say_whether_shown(app, bus.shows_our_icon().await),
            Some(scheme) = schemes.next() => drop(tell.send_replace(panel(scheme))),
            else => return,
        }
    }
}

/// A tray that goes takes the lamp with it: the window comes in its place.
#[cfg(target_os = "linux")]
fn say_whether_shown(app: &AppHandle, shows: bool) {
    say_tray_missing(app, !shows);
    if !shows {
        crate::windows::open(app);
    }
}

#[cfg(target_os = "linux")]
fn say_tray_missing(app: &AppHandle, is_missing: bool) {
    app.state::<Shell>().desktop.change(|model| model.notice(Notice::TrayMissing, is_missing));
}

/// Elsewhere the system always has a place for it.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn watch_tray(_app: AppHandle, tell: watch::Sender<Panel>) {
    tell.closed().await;
}

/// Quits in order when the system asks the process to end.
#[cfg(unix)]
pub(crate) async fn quit_on_signal(app: AppHandle) {
    use tokio::signal::unix::{SignalKind, signal};
    let signals =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()));
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) = signals else {
        return tracing::warn!("signals end the app at once");
    };
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    shell::quit(&app);
}

/// Quits in order when the person presses Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn quit_on_signal(app: AppHandle) {
    if tokio::signal::ctrl_c().await.is_ok() {
        shell::quit(&app);
    }
}

/// Has the system hand `teamlamp:` links to this program, written anew at each start because the program
/// may have moved.
pub(crate) fn take_links(app: &AppHandle) {
    if cfg!(target_os = "macos") {
        // Elsewhere a link is an argument of a later start.
        let handle = app.clone();
        app.deep_link().on_open_url(move |event| {
            event.urls().into_iter().for_each(|link| shell::ask_to_join(&handle, link.into()));
        });
        return;
    }
    let handle = app.clone();
    shell::spawn_blocking(app, "links", move || {
        if let Err(fault) = handle.deep_link().register_all() {
            let what = format!(
                "Links to invitations do not open here ({fault}): paste them under Join instead. On Linux, xdg-utils opens them."
            );
            tracing::warn!("{what}");
            handle.state::<Shell>().desktop.change(|model| model.notice(Notice::Problem { what }, true));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_homes_are_two_installs_and_their_names_are_names_of_a_bus() {
        assert_eq!(instance_name(None), "dev.teamlamp");
        assert_eq!(instance_name(Some(OsStr::new(""))), "dev.teamlamp");
        let (a, b) = (instance_name(Some(OsStr::new("/a"))), instance_name(Some(OsStr::new("/b"))));
        assert_ne!(a, b);
        assert_eq!(a, instance_name(Some(OsStr::new("/a"))));
        assert!(a.split('.').all(|part| part.chars().next().is_some_and(|c| c.is_ascii_alphabetic())));
    }
}
