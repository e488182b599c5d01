//! Publishing events (spec 03).

use crate::kit::{Live, Machine, activity};
use serde_json::{Value, json};

async fn publish(live: &Live, token: &str, events: Value) -> crate::world::Answer {
    live.post_by(token, "events", &json!({ "events": events })).await
}

fn turn(session: &str, to: &str, since: i64) -> Value {
    json!({ "kind": "session.turn", "resource": { "kind": "session", "id": session }, "data": { "to": to, "since": since } })
}

async fn bound(live: &Live, since: i64) -> (Machine, String) {
    let mut machine = live.machine("one").await;
    let session = live.register(&machine, &["n"]).await.remove(0);
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", since)])).await;
    (machine, session)
}

#[tokio::test]
async fn a_member_publishes_custom_events() {
    let live = Live::real().await;
    let at = live.clock().now_ms() - 60_000;
    let events = json!([
        { "kind": "custom.cli.deploy", "data": { "to": "prod" }, "at": at },
        { "kind": "custom.cli.deploy", "resource": { "kind": "service", "id": "api/eu" }, "id": "evt_mine-1" },
    ]);
    let answer = publish(&live, &live.owner.token, events).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let published = &answer.data()["events"];
    assert_eq!(published[1]["id"], "evt_mine-1");
    assert_eq!(published[1]["sequence"].as_i64().unwrap(), published[0]["sequence"].as_i64().unwrap() + 1);
    let told = live.told("custom.cli.*").await;
    assert_eq!(told[0]["resource"], json!({ "kind": "custom", "id": "custom.cli.deploy" }));
    assert_eq!((&told[0]["data"], &told[0]["at"]), (&json!({ "to": "prod" }), &json!(at)));
    assert_eq!(told[1]["resource"], json!({ "kind": "service", "id": "api/eu" }));
    assert_eq!(told[0]["org"], json!(live.team));
    let person = json!({ "principal_id": live.owner.id, "kind": "person", "name": "Olga" });
    assert_eq!(told[0]["actor"], person);
    let id = told[0]["id"].as_str().unwrap();
    let one = live.get(&format!("events/{id}")).await;
    assert_eq!((&one.data()["event"], &one.data()["sequence"]), (&told[0], &published[0]["sequence"]));
    live.get("events/evt_none").await.refused(404, "not_found");
}

#[tokio::test]
async fn who_may_publish_what() {
    let live = Live::real().await;
    let viewer = live.join("viewer", "Vera").await;
    let (machine, session) = bound(&live, 5).await;
    let custom = json!([{ "kind": "custom.cli.x" }]);
    let own = json!([turn(&session, "idle", 9)]);
    let refused = [
        (&viewer.token, custom.clone()),
        (&machine.enrolled.token, custom),
        (&live.owner.token, own.clone()),
        (&live.owner.token, json!([{ "kind": "custom.bot.x" }])),
        (
            &live.owner.token,
            json!([{ "kind": "team.renamed", "resource": { "kind": "team", "id": live.team } }]),
        ),
        (
            &machine.enrolled.token,
            json!([{ "kind": "machine.cloned", "resource": { "kind": "machine", "id": machine.id() } }]),
        ),
    ];
    for (token, events) in refused {
        publish(&live, token, events).await.refused(403, "forbidden");
    }
    let other = live.machine("two").await;
    publish(&live, other.token(), own.clone()).await.refused(403, "forbidden");
    publish(&live, machine.token(), json!([turn("sess_none", "idle", 9)])).await.refused(404, "not_found");
    let elsewhere = "/v1/teams/team_other/events";
    live.ask("POST", elsewhere, &live.owner.token, Some(&json!({ "events": own })))
        .await
        .refused(404, "not_found");
    assert_eq!(publish(&live, machine.token(), own).await.status, 201);
}

