//! Reading only what is new of a file, on real files.

use super::*;
use std::fs;
use std::io::Write;

/// Facts that remember: `id…` identifies, `turn…` tells a turn, `…` of anything else is kept.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    lines: Vec<String>,
    turn: bool,
}

impl Facts for Seen {
    fn line(&mut self, line: Line<'_>) {
        let text = match line {
            Line::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Line::Overlong => "(overlong)".to_owned(),
        };
        self.turn |= text.starts_with("turn");
        self.lines.push(text);
    }
    fn identified(&self) -> bool {
        self.lines.iter().any(|l| l.starts_with("id"))
    }
    fn gap(&mut self) {
        self.turn = false;
        self.lines.push("(gap)".to_owned());
    }
    fn tells_turn(&self) -> bool {
        self.turn
    }
}

struct Written {
    _folder: tempfile::TempDir,
    path: PathBuf,
    tail: Tail<Seen>,
}

fn written(text: &str) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    fs::write(&path, text).unwrap();
    let mut tail = Tail::new(path.clone());
    tail.refresh().unwrap();
    Written { _folder: folder, path, tail }
}

impl Written {
    fn append(&mut self, text: &str) {
        fs::OpenOptions::new().append(true).open(&self.path).unwrap().write_all(text.as_bytes()).unwrap();
        self.tail.refresh().unwrap();
    }
    fn lines(&self) -> Vec<&str> {
        self.tail.facts().lines.iter().map(String::as_str).collect()
    }
}

#[test]
fn only_new_bytes_are_read_and_half_a_line_waits() {
    let mut file = written("id\none\n");
    file.append("tw");
    assert_eq!(file.lines(), ["id", "one"]);
    file.append("o\nthree\n");
    assert_eq!(file.lines(), ["id", "one", "two", "three"]);
    assert_eq!(file.tail.bytes_read(), 17);
    file.tail.refresh().unwrap();
    assert_eq!(file.tail.bytes_read(), 17);
}

#[test]
fn a_line_that_is_not_json_is_passed_and_the_file_goes_on() {
    let mut file = written("id\n{broken\n");
    file.append("after\n");
    assert_eq!(file.lines(), ["id", "{broken", "after"]);
}

#[test]
fn a_file_cut_shorter_is_read_again() {
    let mut file = written("id\none\ntwo\n");
    fs::write(&file.path, "id\nnew\n").unwrap();
    file.tail.refresh().unwrap();
    assert_eq!(file.lines(), ["id", "new"]);
}

#[test]
fn a_file_put_in_its_place_is_read_again_even_at_the_same_size() {
    let mut file = written("id\none\n");
    let other = file.path.with_extension("tmp");
    fs::write(&other, "id\nwon\n").unwrap();
    fs::rename(&other, &file.path).unwrap();
    file.tail.refresh().unwrap();
    assert_eq!(file.lines(), ["id", "won"]);
}

#[test]
fn a_file_rewritten_in_place_and_longer_is_read_again() {
    let mut file = written("id\none\n");
    fs::write(&file.path, "id\nother\nmore\n").unwrap();
    file.tail.refresh().unwrap();
    assert_eq!(file.lines(), ["id", "other", "more"]);
    fs::write(&file.path, "ID\nother\nmore\nid\n").unwrap();
    file.tail.refresh().unwrap();
    assert_eq!(file.lines(), ["ID", "other", "more", "id"]);
}

#[test]
fn a_change_far_from_where_reading_stands_is_noticed_and_so_is_one_behind_an_equal_beginning() {
    let filler = format!("{}\n", "x".repeat(2_000));
    let mut file = written(&format!("id first\n{filler}"));
    fs::write(&file.path, format!("id other\n{filler}more\n")).unwrap();
    file.tail.refresh().unwrap();
    assert_eq!((file.lines()[0], file.lines().len()), ("id other", 3));
    let mut file = written(&format!("{filler}id\none\n"));
    fs::write(&file.path, format!("{filler}id\nwon\nmore\n")).unwrap();
    file.tail.refresh().unwrap();
    assert_eq!(file.lines()[1..], ["id", "won", "more"]);
}

#[test]
fn a_file_that_vanishes_says_so_and_is_read_again_when_it_returns() {
    let mut file = written("id\none\n");
    fs::remove_file(&file.path).unwrap();
    assert_eq!(file.tail.refresh().unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(file.lines(), ["id", "one"]);
    fs::write(&file.path, "id\nback\n").unwrap();
    file.tail.refresh().unwrap();
    assert_eq!(file.lines(), ["id", "back"]);
}

#[test]
fn a_folder_or_a_pipe_is_refused_without_waiting_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut tail = Tail::<Seen>::new(folder.path().to_owned());
    assert_eq!(tail.refresh().unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn of_an_old_large_file_only_head_and_tail_are_read() {
    let filler = format!("{}\n", "x".repeat(9_999));
    let mut text = format!("id\n{}turn\n", filler.repeat(1_000));
    text.push_str("last\n");
    let file = written(&text);
    let lines = file.lines();
    assert_eq!((lines[0], lines[lines.len() - 1]), ("id", "last"));
    assert!(lines.contains(&"(gap)") && lines.contains(&"turn"));
    assert!(file.tail.facts().turn);
    assert!(file.tail.bytes_read() < 400_000, "{}", file.tail.bytes_read());
}

#[test]
fn the_tail_grows_backwards_until_it_tells_the_turn() {
    let filler = format!("{}\n", "x".repeat(9_999));
    let file = written(&format!("id\n{}turn\n{}", filler.repeat(1_000), filler.repeat(90)));
    assert!(file.tail.facts().turn);
    assert_eq!(file.lines().iter().filter(|l| **l == "turn").count(), 1);
    assert!(file.tail.bytes_read() < 3_000_000, "{}", file.tail.bytes_read());
}

#[test]
fn a_window_that_begins_at_a_line_start_loses_no_line() {
    let window = TAIL_BYTES as usize;
    let line = format!("turn{}\n", "y".repeat(window - 5));
    let file = written(&format!("id\n{}{line}", "x\n".repeat(200_000)));
    assert_eq!(file.lines().last().unwrap().len(), window - 1);
    assert!(file.tail.facts().turn && file.tail.bytes_read() < 2 * TAIL_BYTES);
}

#[test]
fn a_huge_line_is_passed_over_and_reading_goes_on_behind_it() {
    let mut file = written("id\n");
    let piece = "z".repeat(1 << 20);
    for _ in 0..50 {
        file.append(&piece);
        assert!(file.tail.lines.held() <= LINE_MAX);
    }
    file.append("\nafter\n");
    assert_eq!(file.lines(), ["id", "(overlong)", "after"]);
}
