//! The words that tray and notifications share: names made safe to show, harnesses, durations. The
//! window has its own catalogue.

use teamlamp_wire::Millis;
use teamlamp_wire::text::visible;

/// The most characters of a name that a menu or a notification shows.
const NAME_MAX: usize = 40;

/// A name of others as one short line: control characters visible, markup without power (a
/// notification's text may be read as HTML), too long a one cut at its middle.
pub(crate) fn plain(name: &str) -> String {
    let safe: Vec<char> = visible(name)
        .chars()
        .map(|c| match c {
            '<' => '‹',
            '>' => '›',
            '&' => '＆',
            c => c,
        })
        .collect();
    if safe.len() <= NAME_MAX {
        return safe.into_iter().collect();
    }
    let (head, tail) = (NAME_MAX / 2, NAME_MAX - NAME_MAX / 2 - 1);
    safe[..head].iter().chain(&['…']).chain(&safe[safe.len() - tail..]).collect()
}

/// A sentence that may hold others' words (a server's name in an error), as one line of a menu, in which
/// `&` would mark a key.
pub(crate) fn plain_line(sentence: &str) -> String {
    visible(sentence).replace('&', "＆")
}

/// A harness as people call it.
pub(crate) fn harness(name: &str) -> String {
    match name {
        "claude-code" => "Claude Code".into(),
        "codex" => "Codex".into(),
        "opencode" => "OpenCode".into(),
        "gemini" => "Gemini".into(),
        "copilot" => "Copilot".into(),
        "goose" => "Goose".into(),
        "crush" => "Crush".into(),
        "cursor" => "Cursor".into(),
        "pi" => "Pi".into(),
        other => plain(other),
    }
}

/// How long ago something began: `just now`, `31 s`, `4 min`, `1 h 04`, `3 d`.
pub(crate) fn ago(since: Millis, now: Millis) -> String {
    if now - since < 5_000 { "just now".into() } else { span(now - since) }
}

/// How long something lasts: `31 s`, `4 min`, `1 h 04`, `3 d`.
pub(crate) fn span(length_ms: Millis) -> String {
    let seconds = length_ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {:02}", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A count with its noun: `1 machine`, `3 machines`.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_can_do_nothing_and_stay_short() {
        assert_eq!(plain("a\u{1b}[2J<b>&\u{202e}x"), "a␛[2J‹b›＆\u{fffd}x");
        let long = plain(&"x".repeat(30).chars().chain("y".repeat(30).chars()).collect::<String>());
        assert_eq!(long.chars().count(), 40);
        assert!(long.starts_with("xx") && long.contains('…') && long.ends_with("yy"));
    }

    #[test]
    fn durations_are_what_people_say() {
        let table = [
            (4_999, "just now"),
            (31_000, "31 s"),
            (4 * 60_000 + 59_000, "4 min"),
            (64 * 60_000, "1 h 04"),
            (3 * 86_400_000, "3 d"),
            (-7_000, "just now"),
        ];
        for (ms, said) in table {
            assert_eq!(ago(1_000_000_000, 1_000_000_000 + ms), said);
        }
        assert_eq!(
            (count(1, "machine", "machines"), count(0, "machine", "machines")),
            ("1 machine".into(), "0 machines".into())
        );
    }
}
