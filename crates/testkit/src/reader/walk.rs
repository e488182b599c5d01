//! What one reader saw, and whether that was right: in order, once each, and in the end everything that it
//! may see.

use crate::record::Record;
use std::collections::{BTreeMap, BTreeSet};
use teamlamp_wire::event::{Event, Sequenced};
use teamlamp_wire::frame::Frame;
use teamlamp_wire::id::{EventId, MachineId};
use teamlamp_wire::machine::Connection;
use teamlamp_wire::presence::PresenceFrame;

/// The team's history, as the server's table has it.
pub type Truth = BTreeMap<i64, Sequenced>;

/// A snapshot and what followed it without a gap.
#[derive(Debug, Default)]
struct Walk {
    /// Each resource's current event, by source where that was told, kind and id.
    snapshot: BTreeMap<i64, Event>,
    whole: bool,
    /// The server asked for a new connection within the snapshot: later items may be newer than its
    /// watermark, and the events after that come all the same.
    pieced: bool,
    seen: BTreeMap<i64, EventId>,
    cursor: Option<String>,
}

impl Walk {
    /// Live begins after this sequence: the newest event is its resource's current one.
    fn watermark(&self) -> i64 {
        if self.pieced {
            return self.seen.keys().next().map_or(i64::MAX, |first| first - 1);
        }
        self.snapshot.keys().next_back().copied().unwrap_or(0)
    }

    fn last(&self) -> i64 {
        let seen = self.seen.keys().next_back().copied().unwrap_or(0);
        if self.pieced { seen } else { seen.max(self.watermark()) }
    }
}

/// All that one reader saw.
#[derive(Debug)]
pub struct Seen {
    name: String,
    record: Record,
    walk: Walk,
    finished: Vec<Walk>,
    ended: Option<String>,
    presence: Option<BTreeMap<MachineId, Connection>>,
    presence_sequence: Option<i64>,
}

impl Seen {
    pub(super) fn new(name: &str, record: Record) -> Self {
        Self {
            name: name.to_owned(),
            record,
            walk: Walk::default(),
            finished: Vec::new(),
            ended: None,
            presence: None,
            presence_sequence: None,
        }
    }

    /// From where it goes on.
    pub fn cursor(&self) -> Option<String> {
        self.walk.cursor.clone()
    }

    /// The last presence transition.
    pub fn presence_sequence(&self) -> Option<i64> {
        self.presence_sequence
    }

    /// The last event.
    pub fn last_sequence(&self) -> i64 {
        self.walk.last()
    }

    /// Whether the server told it to stop.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// What it knows of presence, where it watches that.
    pub fn presence(&self) -> Option<&BTreeMap<MachineId, Connection>> {
        self.presence.as_ref()
    }

    pub(super) fn forget(&mut self) {
        let walk = std::mem::take(&mut self.walk);
        self.finished.push(walk);
        (self.presence, self.presence_sequence) = (None, None);
    }

    pub(super) fn gap(&mut self, why: &str) {
        // Nothing here is older than the retention, and no database is restored.
        self.broken(format!("was told of a gap ({why})"));
        self.forget();
    }

    pub(super) fn end(&mut self, why: &str) {
        self.record.note(&self.name, format!("ended: {why}"));
        self.ended = Some(why.to_owned());
    }

    fn broken(&self, what: String) {
        self.record.broken(format!("{} {what}", self.name));
    }

    pub(super) fn take(&mut self, frame: &Frame) {
        if self.ended.is_some() {
            return self.broken(format!("got a frame after the end: {frame:?}"));
        }
        match frame {
            Frame::SnapshotBegin => {
                // A snapshot that was cut begins anew.
                if self.walk.whole {
                    self.broken("got a snapshot that nobody asked for".into());
                }
                self.walk = Walk::default();
            }
            Frame::SnapshotItem { sequence, data } => {
                let twice = self.walk.snapshot.insert(*sequence, data.clone()).is_some();
                if (twice && !self.walk.pieced) || self.walk.whole {
                    self.broken(format!("got item {sequence} of a snapshot twice, or after its end"));
                }
            }
            Frame::SnapshotEnd { .. } => self.walk.whole = true,
            Frame::Event { sequence, data, .. } => self.take_event(*sequence, data),
            Frame::AccessRevoked { reason, .. } => self.end(reason),
            Frame::ResyncRequired { .. } => self.walk.pieced |= !self.walk.whole,
            Frame::Checkpoint { .. } => {}
            Frame::Unknown => self.broken("got a frame of an unknown type".into()),
        }
        if let Some(cursor) = frame.cursor() {
            self.walk.cursor = Some(cursor.to_owned());
        }
    }

