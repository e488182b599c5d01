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
use teamlamp_wire::id::TeamId;
use teamlamp_wire::limits::STREAM_PAGE;

/// What a tail keeps at most: events, and bytes of their JSON.
const KEPT_EVENTS: usize = 1024;
const KEPT_BYTES: usize = 2 << 20;
/// How many events one look at the table takes.
const LOOK: usize = 256;
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
    /// The next events after a sequence, of a state not older than the hub's `count`.
    ///
    /// # Errors
    /// What the store says; 404 where the team is gone.
    pub async fn page(&self, store: &Store, after: i64, count: u64) -> Result<Page, ApiError> {
        loop {
            match self.ring_page(after, count) {
                Found::Page(page) => return Ok(page),
                Found::Older => return self.table_page(store, after).await,
                Found::Stale => {}
            }
            let _looking = self.looking.lock().await;
            // Another reader may have looked meanwhile.
            if matches!(self.ring_page(after, count), Found::Stale) {
                self.look(store, count).await?;
            }
        }
    }

    fn ring_page(&self, after: i64, count: u64) -> Found {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ring) = ring.as_ref() else { return Found::Stale };
        if ring.count < count {
            return Found::Stale;
        }
        if after < ring.from {
            return Found::Older;
        }
        let first = ring.events.partition_point(|item| item.event.sequence <= after);
        let events: Vec<_> = ring.events.iter().skip(first).take(STREAM_PAGE).cloned().collect();
        let looked = match events.last() {
            Some(last) if events.len() == STREAM_PAGE => last.event.sequence,
            _ => ring.upto.max(after),
        };
        Found::Page(Page { events, looked, head: ring.head })
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

    async fn look(&self, store: &Store, count: u64) -> Result<(), ApiError> {
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
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = events.len() == LOOK;
        match ring.as_mut() {
            // So much came at once that it is cheaper to begin anew at the end.
            Some(held) if !behind => held.add(events, head, count),
            _ => {
                *ring = Some(Ring {
                    from: head.last,
                    upto: head.last,
                    events: VecDeque::new(),
                    bytes: 0,
                    head,
                    count,
                });
            }
        }
        Ok(())
    }
}

enum Found {
    Page(Page),
    Stale,
    Older,
}

impl Ring {
    fn add(&mut self, events: Vec<Stored>, head: Head, count: u64) {
        for event in events {
            self.bytes += event.json.len();
            self.events.push_back(Item::new(event));
        }
        self.upto = head.last.max(self.upto);
        self.head = head;
        self.count = count;
        while self.events.len() > KEPT_EVENTS || self.bytes > KEPT_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.event.json.len();
            self.from = oldest.event.sequence;
        }
    }
}
