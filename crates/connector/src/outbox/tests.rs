//! The outbox on a real file.

use super::*;
use crate::privacy::Shown;
use crate::sessions::FoundRoot;

fn change(id: &str, what: What, at: Millis) -> Change {
    let root = FoundRoot { id: "root_1".into(), name: "acme".into() };
    let shown = Shown {
        root,
        title: Some("the secret plan".into()),
        model: None,
        started_at: Some(1),
        turn: Turn::Working,
        since: Some(at),
        confirmed: true,
        live: true,
    };
    Change { native: Native { harness: "codex".into(), native_id: id.into() }, shown, what, at }
}

fn turned(id: &str, from: Turn, to: Turn, at: Millis) -> Change {
    change(id, What::Turned { from, to }, at)
}

fn outbox() -> (tempfile::TempDir, Outbox) {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(&Home::at(dir.path()), 1).unwrap();
    (dir, outbox)
}

fn keep(outbox: &Outbox, changes: &[Change]) {
    outbox.keep("c", changes, 1, &Chance::system()).unwrap();
}

fn said(outbox: &Outbox) -> Vec<(String, Option<Turn>, Turn, Millis)> {
    outbox.first("c", 100_000).unwrap().into_iter().map(|(_, r)| (r.native_id, r.from, r.to, r.at)).collect()
}

#[test]
fn rows_wait_in_order_over_a_restart_and_go_when_they_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    let first = Outbox::open(&home, 1).unwrap();
    let changes = [change("a", What::Started { turn: Turn::Idle }, 5), change("a", What::Ended, 9)];
    first.keep("c", &changes, 1, &Chance::system()).unwrap();
    first.keep("other", &changes, 1, &Chance::system()).unwrap();
    drop(first);
    let again = Outbox::open(&home, 2).unwrap();
    assert_eq!(
        said(&again),
        [("a".into(), None, Turn::Idle, 5), ("a".into(), Some(Turn::Working), Turn::Ended, 9)]
    );
    let numbers: Vec<_> = again.first("c", 1).unwrap().into_iter().map(|(n, _)| n).collect();
    again.done(&numbers).unwrap();
    assert_eq!((again.waiting("c").unwrap(), again.waiting("other").unwrap()), (1, 2));
    again.forget("other").unwrap();
    assert_eq!(again.waiting("other").unwrap(), 0);
}

#[test]
fn a_full_outbox_folds_the_oldest_turns_and_keeps_beginnings_and_ends() {
    let (_dir, mut outbox) = outbox();
    outbox.limits = (5, 1 << 20);
    keep(&outbox, &[change("a", What::Started { turn: Turn::Idle }, 1)]);
    let turns = [Turn::Idle, Turn::Working, Turn::WaitingInput, Turn::Working, Turn::Idle, Turn::Working];
    for (n, pair) in turns.windows(2).enumerate() {
        keep(&outbox, &[turned("a", pair[0], pair[1], 10 + n as Millis)]);
    }
    keep(&outbox, &[change("a", What::Ended, 99)]);
    let kept = said(&outbox);
    assert!(kept.len() <= 5, "{kept:?}");
    assert_eq!(kept.first().map(|r| r.3), Some(1), "the beginning is kept");
    assert_eq!(kept.last().map(|r| r.2), Some(Turn::Ended), "the end is kept");
}

#[test]
fn a_folded_turn_says_where_the_first_of_them_came_from() {
    let (_dir, outbox) = outbox();
    keep(
        &outbox,
        &[turned("a", Turn::Idle, Turn::Working, 1), turned("a", Turn::Working, Turn::WaitingInput, 2)],
    );
    assert_eq!(rows::fold(&outbox.lock(), 1).unwrap(), 1);
    assert_eq!(said(&outbox), [("a".into(), Some(Turn::Idle), Turn::WaitingInput, 2)]);
}

#[test]
fn an_outbox_of_ends_alone_stays_within_its_bounds_of_bytes_too() {
    let (_dir, mut outbox) = outbox();
    outbox.limits = (50_000, 4_000);
    for n in 0..200 {
        keep(&outbox, &[change(&format!("s{n}"), What::Ended, n)]);
    }
    let bytes: i64 =
        outbox.with(|db| db.query_row("SELECT sum(bytes) FROM rows", [], |r| r.get(0))).unwrap_or(0);
    assert!(bytes <= 4_000);
}

