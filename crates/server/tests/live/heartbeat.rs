//! Heartbeats: their order, their refusals, their effects (spec 02).

use crate::kit::{Live, Machine, activity};
use serde_json::{Value, json};

/// Everything that a heartbeat could have changed.
async fn state(live: &Live, machine: &Machine) -> Value {
    let of = |rest: String| async move { live.get(&rest).await.body };
    json!([
        of(format!("machines/{}", machine.id())).await["data"],
        of(format!("machines/{}/roots", machine.id())).await["items"],
        of("sessions".into()).await["items"],
        of("events/history".into()).await["items"],
    ])
}

#[tokio::test]
async fn a_first_heartbeat_is_answered_with_the_machine_and_what_is_unbound() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let before = live.clock().now_ms();
    let binding = machine.binding("b-1", "native-1");
    let mut body = machine.report(&[binding], None);
    body["host_key_id"] = json!("host-key-0123456789");
    let answer = live.send(&machine, &body).await;
    let data = answer.data();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("etag"), format!("\"{}\"", data["revision"]));
    assert_eq!((&data["id"], &data["name"]), (&json!(machine.id()), &json!("one")));
    assert_eq!(data["connection"], "unlinked");
    assert_eq!(data["incarnation_id"], json!(machine.run));
    assert_eq!(data["host_key_id"], "host-key-0123456789");
    assert!(data["last_seen_at"].as_i64().unwrap() >= before);
    assert_eq!(data["revision"], machine.enrolled.revision + 1);
    assert_eq!(data["watched"], json!([]));
    let unbound =
        json!([{ "id": "b-1", "harness": "codex", "native_session_id": "native-1", "reason": "no_session" }]);
    assert_eq!(data["unbound_bindings"], unbound);
    let roots = live.get(&format!("machines/{}/roots", machine.id())).await;
    assert_eq!(roots.items()[0]["name"], "acme");
    live.register(&machine, &["native-1"]).await;
    let data = live.beat(&mut machine, &[], None).await;
    assert_eq!(data.get("unbound_bindings"), None);
    assert_eq!(data["host_key_id"], "host-key-0123456789", "it stays until another is told");
}

#[tokio::test]
async fn only_the_machines_own_credential_may_beat() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let other = live.machine("two").await;
    let body = machine.report(&[], None);
    let path = format!("machines/{}/heartbeat", machine.id());
    live.post(&path, &body).await.refused(403, "forbidden");
    live.post_by(other.token(), &path, &body).await.refused(403, "forbidden");
    let elsewhere = format!("/v1/teams/team_other/machines/{}/heartbeat", machine.id());
    live.ask("POST", &elsewhere, machine.token(), Some(&body)).await.refused(404, "not_found");
    let revision = live.get(&format!("machines/{}", machine.id())).await.data()["revision"].as_i64().unwrap();
    assert_eq!(live.delete(&format!("machines/{}", machine.id()), revision).await.status, 204);
    live.send(&machine, &body).await.refused(401, "authentication_required");
}