    fn take_event(&mut self, sequence: i64, event: &Event) {
        if !self.walk.whole {
            self.broken(format!("got event {sequence} before a whole snapshot"));
        }
        if sequence <= self.walk.last() {
            self.broken(format!("got event {sequence} after {}", self.walk.last()));
        }
        if self.walk.seen.values().any(|id| *id == event.id) {
            self.broken(format!("got event {} twice", event.id));
        }
        self.walk.seen.insert(sequence, event.id.clone());
        let (kind, id, data) = (&event.kind, &event.resource.id, serde_json::Value::from(event.data.clone()));
        self.record.note(&self.name, format!("sees {sequence} {kind} {id} of {}: {data}", event.at));
    }

    pub(super) fn take_presence(&mut self, frame: &PresenceFrame) {
        match frame {
            PresenceFrame::SnapshotBegin => self.presence = Some(BTreeMap::new()),
            PresenceFrame::Machine { machine } => {
                self.presence.get_or_insert_default().insert(machine.id.clone(), machine.connection);
            }
            PresenceFrame::SnapshotEnd { sequence } => self.presence_sequence = Some(*sequence),
            PresenceFrame::Transition(it) => {
                let expected = self.presence_sequence.map(|last| last + 1);
                if expected != Some(it.sequence) {
                    self.broken(format!("got transition {} where {expected:?} was next", it.sequence));
                }
                let known = self.presence.get_or_insert_default().insert(it.machine_id.clone(), it.to);
                if known.is_some_and(|known| known != it.from) || it.from == it.to {
                    self.broken(format!("was told {it:?} of a machine that was {known:?}"));
                }
                self.presence_sequence = Some(it.sequence);
                let (from, to) = (it.from.as_str(), it.to.as_str());
                self.record.note(&self.name, format!("sees {} from {from} to {to}", it.machine_id));
            }
            PresenceFrame::ResyncRequired { reason, .. } => {
                self.broken(format!("was told to begin anew ({reason})"));
                self.forget();
            }
            PresenceFrame::AccessRevoked { reason, .. } => self.end(reason),
        }
    }

    /// Compares all that was seen with the truth. `may_see` says which events this reader may see at all;
    /// `through` is the last one that it must have seen by now.
    pub fn compare(&self, truth: &Truth, through: i64, may_see: impl Fn(&Event) -> bool) {
        let walks = self.finished.iter().map(|walk| (walk, walk.last())).chain([(&self.walk, through)]);
        for (walk, through) in walks.filter(|(walk, _)| walk.whole) {
            if !walk.pieced {
                self.compare_snapshot(walk, truth, &may_see);
            }
            let expected: BTreeMap<i64, &EventId> = truth
                .iter()
                .filter(|(sequence, it)| {
                    **sequence > walk.watermark() && **sequence <= through && may_see(&it.event)
                })
                .map(|(sequence, it)| (*sequence, &it.event.id))
                .collect();
            let seen: BTreeMap<i64, &EventId> = walk.seen.range(..=through).map(|(s, id)| (*s, id)).collect();
            if expected != seen {
                let missed: Vec<_> = expected.keys().filter(|s| !seen.contains_key(s)).collect();
                let strange: Vec<_> = seen.keys().filter(|s| !expected.contains_key(s)).collect();
                self.broken(format!(
                    "missed {missed:?} and saw {strange:?} between {} and {through}",
                    walk.watermark()
                ));
            }
        }
    }

    /// A snapshot holds each resource's current event up to its watermark, and nothing else. That is its
    /// newest, but for what a machine told so late that newer facts had overtaken it.
    fn compare_snapshot(&self, walk: &Walk, truth: &Truth, may_see: impl Fn(&Event) -> bool) {
        let mut resources: BTreeMap<_, Vec<(i64, &Event)>> = BTreeMap::new();
        for (sequence, it) in truth.range(..=walk.watermark()) {
            let resource = (it.source_id.clone(), it.event.resource.clone());
            resources.entry(resource).or_default().push((*sequence, &it.event));
        }
        let mut strange: BTreeSet<i64> = walk.snapshot.keys().copied().collect();
        for (resource, events) in resources {
            let newest = events.last().map_or(0, |(sequence, _)| *sequence);
            let may_be_current = |(sequence, event): &&(i64, &Event)| {
                let later = events.iter().filter(|(later, _)| later > sequence);
                later.clone().all(|(_, later)| later.kind.starts_with("session.") && later.at <= event.at)
            };
            let current = events.iter().filter(may_be_current).find(|(sequence, _)| strange.remove(sequence));
            if current.is_none() && events.iter().filter(may_be_current).all(|(_, event)| may_see(event)) {
                self.broken(format!("has a snapshot without event {newest} of {resource:?}"));
            }
        }
        if !strange.is_empty() {
            self.broken(format!("has a snapshot with events {strange:?}, which are not current"));
        }
    }
}
