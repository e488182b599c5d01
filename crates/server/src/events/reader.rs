//! One reader of a team's events: where it stands, what it may see, which terminal frame ends it. How
//! its frames travel (a stream or long polls) is not its business.

use super::authority::{Authority, Look};
use super::cursor::{Cursors, NOT_READ, Place};
use super::scope::Scope;
use super::tail::{Item, Need, Tail};
use crate::access::Caller;
use crate::app::App;
use crate::error::ApiError;
use crate::store::events::{self as rows, Head, ResourceKey, Stored};
use crate::store::streams;
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use teamlamp_wire::envelope::ErrorCode;
use teamlamp_wire::frame::{Frame, ResyncReason};
use teamlamp_wire::id::MachineId;
use tokio::sync::watch;

/// A reader of the events of one scope.
#[derive(Debug)]
pub struct Reader {
    app: App,
    scope: Arc<Scope>,
    cursors: Cursors,
    tail: Arc<Tail>,
    authority: Authority,
    wake: watch::Receiver<u64>,
    /// Everything up to here was looked at; `None` before a snapshot ended.
    seen: Option<i64>,
    /// Where it stands in a snapshot: live begins after the watermark, and everything up to the resource
    /// was given.
    within: Option<(i64, ResourceKey)>,
    /// The table is to be looked at, woken or not: a wake-up may have been lost.
    doubts: bool,
}

/// Some of a reader's events.
#[derive(Debug)]
pub struct Step {
    /// Those that it asked for and may see.
    pub items: Vec<Arc<Item>>,
    /// How far the step looked.
    pub looked: i64,
    /// The team's last sequence.
    pub last: i64,
}

/// The list of a snapshot, of one read transaction.
#[derive(Debug)]
pub struct Snapshot {
    /// Live begins after it.
    pub watermark: i64,
    /// The resources that were asked for, in order, and the sequences of their current events.
    pub items: Vec<(ResourceKey, i64)>,
}

impl Reader {
    /// A reader for a caller, and the install that its place is counted for. Wake-ups are subscribed
    /// before anything is read, so that nothing falls in between.
    ///
    /// # Errors
    /// 401, 404 where the caller may not read the team.
    pub async fn open(
        app: &App,
        caller: &Caller,
        scope: Scope,
        machine_header: Option<MachineId>,
    ) -> Result<(Self, Option<MachineId>), ApiError> {
        let wake = app.hub.events(scope.team());
        let (authority, install) = authorize(app, caller, scope.team(), machine_header).await?;
        let cursors = Cursors::new(app.keys.clone(), &app.history_id);
        let tail = app.tails.of(scope.team());
        let reader = Self {
            app: app.clone(),
            scope: Arc::new(scope),
            cursors,
            tail,
            authority,
            wake,
            seen: None,
            within: None,
            doubts: true,
        };
        Ok((reader, install))
    }

