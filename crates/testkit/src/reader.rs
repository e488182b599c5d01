//! Readers of a team's streams, and what each of them saw. One follows as the client library does, one
//! reads the bytes by itself, so that neither hides the other's faults; one watches presence.

mod raw;
mod walk;

pub use walk::{Seen, Truth};

use crate::person::Person;
use crate::record::Record;
use futures_util::StreamExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use teamlamp_client::{FollowQuery, Followed};
use teamlamp_clock::{Clock, Tasks, ms};
use teamlamp_wire::id::TeamId;

/// The wait before a stream that ended is opened again, where the client library does not do it.
const AGAIN_MS: i64 = 1_000;

/// How a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By `Client::follow`.
    Follow,
    /// By its own few lines over the bare bytes.
    Raw,
    /// The stream of presence.
    Presence,
}

/// Someone who reads. Clones are the same reader.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Its host, and its person's name.
    pub name: String,
    /// How it reads.
    pub how: How,
    /// Who reads.
    pub person: Person,
    /// Whether its person is an admin, who may see more.
    pub is_admin: bool,
    team: TeamId,
    clock: Clock,
    record: Record,
    seen: Arc<Mutex<Seen>>,
    process: Arc<Mutex<Tasks>>,
}

impl Reader {
    /// A reader that does not read yet.
    pub fn new(
        (person, is_admin): (Person, bool),
        how: How,
        team: &TeamId,
        clock: &Clock,
        record: &Record,
    ) -> Self {
        let seen = Seen::new(&person.name, record.clone());
        Self {
            name: person.name.clone(),
            how,
            person,
            is_admin,
            team: team.clone(),
            clock: clock.clone(),
            record: record.clone(),
            seen: Arc::new(Mutex::new(seen)),
            process: Arc::default(),
        }
    }

    /// What it saw.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts reading, or starts again: from where it was, or, `afresh`, from a snapshot.
    pub fn start(&self, afresh: bool) {
        self.stop();
        if afresh {
            self.seen().forget();
        }
        let it = self.clone();
        let tasks = Tasks::new();
        tasks.spawn("reader", async move {
            match it.how {
                How::Follow => it.follow().await,
                How::Raw => it.read_raw().await,
                How::Presence => it.watch_presence().await,
            }
            it.record.note(&it.name, "stops reading");
        });
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
        self.record.note(&self.name, if afresh { "reads afresh" } else { "reads on" });
    }

    /// Stops reading at once.
    pub fn stop(&self) {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    async fn follow(&self) {
        let after = self.seen().cursor();
        let mut stream = self.person.client.follow(&FollowQuery::all(self.team.clone()), after);
        while let Some(item) = stream.next().await {
            let mut seen = self.seen();
            match item {
                Followed::Frame { frame, .. } => seen.take(&frame),
                Followed::Gap { reason, .. } => seen.gap(&format!("{reason:?}")),
                Followed::Dropped { why, .. } => self.record.note(&self.name, format!("dropped: {why}")),
                Followed::Connected { mode } => self.record.note(&self.name, format!("connected: {mode:?}")),
                Followed::Ended { why } => return seen.end(&format!("{why:?}")),
            }
        }
    }

    async fn watch_presence(&self) {
        loop {
            let after = self.seen().presence_sequence();
            match self.person.client.presence(&self.team, after).await {
                Ok(mut stream) => {
                    while let Some(item) = stream.next().await {
                        match item {
                            Ok(frame) => self.seen().take_presence(&frame),
                            Err(why) => self.record.note(&self.name, format!("dropped: {why}")),
                        }
                    }
                    if self.seen().has_ended() {
                        return;
                    }
                }
                Err(why) if matches!(why.status(), Some(401 | 403 | 404)) => {
                    return self.seen().end(&why.to_string());
                }
                Err(why) => self.record.note(&self.name, format!("dropped: {why}")),
            }
            self.clock.sleep(ms(AGAIN_MS)).await;
        }
    }
}
