//! The events that the window shows, oldest first and each once, and the receipts of those that are gone.
//! It is bounded; older events are asked for by `history`.

use std::collections::VecDeque;
use teamlamp_wire::Millis;
use teamlamp_wire::event::{Event, Sequenced};
use teamlamp_wire::window::{FEED_MAX, FeedItem, GapReason};

/// A team's feed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    items: VecDeque<FeedItem>,
    /// The highest sequence in it.
    last: i64,
    /// How many items were ever appended: what a reader has seen is a number below it.
    appended: u64,
    /// Rises when something else than an append changed the feed.
    rewritten: u64,
}

impl Feed {
    /// The highest sequence that it holds; 0: none.
    pub(crate) fn last_sequence(&self) -> i64 {
        self.last
    }

    /// How far a reader is that has all of it: appended items, and how often it was rewritten.
    pub(crate) fn mark(&self) -> (u64, u64) {
        (self.appended, self.rewritten)
    }

    /// Appends an event that is newer than all that it holds; others are there already.
    pub(crate) fn event(&mut self, sequence: i64, event: Event, replay: bool) {
        if sequence > self.last {
            self.last = sequence;
            self.push(FeedItem::Event { sequence, event, replay });
        }
    }

    /// Appends the receipt of a gap.
    pub(crate) fn gap(
        &mut self,
        at: Millis,
        reason: GapReason,
        missed: Option<i64>,
        pruned_through: Option<i64>,
    ) {
        self.push(FeedItem::Gap { at, reason, missed, pruned_through });
    }

    /// Puts what happened before into place: `older`, in any order, is what the server's history holds.
    /// What the feed holds already stays as it is.
    pub(crate) fn fill(&mut self, mut older: Vec<Sequenced>) {
        let held: std::collections::BTreeSet<i64> = self.items.iter().filter_map(sequence_of).collect();
        older.retain(|item| !held.contains(&item.sequence));
        if older.is_empty() {
            return;
        }
        older.sort_by_key(|item| item.sequence);
        let mut merged = VecDeque::with_capacity(self.items.len() + older.len());
        let mut older = older.into_iter().peekable();
        for item in std::mem::take(&mut self.items) {
            while let (Some(next), Some(here)) = (older.peek(), sequence_of(&item)) {
                if next.sequence > here {
                    break;
                }
                merged.extend(older.next().map(shown));
            }
            merged.push_back(item);
        }
        merged.extend(older.map(shown));
        self.last = merged.iter().filter_map(sequence_of).max().unwrap_or(self.last);
        self.items = merged;
        self.rewritten += 1;
        self.bound();
    }

    /// All of it.
    pub(crate) fn items(&self) -> Vec<FeedItem> {
        self.items.iter().cloned().collect()
    }

    /// What was appended after the first `seen` items ever.
    pub(crate) fn after(&self, seen: u64) -> Vec<FeedItem> {
        let new = usize::try_from(self.appended.saturating_sub(seen)).unwrap_or(usize::MAX);
        self.items.iter().skip(self.items.len().saturating_sub(new)).cloned().collect()
    }

    fn push(&mut self, item: FeedItem) {
        self.items.push_back(item);
        self.appended += 1;
        self.bound();
    }

    fn bound(&mut self) {
        let over = self.items.len().saturating_sub(FEED_MAX);
        self.items.drain(..over);
    }
}

fn shown(item: Sequenced) -> FeedItem {
    FeedItem::Event { sequence: item.sequence, event: item.event, replay: true }
}

fn sequence_of(item: &FeedItem) -> Option<i64> {
    match item {
        FeedItem::Event { sequence, .. } => Some(*sequence),
        FeedItem::Gap { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::event;

    fn sequences(feed: &Feed) -> Vec<Option<i64>> {
        feed.items().iter().map(sequence_of).collect()
    }

    #[test]
    fn an_event_is_shown_once_and_in_order() {
        let mut feed = Feed::default();
        for sequence in [3, 4, 4, 2, 5] {
            feed.event(sequence, event("team.renamed", "team", "team_1", serde_json::json!({})), false);
        }
        assert_eq!(sequences(&feed), [Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn history_goes_before_and_between_and_leaves_what_is_there() {
        let mut feed = Feed::default();
        let new = |sequence| Sequenced {
            sequence,
            event: event("team.renamed", "team", "team_1", serde_json::json!({})),
            source_id: None,
        };
        feed.event(3, new(3).event, false);
        feed.gap(7, GapReason::Retention, Some(1), Some(4));
        feed.event(6, new(6).event, false);
        let before = feed.mark();
        feed.fill(vec![new(5), new(3), new(2), new(7)]);
        assert_eq!(sequences(&feed), [Some(2), Some(3), None, Some(5), Some(6), Some(7)]);
        assert_eq!(feed.last_sequence(), 7);
        assert_ne!(feed.mark().1, before.1, "a reader is told to read all of it again");
    }

    #[test]
    fn a_reader_gets_what_was_appended_since_and_old_items_fall_out() {
        let mut feed = Feed::default();
        for sequence in 1..=FEED_MAX as i64 + 5 {
            feed.event(sequence, event("team.renamed", "team", "team_1", serde_json::json!({})), false);
        }
        let (seen, _) = feed.mark();
        assert_eq!(feed.items().len(), FEED_MAX);
        feed.gap(7, GapReason::Unknown, None, None);
        assert_eq!(feed.after(seen).len(), 1);
        assert_eq!(feed.after(0).len(), FEED_MAX);
    }
}
