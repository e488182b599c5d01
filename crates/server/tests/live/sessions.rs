//! Sessions: registering, what they do, which events tell of it (specs 02, 03, 04).

use crate::kit::{Live, activity};
use serde_json::{Value, json};

const TURNS: &str = "session.started,session.turn,session.ended";

fn brief(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .map(|event| {
            let data = &event["data"];
            let word = |name: &str| data[name].as_str().unwrap_or("-").to_owned();
            match event["kind"].as_str().unwrap() {
                "session.started" => format!("started {}", word("turn")),
                "session.turn" => format!("{} to {}", word("from"), word("to")),
                _ => format!("ended {}", word("reason")),
            }
        })
        .collect()
}

#[tokio::test]
async fn the_first_binding_of_a_registered_session_starts_it_with_its_first_turn() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let ids = live.register(&machine, &["n"]).await;
    assert_eq!(live.told(TURNS).await, Vec::<Value>::new());
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 77)])).await;
    let told = live.told(TURNS).await;
    assert_eq!(brief(&told), ["started working"]);
    let expected = json!({ "harness": "codex", "machine_id": machine.id(), "root": "acme", "turn": "working", "since": 77 });
    assert_eq!(told[0]["data"], expected);
    assert_eq!(told[0]["resource"], json!({ "kind": "session", "id": ids[0] }));
    assert_eq!((&told[0]["actor"]["kind"], &told[0]["actor"]["name"]), (&json!("machine"), &json!("one")));
}

#[tokio::test]
async fn registering_finds_what_a_heartbeat_told_before() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let bindings = [machine.binding("b", "n")];
    let data = live.beat(&mut machine, &bindings, Some(&[activity("n", "waiting_input", 7)])).await;
    assert_eq!(data["unbound_bindings"][0]["id"], "b");
    let ids = live.register(&machine, &["n"]).await;
    assert_eq!(brief(&live.told(TURNS).await), ["started waiting_input"]);
    let session = live.get(&format!("sessions/{}", ids[0])).await;
    let data = session.data();
    assert_eq!(
        (&data["turn"], &data["turn_since"], &data["confirmed"]),
        (&json!("waiting_input"), &json!(7), &json!(true))
    );
    assert_eq!((&data["live"], &data["root"]), (&json!(true), &json!("acme")));
    let data = live.beat(&mut machine, &bindings, None).await;
    assert_eq!(data.get("unbound_bindings"), None);
    assert_eq!(brief(&live.told(TURNS).await).len(), 1, "an unchanged report tells nothing");
}

#[tokio::test]
async fn only_another_turn_is_an_event_and_an_end_says_why() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.register(&machine, &["n", "m"]).await;
    let (n, m) = (machine.binding("b", "n"), machine.binding("c", "m"));
    let both = [n.clone(), m.clone()];
    live.beat(&mut machine, &both, Some(&[activity("n", "working", 1)])).await;
    live.beat(&mut machine, &both, Some(&[activity("n", "working", 2)])).await;
    live.beat(&mut machine, &both, Some(&[activity("n", "waiting_approval", 3)])).await;
    live.beat(&mut machine, &both, Some(&[activity("n", "ended", 4)])).await;
    live.beat(&mut machine, &[m], Some(&[activity("n", "ended", 4)])).await;
    live.beat(&mut machine, &[], None).await;
    live.beat(&mut machine, &[n], None).await;
    let told = live.told(TURNS).await;
    let first: Vec<String> = brief(&told).into_iter().skip(2).collect();
    let expected = [
        "working to waiting_approval",
        "waiting_approval to ended",
        "ended ended",
        "ended reporter_left",
        "started ended",
    ];
    assert_eq!(first, expected);
    let mut starts: Vec<String> = brief(&told)[..2].to_vec();
    starts.sort();
    assert_eq!(starts, ["started unknown", "started working"]);
}

#[tokio::test]
async fn the_end_in_the_same_report_counts_and_a_changed_run_ends_nothing() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.register(&machine, &["n"]).await;
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 1)])).await;
    let mut next = machine.restarted();
    let bindings = [next.binding("b", "n")];
    live.beat(&mut next, &bindings, None).await;
    live.beat(&mut next, &[], Some(&[activity("n", "ended", 9)])).await;
    assert_eq!(brief(&live.told(TURNS).await), ["started working", "working to ended", "ended ended"]);
}

