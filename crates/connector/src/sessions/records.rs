//! Lines to JSON records: salvages what a crash left, checks types after parsing, and never fails. It
//! knows nothing of any harness.

use serde_json::{Map, Value};
use teamlamp_wire::Millis;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A line's JSON object.
pub(super) type Record = Map<String, Value>;

/// How many places of a broken line are tried as the start of a whole record.
const SALVAGE_TRIES: usize = 16;
/// The longest text that is kept of any field, in characters.
const TEXT_CHARS: usize = 200;

/// What a line held.
#[derive(Debug, PartialEq)]
pub(super) struct Reading {
    /// The record, if there is one.
    pub(super) record: Option<Record>,
    /// Whether something of the line could not be read.
    pub(super) lost: bool,
}

/// Reads one line. Empty lines hold nothing; `null`, numbers and lists are valid JSON and no records;
/// of a torn record that a whole one follows on the same line, the whole one is kept.
pub(super) fn read(line: &[u8]) -> Reading {
    // A power cut can leave a run of NULs where a record should be.
    let blank = |b: &u8| *b == 0 || b.is_ascii_whitespace();
    let Some(start) = line.iter().position(|b| !blank(b)) else {
        return Reading { record: None, lost: line.contains(&0) };
    };
    let end = line.iter().rposition(|b| !blank(b)).map_or(line.len(), |e| e + 1);
    let text = &line[start..end];
    match serde_json::from_slice(text) {
        Ok(Value::Object(record)) => Reading { record: Some(record), lost: line[..start].contains(&0) },
        Ok(_) => Reading { record: None, lost: true },
        Err(_) => Reading { record: salvage(text), lost: true },
    }
}

fn salvage(text: &[u8]) -> Option<Record> {
    let starts = text.windows(2).enumerate().skip(1).filter(|(_, w)| w == b"{\"").map(|(at, _)| at);
    starts.take(SALVAGE_TRIES).find_map(|at| match serde_json::from_slice(&text[at..]) {
        Ok(Value::Object(record)) if record.get("type").is_some_and(Value::is_string) => Some(record),
        _ => None,
    })
}

/// The text of a field.
pub(super) fn text<'a>(record: &'a Record, field: &str) -> Option<&'a str> {
    record.get(field)?.as_str()
}

/// The object of a field.
pub(super) fn object<'a>(record: &'a Record, field: &str) -> Option<&'a Record> {
    record.get(field)?.as_object()
}

/// Whether a field is `true`.
pub(super) fn is_true(record: &Record, field: &str) -> bool {
    record.get(field) == Some(&Value::Bool(true))
}

/// A moment: RFC 3339 text, or a whole number of milliseconds. What can't be read is no moment, least of
/// all now.
pub(super) fn moment(value: Option<&Value>) -> Option<Millis> {
    let ms = match value? {
        Value::String(text) => {
            let nanos = OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp_nanos();
            Millis::try_from(nanos / 1_000_000).ok()?
        }
        other => other.as_i64()?,
    };
    (ms > 0).then_some(ms)
}

/// The first line of a text that came from a file, short and without characters that act on a screen.
pub(super) fn one_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let short: String = line.chars().take(TEXT_CHARS).collect();
    Some(teamlamp_wire::text::visible(&short))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn valid_json_that_is_no_record_is_passed_over() {
        for line in ["null", "7", "[]", "\"text\"", "true"] {
            assert_eq!(read(line.as_bytes()), Reading { record: None, lost: true }, "{line}");
        }
        assert_eq!(read(b"  \r"), Reading { record: None, lost: false });
    }

    #[test]
    fn a_whole_record_after_a_torn_one_is_salvaged_and_the_loss_counted() {
        let reading = read(br#"{"type":"user","mess{"type":"assistant","n":{"type":"inner"}}"#);
        assert!(reading.lost);
        assert_eq!(Value::from(reading.record.unwrap()), json!({"type":"assistant","n":{"type":"inner"}}));
        assert_eq!(read(br#"{"type":"user","message":{"content"#).record, None);
    }

    #[test]
    fn nuls_of_a_power_cut_are_dropped() {
        let reading = read(b"\0\0\0\0{\"type\":\"user\"}\r");
        assert!(reading.lost && reading.record.is_some());
        assert!(read(b"\0\0\0").lost);
    }

    #[test]
    fn moments_are_read_or_absent_but_never_now() {
        assert_eq!(moment(Some(&json!("2026-08-20T09:00:00.250Z"))), Some(1_787_216_400_250));
        assert_eq!(moment(Some(&json!("2026-08-20T11:00:00.250+02:00"))), Some(1_787_216_400_250));
        assert_eq!(moment(Some(&json!(1_787_216_400_250_i64))), Some(1_787_216_400_250));
        for strange in [json!("yesterday"), json!(""), json!(null), json!({}), json!(-5), json!(1.5)] {
            assert_eq!(moment(Some(&strange)), None, "{strange}");
        }
        assert_eq!(moment(None), None);
    }

    #[test]
    fn a_title_is_one_short_visible_line() {
        assert_eq!(one_line("\n  Fix\u{1b}[2J it \nnow").unwrap(), "Fix␛[2J it");
        assert_eq!(one_line(&"x".repeat(999)).unwrap().len(), 200);
        assert_eq!(one_line(" \n "), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            read(&bytes);
        }
    }
}
