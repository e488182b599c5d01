//! What the running app is made of, as Tauri manages it, and what a person can make it do from outside the
//! window: the tray's choices, notifications, later starts and their links. It ends in order.

use crate::arguments::Start;
use crate::desktop::Desktop;
use crate::local_server::LocalTeamServer;
use crate::teams::Teams;
use crate::tray::Tray;
use crate::tray::menu::Choice;
use crate::windows;
use futures_util::FutureExt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tauri::{AppHandle, Manager};
use teamlamp_clock::{Clock, Tasks};
use teamlamp_wire::id::SessionId;
use teamlamp_wire::window::{Notice, OpenPlace, PendingJoin, Place};

/// How long a service of the desktop may keep a task waiting.
const BLOCKED_MAX: Duration = Duration::from_secs(10);

/// The parts of the running app.
pub(crate) struct Shell {
    /// The one value, and who follows it.
    pub desktop: Arc<Desktop>,
    /// The teams.
    pub teams: Teams,
    /// The team server of this computer.
    pub local: Arc<LocalTeamServer>,
    /// The tray; none where this system can't make one.
    pub tray: OnceLock<Tray>,
    /// Time.
    pub clock: Clock,
    /// Everything that runs beside the window.
    pub tasks: Tasks,
    /// Set once the app begins to end.
    ending: AtomicBool,
}

impl Shell {
    /// The parts before anything runs.
    pub(crate) fn new(
        desktop: Arc<Desktop>,
        teams: Teams,
        local: Arc<LocalTeamServer>,
        clock: Clock,
        tasks: Tasks,
    ) -> Self {
        let (tray, ending) = (OnceLock::new(), AtomicBool::new(false));
        Self { desktop, teams, local, tray, clock, tasks, ending }
    }
}

/// Does what a start is for; `Window` and `Hidden` differ in nothing but the window.
pub(crate) fn start(app: &AppHandle, start: Start) {
    match start {
        Start::Hidden | Start::Help => {}
        Start::Window => windows::open(app),
        Start::Open(place) => go(app, OpenPlace { place, session: None }),
        Start::Link(link) => ask_to_join(app, link),
    }
}

/// Shows a link and asks about it; nothing is done with it before the person confirmed.
pub(crate) fn ask_to_join(app: &AppHandle, link: String) {
    let shell = app.state::<Shell>();
    shell.desktop.change(|model| {
        model.pending_join = Some(PendingJoin { link });
        // Asked for anew each time: the same link, opened again, is a wish to see its question again.
        model.go(OpenPlace { place: Place::Join, session: None });
    });
    windows::open(app);
}

/// Brings the window up at a place.
pub(crate) fn go(app: &AppHandle, open: OpenPlace) {
    app.state::<Shell>().desktop.change(|model| model.go(open));
    windows::open(app);
}

/// Brings a session into view.
pub(crate) fn show_session(app: &AppHandle, session: SessionId) {
    go(app, OpenPlace { place: Place::Now, session: Some(session) });
}

/// Does what was chosen in the tray.
pub(crate) fn choose(app: &AppHandle, choice: Choice) {
    let shell = app.state::<Shell>();
    let (teams, local) = (shell.teams.clone(), shell.local.clone());
    match choice {
        Choice::Open => windows::open(app),
        Choice::Session(session) => show_session(app, session),
        Choice::Invite => go(app, OpenPlace { place: Place::Invite, session: None }),
        Choice::Quit => quit(app),
        Choice::Pause(seconds) => attempt(app, "pause", async move { teams.pause(true, seconds).await }),
        Choice::Resume => attempt(app, "resume", async move { teams.pause(false, None).await }),
        Choice::StartServer => attempt(app, "start the server", async move {
            local.start().await.map(|_| ()).map_err(|fault| crate::failure::of_local(&fault))
        }),
        Choice::StopServer => attempt(app, "stop the server", async move {
            local.stop().await;
            Ok(())
        }),
    }
}

/// Runs what was chosen; a failure opens the window, which says it.
fn attempt(
    app: &AppHandle,
    what: &'static str,
    work: impl Future<Output = Result<(), teamlamp_wire::window::Failure>> + Send + 'static,
) {
    let handle = app.clone();
    spawn(app, what, async move {
        if let Err(failure) = work.await {
            tracing::warn!(what, why = %failure.message, "a choice of the tray did not work");
            // What is wrong with the server of this computer is shown for as long as it is so.
            if failure.code != "local_server" {
                let said = [Some(failure.message), failure.next].into_iter().flatten().collect::<Vec<_>>();
                let problem = Notice::Problem { what: said.join(" ") };
                handle.state::<Shell>().desktop.change(|model| model.notice(problem, true));
            }
            windows::open(&handle);
        }
    });
}

/// Runs something beside the window until it ends or the app does. Where it fails by a mistake of this
/// program the app ends too: a lamp that nobody changes any more would lie.
pub(crate) fn spawn(app: &AppHandle, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
    let (tasks, handle) = (app.state::<Shell>().tasks.clone(), app.clone());
    let _inside = tauri::async_runtime::handle().inner().enter();
    tasks.spawn(name, async move {
        if AssertUnwindSafe(work).catch_unwind().await.is_err() {
            tracing::error!(name, "a part of the app failed, so the app ends");
            end(&handle, 1);
        }
    });
}

/// Does something that waits for the bus or another program, beside the loops; nothing waits long for it.
pub(crate) fn spawn_blocking(app: &AppHandle, name: &'static str, work: impl FnOnce() + Send + 'static) {
    let clock = app.state::<Shell>().clock.clone();
    spawn(app, name, async move {
        #[expect(clippy::disallowed_methods, reason = "awaited below, for as long as it may take")]
        let done = tokio::task::spawn_blocking(work);
        if clock.within(BLOCKED_MAX, done).await.is_none() {
            tracing::warn!(name, "nothing answers; it is not waited for any longer");
        }
    });
}

/// Quits, as the person wants it.
pub(crate) fn quit(app: &AppHandle) {
    end(app, 0);
}

/// Ends the app with a code: the connector first, so that the team sees this machine leave while its
/// server still answers, then the server, then the rest.
fn end(app: &AppHandle, code: i32) {
    let shell = app.state::<Shell>();
    if shell.ending.swap(true, Ordering::SeqCst) {
        return;
    }
    let (teams, local, tasks) = (shell.teams.clone(), shell.local.clone(), shell.tasks.clone());
    let handle = app.clone();
    let _inside = tauri::async_runtime::handle().inner().enter();
    // Not of the app's tasks: it waits for those.
    Tasks::new().spawn_to_end("quit", async move {
        teams.shutdown().await;
        local.stop().await;
        tasks.shutdown(Duration::from_millis(500)).await;
        handle.exit(code);
    });
}