#[test]
fn a_damaged_file_is_put_aside_and_a_newer_one_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    home.write(FILE, &[7; 8192]).unwrap();
    assert_eq!(said(&Outbox::open(&home, 77).unwrap()), []);
    assert!(home.path("outbox.db.broken-77").exists());
    Connection::open(home.path(FILE)).unwrap().execute_batch("PRAGMA user_version = 9").unwrap();
    assert!(matches!(Outbox::open(&home, 78), Err(OutboxFault::Newer { .. })));
}

#[test]
fn what_was_told_is_remembered_without_titles() {
    let (_dir, outbox) = outbox();
    let change = turned("a", Turn::Idle, Turn::Working, 1);
    let told = AllShown::from([(change.native.clone(), change.shown.clone())]);
    outbox.remember("c", &told).unwrap();
    keep(&outbox, &[change]);
    let back = outbox.told("c").unwrap();
    assert_eq!(
        back.into_values().map(|s| (s.turn, s.since, s.title)).collect::<Vec<_>>(),
        [(Turn::Working, Some(1), None)]
    );
    assert!(outbox.told("other").unwrap().is_empty());
    let text: String =
        outbox.with(|db| db.query_row("SELECT group_concat(row) FROM rows", [], |r| r.get(0))).unwrap();
    assert!(!text.contains("secret plan"));
}

#[test]
fn what_a_report_told_whose_answer_was_lost_is_not_told_again() {
    let (_dir, outbox) = outbox();
    keep(
        &outbox,
        &[
            turned("a", Turn::Idle, Turn::Working, 10),
            turned("a", Turn::Working, Turn::WaitingInput, 20),
            turned("a", Turn::WaitingInput, Turn::Idle, 30),
            change("b", What::Ended, 20),
        ],
    );
    let known = |id: &str, turn, since| Session {
        id: "sess_1".into(),
        harness: "codex".into(),
        native_id: id.into(),
        machine_id: "mach_1".into(),
        root: None,
        title: None,
        model: None,
        turn,
        turn_since: Some(since),
        confirmed: true,
        live: true,
        started_at: None,
        updated_at: 0,
        visibility: "restricted".into(),
        revision: 1,
        claimed_by: None,
    };
    let known = [known("a", Turn::WaitingInput, 20), known("b", Turn::Working, 20)];
    let (needed, needless) = settle(outbox.first("c", 10).unwrap(), &known, &Sharing::default());
    let at: Vec<_> = needed.iter().map(|(_, r)| (r.native_id.as_str(), r.at)).collect();
    assert_eq!((at, needless.len()), (vec![("a", 30), ("b", 20)], 2));
    let hidden = Sharing { hidden: ["acme".to_owned()].into(), rules: vec![] };
    assert!(settle(needed, &[], &hidden).0.is_empty(), "a root that was hidden meanwhile leaves nothing");
}

#[test]
fn a_row_becomes_an_event_with_its_own_id_and_time() {
    let row = Row::of(&turned("a", Turn::Idle, Turn::Working, 10), "evt_1".into());
    let event = row.event(&"sess_1".into(), &"mach_1".into());
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        serde_json::json!({
            "id": "evt_1", "kind": "session.turn", "resource": {"kind": "session", "id": "sess_1"}, "at": 10,
            "data": {"harness": "codex", "machine_id": "mach_1", "root": "acme", "from": "idle", "to": "working", "since": 10},
        })
    );
}

#[test]
fn a_row_that_cannot_be_read_hides_none_behind_it() {
    let (_dir, outbox) = outbox();
    keep(&outbox, &[turned("a", Turn::Idle, Turn::Working, 1), turned("b", Turn::Idle, Turn::Working, 2)]);
    outbox.with(|db| db.execute("UPDATE rows SET row = '{' WHERE native_id = 'a'", [])).unwrap();
    assert_eq!(said(&outbox).len(), 1);
    assert_eq!(outbox.waiting("c").unwrap(), 1, "it is gone");
}
