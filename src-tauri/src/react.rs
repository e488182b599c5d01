//! What follows from a change of the model: the tray is drawn, notifications are sent, the window gets its
//! patch. One loop, so that all of them show the same moment; at most ten rounds a second.

use crate::attention::waiting;
use crate::notifications::{Announcement, Announcer};
use crate::shell::{self, Shell};
use crate::tray::Drawn;
use crate::tray::menu::{lamp, menu, summary};
use crate::tray::panel::Panel;
use crate::words::plain_line;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tauri::{AppHandle, Manager};
use tauri_plugin_notification::NotificationExt;
use teamlamp_clock::ms;
use teamlamp_wire::id::SessionId;
use teamlamp_wire::window::PATCH_MIN_MS;
use tokio::sync::watch;

/// How often the menu's durations are looked at.
const MINUTE: Duration = Duration::from_secs(60);
/// Clicks are answered for this many notifications.
const CLICKS_MAX: usize = 50;

/// Draws, announces and sends for as long as it is polled.
pub(crate) async fn react(app: AppHandle, panel: watch::Receiver<Panel>) {
    let shell = app.state::<Shell>();
    let clicks = Clicks::answer(&app);
    let mut announcer = Announcer::default();
    loop {
        let now = shell.clock.now_ms();
        shell.desktop.forget_ended(now);
        let panel_now = *panel.borrow();
        let (drawn, told) = shell.desktop.read(|model| {
            let drawn = Drawn {
                lamp: lamp(model),
                panel: panel_now,
                words: plain_line(&summary(model, now)),
                items: menu(model, now),
            };
            (drawn, announcer.step(&waiting(model), model.status.paused.is_some(), now))
        });
        if let Some(tray) = shell.tray.get() {
            tray.draw(&app, drawn);
        }
        told.into_iter().for_each(|announcement| clicks.announce(&app, announcement));
        shell.desktop.send();
        shell.clock.sleep(ms(PATCH_MIN_MS)).await;
        let wait = announcer.due().map_or(MINUTE, |due| ms(due - now).min(MINUTE));
        let mut panel = panel.clone();
        tokio::select! {
            biased;
            () = shell.desktop.changed() => {}
            Ok(()) = panel.changed() => {}
            () = shell.clock.sleep(wait) => {}
        }
    }
}

/// Which session a click on a notification shows.
#[derive(Clone, Default)]
struct Clicks(Arc<Mutex<VecDeque<(i32, SessionId)>>>);

impl Clicks {
    /// Has clicks bring their session into view.
    fn answer(app: &AppHandle) -> Self {
        let clicks = Self::default();
        let (known, handle) = (clicks.clone(), app.clone());
        let answered = app.notification().on_action(move |performed| {
            let number = performed.notification().map(|n| n.id());
            if let Some(session) = number.and_then(|number| known.session(number)) {
                shell::show_session(&handle, session);
            }
        });
        if let Err(fault) = answered {
            tracing::warn!(%fault, "clicks on notifications are not answered");
        }
        clicks
    }

    fn announce(&self, app: &AppHandle, announcement: Announcement) {
        match announcement {
            Announcement::Show { number, title, body, session } => {
                let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                known.truncate(CLICKS_MAX - 1);
                known.push_front((number, session));
                drop(known);
                let shown = app.notification().builder().id(number).title(title).body(body).show();
                if let Err(fault) = shown {
                    tracing::warn!(%fault, "a notification was not shown");
                }
            }
            Announcement::Close { number } => {
                let handle = app.clone();
                // The plugin waits for the bus here, which the loop's own thread must not.
                shell::spawn_blocking(app, "notification", move || {
                    if let Err(fault) = handle.notification().remove_active(vec![number]) {
                        tracing::info!(%fault, "a notification could not be taken away");
                    }
                });
            }
        }
    }

    fn session(&self, number: i32) -> Option<SessionId> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(n, _)| *n == number).map(|(_, session)| session.clone())
    }
}