#[tokio::test]
async fn each_refusal_says_which_and_nothing_is_kept() {
    let live = Live::real().await;
    let fine = json!({ "kind": "custom.cli.fine" });
    let session = json!({ "kind": "session", "id": "sess_1" });
    let table = [
        (json!([]), "1 to 100"),
        (json!(vec![fine.clone(); 101]), "1 to 100"),
        (json!([fine, { "kind": "custom.cli.Bad" }]), "Event 1"),
        (json!([fine, { "kind": format!("custom.cli.{}", "n".repeat(65)) }]), "no kind"),
        (json!([fine, { "kind": "nonsense" }]), "no kind"),
        (json!([fine, { "kind": "custom.cli.x", "data": { "t": "x".repeat(16 << 10) } }]), "16384"),
        (json!([fine, { "kind": "custom.cli.x", "id": "42" }]), "evt_"),
        (json!([fine, { "kind": "custom.cli.x", "resource": { "kind": "machine", "id": "m" } }]), "machine"),
        (json!([fine, { "kind": "custom.cli.x", "resource": { "kind": "d", "id": "a\u{7}b" } }]), "control"),
        (
            json!([fine, { "kind": "custom.cli.x", "resource": { "kind": "d", "id": "i".repeat(257) } }]),
            "256",
        ),
        (json!([fine, { "kind": "session.turn", "resource": { "kind": "team", "id": "t" } }]), "session"),
        (json!([fine, { "kind": "session.turn", "resource": session, "data": { "to": 7 } }]), "data.to"),
        (
            json!([fine, { "kind": "session.turn", "resource": session, "data": { "prompt": "x" } }]),
            "data.prompt",
        ),
        (json!([fine, { "kind": "custom.cli.x", "colour": 1 }]), "colour"),
        (json!([fine, { "kind": "custom.cli.x", "data": [1] }]), "does not fit"),
    ];
    for (events, says) in table {
        let answer = publish(&live, &live.owner.token, events).await;
        assert!(answer.refused(400, "invalid_request").contains(says), "{says}: {}", answer.text);
    }
    // Refused in the transaction: what came before it in the request is gone with it.
    publish(&live, &live.owner.token, json!([fine, { "kind": "custom.bot.x" }]))
        .await
        .refused(403, "forbidden");
    assert_eq!(live.told("custom.cli.*").await, Vec::<Value>::new());
    let mut large = vec![fine; 100];
    large[0]["data"] = json!({ "t": "x".repeat(2 << 20) });
    publish(&live, &live.owner.token, json!(large)).await.refused(413, "too_large");
}

#[tokio::test]
async fn an_id_is_one_event_of_its_publisher() {
    let live = Live::real().await;
    let member = live.join("member", "Mia").await;
    let event = json!({ "kind": "custom.cli.x", "id": "evt_1", "data": { "n": 1 } });
    let first = publish(&live, &live.owner.token, json!([event, event])).await;
    let published = &first.data()["events"];
    assert_eq!(published[0], published[1], "twice in one request is one event");
    let again = publish(&live, &live.owner.token, json!([event])).await;
    assert_eq!((again.status, &again.data()["events"][0]), (201, &published[0]));
    let mixed = json!([{ "kind": "custom.cli.y" }, event]);
    publish(&live, &member.token, mixed).await.refused(409, "conflict");
    assert_eq!(live.told("custom.cli.*").await.len(), 1, "another's id refuses the whole publication");
}

#[tokio::test]
async fn the_same_key_and_the_same_ids_are_one_publication() {
    let live = Live::real().await;
    let body = json!({ "events": [{ "kind": "custom.cli.x", "id": "evt_9" }, { "kind": "custom.cli.y" }] });
    let mut answers = Vec::new();
    for _ in 0..2 {
        let ask = live.world.post(live.path("events"), body.clone()).by(&live.owner.token).key("outbox-1");
        answers.push(ask.send().await);
    }
    assert_eq!((answers[0].status, &answers[0].body), (201, &answers[1].body));
    assert_eq!(live.told("custom.cli.*").await.len(), 2);
}

#[tokio::test]
async fn a_moment_is_believed_within_a_week_and_a_minute() {
    let live = Live::real().await;
    let now = live.clock().now_ms();
    let week = 7 * 86_400_000;
    let events: Vec<Value> = [now - week + 60_000, now - week - 60_000, now + 30_000, now + 120_000]
        .into_iter()
        .map(|at| json!({ "kind": "custom.cli.x", "at": at }))
        .collect();
    publish(&live, &live.owner.token, json!(events)).await;
    let told: Vec<i64> = live.told("custom.cli.x").await.iter().map(|e| e["at"].as_i64().unwrap()).collect();
    assert_eq!((told[0], told[2]), (now - week + 60_000, now + 30_000));
    for clamped in [told[1], told[3]] {
        assert!((now..now + 60_000).contains(&clamped), "else it is the server's time");
    }
}

