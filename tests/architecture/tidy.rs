//! Style that a machine can check, so that nobody has to.

use std::path::{Path, PathBuf};

const FILE_LINES: usize = 700;
const FUNCTION_LINES: usize = 70;

fn sources() -> Vec<(PathBuf, String)> {
    let output = std::process::Command::new("git")
        // A clone may belong to another user than the one who tests it.
        .args(["-c", "safe.directory=*"])
        .args(["ls-files", "*.rs", "ui/src/*.ts", "ui/src/*.svelte", "tests/ui/*.ts"])
        .current_dir(super::top())
        .output()
        .expect("git is there");
    assert!(output.status.success(), "git lists the files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("file names are UTF-8");
    let files: Vec<_> = names
        .lines()
        .filter(|name| !name.starts_with("ui/src/wire/"))
        .filter_map(|name| {
            Some((PathBuf::from(name), std::fs::read_to_string(super::top().join(name)).ok()?))
        })
        .collect();
    assert!(files.len() > 20, "the list of files is not empty");
    files
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "rs")
}

fn is_test(path: &Path) -> bool {
    path.components().any(|c| matches!(c.as_os_str().to_str(), Some("tests" | "benches")))
        || path.file_name().is_some_and(|n| n.to_string_lossy().contains("tests"))
}

fn report(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_module_says_what_it_owns() {
    let silent = sources().into_iter().filter(|(path, _)| is_rust(path) && !path.ends_with("build.rs"));
    report(
        silent
            .filter(|(_, text)| !text.trim_start().starts_with("//!"))
            .map(|(path, _)| format!("{} does not begin with what it owns (//!)", path.display()))
            .collect(),
    );
}

#[test]
fn files_have_one_subject() {
    report(
        sources()
            .into_iter()
            .filter(|(_, text)| text.lines().count() > FILE_LINES)
            .map(|(path, text)| {
                format!("{} has {} lines (at most {FILE_LINES})", path.display(), text.lines().count())
            })
            .collect(),
    );
}

#[test]
fn functions_fit_on_a_screen() {
    let mut faults = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| is_rust(path) && !is_test(path)) {
        // Tests beside the code may list long tables.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines: Vec<&str> = code.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let head = line.trim_start();
            let indent = &line[..line.len() - head.len()];
            let is_function = head.starts_with("fn ") || head.contains(" fn ") && !head.starts_with("//");
            if !is_function || head.ends_with(';') {
                continue;
            }
            let end = lines[start..].iter().position(|l| *l == format!("{indent}}}")).unwrap_or(0);
            if end > FUNCTION_LINES {
                faults.push(format!("{}:{} has {end} lines: {head}", path.display(), start + 1));
            }
        }
    }
    report(faults);
}

#[test]
fn nothing_is_left_undone_and_names_say_what_things_are() {
    // Written in pieces, so that this file does not accuse itself.
    let undone = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["unimplemented", "!("].concat()];
    let vague = ["Manager", "Helper", "Util"];
    let mut faults = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            if undone.iter().any(|word| line.contains(word.as_str())) {
                faults.push(format!("{place} is not done: {}", line.trim()));
            }
            let declares = ["struct ", "enum ", "trait ", "class ", "mod "].iter().any(|w| line.contains(w));
            if declares && !path.ends_with("tidy.rs") && vague.iter().any(|word| line.contains(word)) {
                faults.push(format!("{place} has a name that says nothing: {}", line.trim()));
            }
        }
    }
    report(faults);
}

#[test]
fn tests_wait_for_conditions_and_never_sleep() {
    let naps = [["thread", "::sleep("].concat(), ["waitFor", "Timeout("].concat()];
    report(
        sources()
            .into_iter()
            .filter(|(path, _)| is_test(path))
            .filter(|(_, text)| naps.iter().any(|nap| text.contains(nap.as_str())))
            .map(|(path, _)| format!("{} sleeps: wait for a condition", path.display()))
            .collect(),
    );
}

#[test]
fn sql_stands_in_stores_only() {
    // The benchmark of growth fills its stores by SQL: ten million rows through the API would take a day.
    let stores = [
        "crates/server/src/store/",
        "crates/server/src/store.rs",
        "crates/connector/src/outbox",
        "crates/load/src/growth.rs",
    ];
    let words = ["SELECT ", "INSERT INTO ", "DELETE FROM ", "PRAGMA "];
    let mut faults = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| is_rust(path) && !is_test(path)) {
        if stores.iter().any(|store| path.to_string_lossy().starts_with(store)) || path.starts_with("tests") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if let Some(line) = code.lines().find(|line| words.iter().any(|word| line.contains(word))) {
            faults.push(format!("{} knows SQL: {}", path.display(), line.trim()));
        }
    }
    report(faults);
}
