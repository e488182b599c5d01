//! The newest events of a team in memory, read once for all of its readers, with the bytes that they
//! send. The table stays the truth: a tail holds what one read transaction saw, and says so.

use super::cursor::{Cursors, Place};
use super::scope::Scope;
use crate::error::ApiError;
use crate::store::Store;
use crate::store::events::{self as rows, Head, Stored};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use teamlamp_clock::Moment;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::limits::STREAM_PAGE;

/// What a tail keeps at most: events, and bytes of their JSON.
const KEPT_EVENTS: usize = 1024;
const KEPT_BYTES: usize = 2 << 20;
/// How many events one look at the table takes.
const LOOK: usize = 256;
/// How old a look may be for who does not trust wake-ups: a lost one is made good for all readers by at
/// most one look in this time.
const FRESH: Duration = Duration::from_secs(1);
/// For how many scopes an event's ready bytes are kept.
const KEPT_SCOPES: usize = 8;

/// The tails of the teams that have readers. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Tails(Arc<Mutex<BTreeMap<TeamId, Weak<Tail>>>>);

/// The tail of one team.
#[derive(Debug)]
pub struct Tail {
    team: TeamId,
    looking: tokio::sync::Mutex<()>,
    ring: Mutex<Option<Ring>>,
}

#[derive(Debug)]
struct Ring {
    /// Every event of `(from, upto]` that the table had is here.
    from: i64,
    upto: i64,
    events: VecDeque<Arc<Item>>,
    bytes: usize,
    head: Head,
    /// The hub's count before the look: commits up to it are seen.
    count: u64,
    /// When the look began.
    looked_at: Moment,
}

/// What a page must have seen.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// The hub's count: whatever was committed before that wake-up.
    pub count: u64,
    /// Now.
    pub now: Moment,
    /// Whether a wake-up may have been lost: then a look of some time ago is not enough.
    pub fresh: bool,
}

/// An event with the bytes that its readers are sent.
#[derive(Debug)]
pub struct Item {
    /// The event.
    pub event: Stored,
    ready: Mutex<Vec<([u8; 16], Bytes)>>,
}

/// Some events in order, as one read transaction saw them.
#[derive(Debug)]
pub struct Page {
    /// At most [`STREAM_PAGE`], of `(after, through]`.
    pub events: Vec<Arc<Item>>,
    /// How far the page looked: every event up to it that there is, is in it.
    pub looked: i64,
    /// Where the team's events stood.
    pub head: Head,
}

impl Tails {
    /// The tail of a team, shared with its other readers.
    pub fn of(&self, team: &TeamId) -> Arc<Tail> {
        let mut tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tail) = tails.get(team).and_then(Weak::upgrade) {
            return tail;
        }
        tails.retain(|_, tail| tail.strong_count() > 0);
        let tail = Arc::new(Tail {
            team: team.clone(),
            looking: tokio::sync::Mutex::default(),
            ring: Mutex::default(),
        });
        tails.insert(team.clone(), Arc::downgrade(&tail));
        tail
    }
}

impl Item {
    fn new(event: Stored) -> Arc<Self> {
        Arc::new(Self { event, ready: Mutex::default() })
    }

    /// The event's message for readers of a scope: made once for all of them.
    pub fn message(&self, cursors: &Cursors, scope: &Scope) -> Bytes {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = ready.iter().find(|(digest, _)| digest == scope.digest()) {
            return bytes.clone();
        }
        let cursor = cursors.encode(scope, &Place::After(self.event.sequence));
        let bytes = super::sse::message(Some(&cursor), &super::frames::event(&self.event, &cursor));
        if ready.len() < KEPT_SCOPES {
            ready.push((*scope.digest(), bytes.clone()));
        }
        bytes
    }
}

impl Tail {
    /// The next events after a sequence, of a state that has seen what is needed.
    ///
    /// # Errors
    /// What the store says; 404 where the team is gone.
    pub async fn page(&self, store: &Store, after: i64, need: Need) -> Result<Page, ApiError> {
        if let Some(found) = self.ring_page(after, need) {
            return self.found(found, store, after).await;
        }
        let _looking = self.looking.lock().await;
        // Another reader may have looked meanwhile.
        let found = match self.ring_page(after, need) {
            Some(found) => found,
            None => self.look(store, after, need).await?,
        };
        self.found(found, store, after).await
    }