#[tokio::test]
async fn a_turn_is_told_once_whether_by_heartbeat_or_publication() {
    let live = Live::real().await;
    let (mut machine, session) = bound(&live, 100).await;
    let published = publish(&live, machine.token(), json!([turn(&session, "idle", 200)])).await;
    assert_eq!(published.status, 201);
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "idle", 200)])).await;
    live.beat(&mut machine, &bindings, Some(&[activity("n", "waiting_input", 300)])).await;
    let late = publish(&live, machine.token(), json!([turn(&session, "waiting_input", 300)])).await;
    let told = live.told("session.turn").await;
    let turns: Vec<_> = told
        .iter()
        .map(|e| (e["data"]["from"].as_str().unwrap(), e["data"]["to"].as_str().unwrap()))
        .collect();
    assert_eq!(turns, [("working", "idle"), ("idle", "waiting_input")]);
    assert_eq!(late.data()["events"][0]["id"], told[1]["id"], "the event that told it is the answer");
    assert_eq!(told[0]["data"]["root"], "acme");
}

#[tokio::test]
async fn an_id_stays_that_of_the_event_which_had_told_it_already() {
    let live = Live::real().await;
    let (mut machine, session) = bound(&live, 100).await;
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "idle", 200)])).await;
    let mut event = turn(&session, "idle", 200);
    event["id"] = json!("evt_A");
    let first = publish(&live, machine.token(), json!([event])).await;
    let published = &first.data()["events"][0];
    let told = live.get("events/history?kinds=session.turn").await;
    assert_eq!((&published["id"], &published["sequence"]), (&json!("evt_A"), &told.items()[0]["sequence"]));
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 300)])).await;
    let before = live.told("session.turn").await;
    let again = publish(&live, machine.token(), json!([event])).await;
    assert_eq!((again.status, &again.data()["events"][0]), (201, published));
    assert_eq!(live.told("session.turn").await, before, "one id is one event");
    let one = live.get("events/evt_A").await;
    assert_eq!((&one.data()["event"], &one.data()["sequence"]), (&before[0], &published["sequence"]));
    // It is this machine's now, and nobody else's.
    let other = live.machine("two").await;
    let elsewhere = live.register(&other, &["n"]).await.remove(0);
    let mut theirs = turn(&elsewhere, "idle", 9);
    theirs["id"] = json!("evt_A");
    publish(&live, other.token(), json!([theirs])).await.refused(409, "conflict");
    let custom = json!([{ "kind": "custom.cli.x", "id": "evt_A" }]);
    publish(&live, &live.owner.token, custom).await.refused(409, "conflict");
}

#[tokio::test]
async fn a_turn_is_told_once_also_where_somebody_said_mine() {
    let live = Live::real().await;
    let (mut machine, session) = bound(&live, 100).await;
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "waiting_input", 200)])).await;
    let mine = live.path(&format!("sessions/{session}/attention"));
    assert_eq!(live.ask("POST", &mine, &live.owner.token, None).await.status, 200);
    let told = live.get("events/history?kinds=session.turn").await;
    let answer = publish(&live, machine.token(), json!([turn(&session, "waiting_input", 200)])).await;
    let published = &answer.data()["events"][0];
    assert_eq!(published["sequence"], told.items()[0]["sequence"], "what told it, and not who attends to it");
    assert_eq!(published["id"], told.items()[0]["event"]["id"]);
    assert_eq!(live.told("session.turn").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_id_goes_with_its_event() {
    let live = Live::paused().await;
    let (mut machine, session) = bound(&live, 100).await;
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "idle", 200)])).await;
    let mut event = turn(&session, "idle", 200);
    let mut ids = Vec::new();
    for i in 0..20 {
        event["id"] = json!(format!("evt_{i}"));
        let answer = publish(&live, machine.token(), json!([event])).await;
        ids.push(answer.data()["events"][0]["sequence"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "each of them is the one event");
    assert_eq!(live.tables()["event_aliases"].len(), 16, "a publisher can't make one event a heap of ids");
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 300)])).await;
    live.publish("x", json!({})).await;
    live.clock().jump(8 * 86_400_000);
    while teamlamp_server::maintenance::Upkeep::default().run(live.world.server.app()).await {}
    assert_eq!(live.tables()["event_aliases"], Vec::<String>::new());
    live.get("events/evt_0").await.refused(404, "not_found");
    // What is forgotten is published as if for the first time.
    let custom = json!([{ "kind": "custom.cli.x", "id": "evt_old" }]);
    let first = publish(&live, &live.owner.token, custom.clone()).await;
    live.publish("x", json!({})).await;
    live.clock().jump(8 * 86_400_000);
    while teamlamp_server::maintenance::Upkeep::default().run(live.world.server.app()).await {}
    let again = publish(&live, &live.owner.token, custom).await;
    let sequence = |answer: &crate::world::Answer| answer.data()["events"][0]["sequence"].as_i64().unwrap();
    assert!(again.status == 201 && sequence(&again) > sequence(&first));
}

