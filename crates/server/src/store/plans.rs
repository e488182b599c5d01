//! The plans of the queries that run with each report, request, page and look of a timer: each reads
//! through the index that was made for it, and none reads a table from end to end.

use super::{credentials, events, heartbeats, machines, migrate, notes, presence, sessions, streams};
use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

/// Runs a query; the plan of each statement that it ran, a line for each step.
fn plan<T: Debug, E: Debug>(db: &mut Connection, query: impl FnOnce(&Connection) -> Result<T, E>) -> String {
    let said = Arc::new(Mutex::new(Vec::new()));
    let note = said.clone();
    let hear = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(statement, _) = event {
            note.lock().unwrap().push(statement.expanded_sql().unwrap().to_string());
        }
    };
    db.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(hear)).unwrap();
    query(db).unwrap();
    db.trace_v2(TraceEventCodes::empty(), None::<fn(TraceEvent<'_>)>).unwrap();
    let ran = std::mem::take(&mut *said.lock().unwrap());
    assert!(!ran.is_empty(), "it ran nothing");
    let mut steps = Vec::new();
    for sql in ran {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let rows = explain.query_map([], |row| row.get::<_, String>(3)).unwrap();
        steps.extend(rows.map(Result::unwrap));
    }
    steps.join("\n")
}

#[test]
fn what_runs_all_the_time_reads_through_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = migrate::open(&folder.path().join("teamlamp.db"), 1).unwrap();
    let mut is = |name: &str, through: &[&str], of: fn(&mut Connection) -> String| {
        let plan = of(&mut db);
        // Of the partial index of those that are up all is read: that is what it is for.
        let scans = plan.lines().filter(|l| l.starts_with("SCAN") && !l.ends_with("machine_presence_up"));
        assert_eq!(scans.count(), 0, "{name} reads a whole table:\n{plan}");
        for index in through {
            assert!(plan.contains(index), "{name} does not read through {index}:\n{plan}");
        }
        assert!(!plan.contains("TEMP B-TREE"), "{name} sorts:\n{plan}");
    };
    is("the head of a report", &["sources_by_machine"], |db| {
        plan(db, |db| heartbeats::head(db, &"team_1".into(), &"mach_1".into()))
    });
    is("unbound bindings", &["machine_bindings_unbound (machine_id=?)"], |db| {
        plan(db, |db| heartbeats::unbound(db, &"mach_1".into()))
    });
    is("a replaced run", &["PRIMARY KEY"], |db| {
        plan(db, |db| heartbeats::is_superseded(db, &"mach_1".into(), "run"))
    });
    is("the presence timer", &["machine_presence_up"], |db| plan(db, presence::up));
    is("one presence", &["machine"], |db| plan(db, |db| presence::known(db, &"mach_1".into())));
    is("transitions", &["PRIMARY KEY (team_id=? AND sequence>?)"], |db| {
        plan(db, |db| presence::after(db, &"team_1".into(), 7, 100))
    });
    is("where events stand", &["teams"], |db| plan(db, |db| events::head(db, &"team_1".into())));
    is("a page of events", &["PRIMARY KEY (team_id=? AND sequence>? AND sequence<?)"], |db| {
        plan(db, |db| events::page(db, &"team_1".into(), 1, 9, 100))
    });
    is("notes that wait", &["machine_notes_waiting (machine_id=?"], |db| {
        plan(db, |db| notes::waiting(db, &"mach_1".into(), None, 1, 32))
    });
    is("the last note", &["machine_notes"], |db| plan(db, notes::last));
    is("who asks", &["credentials"], |db| plan(db, |db| credentials::find(db, &"cred_1".into())));
    is("a link's credential", &["credentials"], |db| {
        plan(db, |db| streams::credential(db, &"cred_1".into(), 1))
    });
    is("the session of an origin", &["(source_id=? AND harness=? AND native_id=?)"], |db| {
        plan(db, |db| sessions::of_origin(db, &"src_1".into(), "codex", "n"))
    });
    is("a machine of a list", &["machines"], |db| {
        plan(db, |db| machines::find(db, &"team_1".into(), &"mach_1".into()))
    });
}

#[test]
fn a_list_of_machines_reads_those_of_its_team() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = migrate::open(&folder.path().join("teamlamp.db"), 1).unwrap();
    let team = "team_1".into();
    let listed = plan(&mut db, |db| machines::page(db, &team, &"prin_1".into(), false, None, 50));
    assert!(listed.contains("(team_id=?") && !listed.contains("SCAN"), "{listed}");
    let shown = plan(&mut db, |db| presence::snapshot(db, &team));
    assert!(shown.contains("(team_id=?") && !shown.contains("SCAN"), "{shown}");
}
