//! The event stream: snapshot, replay, live, filters, cursors (spec 03).

use crate::kit::{Frame, Live, activity};
use serde_json::json;
use std::time::Duration;
use tokio::sync::watch;

fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(Frame::kind).collect()
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().filter(|f| f.kind() == "event").map(|f| f.event()["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_stream_begins_at_once_with_padding_and_the_right_headers() {
    let live = Live::real().await;
    let mut stream = live.stream("events").await;
    let header = |name: &str| stream.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(header("cache-control"), "no-store, no-transform");
    assert_eq!(header("x-accel-buffering"), "no");
    assert!(header("x-request-id").starts_with("req_"));
    assert!(!stream.headers.contains_key("content-encoding"));
    let mut first = Vec::new();
    while first.len() < 2100 {
        first.extend(stream.bytes().await.unwrap());
    }
    let text = String::from_utf8(first).unwrap();
    assert!(text.starts_with(": ") && text.find('\n').unwrap() >= 2048);
    assert!(text.contains("\nretry: 1000\n\n"));
}

#[tokio::test]
async fn a_stream_is_never_compressed() {
    let live = Live::real().await;
    let asks = [("accept-encoding", "gzip, br"), ("te", "gzip")];
    for rest in ["events", "machines/events"] {
        let mut stream = live.stream_by(&live.owner.token, rest, &asks).await;
        for name in ["content-encoding", "transfer-encoding"] {
            let value = stream.headers.get(name).map(|value| value.to_str().unwrap());
            assert!(matches!(value, None | Some("chunked")), "{name}: {value:?}");
        }
        assert!(stream.bytes().await.unwrap().starts_with(b":  "));
    }
}

#[tokio::test]
async fn snapshot_and_events_hold_all_whenever_a_stream_begins() {
    const ALL: usize = 300;
    let live = Live::real().await;
    let mut tokens = vec![live.owner.token.clone()];
    for name in ["Mia", "Bob", "Eva", "Ida"] {
        tokens.push(live.join("member", name).await.token);
    }
    let published = watch::Sender::new(0);
    let publisher = async {
        for i in 0..ALL {
            let resource = json!({ "kind": "thing", "id": format!("{i:03}") });
            let event = json!({ "kind": "custom.cli.n", "resource": resource });
            let body = json!({ "events": [event] });
            assert_eq!(live.post_by(&tokens[i % tokens.len()], "events", &body).await.status, 201);
            published.send_replace(i + 1);
        }
    };
    let readers = (0..50).map(|n| {
        let (live, token, mut published) = (&live, &tokens[n % tokens.len()], published.subscribe());
        async move {
            published.wait_for(|count| *count >= n * ALL / 50).await.unwrap();
            let mut stream = live.stream_by(token, "events", &[]).await;
            let mut held: Vec<String> = Vec::new();
            while held.len() < ALL {
                let frame = stream.next().await;
                if matches!(frame.kind(), "snapshot_item" | "event")
                    && frame.event()["resource"]["kind"] == "thing"
                {
                    held.push(frame.event()["resource"]["id"].as_str().unwrap().to_owned());
                }
            }
            held.sort();
            assert_eq!(held, (0..ALL).map(|i| format!("{i:03}")).collect::<Vec<_>>(), "reader {n}");
        }
    });
    tokio::join!(publisher, futures_util::future::join_all(readers));
}

#[tokio::test]
async fn a_snapshot_has_each_resources_current_event_in_order_then_replay_then_live() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.register(&machine, &["n"]).await;
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 1)])).await;
    live.publish("z", json!({})).await;
    live.publish("a", json!({})).await;
    let mut stream = live.stream("events").await;
    let frames = stream.settled().await;
    let items: Vec<_> = frames
        .iter()
        .filter(|f| f.kind() == "snapshot_item")
        .map(|f| f.event()["kind"].as_str().unwrap())
        .collect();
    let expected = [
        "custom.cli.a",
        "custom.cli.z",
        "machine.unlinked",
        "member.joined",
        "team.created",
        "session.started",
    ];
    assert_eq!(items, expected, "by source (none first), resource kind, resource id");
    assert_eq!(frames[0].kind(), "snapshot_begin");
    assert_eq!(kinds(&frames[7..]), ["snapshot_end", "checkpoint"]);
    assert!(frames[..7].iter().all(|f| f.id.is_none()), "a snapshot has no cursor before its end");
    assert_eq!(frames[7].cursor(), frames[8].cursor());
    let sequence = live.publish("live", json!({ "n": 1 })).await;
    let event = stream.next().await;
    assert_eq!((event.kind(), event.sequence()), ("event", sequence));
    assert_eq!(event.event()["data"], json!({ "n": 1 }));
    event.cursor();
}