    async fn found(&self, found: Found, store: &Store, after: i64) -> Result<Page, ApiError> {
        match found {
            Found::Page(page) => Ok(page),
            Found::Older => self.table_page(store, after).await,
        }
    }

    /// What is held; `None` where the table must be looked at.
    fn ring_page(&self, after: i64, need: Need) -> Option<Found> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        // Who stands behind what was looked at has read a newer table: its wake-up is still to come.
        ring.as_ref().filter(|ring| ring.serves(need) && after <= ring.upto).map(|ring| ring.page(after))
    }

    /// A page for a reader who is far behind: straight from the table, kept for nobody.
    async fn table_page(&self, store: &Store, after: i64) -> Result<Page, ApiError> {
        let team = self.team.clone();
        store
            .read(move |conn| {
                let head = rows::head(conn, &team)?.ok_or_else(|| ApiError::not_found("team"))?;
                let events = rows::page(conn, &team, after, head.last, STREAM_PAGE)?;
                let looked = match events.last() {
                    Some(last) if events.len() == STREAM_PAGE => last.sequence,
                    _ => head.last.max(after),
                };
                Ok(Page { events: events.into_iter().map(Item::new).collect(), looked, head })
            })
            .await
    }

    /// Looks at the table for all readers, and answers what one asks for from it. One at a time.
    async fn look(&self, store: &Store, after: i64, need: Need) -> Result<Found, ApiError> {
        let upto = self.ring.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|ring| ring.upto);
        let team = self.team.clone();
        let (head, events) = store
            .read(move |conn| {
                let head = rows::head(conn, &team)?.ok_or_else(|| ApiError::not_found("team"))?;
                let events = match upto {
                    Some(upto) => rows::page(conn, &team, upto, head.last, LOOK)?,
                    None => Vec::new(),
                };
                Ok((head, events))
            })
            .await?;
        let mut held = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        // So much may have come at once that it is cheaper to begin anew at the end.
        let behind = events.len() == LOOK;
        let mut ring = held.take().filter(|_| !behind).unwrap_or_else(|| Ring::at(head, need));
        ring.add(events, head, need);
        Ok(held.insert(ring).page(after))
    }
}

enum Found {
    Page(Page),
    Older,
}

impl Ring {
    /// One that holds nothing, at the end of the events.
    fn at(head: Head, need: Need) -> Self {
        let (upto, events) = (head.last, VecDeque::new());
        Self { from: upto, upto, events, bytes: 0, head, count: need.count, looked_at: need.now }
    }

    /// Whether the look has seen what is needed.
    fn serves(&self, need: Need) -> bool {
        self.count >= need.count && (!need.fresh || need.now <= self.looked_at + FRESH)
    }

    fn page(&self, after: i64) -> Found {
        if after < self.from {
            return Found::Older;
        }
        let first = self.events.partition_point(|item| item.event.sequence <= after);
        let events: Vec<_> = self.events.iter().skip(first).take(STREAM_PAGE).cloned().collect();
        let looked = match events.last() {
            Some(last) if events.len() == STREAM_PAGE => last.event.sequence,
            _ => self.upto.max(after),
        };
        Found::Page(Page { events, looked, head: self.head })
    }

    fn add(&mut self, events: Vec<Stored>, head: Head, need: Need) {
        // One that begins anew is at the end already.
        for event in events.into_iter().filter(|event| event.sequence > self.upto) {
            self.bytes += event.json.len();
            self.events.push_back(Item::new(event));
        }
        self.upto = head.last.max(self.upto);
        self.head = head;
        (self.count, self.looked_at) = (need.count, need.now);
        while self.events.len() > KEPT_EVENTS || self.bytes > KEPT_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.event.json.len();
            self.from = oldest.event.sequence;
        }
    }
}