#[tokio::test]
async fn an_end_names_the_root_that_left_with_it() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.register(&machine, &["n"]).await;
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 1)])).await;
    let mut stream = live.stream("events").await;
    stream.settled().await;
    let mut last = machine.report(&[], Some(&[activity("n", "ended", 9)]));
    last["roots"] = json!([]);
    assert_eq!(live.send(&machine, &last).await.status, 200);
    for kind in ["session.turn", "session.ended"] {
        let frame = stream.until("event").await;
        let event = frame.event();
        assert_eq!((&event["kind"], &event["data"]["root"]), (&json!(kind), &json!("acme")));
    }
    assert_eq!(live.get(&format!("machines/{}/roots", machine.id())).await.items().len(), 0);
}

#[tokio::test]
async fn a_session_with_two_bindings_ends_with_the_last() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.register(&machine, &["n"]).await;
    let two = [machine.binding("b", "n"), machine.binding("c", "n")];
    live.beat(&mut machine, &two, None).await;
    live.beat(&mut machine, &two[1..], None).await;
    assert_eq!(brief(&live.told(TURNS).await), ["started unknown"]);
    live.beat(&mut machine, &[], None).await;
    assert_eq!(brief(&live.told(TURNS).await), ["started unknown", "ended reporter_left"]);
}

#[tokio::test]
async fn registering_makes_or_updates_and_drops_the_title() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    let register = |body: Value| {
        let (live, machine) = (&live, &machine);
        async move { live.post_by(machine.token(), "sessions", &json!({ "sessions": [body] })).await }
    };
    let first =
        register(json!({ "harness": "codex", "native_id": "n", "title": "secret plan", "root_id": "later" }))
            .await;
    let made = first.data()["sessions"][0].clone();
    assert_eq!((first.status, &made["revision"]), (200, &json!(1)));
    let again = register(json!({ "harness": "codex", "native_id": "n", "root_id": "later" })).await;
    assert_eq!(again.data()["sessions"][0], made, "nothing changed, so its revision did not");
    let changed =
        register(json!({ "harness": "codex", "native_id": "n", "model": "m-1", "started_at": 5 })).await;
    assert_eq!(changed.data()["sessions"][0]["revision"], 2);
    assert_eq!(changed.data()["sessions"][0]["id"], made["id"]);
    let session = live.get(&format!("sessions/{}", made["id"].as_str().unwrap())).await;
    let data = session.data();
    assert_eq!(session.header("etag"), "\"2\"");
    assert_eq!(
        (&data["title"], &data["model"], &data["started_at"]),
        (&Value::Null, &json!("m-1"), &json!(5))
    );
    assert_eq!(data["root"], Value::Null, "no heartbeat told that root yet");
    let mut machine = machine.clone();
    let mut body = machine.report(&[], None);
    body["roots"] = json!([machine.root("later", "Later")]);
    live.send(&machine, &body).await;
    let session = live.get(&format!("sessions/{}", made["id"].as_str().unwrap())).await;
    assert_eq!(session.data()["root"], "Later");
    assert!(!live.get("sessions").await.text.contains("secret plan"));
}

