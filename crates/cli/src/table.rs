//! Tables for people: columns as wide as their widest cell, names of others made safe to show.

use crate::out::{Out, Style};
use teamlamp_wire::text::visible;
use unicode_width::UnicodeWidthStr;

/// A cell wider than this is cut.
const WIDEST: usize = 40;

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text of others, in a style.
    pub(crate) fn new(style: Style, text: &str) -> Self {
        Self { text: cut(&visible(text)), style }
    }

    /// An ordinary text.
    pub(crate) fn plain(text: &str) -> Self {
        Self::new(Style::Plain, text)
    }

    /// A text that is read last.
    pub(crate) fn quiet(text: &str) -> Self {
        Self::new(Style::Quiet, text)
    }
}

/// Too long a text is cut at its middle, where names differ least.
fn cut(text: &str) -> String {
    if text.width() <= WIDEST {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let (mut head, mut tail) = (String::new(), Vec::new());
    let half = |used: usize| used < WIDEST / 2 - 1;
    for c in &chars {
        if !half(head.width()) {
            break;
        }
        head.push(*c);
    }
    for c in chars.iter().rev() {
        if !half(tail.iter().collect::<String>().width()) {
            break;
        }
        tail.push(*c);
    }
    format!("{head}…{}", tail.iter().rev().collect::<String>())
}

/// The lines of a table; without rows there are none.
pub(crate) fn lines(out: &Out, rows: &[Vec<Cell>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|i| rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.text.width()).max().unwrap_or(0))
        .collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
            for (i, cell) in row.iter().enumerate().take(last + 1) {
                if widths[i] == 0 {
                    continue;
                }
                line.push_str(&out.paint(cell.style, &cell.text));
                if i < last {
                    line.push_str(&" ".repeat(widths[i] - cell.text.width() + 2));
                }
            }
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_also_with_wide_characters_and_empty_columns_go() {
        let row = |cells: [&str; 3]| cells.map(Cell::plain).to_vec();
        let rows = [row(["a", "", "y"]), row(["漢字", "", "x"]), row(["b", "", ""])];
        assert_eq!(lines(&Out::for_test(false), &rows), ["a     y", "漢字  x", "b"]);
        assert!(lines(&Out::for_test(false), &[]).is_empty());
    }

    #[test]
    fn names_of_others_can_do_nothing_and_are_cut_at_their_middle() {
        let long = format!("begin{}end", "x".repeat(60));
        let cell = Cell::plain(&long);
        assert!(cell.text.starts_with("begin") && cell.text.ends_with("end") && cell.text.width() <= WIDEST);
        assert_eq!(Cell::plain("a\u{1b}[2J").text, "a␛[2J");
    }
}
