//! Prometheus' text format, version 0.0.4: what a page of metrics is written in. Its own forty lines, since
//! most values are asked for when the page is, and what the libraries write is OpenMetrics alone.

use std::fmt::{Display, Write};

/// A page that is being written: each family, then its samples.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Begins a family of samples: its name, `counter`, `gauge` or `histogram`, and one line of help.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing into a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A sample of the family that was begun.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if number == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The page.
    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_breaks_its_line() {
        let mut page = Page::default();
        page.single("a_total", "counter", "Two\nlines.", 1);
        page.sample("a_total", &[("x", "q\"u\\o\nte"), ("y", "")], 0.5);
        assert_eq!(
            page.finish(),
            "# HELP a_total Two\\nlines.\n# TYPE a_total counter\na_total 1\na_total{x=\"q\\\"u\\\\o\\nte\",y=\"\"} 0.5\n"
        );
    }
}
