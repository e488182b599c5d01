//! The app's one value behind its lock, and who is told of its changes. Whoever learns something changes
//! the model here; tray, notifications and window are drawn from it by [`crate::react`].

use crate::model::Model;
use crate::updates::Seen;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tauri::ipc::Channel;
use teamlamp_wire::Millis;
use teamlamp_wire::window::{Patch, WindowState};
use tokio::sync::{Notify, watch};

/// The model, and the window that follows it.
#[derive(Default)]
pub(crate) struct Desktop {
    inner: Mutex<Inner>,
    changed: Notify,
    followed: watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    model: Model,
    window: Option<Follower>,
    /// The last version that any window was told.
    version: u64,
}

/// A window that follows the model by patches.
struct Follower {
    channel: Channel<Patch>,
    seen: Seen,
}

impl Desktop {
    /// Changes the model, and has everything drawn from it again.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Model) -> T) -> T {
        let result = change(&mut self.lock().model);
        self.changed.notify_one();
        result
    }

    /// Takes out what is too old to be shown; that alone is no reason to draw anything again.
    pub(crate) fn forget_ended(&self, now: Millis) {
        self.lock().model.teams.values_mut().for_each(|team| team.forget_ended(now));
    }

    /// Looks at the model.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Model) -> T) -> T {
        look(&self.lock().model)
    }

    /// Waits until something changed since the last time. One reader only: [`crate::react`].
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A window wants patches from now on; an earlier one gets none any more.
    pub(crate) fn follow(&self, channel: Channel<Patch>) {
        let mut inner = self.lock();
        inner.version += 1;
        let seen = Seen::all_of(&inner.model, inner.version);
        inner.window = Some(Follower { channel, seen });
        self.followed.send_replace(true);
    }

    /// Whether a window follows, now and whenever that changes.
    pub(crate) fn followed(&self) -> watch::Receiver<bool> {
        self.followed.subscribe()
    }

    /// The window is gone.
    pub(crate) fn unfollow(&self) {
        let mut inner = self.lock();
        inner.window = None;
        self.followed.send_replace(false);
    }

    /// The whole state. What the window has not seen yet goes to it as a patch first, so that the next
    /// patch is a step from this state.
    pub(crate) fn state(&self) -> WindowState {
        let mut inner = self.lock();
        self.tell(&mut inner);
        inner.model.window(inner.version)
    }

    /// Sends the window what changed since it was last told.
    pub(crate) fn send(&self) {
        self.tell(&mut self.lock());
    }

    /// Sends, and says it where nobody was there any more to take it.
    fn tell(&self, inner: &mut Inner) {
        inner.send();
        let is_followed = inner.window.is_some();
        self.followed.send_if_modified(|was| std::mem::replace(was, is_followed) != is_followed);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn send(&mut self) {
        let Some(follower) = &mut self.window else { return };
        let Some(patch) = follower.seen.step(&self.model) else { return };
        self.version = follower.seen.version();
        if let Err(fault) = follower.channel.send(patch) {
            // The page is gone or went to another one, which asks for a channel of its own.
            tracing::debug!(%fault, "the window takes no more patches");
            self.window = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use teamlamp_wire::window::Notice;

    fn followed() -> (Desktop, Arc<Mutex<Vec<u64>>>) {
        let desktop = Desktop::default();
        let versions: Arc<Mutex<Vec<u64>>> = Arc::default();
        let told = versions.clone();
        desktop.follow(Channel::new(move |body| {
            let patch: Patch = body.deserialize().unwrap();
            told.lock().unwrap().push(patch.version);
            Ok(())
        }));
        (desktop, versions)
    }

    #[test]
    fn the_patch_after_a_state_is_a_step_from_it() {
        let (desktop, versions) = followed();
        desktop.change(|model| model.notice(Notice::TrayMissing, true));
        let state = desktop.state();
        assert_eq!(state.notices, [Notice::TrayMissing]);
        assert_eq!(*versions.lock().unwrap(), [state.version], "seen already, dropped by the window");
        desktop.change(|model| model.notice(Notice::TrayMissing, false));
        desktop.send();
        desktop.send();
        assert_eq!(*versions.lock().unwrap(), [state.version, state.version + 1]);
    }

    #[test]
    fn a_window_that_is_gone_is_told_nothing_and_the_next_one_begins_later() {
        let (desktop, versions) = followed();
        let first = desktop.state().version;
        desktop.unfollow();
        desktop.change(|model| model.notice(Notice::TrayMissing, true));
        desktop.send();
        assert!(versions.lock().unwrap().is_empty());
        desktop.follow(Channel::new(|_| Ok(())));
        assert!(desktop.state().version > first);
    }

    #[test]
    fn a_window_that_takes_no_patch_follows_no_more() {
        let desktop = Desktop::default();
        let followed = desktop.followed();
        desktop.follow(Channel::new(|_| Err(tauri::Error::WebviewNotFound)));
        assert!(*followed.borrow());
        desktop.change(|model| model.notice(Notice::TrayMissing, true));
        desktop.send();
        assert!(!*followed.borrow(), "nothing is read for a window that is gone");
    }
}