#[tokio::test]
async fn each_refusal_says_which_and_applies_nothing() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.register(&machine, &["n"]).await;
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 5)])).await;
    let other = live.machine("two").await;
    let before = state(&live, &machine).await;
    let fine = machine
        .report(&[machine.binding("b", "n"), machine.binding("c", "m")], Some(&[activity("n", "idle", 6)]));
    let with = |pointer: &str, value: Value| {
        let mut body = fine.clone();
        match body.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => body[pointer.trim_start_matches('/')] = value,
        }
        body
    };
    let long = |n: usize| json!("x".repeat(n));
    let root = |change: &dyn Fn(&mut Value)| {
        let mut root = machine.root("root-1", "acme");
        change(&mut root);
        json!([root])
    };
    let table = [
        (with("/incarnation_id", json!("")), "incarnation_id"),
        (with("/incarnation_id", long(129)), "incarnation_id"),
        (with("/sequence", json!(0)), "sequence"),
        (with("/sequence", json!(9_007_199_254_740_992_i64)), "sequence"),
        (with("/sequence", json!(-1)), "does not fit"),
        (with("/sequence", json!("7")), "does not fit"),
        (with("/bindings", json!(vec![machine.binding("b", "n"); 4097])), "4096"),
        (with("/roots", json!(vec![machine.root("r", "x"); 1025])), "1024"),
        (with("/activity", json!(vec![activity("n", "idle", 1); 4097])), "4096"),
        (with("/host_key_id", json!("short")), "host_key_id"),
        (with("/host_key_id", json!("no spaces are allowed")), "host_key_id"),
        (with("/colour", json!(1)), "colour"),
        (with("/bindings/0/machine_id", json!(other.id())), "another machine"),
        (with("/bindings/0/incarnation_id", json!("old")), "another incarnation"),
        (with("/bindings/0/id", json!("")), "id of a binding"),
        (with("/bindings/0/harness", long(65)), "harness of binding"),
        (with("/bindings/0/native_session_id", long(257)), "native_session_id of binding"),
        (with("/bindings/1/confirmed", long(8193)), "8 KiB"),
        (with("/roots", root(&|r| r["machine_id"] = json!(other.id()))), "another machine"),
        (with("/roots", root(&|r| r["name"] = json!("x".repeat(129)))), "name of root"),
        (with("/roots", root(&|r| r["id"] = json!(""))), "id of a root"),
        (with("/roots", root(&|r| r["harnesses"] = json!(vec!["a"; 33]))), "32"),
        (with("/roots", root(&|r| r["path"] = json!("/home"))), "path"),
        (with("/roots", json!([machine.root("r", "a"), machine.root("r", "b")])), "twice"),
        (with("/roots", root(&|r| r["id"] = json!("x".repeat(129)))), "id of a root"),
        (with("/roots", root(&|r| r["name"] = json!(""))), "name of root"),
        (with("/roots", root(&|r| r["harnesses"] = json!([""]))), "harness of root"),
        (with("/roots", root(&|r| r["harnesses"] = json!(["codex", "x".repeat(65)]))), "harness of root"),
        (with("/bindings/0/id", long(129)), "id of a binding"),
        (with("/bindings/0/harness", json!("")), "harness of binding"),
        (with("/bindings/0/native_session_id", json!("")), "native_session_id of binding"),
        (with("/activity/0/harness", json!("")), "harness"),
        (with("/activity/0/harness", long(65)), "harness"),
        (with("/activity/0/native_id", json!("")), "native_id"),
        (with("/host_key_id", long(129)), "host_key_id"),
        (with("/activity/0/turn", json!("")), "turn"),
        (with("/activity/0/turn", long(33)), "turn"),
        (with("/activity/0/since", json!("now")), "does not fit"),
        (with("/activity/0/note", json!("x")), "note"),
        (with("/activity/0/native_id", long(257)), "native_id"),
    ];
    for (body, says) in table {
        let answer = live.send(&machine, &body).await;
        assert!(answer.refused(400, "invalid_request").contains(says), "{says}: {}", answer.text);
    }
    for (text, says) in [
        (fine.to_string().replacen("\"sequence\":", "\"sequence\":1,\"sequence\":", 1), "duplicate"),
        (fine.to_string().replacen("\"confirmed\":", "\"note\":1,\"note\":2,\"confirmed\":", 1), "twice"),
        (with("/bindings/0/confirmed", nested(62)).to_string(), "64"),
    ] {
        let path = live.path(&format!("machines/{}/heartbeat", machine.id()));
        let ask = live.world.ask("POST", path).by(machine.token()).header("content-type", "application/json");
        let answer = ask.bytes(text).send().await;
        assert!(answer.refused(400, "invalid_request").contains(says), "{says}: {}", answer.text);
    }
    assert_eq!(state(&live, &machine).await, before);
    assert_eq!(live.send(&machine, &with("/bindings/0/confirmed", nested(61))).await.status, 200);
}

/// Lists in lists, so many.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_the_middle_leaves_every_table_as_it_was() {
    let live = Live::paused().await;
    let mut machine = live.machine("one").await;
    live.register(&machine, &["n", "m"]).await;
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 5)])).await;
    let mut next = machine.restarted();
    let bindings = [next.binding("c", "m")];
    let mut body = next.report(&bindings, Some(&[activity("n", "ended", 6), activity("m", "idle", 7)]));
    body["roots"] = json!([next.root("root-2", "other")]);
    let db = rusqlite::Connection::open(live.world.server.app().store.path()).unwrap();
    let before = live.tables();
    for (table, when) in
        [("machine_heartbeat_state", "UPDATE"), ("events", "INSERT"), ("machine_roots", "DELETE")]
    {
        let trigger = format!(
            "CREATE TRIGGER broken BEFORE {when} ON {table} BEGIN SELECT RAISE(ABORT, 'on purpose'); END"
        );
        db.execute_batch(&trigger).unwrap();
        live.send(&next, &body).await.refused(500, "internal");
        assert_eq!(live.tables(), before, "{table}");
        db.execute_batch("DROP TRIGGER broken").unwrap();
    }
    assert_eq!(live.send(&next, &body).await.status, 200);
    let after = live.tables();
    for table in
        ["machine_heartbeat_state", "events", "machine_roots", "machine_bindings", "machine_incarnations"]
    {
        assert_ne!(after[table], before[table], "{table}");
    }
}

