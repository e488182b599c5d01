//! Paths and queries: every piece that comes from outside is escaped here.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::{Display, Write};

/// Everything but RFC 3986's unreserved characters.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b',').remove(b'*');

/// A path with its query, made piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    text: String,
    asked: bool,
}

impl Path {
    /// A path that is a literal of this program.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), asked: text.contains('?') }
    }

    /// Below a team: `/v1/teams/<team>`.
    pub(crate) fn team(team: &impl AsRef<str>) -> Self {
        Self::new("/v1/teams").piece(team)
    }

    /// One more segment, a literal of this program.
    pub(crate) fn to(mut self, segment: &str) -> Self {
        self.text.push('/');
        self.text.push_str(segment);
        self
    }

    /// One more segment, from outside.
    pub(crate) fn piece(mut self, segment: &impl AsRef<str>) -> Self {
        self.text.push('/');
        self.text.extend(utf8_percent_encode(segment.as_ref(), ESCAPED));
        self
    }

    /// A parameter of the query, where there is a value.
    pub(crate) fn ask(mut self, name: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            self.text.push(if self.asked { '&' } else { '?' });
            self.asked = true;
            let _ = write!(self.text, "{name}={}", utf8_percent_encode(&value.to_string(), ESCAPED));
        }
        self
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_stays_in_its_place() {
        let path =
            Path::team(&"team_1/../x?y").to("events").ask("text", Some("a&b=c é")).ask("limit", Some(5));
        assert_eq!(path.as_str(), "/v1/teams/team_1%2F..%2Fx%3Fy/events?text=a%26b%3Dc%20%C3%A9&limit=5");
        assert_eq!(Path::new("/v1/me").ask("a", None::<&str>).as_str(), "/v1/me");
    }
}
