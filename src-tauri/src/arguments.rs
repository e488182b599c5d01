//! What the program was started for: read from its arguments, of the first start and of later ones,
//! which single instance hands over. It acts on nothing; a link is only shown and asked about.

use std::fmt;
use teamlamp_wire::window::Place;

/// How the program is used, as `--help` says it.
pub(crate) const USAGE: &str = "\
Usage: teamlamp-desktop [--hidden | --open PLACE | LINK]
  --hidden      only the tray, no window
  --open PLACE  the window at now, feed, invite or join
  LINK          an invitation: teamlamp://join?…, which the window shows and asks about
Without arguments the window opens.";

/// What to do at a start.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// Without arguments: bring up the window where it was.
    Window,
    /// `--hidden`: the tray alone.
    Hidden,
    /// `--open PLACE`.
    Open(Place),
    /// A deep link as the only argument, well-formed or not.
    Link(String),
    /// `--help`.
    Help,
}

/// A link holds a code, so it never prints itself.
impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window => f.write_str("Window"),
            Self::Hidden => f.write_str("Hidden"),
            Self::Open(place) => write!(f, "Open({place:?})"),
            Self::Link(_) => f.write_str("Link(***)"),
            Self::Help => f.write_str("Help"),
        }
    }
}

/// Reads the arguments after the program's name. The sentence of a refusal repeats none of them: they
/// may hold a code.
pub(crate) fn parse<S: AsRef<str>>(arguments: &[S]) -> Result<Start, String> {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    match arguments[..] {
        [] => Ok(Start::Window),
        ["--help" | "-h"] => Ok(Start::Help),
        ["--hidden"] => Ok(Start::Hidden),
        ["--open", place] => place_named(place)
            .map(Start::Open)
            .ok_or_else(|| "There is no such place: --open takes now, feed, invite or join.".into()),
        ["--open"] => Err("--open needs a place: now, feed, invite or join.".into()),
        [link] if is_link(link) => Ok(Start::Link(link.to_owned())),
        _ => Err("These arguments are not understood: see --help.".into()),
    }
}

/// Whether a text is meant as one of Teamlamp's links; whether it is a good one shows when it is read.
pub(crate) fn is_link(text: &str) -> bool {
    text.get(..9).is_some_and(|scheme| scheme.eq_ignore_ascii_case("teamlamp:"))
}

fn place_named(name: &str) -> Option<Place> {
    match name {
        "now" => Some(Place::Now),
        "feed" => Some(Place::Feed),
        "invite" => Some(Place::Invite),
        "join" => Some(Place::Join),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_says_what_it_is_for() {
        let link = "teamlamp://join?server=https://a.example&code=7K3QF-9XW2M";
        let table: &[(&[&str], Start)] = &[
            (&[], Start::Window),
            (&["--hidden"], Start::Hidden),
            (&["--open", "feed"], Start::Open(Place::Feed)),
            (&["--help"], Start::Help),
            (&[link], Start::Link(link.into())),
            (&["TEAMLAMP:what"], Start::Link("TEAMLAMP:what".into())),
        ];
        for (arguments, expected) in table {
            assert_eq!(parse(arguments).as_ref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_without_repeating_it() {
        let link = "teamlamp://join?code=7K3QF-9XW2M";
        let wrong: &[&[&str]] =
            &[&["--open"], &["--open", link], &["--hidden", link], &[link, link], &["https://x"], &["é"]];
        for arguments in wrong {
            let said = parse(arguments).unwrap_err();
            assert!(said.ends_with('.') && !said.contains("7K3QF"), "{said}");
        }
    }

    #[test]
    fn a_link_never_prints_itself() {
        let start = parse(&["teamlamp://join?code=7K3QF-9XW2M"]).unwrap();
        assert_eq!(format!("{start:?}"), "Link(***)");
    }
}
