//! The words that tray and notifications share: names made safe to show, harnesses. The
//! window has its own catalogue.

use teamlamp_wire::text::visible;
pub(crate) use teamlamp_wire::words::{ago, count, length};

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
    teamlamp_wire::words::harness(name).map_or_else(|| plain(name), str::to_owned)
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
}
