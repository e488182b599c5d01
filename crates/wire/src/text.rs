//! Text that came from others, made safe to show: control and bidi characters become visible, so that
//! an event can neither move a terminal's cursor nor disguise what it says (spec 09).

use crate::name::is_bidi;

/// `text` with every control and bidi character replaced by a visible stand-in. Tabs and line ends
/// become a space: what is shown is one line.
pub fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' => ' ',
            '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'),
            '\u{7f}' => '\u{2421}',
            c if c.is_control() || is_bidi(c) || matches!(c, '\u{2028}' | '\u{2029}') => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_lose_their_power_and_stay_readable() {
        assert_eq!(visible("a\u{1b}[2Jb\u{7}"), "a␛[2Jb␇");
        assert_eq!(visible("x\r\ny\u{202e}z\u{9b}1m"), "x  y\u{fffd}z\u{fffd}1m");
    }
}