    /// Stands after a sequence.
    pub fn stand_at(&mut self, sequence: i64) {
        self.seen = Some(sequence);
    }
    /// Stands in a snapshot, after a resource.
    pub fn stand_within(&mut self, watermark: i64, after: ResourceKey) {
        self.within = Some((watermark, after));
    }
    /// Where the reader stands.
    pub fn seen(&self) -> Option<i64> {
        self.seen
    }
    /// The server's parts.
    pub fn app(&self) -> &App {
        &self.app
    }
    /// What it is about.
    pub fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }
    /// The cursor of where the reader stands.
    pub fn cursor(&self) -> Option<String> {
        let place = match (self.seen, &self.within) {
            (Some(sequence), _) => Place::After(sequence),
            (None, Some((watermark, after))) => {
                Place::Snapshot { watermark: *watermark, after: after.clone() }
            }
            (None, None) => return None,
        };
        Some(self.cursor_at(&place))
    }
    /// The cursor of a place.
    pub fn cursor_at(&self, place: &Place) -> String {
        self.cursors.encode(&self.scope, place)
    }
    /// An event's message on a stream.
    pub fn message(&self, item: &Item) -> Bytes {
        item.message(&self.cursors, &self.scope)
    }
    /// Whether the reader asked for an event and may see it.
    pub fn sees(&self, event: &Stored) -> bool {
        self.scope.admits(event) && self.authority.may_read(event)
    }
    /// Whether the reader may see an event, asked for or not.
    pub fn may_read(&self, event: &Stored) -> bool {
        self.authority.may_read(event)
    }

    /// Begins a round: what is published from now on starts another.
    pub fn begin_round(&mut self) {
        self.wake.mark_unchanged();
    }
    /// Waits until another round has something to look at.
    pub async fn woken(&mut self) {
        if self.wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
    /// Lets the next look be one at the table: wake-ups may be lost without harm.
    pub fn doubt(&mut self) {
        self.doubts = true;
    }

    /// The next events after where the reader stands; it does not move by itself.
    ///
    /// # Errors
    /// The frame that ends the reader.
    pub async fn next(&mut self) -> Result<Step, Frame> {
        let after = self.seen.unwrap_or(0);
        self.confirm().await?;
        // The count is of now, so that a page is never older than the last change of access.
        let need = Need { count: *self.wake.borrow(), now: self.app.clock.monotonic(), fresh: self.doubts };
        let page = self.tail.page(&self.app.store, after, need).await;
        let page = page.map_err(|fault| self.fault(&fault))?;
        self.doubts = false;
        self.same_epoch(page.head).await?;
        if after < page.head.pruned_through || after > page.head.last {
            return Err(self.gap(after, page.head).await);
        }
        let items = page.events.into_iter().filter(|item| self.sees(&item.event)).collect();
        Ok(Step { items, looked: page.looked, last: page.head.last })
    }

    /// The list of a snapshot, or of the rest of one; the reader then stands before the first of it.
    ///
    /// # Errors
    /// The frame that ends the reader.
    pub async fn list(&mut self, from: Option<(i64, ResourceKey)>) -> Result<Snapshot, Frame> {
        let (watermark, after) = from.map_or((None, None), |(mark, after)| (Some(mark), Some(after)));
        let (scope, place) = (self.scope.clone(), after.clone());
        let listed = self.app.store.read(move |conn| {
            let head = rows::head(conn, scope.team())?.ok_or_else(|| ApiError::not_found("team"))?;
            let current = rows::current(conn, scope.team(), scope.source(), place.as_ref(), usize::MAX)?;
            let wanted = current.into_iter().filter(|c| scope.admits_current(c));
            Ok((head, wanted.map(|c| (c.key, c.sequence)).collect()))
        });
        let (head, items) = listed.await.map_err(|fault| self.fault(&fault))?;
        let watermark = watermark.filter(|mark| *mark != NOT_READ).unwrap_or(head.last);
        self.stand_within(watermark, after.unwrap_or_default());
        self.same_epoch(head).await?;
        Ok(Snapshot { watermark, items })
    }

    /// Items of a snapshot, those that the reader may see.
    ///
    /// # Errors
    /// The frame that ends the reader: `snapshot_retention` where one is gone meanwhile.
    pub async fn items(
        &mut self,
        items: Vec<(ResourceKey, i64)>,
    ) -> Result<Vec<(ResourceKey, Stored)>, Frame> {
        self.confirm().await?;
        let team = self.scope.team().clone();
        let read = self.app.store.read(move |conn| {
            let head = rows::head(conn, &team)?.ok_or_else(|| ApiError::not_found("team"))?;
            let item = |(key, sequence)| Ok(rows::at(conn, &team, sequence)?.map(|event| (key, event)));
            let items: Result<Vec<_>, ApiError> = items.into_iter().map(item).collect();
            Ok((head, items?))
        });
        let (head, items) = read.await.map_err(|fault| self.fault(&fault))?;
        self.same_epoch(head).await?;
        let items: Option<Vec<_>> = items.into_iter().collect();
        let Some(items) = items else {
            let details = Some(json!({ "pruned_through": head.pruned_through }));
            return Err(resync(ResyncReason::SnapshotRetention, None, details));
        };
        Ok(items.into_iter().filter(|(_, event)| self.authority.may_read(event)).collect())
    }

    /// Looks at the authority again where time or an ended credential asks for it.
    ///
    /// # Errors
    /// The frame that ends the reader.
    pub async fn confirm(&mut self) -> Result<(), Frame> {
        if self.authority.is_doubtful(&self.app.hub, self.app.clock.now_ms()) {
            return self.look_again().await;
        }
        Ok(())
    }

    /// Looks at the authority again where the team's epoch has moved.
    ///
    /// # Errors
    /// The frame that ends the reader.
    pub async fn same_epoch(&mut self, head: Head) -> Result<(), Frame> {
        if head.auth_epoch == self.authority.epoch() { Ok(()) } else { self.look_again().await }
    }

    /// Looks at the authority again.
    ///
    /// # Errors
    /// The frame that ends the reader.
    pub async fn look_again(&mut self) -> Result<(), Frame> {
        match self.authority.look_again(&self.app).await {
            Ok(Look::Holds(authority)) => {
                self.authority = authority;
                Ok(())
            }
            Ok(Look::Changed(_)) => Err(self.come_back(ResyncReason::AuthorizationChanged)),
            Ok(Look::Ended(reason)) => Err(Frame::AccessRevoked { reason: reason.into(), terminal: true }),
            Err(fault) => Err(self.fault(&fault)),
        }
    }

    /// 'Come back with the cursor', where there is one already.
    pub fn come_back(&self, reason: ResyncReason) -> Frame {
        resync(reason, self.cursor(), None)
    }

    fn fault(&self, fault: &ApiError) -> Frame {
        if fault.body.code == ErrorCode::NotFound {
            return Frame::AccessRevoked { reason: "membership_ended".into(), terminal: true };
        }
        tracing::warn!(%fault, "a stream ends: the store could not be read");
        self.come_back(ResyncReason::Unavailable)
    }

    /// 'What the cursor names is gone', with what is known of the gap.
    async fn gap(&self, after: i64, head: Head) -> Frame {
        let team = self.scope.team().clone();
        let through = head.pruned_through;
        let kept = self.app.store.read(move |conn| rows::kept_between(conn, &team, after, through)).await;
        // What is gone was also what this reader may not see or did not ask for: only where that is
        // nothing is its number known.
        let sees_all = self.scope.is_everything() && self.authority.reads_everything();
        let details = match kept {
            Ok(kept) if after < through && sees_all => {
                json!({ "pruned_through": through, "events_missed": through - after - kept })
            }
            _ => json!({ "pruned_through": through }),
        };
        resync(ResyncReason::Retention, None, Some(details))
    }
}

/// The terminal frame `resync_required`.
pub fn resync(reason: ResyncReason, cursor: Option<String>, details: Option<serde_json::Value>) -> Frame {
    Frame::ResyncRequired { reason, cursor, details, terminal: true }
}

/// A caller's authority in a team, and the install that it reads for: a machine credential's own
/// machine, or the active machine of this team that the header names, or none (spec 03, rule 8).
///
/// # Errors
/// 401, 404 where the caller may not read the team.
pub async fn authorize(
    app: &App,
    caller: &Caller,
    team: &teamlamp_wire::id::TeamId,
    machine_header: Option<MachineId>,
) -> Result<(Authority, Option<MachineId>), ApiError> {
    let (caller, team) = (caller.clone(), team.clone());
    let (now, credentials) = (app.clock.now_ms(), app.hub.credentials_ended());
    app.store
        .read(move |conn| {
            let authority = Authority::read(conn, &caller, &team, now, credentials)?;
            let install = match (caller.machine_id, machine_header) {
                (Some(own), _) => Some(own),
                (None, Some(named)) if streams::machine_is_active(conn, &team, &named)? => Some(named),
                _ => None,
            };
            Ok((authority, install))
        })
        .await
}
