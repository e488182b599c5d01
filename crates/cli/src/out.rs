//! Where output goes: results to standard output, words about them to standard error. Knows whether JSON
//! was asked for, whether there is colour, and what time zone people here live in.

use crate::fail::Fail;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use teamlamp_clock::Clock;
use teamlamp_wire::Millis;
use teamlamp_wire::name::is_bidi;
use teamlamp_wire::words::color_is_allowed;

/// How a piece of text is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// Names.
    Strong,
    /// What is read last.
    Quiet,
    /// Up.
    Up,
    /// An agent works.
    Working,
    /// The lamp's amber: a person is needed.
    Waiting,
    /// Broken.
    Broken,
    /// Black on white, whatever the terminal's colours are.
    Paper,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Quiet => "2",
            Self::Up => "32",
            Self::Working => "34",
            Self::Waiting => "1;33",
            Self::Broken => "31",
            Self::Paper => "38;5;16;48;5;231",
        }
    }
}

/// Where output goes.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    /// Whether JSON was asked for.
    pub(crate) json: bool,
    color: bool,
    zone: TimeZone,
    /// The time by which ages are told.
    pub(crate) clock: Clock,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let wanted = color_is_allowed(std::env::var_os("NO_COLOR").as_deref());
        let can = std::env::var_os("TERM").is_none_or(|it| it != "dumb");
        let color = wanted && can && io::stdout().is_terminal();
        Self { json, color, zone: TimeZone::system(), clock: Clock::system() }
    }

    /// Prints a line of the result.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}")?;
        stdout.flush()
    }

    /// Prints a document, or an item of a stream, as one line of JSON.
    pub(crate) fn document(&self, value: &impl Serialize) -> io::Result<()> {
        self.line(&harmless(serde_json::to_string(value)?))
    }

    /// Says something about the result, on standard error.
    pub(crate) fn note(&self, text: &str) {
        // There is nobody to tell where this fails.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// A text in a style, where there is colour.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        match style.code() {
            code if self.color && !code.is_empty() && !text.is_empty() => {
                format!("\x1b[{code}m{text}\x1b[0m")
            }
            _ => text.to_owned(),
        }
    }

    /// Whether there is colour.
    pub(crate) fn has_color(&self) -> bool {
        self.color
    }

    /// A moment in the time zone of this computer, by a `strftime` format.
    pub(crate) fn time(&self, at: Millis, format: &str) -> String {
        jiff::Timestamp::from_millisecond(at)
            .map(|at| at.to_zoned_datetime(self.zone.clone()).strftime(format).to_string())
            .unwrap_or_default()
    }

    /// An output without colour in UTC, at a time that the test chooses.
    #[cfg(test)]
    pub(crate) fn for_test(color: bool) -> Self {
        Self { json: false, color, zone: TimeZone::UTC, clock: Clock::system() }
    }
}

/// JSON that moves no cursor and turns no text round: what it leaves raw of control and bidi characters
/// can only stand in strings, where it may be escaped.
fn harmless(json: String) -> String {
    let is_harmful = |c: char| c.is_control() || is_bidi(c);
    if !json.contains(is_harmful) {
        return json;
    }
    json.chars()
        .map(|c| if is_harmful(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() })
        .collect()
}

/// A list as JSON: the server's items without their envelope.
#[derive(Debug, Serialize)]
pub(crate) struct Items<'a, T> {
    pub(crate) items: &'a [T],
}

/// Whether a person sits at both ends: questions can be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question; an empty answer is the default.
pub(crate) fn ask(question: &str, default: &str) -> io::Result<String> {
    let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question}{shown}: ")?;
    stderr.flush()?;
    let answer = read_line()?;
    Ok(if answer.is_empty() { default.to_owned() } else { answer })
}

/// Asks for a yes; anything else is a no.
pub(crate) fn confirm(question: &str) -> io::Result<bool> {
    let answer = ask(&format!("{question} (y/N)"), "")?.to_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

/// Goes on where it was agreed to: by `--yes`, or by a yes at the terminal.
///
/// # Errors
/// Where nobody can be asked, or says no.
pub(crate) fn agreed(yes: bool, question: &str) -> Result<(), Fail> {
    if yes {
        return Ok(());
    }
    if !can_ask() {
        return Err(Fail::usage("Nobody can be asked here: say --yes to do it without a question."));
    }
    if confirm(question)? { Ok(()) } else { Err(Fail::failed("Nothing was changed.")) }
}

/// One line of standard input, trimmed.
pub(crate) fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::BufRead::read_line(&mut io::stdin().lock(), &mut line)?;
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_only_where_it_is_wanted() {
        assert_eq!(Out::for_test(false).paint(Style::Up, "x"), "x");
        assert_eq!(Out::for_test(true).paint(Style::Up, "x"), "\x1b[32mx\x1b[0m");
        assert_eq!(Out::for_test(true).paint(Style::Plain, "x"), "x");
    }

    #[test]
    fn json_reaches_a_terminal_without_power_and_means_the_same() {
        let text = "a\u{1b}[2J\u{9b}2J\u{7f}\u{202e}é";
        let json = harmless(serde_json::to_string(text).unwrap());
        assert_eq!(json, r#""a\u001b[2J\u009b2J\u007f\u202eé""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn times_are_told_in_the_zone_and_never_fail() {
        let out = Out::for_test(false);
        assert_eq!(out.time(1_760_000_000_000, "%Y-%m-%d %H:%M:%S"), "2025-10-09 08:53:20");
        assert_eq!(out.time(i64::MAX, "%H"), "");
    }
}