#[tokio::test]
async fn registering_is_the_machines_alone_and_bounded() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    let one = json!({ "harness": "codex", "native_id": "n" });
    live.post("sessions", &json!({ "sessions": [one] })).await.refused(403, "forbidden");
    let elsewhere = "/v1/teams/team_other/sessions";
    let body = json!({ "sessions": [one] });
    live.ask("POST", elsewhere, machine.token(), Some(&body)).await.refused(404, "not_found");
    let refused = [
        (json!(vec![one.clone(); 101]), "these are 101"),
        (json!([{ "harness": "", "native_id": "n" }]), "harness"),
        (json!([{ "harness": "h".repeat(65), "native_id": "n" }]), "harness"),
        (json!([one, { "harness": "codex", "native_id": "n".repeat(257) }]), "session 1"),
        (json!([{ "harness": "codex", "native_id": "n", "root_id": "" }]), "root_id"),
        (json!([{ "harness": "codex", "native_id": "n", "root_id": "r".repeat(129) }]), "root_id"),
        (json!([{ "harness": "codex", "native_id": "n", "model": "m".repeat(129) }]), "model"),
        (json!([{ "harness": "codex", "native_id": "n", "title": "t".repeat(513) }]), "title"),
        (json!([{ "harness": "codex", "native_id": "" }]), "native_id"),
        (json!([{ "harness": "codex", "native_id": "n", "prompt": "x" }]), "prompt"),
        (json!([{ "harness": "codex" }]), "native_id"),
    ];
    for (sessions, says) in refused {
        let answer = live.post_by(machine.token(), "sessions", &json!({ "sessions": sessions })).await;
        assert!(answer.refused(400, "invalid_request").contains(says), "{says}: {}", answer.text);
    }
    assert_eq!(live.get("sessions").await.items().len(), 0, "nothing of a refused request is kept");
    let hundred: Vec<Value> =
        (0..100).map(|i| json!({ "harness": "codex", "native_id": format!("n-{i}") })).collect();
    let answer = live.post_by(machine.token(), "sessions", &json!({ "sessions": hundred })).await;
    assert_eq!(answer.data()["sessions"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn lists_filter_and_walk_in_an_order_that_nothing_changes() {
    let live = Live::real().await;
    let (mut one, two) = (live.machine("one").await, live.machine("two").await);
    for i in 0..7 {
        live.register(&one, &[&format!("first-{i}")]).await;
    }
    live.register(&two, &["Second-Ü"]).await;
    let bindings = [one.binding("b", "first-3"), one.binding("c", "first-5")];
    live.beat(&mut one, &bindings, Some(&[activity("first-3", "waiting_input", 1)])).await;
    let names = |answer: &crate::world::Answer| -> Vec<String> {
        answer.items().iter().map(|s| s["native_id"].as_str().unwrap().to_owned()).collect()
    };
    let mut walked = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = live.get(&format!("sessions?limit=3{cursor}")).await;
        walked.extend(names(&page));
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        // What changes meanwhile moves nobody to another place.
        live.beat(&mut one, &bindings, Some(&[activity("first-0", "idle", walked.len() as i64)])).await;
    }
    let mut newest_first: Vec<String> = (0..7).rev().map(|i| format!("first-{i}")).collect();
    newest_first.insert(0, "Second-Ü".into());
    assert_eq!(walked, newest_first);
    for (query, expected) in [
        ("live=true", vec!["first-5", "first-3"]),
        ("live=true&turn=waiting_input", vec!["first-3"]),
        (&format!("machine={}", two.id()) as &str, vec!["Second-Ü"]),
        ("text=second-%C3%BC", vec!["Second-Ü"]),
        ("harness=codex&text=FIRST-6", vec!["first-6"]),
        ("harness=claude-code", vec![]),
        ("root=acme&live=true", vec!["first-5", "first-3"]),
        ("root=root-1&text=first-5", vec!["first-5"]),
        ("turn=idle", vec!["first-0"]),
    ] {
        assert_eq!(names(&live.get(&format!("sessions?{query}")).await), expected, "{query}");
    }
    for bad in ["limit=0", "limit=201", "cursor=x", "live=yes", "turn=dreaming", "colour=red"] {
        live.get(&format!("sessions?{bad}")).await.refused(400, "invalid_request");
    }
    live.get("sessions/sess_none").await.refused(404, "not_found");
    let shown = live.get_by(one.token(), "sessions").await;
    assert_eq!(shown.items().len(), 8, "a machine reads as its custodian would");
}

#[tokio::test]
async fn a_search_for_what_is_nowhere_reads_no_whole_table_at_once() {
    let live = Live::real().await;
    let machine = live.machine("one").await;
    live.register(&machine, &["needle"]).await;
    let (team, of) = (live.team.clone(), machine.id().to_owned());
    let many = live.world.server.app().store.write(move |tx| {
        // As many as only years make.
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10500)
            INSERT INTO sessions (id, team_id, source_id, machine_id, harness, native_id, created_at, updated_at, visibility)
            SELECT 'sess_many' || i, ?1, s.id, ?2, 'codex', 'hay-' || i, 9000000000000 + i, 0, 'restricted'
            FROM n, sources s WHERE s.machine_id = ?2";
        Ok(tx.execute(sql, [team, of])?)
    });
    assert_eq!(many.await.unwrap(), 10_500);
    for filter in ["text=needle", "text=needle&machine=", "turn=unknown&text=needle"] {
        let filter = filter.replace("machine=", &format!("machine={}", machine.id()));
        let first = live.get(&format!("sessions?{filter}")).await;
        assert_eq!(first.items().len(), 0, "{filter}");
        let next = first.body["next_cursor"].as_str().expect("there is more to look through");
        let second = live.get(&format!("sessions?{filter}&cursor={next}")).await;
        assert_eq!((second.items().len(), &second.body["next_cursor"]), (1, &Value::Null));
    }
    assert_eq!(live.get("sessions?limit=200").await.items().len(), 200);
}

#[tokio::test]
async fn a_turn_that_this_server_does_not_know_passes_through_unharmed() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    let id = live.register(&machine, &["n"]).await.remove(0);
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "dreaming", 5)])).await;
    assert_eq!(live.told("session.started").await[0]["data"]["turn"], "dreaming");
    assert_eq!(live.get("sessions").await.items()[0]["turn"], "dreaming");
    assert_eq!(live.get(&format!("sessions/{id}")).await.data()["turn"], "dreaming");
}
