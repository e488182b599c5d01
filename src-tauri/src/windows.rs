//! The window: made when it is needed, gone when it is closed, so that the tray alone costs no web view.

use crate::shell::Shell;
use tauri::{AppHandle, Manager, WebviewUrl, WebviewWindowBuilder, WindowEvent};

/// The one window's label.
pub(crate) const MAIN: &str = "main";
const SIZE: (f64, f64) = (1100.0, 720.0);
/// The interface works down to this size, a small floating window.
const SIZE_MIN: (f64, f64) = (360.0, 420.0);

/// Brings the window up: makes it, or puts it before the others. Any thread.
pub(crate) fn open(app: &AppHandle) {
    let handle = app.clone();
    let asked = app.run_on_main_thread(move || {
        let shown = match handle.get_webview_window(MAIN) {
            Some(window) => {
                window.unminimize().and_then(|()| window.show()).and_then(|()| window.set_focus())
            }
            None => make(&handle),
        };
        if let Err(fault) = shown {
            tracing::error!(%fault, "the window could not be opened");
        }
    });
    if let Err(fault) = asked {
        tracing::debug!(%fault, "the app ends, no window opens");
    }
}

fn make(app: &AppHandle) -> tauri::Result<()> {
    let window = WebviewWindowBuilder::new(app, MAIN, WebviewUrl::App("index.html".into()))
        .title("Teamlamp")
        .inner_size(SIZE.0, SIZE.1)
        .min_inner_size(SIZE_MIN.0, SIZE_MIN.1)
        // Links in others' content go nowhere: the window shows its own pages only.
        .on_navigation(|url| matches!(url.scheme(), "tauri") || url.host_str() == Some("tauri.localhost"))
        .build()?;
    let app = app.clone();
    window.on_window_event(move |event| {
        if let WindowEvent::Destroyed = event {
            app.state::<Shell>().desktop.unfollow();
        }
    });
    Ok(())
}
