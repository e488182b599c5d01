//! What a refusal for load says: how long to wait, and who spent the minute (spec 01).

use http::HeaderMap;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;

const LEAST: Duration = Duration::from_secs(5);
const UNNAMED: Duration = Duration::from_secs(30);
/// Whatever a server names, nobody waits longer than a day without asking again.
const MOST: Duration = Duration::from_secs(86_400);

/// How long to wait before asking again: what the details name, else the header, at least 5 s; 30 s
/// where a refusal for load names nothing, `None` where another refusal doesn't.
pub(crate) fn retry_after(status: u16, headers: &HeaderMap, details: Option<&Value>) -> Option<Duration> {
    let named = details
        .and_then(|d| d.get("retry_after_seconds")?.as_u64())
        .or_else(|| headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok());
    match named {
        Some(seconds) => Some(Duration::from_secs(seconds).clamp(LEAST, MOST)),
        None if status == 429 => Some(UNNAMED),
        None => None,
    }
}

/// Who spent the last minute, to be put after a line of the log:
/// `; spent 118/min: caller a=60, b=40; route POST /x=70`. Empty where the details don't say.
pub(crate) fn spent(details: Option<&Value>) -> String {
    let Some(spent) = details.and_then(|d| d.get("spent_last_minute")) else { return String::new() };
    let mut line = format!("; spent {}/min", spent.get("requests").and_then(Value::as_u64).unwrap_or(0));
    for (field, word, before) in [("by_caller", "caller", ": "), ("by_route", "route", "; ")] {
        let items: Vec<String> = spent
            .get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .take(3)
            .filter_map(|item| {
                let name = teamlamp_wire::text::visible(item.get("name")?.as_str()?);
                Some(format!("{name}={}", item.get("count")?.as_u64()?))
            })
            .collect();
        if !items.is_empty() {
            let _ = write!(line, "{before}{word} {}", items.join(", "));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_wait_is_what_the_server_names_within_bounds() {
        let seconds = |headers: &[(&str, &str)], details: Value| {
            let headers = headers.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect();
            retry_after(429, &headers, Some(&details)).unwrap().as_secs()
        };
        assert_eq!(seconds(&[("retry-after", "60")], json!({"retry_after_seconds": 12})), 12);
        assert_eq!(seconds(&[("retry-after", "60")], json!({})), 60);
        assert_eq!(seconds(&[("retry-after", "1")], json!({})), 5);
        assert_eq!(seconds(&[("retry-after", "soon")], json!({})), 30);
        assert_eq!(seconds(&[], json!({"retry_after_seconds": u64::MAX})), 86_400);
        assert_eq!(retry_after(503, &HeaderMap::new(), None), None);
    }

    #[test]
    fn the_log_says_who_spent_the_minute() {
        let many = json!([
            {"name": "a", "count": 60}, {"name": "b", "count": 40},
            {"name": "c\u{1b}", "count": 9}, {"name": "d", "count": 1},
        ]);
        let details = json!({"spent_last_minute": {
            "requests": 118, "by_caller": many, "by_route": [{"name": "POST /x", "count": 70}],
        }});
        assert_eq!(spent(Some(&details)), "; spent 118/min: caller a=60, b=40, c␛=9; route POST /x=70");
        assert_eq!(spent(Some(&json!({}))), "");
        assert_eq!(spent(None), "");
    }
}
