//! Bytes to lines, in bounded memory. A line counts only once its end is there: harnesses are seen in
//! the middle of writing, and half a record read as a whole one is lost for good.

/// Lines above this are passed over: images and tool output can make one of 50 MB.
pub(super) const LINE_MAX: usize = 4 << 20;

/// One line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It was longer than allowed; nothing of it was kept.
    Overlong,
}

/// What is known of the line whose end has not come.
#[derive(Clone, Debug, Default)]
enum Pending {
    #[default]
    Start,
    Part(Vec<u8>),
    Overlong,
    /// Reading began in the middle of a line: its rest is nobody's.
    Rest,
}

/// Takes bytes as they come, gives lines as they end.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pending: Pending,
    max: usize,
}

impl Lines {
    /// From the start of a line on.
    pub(super) fn new(max: usize) -> Self {
        Self { pending: Pending::Start, max }
    }

    /// From anywhere on: what comes before the first line end is not given.
    pub(super) fn from_the_middle(max: usize) -> Self {
        Self { pending: Pending::Rest, max }
    }

    /// Gives every line that ends in `bytes`; wherever the input is cut into pieces, the lines are the same.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            match std::mem::take(&mut self.pending) {
                Pending::Rest => {}
                Pending::Start if line.len() <= self.max => each(Line::Whole(line)),
                Pending::Part(mut part) if part.len() + line.len() <= self.max => {
                    part.extend_from_slice(line);
                    each(Line::Whole(&part));
                }
                Pending::Start | Pending::Part(_) | Pending::Overlong => each(Line::Overlong),
            }
        }
        if rest.is_empty() {
            return;
        }
        self.pending = match std::mem::take(&mut self.pending) {
            Pending::Start if rest.len() <= self.max => Pending::Part(rest.to_vec()),
            Pending::Part(mut part) if part.len() + rest.len() <= self.max => {
                part.extend_from_slice(rest);
                Pending::Part(part)
            }
            Pending::Start | Pending::Part(_) | Pending::Overlong => Pending::Overlong,
            Pending::Rest => Pending::Rest,
        };
    }

    /// The bytes held back for a line that has not ended.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        if let Pending::Part(part) = &self.pending { part.len() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(lines: &mut Lines, bytes: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        lines.feed(bytes, |line| {
            out.push(match line {
                Line::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Line::Overlong => "(overlong)".to_owned(),
            });
        });
        out
    }

    #[test]
    fn half_a_line_waits_for_its_end_even_inside_a_character() {
        let mut lines = Lines::new(100);
        let text = "{\"a\":\"é\"}\n".as_bytes();
        assert!(read(&mut lines, &text[..7]).is_empty());
        assert_eq!(read(&mut lines, &text[7..]), ["{\"a\":\"é\"}"]);
    }

    #[test]
    fn an_overlong_line_is_named_and_holds_no_memory() {
        let mut lines = Lines::new(10);
        assert!(read(&mut lines, &[b'x'; 8]).is_empty());
        for _ in 0..1000 {
            assert!(read(&mut lines, &[b'x'; 8]).is_empty());
            assert_eq!(lines.held(), 0);
        }
        assert_eq!(read(&mut lines, b"\nshort\n"), ["(overlong)", "short"]);
    }

    #[test]
    fn reading_from_the_middle_gives_no_torn_line() {
        let mut lines = Lines::from_the_middle(10);
        assert_eq!(read(&mut lines, b"torn\nwhole\n"), ["whole"]);
    }

    proptest! {
        #[test]
        fn where_the_input_is_cut_does_not_show(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let whole = read(&mut Lines::new(12), &bytes);
            let mut cuts: Vec<_> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let (mut lines, mut out, mut from) = (Lines::new(12), Vec::new(), 0);
            for to in cuts {
                out.extend(read(&mut lines, &bytes[from..to]));
                from = to;
            }
            prop_assert_eq!(out, whole);
        }
    }
}