#[tokio::test]
async fn a_cursor_resumes_exactly_and_the_header_wins() {
    let live = Live::real().await;
    let mut stream = live.stream("events").await;
    stream.settled().await;
    let mut cursors = Vec::new();
    for i in 0..5 {
        live.publish(&format!("e{i}"), json!({})).await;
        cursors.push(stream.next().await.cursor().to_owned());
    }
    let mut resumed = live.stream(&format!("events?after={}", cursors[1])).await;
    let frames = resumed.settled().await;
    assert_eq!(names(&frames), ["custom.cli.e2", "custom.cli.e3", "custom.cli.e4"]);
    assert_eq!(kinds(&frames), ["event", "event", "event", "checkpoint"]);
    assert_eq!(frames[2].cursor(), frames[3].cursor());
    let path = format!("events?after={}", cursors[0]);
    let mut header = live.stream_by(&live.owner.token, &path, &[("last-event-id", &cursors[3])]).await;
    assert_eq!(names(&header.settled().await), ["custom.cli.e4"]);
    let mut empty = live.stream_by(&live.owner.token, &path, &[("last-event-id", "")]).await;
    assert_eq!(names(&empty.settled().await).len(), 4);
}

#[tokio::test]
async fn nothing_is_missed_or_doubled_under_a_stream_of_publications() {
    let live = Live::real().await;
    let begun = live.stream("events").await.settled().await.last().unwrap().cursor().to_owned();
    let publisher = async {
        for i in 0..60 {
            live.publish("n", json!({ "n": i })).await;
        }
    };
    let reader = async {
        let (mut seen, mut cursor) = (Vec::new(), begun);
        // Drops and resumes after every few frames.
        while seen.len() < 60 {
            let mut stream = live.stream(&format!("events?after={cursor}")).await;
            let mut here = 0;
            while here < 7 && seen.len() < 60 {
                let frame = stream.next().await;
                if frame.kind() == "event" && frame.event()["kind"] == "custom.cli.n" {
                    seen.push(frame.event()["data"]["n"].as_i64().unwrap());
                    here += 1;
                }
                if frame.data.get("cursor").is_some() {
                    cursor = frame.cursor().to_owned();
                }
            }
        }
        seen
    };
    let (seen, ()) = tokio::join!(reader, publisher);
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_long_replay_comes_in_order_and_ends_with_a_checkpoint() {
    let live = Live::real().await;
    let mut stream = live.stream("events").await;
    let cursor = stream.settled().await.last().unwrap().cursor().to_owned();
    let member = live.join("member", "Mia").await;
    for (token, round) in [(&live.owner.token, 0), (&member.token, 1)] {
        for part in 0..3 {
            let events: Vec<_> = (0..100)
                .map(|i| json!({ "kind": "custom.cli.n", "data": { "n": round * 300 + part * 100 + i } }))
                .collect();
            assert_eq!(live.post_by(token, "events", &json!({ "events": events })).await.status, 201);
        }
    }
    let mut resumed = live.stream(&format!("events?after={cursor}")).await;
    let frames = resumed.settled().await;
    let numbers: Vec<i64> = frames.iter().filter_map(|f| f.data.pointer("/data/data/n")?.as_i64()).collect();
    assert_eq!(numbers, (0..600).collect::<Vec<_>>());
    let sequences: Vec<i64> = frames[..frames.len() - 1].iter().map(Frame::sequence).collect();
    assert!(sequences.windows(2).all(|w| w[0] + 1 == w[1]));
}

#[tokio::test]
async fn filters_choose_events_and_resources() {
    let live = Live::real().await;
    let mut machine = live.machine("one").await;
    live.beat(&mut machine, &[], None).await;
    live.publish("x", json!({})).await;
    let mut stream = live.stream("events?kinds=machine.online,custom.cli.w*,machine.online").await;
    let frames = stream.settled().await;
    let items: Vec<_> = frames
        .iter()
        .filter(|f| f.kind() == "snapshot_item")
        .map(|f| f.event()["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        items,
        ["machine.unlinked"],
        "a machine's current event of whatever kind; custom kinds by theirs"
    );
    live.publish("x", json!({})).await;
    live.publish("wanted", json!({})).await;
    let next = stream.until("event").await;
    assert_eq!(next.event()["kind"], "custom.cli.wanted");
    let mut nothing = live.stream("events?source=src_unknown").await;
    assert_eq!(kinds(&nothing.settled().await), ["snapshot_begin", "snapshot_end", "checkpoint"]);
    let source = live.get(&format!("machines/{}", machine.id())).await;
    assert_eq!(source.status, 200);
}

#[tokio::test]
async fn one_sources_events_are_a_stream_of_their_own() {
    let live = Live::real().await;
    let (mut one, mut two) = (live.machine("one").await, live.machine("two").await);
    for machine in [&mut one, &mut two] {
        live.register(machine, &["n"]).await;
        let bindings = [machine.binding("b", "n")];
        live.beat(machine, &bindings, None).await;
    }
    let history = live.get(&format!("events/history?kinds=session.started&machine={}", one.id())).await;
    let source = history.items()[0]["source_id"].as_str().unwrap().to_owned();
    let mut stream = live.stream(&format!("events?source={source}")).await;
    let frames = stream.settled().await;
    assert_eq!(kinds(&frames), ["snapshot_begin", "snapshot_item", "snapshot_end", "checkpoint"]);
    assert_eq!(frames[1].event()["data"]["machine_id"], json!(one.id()));
    live.publish("x", json!({})).await;
    let bindings = [two.binding("b", "n")];
    live.beat(&mut two, &bindings, Some(&[activity("n", "idle", 1)])).await;
    let bindings = [one.binding("b", "n")];
    live.beat(&mut one, &bindings, Some(&[activity("n", "idle", 1)])).await;
    assert_eq!(stream.until("event").await.event()["data"]["machine_id"], json!(one.id()));
}

#[tokio::test(start_paused = true)]
async fn checkpoints_tell_of_what_was_not_asked_for_at_most_once_a_second() {
    let live = Live::paused().await;
    let mut stream = live.stream("events?kinds=machine.online").await;
    stream.settled().await;
    live.pass(5_000).await;
    for _ in 0..20 {
        live.publish("noise", json!({})).await;
        live.pass(100).await;
    }
    let frames = stream.until_silent(Duration::from_secs(3)).await;
    assert!((2..=4).contains(&frames.len()), "20 events in 2 s: {frames:?}");
    assert!(frames.iter().all(|f| f.kind() == "checkpoint"), "their kind and number do not show");
    let last = frames.last().unwrap().cursor();
    let mut resumed = live.stream(&format!("events?kinds=machine.online&after={last}")).await;
    assert_eq!(resumed.settled().await[0].cursor(), last, "the last one is of the last event");
}

#[tokio::test]
async fn what_can_not_be_asked_is_refused_before_a_stream_begins() {
    let live = Live::real().await;
    let other = live.ask("POST", "/v1/teams", &live.owner.token, Some(&json!({ "name": "Other" }))).await;
    assert_eq!(other.status, 201, "{}", other.text);
    let other = other.data()["team"]["id"].as_str().unwrap().to_owned();
    let mut stream = live.stream("events?kinds=session.turn,session.ended").await;
    let cursor = stream.settled().await.last().unwrap().cursor().to_owned();
    let same = format!("events?kinds=session.ended,session.turn,session.ended&after={cursor}");
    let mut stream = live.stream(&same).await;
    assert_eq!(stream.next().await.kind(), "checkpoint", "the order and repetition of kinds don't matter");
    let forged =
        format!("{}{}", &cursor[..cursor.len() - 4], if cursor.ends_with("AAAA") { "BBBB" } else { "AAAA" });
    for (query, says) in [
        ("kinds=nonsense".to_owned(), "nonsense"),
        ("kinds=".to_owned(), "kind"),
        ("kinds=session.*".to_owned(), "session.*"),
        ("colour=red".to_owned(), "colour"),
        ("after=".to_owned(), "cursor"),
        ("after=42".to_owned(), "cursor"),
        (format!("after={forged}&kinds=session.turn,session.ended"), "none of this server"),
        (format!("after={cursor}"), "other filters"),
        (format!("after={cursor}&kinds=session.turn"), "other filters"),
        (format!("after={cursor}&kinds=session.turn,session.ended&source=src_1"), "other filters"),
        ("wait=5".to_owned(), "wait"),
    ] {
        let answer = live.get(&format!("events?{query}")).await;
        assert!(answer.refused(400, "invalid_request").contains(says), "{query}: {}", answer.text);
    }
    let elsewhere = format!("/v1/teams/{other}/events?kinds=session.turn,session.ended&after={cursor}");
    let answer = live.ask("GET", &elsewhere, &live.owner.token, None).await;
    assert!(answer.refused(400, "invalid_request").contains("another team"));
    live.ask("GET", "/v1/teams/team_none/events", &live.owner.token, None).await.refused(404, "not_found");
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_says_every_15_seconds_that_it_lives() {
    let live = Live::paused().await;
    let mut stream = live.stream("events").await;
    stream.settled().await;
    let before = stream.comments;
    assert!(stream.is_silent(Duration::from_millis(14_900)).await);
    assert_eq!(stream.comments, before);
    assert!(stream.is_silent(Duration::from_millis(15_200)).await);
    assert_eq!(stream.comments, before + 2);
}

#[tokio::test]
async fn streams_end_cleanly_when_the_server_does() {
    let live = Live::real().await;
    let mut stream = live.stream("events").await;
    stream.settled().await;
    let mut presence = live.stream("machines/events").await;
    presence.until("snapshot_end").await;
    let begun = live.clock().monotonic();
    let (_, ends) = tokio::join!(live.world.server.shutdown(), async {
        (stream.try_next().await, presence.try_next().await)
    });
    assert_eq!(ends, (None, None), "no terminal frame: clients resume");
    assert!(begun.elapsed() < Duration::from_secs(5), "it never waits for an idle stream");
}

#[tokio::test]
async fn an_empty_source_is_one_that_nobody_is() {
    let live = Live::real().await;
    live.publish("x", json!({})).await;
    let mut stream = live.stream("events?source=").await;
    let frames = stream.settled().await;
    let kinds: Vec<_> = frames.iter().map(|f| f.kind().to_owned()).collect();
    assert_eq!(kinds, ["snapshot_begin", "snapshot_end", "checkpoint"]);
    let cursor = frames[2].cursor();
    live.get(&format!("events?after={cursor}")).await.refused(400, "invalid_request");
    live.stream(&format!("events?source=&after={cursor}")).await;
    assert!(live.get("events?source=&source=x").await.status == 400);
}
