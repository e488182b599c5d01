//! Names of teams, machines, people and groups (spec 01): trimmed, NFC, bounded, without control or
//! bidi characters.

use crate::limits::NAME_CHARS;
use unicode_normalization::UnicodeNormalization;

/// Why a name is refused; [`NameFault::sentence`] says it to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// Nothing is left after trimming.
    Empty,
    /// More than the allowed number of characters.
    TooLong(usize),
    /// A control or bidi character.
    Control,
}

impl NameFault {
    /// One plain sentence about the field `what`.
    pub fn sentence(self, what: &str) -> String {
        match self {
            Self::Empty => format!("{what} is empty: give at least one visible character."),
            Self::TooLong(max) => format!("{what} is too long: at most {max} characters."),
            Self::Control => format!("{what} contains a control or text-direction character: remove it."),
        }
    }
}

/// Characters that change the direction of text and so can disguise a name (Unicode TR 36).
pub fn is_bidi(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The name as it is stored: trimmed and in NFC, or why it can't be.
pub fn clean(raw: &str) -> Result<String, NameFault> {
    clean_to(raw, NAME_CHARS)
}

/// [`clean`] with another greatest length, in characters.
pub fn clean_to(raw: &str, max_chars: usize) -> Result<String, NameFault> {
    // The trimming comes after the bound so that a megabyte of spaces costs no normalization.
    let trimmed = raw.trim();
    if trimmed.is_empty() {
        return Err(NameFault::Empty);
    }
    if trimmed.chars().count() > max_chars * 4 {
        return Err(NameFault::TooLong(max_chars));
    }
    let name: String = trimmed.nfc().collect();
    if name.chars().any(|c| c.is_control() || is_bidi(c) || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'))
    {
        return Err(NameFault::Control);
    }
    if name.chars().count() > max_chars {
        return Err(NameFault::TooLong(max_chars));
    }
    Ok(name)
}

/// The form in which machine names are compared: without regard to case. By the upper case first, since some
/// letters have two lower cases (a Greek sigma at a word's end) or none of one letter (ß).
pub fn fold(name: &str) -> String {
    name.to_uppercase().to_lowercase().nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_composed() {
        assert_eq!(clean("  Zoe\u{0308}  ").as_deref(), Ok("Zoë"));
        assert_eq!(clean(&"é".repeat(64)).map(|n| n.chars().count()), Ok(64));
    }

    #[test]
    fn bad_names_say_why() {
        assert_eq!(clean(" \t "), Err(NameFault::Empty));
        assert_eq!(clean(&"x".repeat(65)), Err(NameFault::TooLong(64)));
        let bidi = ('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}')
            .chain(['\u{61c}', '\u{200e}', '\u{200f}']);
        for bad in bidi.chain(['\0', '\n', '\u{7f}', '\u{85}', '\u{2028}', '\u{2029}']) {
            assert_eq!(clean(&format!("a{bad}b")), Err(NameFault::Control), "{bad:?}");
        }
    }

    #[test]
    fn folding_ignores_case() {
        for (a, b) in
            [("ADA-Laptop", "ada-laptop"), ("ΟΔΟΣ", "οδοσ"), ("Straße", "STRASSE"), ("É", "e\u{301}")]
        {
            assert_eq!(fold(a), fold(b));
        }
        assert_eq!(fold("Ada Laptop"), "ada laptop");
    }
}
