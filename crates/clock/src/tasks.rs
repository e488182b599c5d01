//! One owner of spawned work: cancel, wait, name what is stuck. Nothing is spawned beside it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A group of tasks that end together. Clones are the same group; [`Tasks::child`] is a smaller one.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    token: CancellationToken,
    /// Ends even what has something to finish: only a simulated crash does.
    killed: CancellationToken,
    tracker: TaskTracker,
    names: Arc<Mutex<BTreeMap<u64, &'static str>>>,
    next: Arc<AtomicU64>,
}

struct Named {
    names: Arc<Mutex<BTreeMap<u64, &'static str>>>,
    number: u64,
}

impl Drop for Named {
    fn drop(&mut self) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Tasks {
    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// A group that ends when this one does, or earlier by itself.
    pub fn child(&self) -> Self {
        let (token, killed) = (self.token.child_token(), self.killed.child_token());
        Self { token, killed, ..Self::default() }
    }

    /// The signal that the group ends. A task that can be cut anywhere needs not look at it: it is
    /// dropped at its next await.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Runs a task until it ends or the group does.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token.clone();
        self.spawn_to_end(name, async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = future => {}
            }
        })
    }

    /// Runs a task that ends by itself when it sees [`Tasks::token`]: one with something to finish.
    #[expect(clippy::disallowed_methods, reason = "this is the gate that the ban points to")]
    pub fn spawn_to_end<F>(&self, name: &'static str, future: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(number, name);
        let named = Named { names: self.names.clone(), number };
        let killed = self.killed.clone();
        let tracked = self.tracker.track_future(async move {
            let _named = named;
            tokio::select! {
                biased;
                () = killed.cancelled() => {}
                () = future => {}
            }
        });
        tokio::spawn(tracked)
    }

    /// The names of the tasks that run.
    pub fn running(&self) -> Vec<&'static str> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }

    /// Ends the group as a crash does: from now on none of its tasks, nor its children's, goes one step
    /// further, whatever it had to finish. For simulations.
    pub fn kill(&self) {
        self.killed.cancel();
        self.token.cancel();
    }

    /// Ends the group: signals, then waits at most `grace`; the names of tasks that did not end.
    pub async fn shutdown(&self, grace: Duration) -> Vec<&'static str> {
        self.token.cancel();
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_ok() {
            return Vec::new();
        }
        let stuck = self.running();
        tracing::warn!(?stuck, "tasks did not end in time");
        stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_group_ends_as_a_whole_and_names_what_is_stuck() {
        let tasks = Tasks::new();
        let child = tasks.child();
        tasks.spawn("endless", std::future::pending());
        child.spawn("endless child", std::future::pending());
        tasks.spawn_to_end("stubborn", std::future::pending());
        tokio::task::yield_now().await;
        assert_eq!(tasks.shutdown(Duration::from_secs(3)).await, ["stubborn"]);
        assert!(child.shutdown(Duration::from_secs(1)).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_killed_group_finishes_nothing() {
        let tasks = Tasks::new();
        let child = tasks.child();
        let finished = Arc::new(AtomicU64::new(0));
        for group in [&tasks, &child] {
            let (token, finished) = (group.token().clone(), finished.clone());
            group.spawn_to_end("finishing", async move {
                token.cancelled().await;
                finished.fetch_add(1, Ordering::SeqCst);
            });
        }
        tokio::task::yield_now().await;
        tasks.kill();
        assert!(tasks.shutdown(Duration::from_secs(1)).await.is_empty());
        assert!(child.shutdown(Duration::from_secs(1)).await.is_empty());
        assert_eq!(finished.load(Ordering::SeqCst), 0);
    }
}