#[tokio::test]
async fn a_machine_whose_source_is_not_active_is_nobody() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let id = machine.id().to_owned();
    let store = live.world.server.app().store.clone();
    let paused = move |tx: &teamlamp_server::store::Tx<'_>| {
        Ok(tx.execute("UPDATE sources SET state = 'paused' WHERE machine_id = ?1", [&id])?)
    };
    assert_eq!(store.write(paused).await.unwrap(), 1);
    let body = machine.report(&[], None);
    live.send(&machine, &body).await.refused(401, "authentication_required");
    let sessions = json!({ "sessions": [{ "harness": "codex", "native_id": "n" }] });
    live.post_by(machine.token(), "sessions", &sessions).await.refused(401, "authentication_required");
}

#[tokio::test]
async fn a_heartbeat_may_be_four_mebibytes_and_no_more() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let mut body = machine.report(&[], None);
    body["host_key_id"] = json!("x".repeat(4 << 20));
    live.send(&machine, &body).await.refused(413, "too_large");
    let bindings: Vec<Value> = (0..4096)
        .map(|i| {
            let mut binding = machine.binding(&format!("b-{i}"), &format!("n-{i}"));
            binding["note"] = json!("x".repeat(700));
            binding
        })
        .collect();
    let data = live.beat(&mut machine, &bindings, None).await;
    assert_eq!(data["unbound_bindings"].as_array().unwrap().len(), 4096);
    for (more, status) in [(0, 200), (1, 413)] {
        let mut whole = machine.report(&bindings, None).to_string();
        whole.extend(std::iter::repeat_n(' ', (4 << 20) + more - whole.len()));
        let path = live.path(&format!("machines/{}/heartbeat", machine.id()));
        let ask = live.world.ask("POST", path).by(machine.token()).header("content-type", "application/json");
        assert_eq!(ask.bytes(whole).send().await.status, status);
    }
}

#[tokio::test]
async fn a_replay_is_answered_and_writes_nothing() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let first = machine.report(&[], Some(&[activity("n", "working", 5)]));
    let second = machine.report(&[], Some(&[]));
    assert_eq!(live.send(&machine, &second).await.status, 200);
    let before = state(&live, &machine).await;
    for old in [&second, &first] {
        let answer = live.send(&machine, old).await;
        assert_eq!((answer.status, &answer.data()["revision"]), (200, &before[0]["revision"]));
        assert_eq!(answer.data()["incarnation_id"], json!(machine.run));
    }
    assert_eq!(state(&live, &machine).await, before);
}

#[tokio::test]
async fn a_replaced_run_is_refused_and_its_return_told_once_to_custodian_and_admins() {
    let live = Live::real().await;
    let member = live.join("member", "Mia").await;
    let mut old = live.machine_of(&member, "clone").await;
    let mut new = old.restarted();
    live.beat(&mut old, &[], None).await;
    live.beat(&mut new, &[], None).await;
    let before = state(&live, &old).await;
    for _ in 0..2 {
        let body = old.report(&[], None);
        let answer = live.send(&old, &body).await;
        answer.refused(409, "conflict");
        assert_eq!(answer.body["error"]["details"], json!({ "reason": "incarnation_superseded" }));
    }
    let machine = live.get(&format!("machines/{}", old.id())).await;
    assert_eq!(machine.data(), &before[0]);
    let told = live.told("machine.cloned").await;
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0]["resource"]["id"], &told[0]["data"]),
        (&json!(old.id()), &json!({ "name": "clone" }))
    );
    let bystander = live.join("member", "Bob").await;
    for (token, sees) in [(&member.token, 1), (&bystander.token, 0)] {
        let answer = live.get_by(token, "events/history?kinds=machine.cloned").await;
        assert_eq!(answer.items().len(), sees);
    }
    live.beat(&mut new, &[], None).await;
}

#[tokio::test]
async fn the_last_sixteen_runs_are_remembered() {
    let live = Live::real().await;
    let first = live.machine("one").await;
    let mut runs = vec![first];
    for i in 0..18 {
        live.beat(&mut runs[i], &[], None).await;
        runs.push(runs[0].restarted());
    }
    // 18 ran, 17 were replaced: the first is forgotten, the second is the oldest of the sixteen.
    let body = runs[1].report(&[], None);
    live.send(&runs[1], &body).await.refused(409, "conflict");
    let body = runs[0].report(&[], None);
    assert_eq!(live.send(&runs[0], &body).await.status, 200);
}

