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
    seen: BTreeMap<i64, EventId>,
    cursor: Option<String>,
}

impl Walk {
    /// Live begins after this sequence: the newest event is its resource's current one.
    fn watermark(&self) -> i64 {
        self.snapshot.keys().next_back().copied().unwrap_or(0)
    }

    fn last(&self) -> i64 {
        self.seen.keys().next_back().copied().unwrap_or(0).max(self.watermark())
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
                if self.walk.snapshot.insert(*sequence, data.clone()).is_some() || self.walk.whole {
                    self.broken(format!("got item {sequence} of a snapshot twice, or after its end"));
                }
            }
            Frame::SnapshotEnd { .. } => self.walk.whole = true,
            Frame::Event { sequence, data, .. } => self.take_event(*sequence, data),
            Frame::AccessRevoked { reason, .. } => self.end(reason),
            Frame::Checkpoint { .. } | Frame::ResyncRequired { .. } => {}
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
        self.record.note(&self.name, format!("sees {sequence} {} {}", event.kind, event.resource.id));
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
        }
    }

    /// Compares all that was seen with the truth. `may_see` says which events this reader may see at all;
    /// `through` is the last one that it must have seen by now.
    pub fn compare(&self, truth: &Truth, through: i64, may_see: impl Fn(&Event) -> bool) {
        let walks = self.finished.iter().map(|walk| (walk, walk.last())).chain([(&self.walk, through)]);
        for (walk, through) in walks.filter(|(walk, _)| walk.whole) {
            self.compare_snapshot(walk, truth, &may_see);
            let expected: BTreeMap<i64, &EventId> = truth
                .range(walk.watermark() + 1..=through.max(walk.watermark()))
                .filter(|(_, it)| may_see(&it.event))
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

    /// A snapshot holds each resource's newest event up to its watermark, and nothing else.
    fn compare_snapshot(&self, walk: &Walk, truth: &Truth, may_see: impl Fn(&Event) -> bool) {
        let mut newest = BTreeMap::new();
        for (sequence, it) in truth.range(..=walk.watermark()) {
            let resource = (it.source_id.clone(), it.event.resource.clone());
            newest.insert(resource, (*sequence, &it.event));
        }
        let visible = newest.into_values().filter(|(_, event)| may_see(event));
        let expected: BTreeSet<i64> = visible.map(|(sequence, _)| sequence).collect();
        let got: BTreeSet<i64> = walk.snapshot.keys().copied().collect();
        if expected != got {
            let missed: Vec<_> = expected.difference(&got).collect();
            let strange: Vec<_> = got.difference(&expected).collect();
            self.broken(format!("has a snapshot that lacks {missed:?} and holds {strange:?}"));
        }
    }
}
