//! The words that terminal, tray and notifications share: lengths of time, counts, names of harnesses. The
//! window has its own catalogue, which can be translated.

use crate::Millis;
use std::ffi::OsStr;

/// A length of time as people say it: `31 s`, `4 min`, `1 h 04`, `3 d`. Below zero it is `0 s`.
pub fn length(time_ms: i64) -> String {
    let seconds = time_ms.max(0) / 1_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {:02}", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long ago something was: `just now` below five seconds, else a [`length`].
pub fn ago(at: Millis, now: Millis) -> String {
    if now - at < 5_000 { "just now".into() } else { length(now - at) }
}

/// A count with its noun: `1 machine`, `3 machines`.
pub fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// A harness as its makers write it; `None` for one that is not known, whose own name then serves.
pub fn harness(name: &str) -> Option<&'static str> {
    Some(match name {
        "claude-code" => "Claude Code",
        "codex" => "Codex",
        "opencode" => "OpenCode",
        "gemini" => "Gemini",
        "copilot" => "Copilot",
        "goose" => "Goose",
        "crush" => "Crush",
        "cursor" => "Cursor",
        "pi" => "Pi",
        _ => return None,
    })
}

/// Whether the person's `NO_COLOR` leaves colour allowed: absent or empty, it does (no-color.org).
pub fn color_is_allowed(no_color: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_refused_by_any_word_and_by_no_empty_one() {
        assert!(color_is_allowed(None) && color_is_allowed(Some(OsStr::new(""))));
        assert!(!color_is_allowed(Some(OsStr::new("0"))));
    }

    #[test]
    fn lengths_of_time_are_told_as_people_say_them() {
        for (time, told) in
            [(-5, "0 s"), (31_000, "31 s"), (299_000, "4 min"), (3_840_000, "1 h 04"), (259_200_000, "3 d")]
        {
            assert_eq!(length(time), told);
        }
        for (age, told) in [(-7_000, "just now"), (4_999, "just now"), (31_000, "31 s")] {
            assert_eq!(ago(1_000_000, 1_000_000 + age), told);
        }
        assert_eq!(
            [0, 1, 2].map(|n| count(n, "machine", "machines")),
            ["0 machines", "1 machine", "2 machines"]
        );
    }
}