#[tokio::test]
async fn bindings_and_roots_are_a_snapshot_and_the_last_of_a_repeated_id_counts() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let repeated =
        [machine.binding("b", "first"), machine.binding("b", "second"), machine.binding("c", "third")];
    let data = live.beat(&mut machine, &repeated, None).await;
    let natives = |data: &Value| -> Vec<String> {
        let unbound = data["unbound_bindings"].as_array().cloned().unwrap_or_default();
        unbound.iter().map(|u| u["native_session_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(natives(&data), ["second", "third"]);
    let one = [machine.binding("c", "third")];
    assert_eq!(natives(&live.beat(&mut machine, &one, None).await), ["third"]);
    let mut body = machine.report(&[], None);
    body["roots"] = json!([machine.root("root-2", "other"), machine.root("root-3", "third")]);
    assert_eq!(natives(live.send(&machine, &body).await.data()), Vec::<String>::new());
    let roots = live.get(&format!("machines/{}/roots", machine.id())).await;
    let names: Vec<_> = roots.items().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["other", "third"]);
}

#[tokio::test]
async fn an_unchanged_heartbeat_writes_two_rows_whatever_its_size() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.register(&machine, &["n-0", "n-1", "n-2"]).await;
    let bindings: Vec<Value> =
        (0..2000).map(|i| machine.binding(&format!("b-{i}"), &format!("n-{i}"))).collect();
    let doing: Vec<Value> = (0..2000).map(|i| activity(&format!("n-{i}"), "working", 5)).collect();
    live.beat(&mut machine, &bindings, Some(&doing)).await;
    let mut counts = Vec::new();
    for activity in [Some(&doing[..]), None] {
        let body = machine.report(&bindings, activity);
        let rows = live.rows_written().await;
        assert_eq!(live.send(&machine, &body).await.status, 200);
        // Asking for the count writes nothing.
        counts.push(live.rows_written().await - rows);
    }
    assert_eq!(counts, [2, 2]);
    let body = machine.report(&bindings[..1999], Some(&doing[..1999]));
    let rows = live.rows_written().await;
    live.send(&machine, &body).await;
    assert_eq!(live.rows_written().await - rows, 4, "one binding and one activity less: a difference");
}

#[tokio::test]
async fn absent_activity_stays_and_an_empty_one_clears() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], Some(&[activity("n", "working", 5)])).await;
    live.beat(&mut machine, &[], None).await;
    // Registering finds what is stored: so it was still there.
    let kept = live.register(&machine, &["n"]).await;
    let session = live.get(&format!("sessions/{}", kept[0])).await;
    assert_eq!((&session.data()["turn"], &session.data()["turn_since"]), (&json!("working"), &json!(5)));
    live.beat(&mut machine, &[], Some(&[activity("m", "working", 5)])).await;
    live.beat(&mut machine, &[], Some(&[])).await;
    let gone = live.register(&machine, &["m"]).await;
    assert_eq!(live.get(&format!("sessions/{}", gone[0])).await.data()["turn"], "unknown");
}

#[tokio::test(start_paused = true)]
async fn the_last_sixteen_runs_are_those_that_came_last_though_no_time_passed_or_it_went_back() {
    let live = Live::paused().await;
    let machine = live.machine("one").await;
    let run = |number: usize| Machine { run: format!("run-{number:02}"), sequence: 0, ..machine.clone() };
    for number in 0..18 {
        if number == 9 {
            live.clock().jump(-3_600_000);
        }
        live.beat(&mut run(number), &[], None).await;
    }
    for number in (1..17).rev() {
        let mut old = run(number);
        let body = old.report(&[], None);
        live.send(&old, &body).await.refused(409, "conflict");
    }
    let mut forgotten = run(0);
    live.beat(&mut forgotten, &[], None).await;
}

#[tokio::test]
async fn a_report_that_differs_is_the_last_word_on_all_that_it_names() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let session = live.register(&machine, &["n", "m"]).await.remove(0);
    let bindings = [machine.binding("b", "n"), machine.binding("c", "m")];
    let waits = json!({ "harness": "codex", "native_id": "n", "turn": "waiting_input", "since": null });
    live.beat(&mut machine, &bindings, Some(std::slice::from_ref(&waits))).await;
    let turn = async || live.get(&format!("sessions/{session}")).await.data()["turn"].clone();
    assert_eq!(turn().await, "waiting_input");
    let event = json!({ "kind": "session.turn", "resource": { "kind": "session", "id": session },
                        "data": { "to": "idle", "since": null } });
    let told = live.post_by(machine.token(), "events", &json!({ "events": [event] })).await;
    assert_eq!(told.status, 201, "{}", told.text);
    assert_eq!(turn().await, "idle");
    // The same report as the last one is told apart by its digest alone.
    live.beat(&mut machine, &bindings, Some(std::slice::from_ref(&waits))).await;
    let both = [waits, activity("m", "idle", 5)];
    live.beat(&mut machine, &bindings, Some(&both)).await;
    assert_eq!(turn().await, "waiting_input");
    let rows = live.rows_written().await;
    live.beat(&mut machine, &bindings, Some(&both)).await;
    assert_eq!(live.rows_written().await - rows, 2, "and said again it writes two rows");
}