#[tokio::test]
async fn a_machines_id_is_not_a_persons() {
    let live = Live::real().await;
    let (machine, session) = bound(&live, 100).await;
    let mut event = turn(&session, "idle", 200);
    event["id"] = json!("evt_machine");
    assert_eq!(publish(&live, machine.token(), json!([event])).await.status, 201);
    let custom = json!([{ "kind": "custom.cli.x", "id": "evt_machine" }]);
    publish(&live, &live.owner.token, custom).await.refused(409, "conflict");
    assert_eq!(live.told("custom.cli.*").await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_exactly_at_a_bound_is_taken() {
    let live = Live::real().await;
    let empty = json!({ "t": "" }).to_string().len();
    let events = json!([
        { "kind": "custom.cli.x", "data": { "t": "x".repeat((16 << 10) - empty) } },
        { "kind": format!("custom.cli.{}", "n".repeat(64)) },
        { "kind": "custom.cli.x", "resource": { "kind": "k".repeat(64), "id": "ü".repeat(256) } },
        { "kind": "custom.cli.x", "id": format!("evt_{}", "i".repeat(64)) },
    ]);
    let answer = publish(&live, &live.owner.token, events.clone()).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let told = live.told("custom.cli.*").await;
    assert_eq!(told.len(), 4);
    assert_eq!(told[0]["data"], events[0]["data"]);
    assert_eq!(told[2]["resource"], events[2]["resource"]);
}

#[tokio::test]
async fn an_older_publication_is_kept_and_changes_nothing() {
    let live = Live::real().await;
    let (machine, session) = bound(&live, 1_000).await;
    let answer = publish(&live, machine.token(), json!([turn(&session, "waiting_input", 999)])).await;
    let sequence = answer.data()["events"][0]["sequence"].clone();
    let history = live.get("events/history?kinds=session.turn").await;
    assert_eq!((&history.items()[0]["sequence"], history.items().len()), (&sequence, 1));
    let shown = live.get(&format!("sessions/{session}")).await;
    assert_eq!((&shown.data()["turn"], &shown.data()["turn_since"]), (&json!("working"), &json!(1_000)));
    let mut stream = live.stream("events?kinds=session.turn").await;
    let frames = stream.settled().await;
    let items: Vec<_> = frames.iter().filter(|f| f.kind() == "snapshot_item").collect();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].event()["kind"], "session.started", "the current event stays the current one");
}

#[tokio::test]
async fn an_outbox_tells_of_a_session_that_came_and_went_offline() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let session = live.register(&machine, &["n"]).await.remove(0);
    let resource = json!({ "kind": "session", "id": session });
    let now = live.clock().now_ms();
    let events = json!([
        { "kind": "session.started", "resource": resource, "data": { "turn": "working", "since": now - 900, "title": "plan" }, "at": now - 900 },
        { "kind": "session.turn", "resource": resource, "data": { "to": "ended", "since": now - 500 }, "at": now - 500 },
        { "kind": "session.ended", "resource": resource, "data": { "reason": "ended" }, "at": now - 400 },
    ]);
    assert_eq!(publish(&live, machine.token(), events).await.status, 201);
    let told = live.told("session.started,session.turn,session.ended").await;
    let kinds: Vec<_> =
        told.iter().map(|e| (e["kind"].as_str().unwrap(), e["at"].as_i64().unwrap() - now)).collect();
    assert_eq!(kinds, [("session.started", -900), ("session.turn", -500), ("session.ended", -400)]);
    assert_eq!(told[0]["data"].get("title"), None, "no rule shares titles");
    assert_eq!(told[2]["data"]["reason"], "ended");
    live.beat(&mut machine, &[], None).await;
    assert_eq!(live.told("session.ended").await.len(), 1);
    assert_eq!(live.get(&format!("sessions/{session}")).await.data()["live"], false);
}

