//! Codex' index of titles, `session_index.jsonl`: the last names that threads were given. Pure: it opens
//! nothing.

use super::lines::Line;
use super::records::{self, one_line, text};
use super::tail::Facts;
use std::collections::VecDeque;

/// The most titles that are kept, newest last.
const TITLES_MAX: usize = 1_024;

/// The titles so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Titles(VecDeque<(String, String)>);

impl Titles {
    /// The last title of a thread.
    pub(super) fn of(&self, thread: &str) -> Option<&str> {
        self.0.iter().rev().find(|(id, _)| id == thread).map(|(_, title)| title.as_str())
    }
}

impl Facts for Titles {
    fn line(&mut self, line: Line<'_>) {
        let Line::Whole(bytes) = line else { return };
        let Some(record) = records::read(bytes).record else { return };
        if let (Some(id), Some(title)) =
            (text(&record, "id"), text(&record, "thread_name").and_then(one_line))
        {
            self.0.push_back((id.to_owned(), title));
            self.0.drain(..self.0.len().saturating_sub(TITLES_MAX));
        }
    }
    fn identified(&self) -> bool {
        true
    }
    fn gap(&mut self) {}
    fn tells_turn(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_title_counts_and_memory_is_bounded() {
        let mut titles = Titles::default();
        for at in 0..3_000 {
            titles.line(Line::Whole(format!(r#"{{"id":"t{at}","thread_name":"name {at}"}}"#).as_bytes()));
        }
        for line in ["null", "{", r#"{"id":7}"#, r#"{"id":"t2999","thread_name":"renamed"}"#] {
            titles.line(Line::Whole(line.as_bytes()));
        }
        titles.line(Line::Overlong);
        assert_eq!(titles.of("t2999"), Some("renamed"));
        assert_eq!(titles.of("t2998"), Some("name 2998"));
        assert_eq!((titles.of("t0"), titles.0.len()), (None, TITLES_MAX));
    }
}