#[tokio::test]
async fn a_session_that_a_publication_started_ends_with_the_next_snapshot_without_it() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    let session = live.register(&machine, &["n"]).await.remove(0);
    let started = json!([{ "kind": "session.started", "resource": { "kind": "session", "id": session }, "data": { "turn": "working" } }]);
    publish(&live, machine.token(), started).await;
    assert_eq!(live.get(&format!("sessions/{session}")).await.data()["live"], true);
    live.beat(&mut machine, &[], None).await;
    let told = live.told("session.ended").await;
    assert_eq!(told[0]["data"]["reason"], "reporter_left");
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, None).await;
    assert_eq!(live.told("session.started").await.len(), 2);
}

#[tokio::test]
async fn an_end_is_what_the_stored_turn_says_and_not_what_its_publisher_does() {
    let live = Live::real().await;
    let (mut machine, session) = bound(&live, 5).await;
    let resource = json!({ "kind": "session", "id": session });
    let end = |reason: &str| json!([{ "kind": "session.ended", "resource": resource, "data": { "reason": reason } }]);
    assert_eq!(publish(&live, machine.token(), end("ended")).await.status, 201);
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "ended", 9)])).await;
    assert_eq!(publish(&live, machine.token(), end("reporter_left")).await.status, 201);
    let reasons: Vec<_> =
        live.told("session.ended").await.iter().map(|e| e["data"]["reason"].clone()).collect();
    assert_eq!(reasons, ["reporter_left", "ended"]);
    // One that nobody heard of and that is not known to have ended.
    let other = live.register(&machine, &["m"]).await.remove(0);
    let quiet = json!([{ "kind": "session.ended", "resource": { "kind": "session", "id": other }, "data": { "reason": "ended" } }]);
    assert_eq!(publish(&live, machine.token(), quiet).await.status, 201);
    assert_eq!(live.told("session.ended").await[2]["data"]["reason"], "reporter_left");
}

#[tokio::test(start_paused = true)]
async fn of_a_machines_publication_that_is_refused_nothing_is_applied() {
    let live = Live::paused().await;
    let (machine, session) = bound(&live, 5).await;
    let other = live.machine("two").await;
    let elsewhere = live.register(&other, &["n"]).await.remove(0);
    let of = |kind: &str, id: &str, data: Value| json!({ "kind": kind, "resource": { "kind": "session", "id": id }, "data": data });
    let before = live.tables();
    let ended = || of("session.ended", &session, json!({}));
    for (bad, status, code) in [
        (of("session.turn", &session, json!({})), 400, "invalid_request"),
        (of("session.turn", &session, json!({ "to": "" })), 400, "invalid_request"),
        (of("session.turn", &session, json!({ "to": "t".repeat(33) })), 400, "invalid_request"),
        (of("session.started", &session, json!({})), 400, "invalid_request"),
        (of("session.started", &session, json!({ "turn": "t".repeat(33) })), 400, "invalid_request"),
        (of("session.ended", &session, json!({ "reason": "bored" })), 400, "invalid_request"),
        (turn(&elsewhere, "idle", 9), 403, "forbidden"),
        (json!({ "kind": "custom.cli.x" }), 403, "forbidden"),
        (turn("sess_none", "idle", 9), 404, "not_found"),
    ] {
        let events = json!([turn(&session, "idle", 9), ended(), bad]);
        publish(&live, machine.token(), events).await.refused(status, code);
        assert_eq!(live.tables(), before, "{bad}");
    }
    let fine = json!([turn(&session, &"t".repeat(32), 9), ended()]);
    assert_eq!(publish(&live, machine.token(), fine).await.status, 201);
    assert_ne!(live.tables(), before);
}

#[tokio::test]
async fn a_publication_may_be_two_mebibytes_and_no_more() {
    let live = Live::real().await;
    for (more, status) in [(0, 201), (1, 413)] {
        let mut body = json!({ "events": [{ "kind": "custom.cli.x" }] }).to_string();
        body.extend(std::iter::repeat_n(' ', (2 << 20) + more - body.len()));
        let ask = live.world.ask("POST", live.path("events")).by(&live.owner.token);
        let answer = ask.header("content-type", "application/json").bytes(body).send().await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
}
