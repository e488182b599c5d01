//! Following over scripted answers and paused time.

use super::*;
use crate::scripted::{HTML, JSON, Part, SSE, Script, Step};
use futures_util::FutureExt;
use std::sync::Arc;
use teamlamp_clock::Clock;

fn message(json: &str) -> Part {
    Part::Bytes(format!("data: {json}\n\n"))
}

fn event(sequence: i64) -> String {
    format!(r#"{{"type":"event","sequence":{sequence},"cursor":"c{sequence}","data":{}}}"#, body(sequence))
}

fn item(sequence: i64) -> String {
    format!(r#"{{"type":"snapshot_item","sequence":{sequence},"data":{}}}"#, body(sequence))
}

fn body(n: i64) -> String {
    format!(
        r#"{{"id":"evt_{n}","org":"team_1","at":{n},"actor":{{"principal_id":null,"kind":"system","name":"s"}},
        "kind":"machine.online","resource":{{"kind":"machine","id":"mach_1"}},"data":{{}}}}"#
    )
    .replace('\n', " ")
}

fn stream(parts: impl IntoIterator<Item = Part>) -> Step {
    Step::Answer(200, SSE, [Part::Bytes(":\n".into())].into_iter().chain(parts).collect())
}

fn snapshot() -> Vec<Part> {
    vec![
        message(r#"{"type":"snapshot_begin"}"#),
        message(&item(4)),
        message(r#"{"type":"snapshot_end","cursor":"c4"}"#),
    ]
}

fn checkpoint(cursor: &str) -> Part {
    message(&format!(r#"{{"type":"checkpoint","cursor":"{cursor}"}}"#))
}

fn follow(script: &Arc<Script>, after: Option<&str>) -> BoxStream<'static, Followed> {
    script.client().follow(&FollowQuery::all("team_1".into()), after.map(str::to_owned))
}

/// What a stream says, in words.
async fn told(stream: &mut BoxStream<'static, Followed>, count: usize) -> Vec<String> {
    stream.take(count).map(word).collect().await
}

fn word(item: Followed) -> String {
    match item {
        Followed::Connected { mode } => format!("{mode:?}").to_lowercase(),
        Followed::Dropped { wait, why } => {
            assert!(wait <= Duration::from_secs(5) || why.retry_after().is_some());
            "dropped".into()
        }
        Followed::Ended { why: Ending::AccessRevoked(reason) } => format!("revoked {reason}"),
        Followed::Ended { why: Ending::Refused(why) } => format!("ended {}", why.status().unwrap()),
        Followed::Gap { reason, events_missed, .. } => format!("gap {reason:?} {events_missed:?}"),
        Followed::Frame { frame, replayed } => {
            let mark = if replayed { " (past)" } else { "" };
            match frame {
                Frame::Event { sequence, .. } => format!("{sequence}{mark}"),
                Frame::SnapshotItem { sequence, .. } => format!("item {sequence}{mark}"),
                Frame::SnapshotBegin => "begin".into(),
                Frame::SnapshotEnd { .. } => "end".into(),
                Frame::Checkpoint { cursor } => format!("checkpoint {cursor}"),
                Frame::ResyncRequired { .. } => "resync".into(),
                Frame::AccessRevoked { .. } => "access".into(),
                Frame::Unknown => "unknown".into(),
            }
        }
    }
}

fn path(script: &Arc<Script>, n: usize) -> String {
    script.asked()[n].path_and_query.clone()
}

#[tokio::test(start_paused = true)]
async fn a_drop_is_resumed_from_the_last_cursor_and_what_came_by_replay_is_marked() {
    let script = Script::of([
        stream(snapshot().into_iter().chain([message(&event(5)), checkpoint("c5"), message(&event(6))])),
        Step::Fault(FaultKind::Refused),
        stream([message(&event(7)), checkpoint("c7"), message(&event(8)), Part::Break]),
        stream([checkpoint("c8"), Part::Hang]),
    ]);
    let mut all = follow(&script, None);
    assert_eq!(
        told(&mut all, 17).await,
        [
            "streaming",
            "begin",
            "item 4 (past)",
            "end",
            "5",
            "checkpoint c5",
            "6",
            "dropped",
            "dropped",
            "streaming",
            "7 (past)",
            "checkpoint c7",
            "8",
            "dropped",
            "streaming",
            "checkpoint c8",
            "dropped",
        ]
    );
    let paths: Vec<_> = (0..4).map(|n| path(&script, n)).collect();
    assert_eq!(
        paths,
        [
            "/v1/teams/team_1/events",
            "/v1/teams/team_1/events?after=c6",
            "/v1/teams/team_1/events?after=c6",
            "/v1/teams/team_1/events?after=c8",
        ]
    );
    assert_eq!(script.header(0, "accept").as_deref(), Some("text/event-stream"));
    assert_eq!(script.most_open(), 1, "one connection at a time");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_cut_off_begins_again() {
    let cut = stream([message(r#"{"type":"snapshot_begin"}"#), message(&item(4)), Part::Break]);
    let script = Script::of([cut, stream(snapshot())]);
    let all = told(&mut follow(&script, None), 8).await;
    assert_eq!(all[3..], ["dropped", "streaming", "begin", "item 4 (past)", "end"]);
    assert_eq!(path(&script, 1), "/v1/teams/team_1/events");
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_the_rest_of_a_snapshot_is_live() {
    let end = r#"{"type":"snapshot_end","cursor":"c4"}"#;
    let script = Script::of([stream([message(&item(4)), message(end), message(&event(5)), Part::Hang])]);
    let all = told(&mut follow(&script, Some("place")), 4).await;
    assert_eq!(all, ["streaming", "item 4 (past)", "end", "5"]);
}

#[tokio::test(start_paused = true)]
async fn no_event_is_yielded_twice() {
    let script = Script::of([
        stream([message(&event(5)), message(&event(6)), message(&event(5)), Part::Break]),
        stream([message(&event(6)), message(&event(7)), Part::Hang]),
    ]);
    assert_eq!(
        told(&mut follow(&script, Some("c4")), 6).await,
        ["streaming", "5 (past)", "6 (past)", "dropped", "streaming", "7 (past)"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_doubles_to_five_seconds_and_a_frame_resets_it() {
    let mut steps = vec![Step::Fault(FaultKind::Reset); 8];
    steps.push(stream([checkpoint("c1")]));
    steps.push(Step::Fault(FaultKind::Reset));
    let script = Script::of(steps);
    let all: Vec<_> = follow(&script, Some("c0")).take(12).collect().await;
    let waits: Vec<_> = all
        .iter()
        .filter_map(|item| match item {
            Followed::Dropped { wait, .. } => Some(wait.as_millis()),
            _ => None,
        })
        .collect();
    for (wait, most) in waits.iter().zip([250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000, 250, 500]) {
        assert!(*wait <= most, "{waits:?}");
    }
    assert!(waits.iter().any(|wait| *wait > 2_000), "full jitter reaches up: {waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_store_fails_is_not_dialled_again_and_again() {
    let fails = r#"{"type":"resync_required","reason":"unavailable","cursor":"c0","terminal":true}"#;
    let cut = fails.replace(r#","cursor":"c0""#, "");
    let begins = stream([message(r#"{"type":"snapshot_begin"}"#), message(&cut), Part::Hang]);
    let polled = || Step::json(200, format!(r#"{{"frames":[{fails}],"cursor":"c0"}}"#));
    for (after, mut steps, more) in [
        (Some("c0"), vec![], stream([message(fails), Part::Hang])),
        (None, vec![], begins),
        (Some("c0"), vec![Step::Answer(200, SSE, vec![Part::Hang])], polled()),
    ] {
        let first = steps.len();
        steps.extend(vec![more; 40]);
        let script = Script::of(steps);
        let mut all = follow(&script, after);
        let clock = Clock::starting_at(0);
        while script.asked().len() < first + 40 {
            all.next().await;
        }
        // Full jitter: 40 waits of 2.5 s in the middle.
        assert!(clock.now_ms() > 50_000, "40 tries in {} ms", clock.now_ms());
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_cap_waits_are_of_any_length_up_to_it() {
    let mut waits = Vec::new();
    for seed in 0..100 {
        let script = Script::of(vec![Step::Fault(FaultKind::Reset); 8]);
        let client = script.client_of(seed);
        let followed = client.follow(&FollowQuery::all("team_1".into()), Some("c0".into()));
        let last = followed.take(8).collect::<Vec<_>>().await.pop();
        let Some(Followed::Dropped { wait, .. }) = last else { panic!("{last:?}") };
        waits.push(wait);
    }
    let (most, least) = (waits.iter().max().unwrap(), waits.iter().min().unwrap());
    assert!(*most <= Duration::from_secs(5) && *most > Duration::from_secs(4), "{most:?}");
    assert!(*least < Duration::from_secs(1), "jitter comes after the cap: {least:?}");
}

#[tokio::test(start_paused = true)]
async fn forty_seconds_without_a_byte_are_a_drop() {
    let quiet = vec![
        checkpoint("c1"),
        Part::Pause(39_000),
        Part::Bytes(":\n".into()),
        Part::Pause(39_000),
        message(&event(2)),
        Part::Hang,
    ];
    let script = Script::of([stream(quiet)]);
    let clock = Clock::starting_at(0);
    let all: Vec<_> = follow(&script, Some("c0")).take(4).collect().await;
    assert_eq!(clock.now_ms(), 39_000 + 39_000 + 40_000);
    let Followed::Dropped { why: ClientError::Unreachable(fault), .. } = &all[3] else { panic!("{all:?}") };
    assert_eq!(fault.kind, FaultKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_line_without_end_is_a_drop_and_the_stream_comes_back() {
    let script = Script::of([
        stream([checkpoint("c1"), Part::Bytes("x".repeat(2 << 20))]),
        stream([checkpoint("c2")]),
    ]);
    let all: Vec<_> = follow(&script, Some("c0")).take(5).collect().await;
    assert!(matches!(&all[2], Followed::Dropped { why: ClientError::Garbled(_), .. }), "{all:?}");
    assert_eq!(path(&script, 1), "/v1/teams/team_1/events?after=c1");
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_can_not_be_read_is_passed_over_by_its_id() {
    let strange = Part::Bytes("id: c9\ndata: {\"type\":\"event\",\"sequence\":\"nine\"}\n\n".into());
    let script = Script::of([
        stream([message(r#"{"type":"new","x":[1]}"#), strange, Part::Break]),
        stream([checkpoint("c9"), Part::Hang]),
    ]);
    assert_eq!(
        told(&mut follow(&script, Some("c1")), 4).await,
        ["streaming", "dropped", "streaming", "checkpoint c9"]
    );
    assert_eq!(path(&script, 1), "/v1/teams/team_1/events?after=c9");
}

#[tokio::test(start_paused = true)]
async fn resync_is_followed_as_its_row_says() {
    let with = r#"{"type":"resync_required","reason":"slow_reader","cursor":"c9","terminal":true}"#;
    let without = r#"{"type":"resync_required","reason":"retention","terminal":true,
        "details":{"pruned_through":40,"events_missed":41}}"#
        .replace('\n', "");
    let script = Script::of([
        stream([message(&event(7)), message(with), Part::Hang]),
        stream([message(&without), Part::Hang]),
        stream(snapshot().into_iter().chain([message(&event(5)), Part::Hang])),
    ]);
    assert_eq!(
        told(&mut follow(&script, Some("c6")), 13).await,
        [
            "streaming",
            "7 (past)",
            "resync",
            "dropped",
            "streaming",
            "resync",
            "gap Retention Some(41)",
            "dropped",
            "streaming",
            "begin",
            "item 4 (past)",
            "end",
            "5",
        ]
    );
    assert_eq!(path(&script, 1), "/v1/teams/team_1/events?after=c9");
    assert_eq!(path(&script, 2), "/v1/teams/team_1/events");
}

#[tokio::test(start_paused = true)]
async fn only_what_is_lost_is_a_gap() {
    let asks = |reason: &str| {
        message(&format!(r#"{{"type":"resync_required","reason":"{reason}","terminal":true}}"#))
    };
    for reason in ["authorization_changed", "slow_reader", "unavailable"] {
        let within = message(&format!(
            r#"{{"type":"resync_required","reason":"{reason}","cursor":"place","terminal":true}}"#
        ));
        let rest = [message(&item(5)), message(r#"{"type":"snapshot_end","cursor":"c4"}"#)];
        let script = Script::of([
            stream([message(r#"{"type":"snapshot_begin"}"#), message(&item(4)), within, Part::Hang]),
            stream(rest.into_iter().chain([message(&event(5)), Part::Hang])),
        ]);
        let all = told(&mut follow(&script, None), 9).await;
        let expected = ["begin", "item 4 (past)", "resync", "dropped", "streaming", "item 5 (past)", "end"];
        assert_eq!(all[1..8], expected, "what came of the snapshot stays: {reason}");
        assert_eq!(all[8], "5");
        assert_eq!(path(&script, 1), "/v1/teams/team_1/events?after=place");
        // A store that can't even be read knows no place yet.
        let begin = message(r#"{"type":"snapshot_begin"}"#);
        let script = Script::of([stream([begin, asks(reason), Part::Hang]), stream(snapshot())]);
        let all = told(&mut follow(&script, None), 6).await;
        assert_eq!(all, ["streaming", "begin", "resync", "dropped", "streaming", "begin"], "{reason}");
    }
    for (reason, gap) in [
        ("retention", "gap Retention None"),
        ("snapshot_retention", "gap SnapshotRetention None"),
        ("server_restored", "gap ServerRestored None"),
        ("later", "gap Unknown None"),
    ] {
        let script = Script::of([stream([asks(reason), Part::Hang]), stream(snapshot())]);
        let all = told(&mut follow(&script, Some("c1")), 6).await;
        assert_eq!(all, ["streaming", "resync", gap, "dropped", "streaming", "begin"]);
        assert_eq!(path(&script, 1), "/v1/teams/team_1/events");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_no_longer_taken_leads_to_a_snapshot_and_a_wrong_question_to_an_end() {
    let script = Script::of([
        Step::refusal(400, "invalid_request"),
        stream(snapshot()),
        Step::refusal(400, "invalid_request"),
    ]);
    assert_eq!(
        told(&mut follow(&script, Some("old")), 4).await,
        ["gap Unknown None", "dropped", "streaming", "begin"]
    );
    let script = Script::of([Step::refusal(400, "invalid_request")]);
    assert_eq!(told(&mut follow(&script, None), 9).await, ["ended 400"]);
}

#[tokio::test(start_paused = true)]
async fn lost_access_is_surfaced_and_the_stream_ends() {
    for (status, code) in [(401, "authentication_required"), (403, "forbidden"), (404, "not_found")] {
        let script = Script::of([Step::refusal(status, code)]);
        assert_eq!(told(&mut follow(&script, Some("c1")), 9).await, [format!("ended {status}")]);
    }
    let revoked = r#"{"type":"access_revoked","reason":"machine_revoked","terminal":true}"#;
    let script = Script::of([stream([message(revoked), Part::Hang])]);
    assert_eq!(
        told(&mut follow(&script, Some("c1")), 9).await,
        ["streaming", "access", "revoked machine_revoked"]
    );
}

#[tokio::test(start_paused = true)]
async fn web_pages_redirects_and_dead_servers_are_never_an_end() {
    let script = Script::of([
        Step::Answer(200, HTML, vec![Part::Bytes("<html>".into())]),
        Step::Answer(302, &[("location", "http://portal/")], vec![]),
        Step::Answer(200, JSON, vec![Part::Bytes("{}".into())]),
        Step::refusal(503, "unavailable"),
        Step::Answer(200, SSE, vec![]),
        stream([checkpoint("c1"), Part::Hang]),
    ]);
    let all = told(&mut follow(&script, Some("c0")), 7).await;
    assert_eq!(all, ["dropped", "dropped", "dropped", "dropped", "dropped", "streaming", "checkpoint c1"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_load_is_waited_out() {
    let busy = r#"{"error":{"code":"rate_limited","message":"m","details":{"retry_after_seconds":30}}}"#;
    let script = Script::of([Step::json(429, busy), stream([checkpoint("c1"), Part::Hang])]);
    let clock = Clock::starting_at(0);
    assert_eq!(told(&mut follow(&script, None), 3).await, ["dropped", "streaming", "checkpoint c1"]);
    assert_eq!(clock.now_ms(), 30_000);
}

fn page(frames: &[String], cursor: &str) -> Step {
    Step::json(200, format!(r#"{{"frames":[{}],"cursor":"{cursor}"}}"#, frames.join(",")))
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_held_back_becomes_long_polls_for_an_hour() {
    let held = Step::Answer(200, SSE, vec![Part::Hang]);
    let script = Script::of([
        held.clone(),
        page(&[r#"{"type":"snapshot_begin"}"#.into(), item(4)], "place"),
        page(&[r#"{"type":"snapshot_end","cursor":"c4"}"#.into()], "c4"),
        page(&[], "c4"),
        Step::Fault(FaultKind::Reset),
        page(&[event(5), r#"{"type":"checkpoint","cursor":"c5"}"#.into()], "c5"),
        Step::After(3_600_000, Box::new(Step::Fault(FaultKind::Reset))),
        stream([checkpoint("c5"), message(&event(6)), Part::Hang]),
    ]);
    let clock = Clock::starting_at(0);
    let mut all = follow(&script, None);
    assert_eq!(
        told(&mut all, 8).await,
        ["polling", "begin", "item 4 (past)", "end", "dropped", "polling", "5 (past)", "checkpoint c5"]
    );
    assert!((10_000..20_000).contains(&clock.now_ms()), "10 s without a byte: {}", clock.now_ms());
    assert_eq!(path(&script, 1), "/v1/teams/team_1/events?wait=25");
    assert_eq!(path(&script, 2), "/v1/teams/team_1/events?after=place&wait=25");
    assert_eq!(script.header(1, "accept").as_deref(), Some("application/json"));
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_holds_the_head_back_too_is_found_out_as_early() {
    let script = Script::of([Step::Hang, page(&[event(5)], "c5")]);
    let clock = Clock::starting_at(0);
    assert_eq!(told(&mut follow(&script, Some("c4")), 2).await, ["polling", "5 (past)"]);
    assert_eq!(clock.now_ms(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn streaming_is_tried_again_after_an_hour() {
    let mut steps = vec![Step::Answer(200, SSE, vec![Part::Hang])];
    let quiet = Step::After(25_000, Box::new(page(&[], "c4")));
    steps.extend(std::iter::repeat_n(quiet, 145));
    let script = Script::of(steps);
    let mut all = follow(&script, Some("c4"));
    assert_eq!(told(&mut all, 1).await, ["polling"]);
    let mut rest = std::pin::pin!(all.next());
    let clock = Clock::starting_at(0);
    while script.asked().last().unwrap().path_and_query.contains("wait=") {
        assert!(rest.as_mut().now_or_never().is_none(), "nothing new is said meanwhile");
        clock.sleep(ms(1_000)).await;
        assert!(clock.now_ms() < 4_000_000, "still polling");
    }
    assert!(clock.now_ms() > 3_500_000);
    assert_eq!(script.header(script.asked().len() - 1, "accept").as_deref(), Some("text/event-stream"));
}

#[tokio::test(start_paused = true)]
async fn what_a_stream_brings_after_an_hour_of_polls_is_no_past() {
    let mut steps = vec![Step::Answer(200, SSE, vec![Part::Hang])];
    let quiet = Step::After(25_000, Box::new(page(&[], "c4")));
    steps.extend(std::iter::repeat_n(quiet, 143));
    steps.push(stream([message(&event(5)), checkpoint("c5"), message(&event(6)), Part::Hang]));
    let script = Script::of(steps);
    let all = told(&mut follow(&script, Some("c4")), 5).await;
    assert_eq!(all, ["polling", "streaming", "5", "checkpoint c5", "6"], "nobody was ever away");
    assert_eq!(path(&script, 144), "/v1/teams/team_1/events?after=c4");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_altogether_is_met_with_a_stream_when_it_is_back() {
    let script =
        Script::of([Step::Hang, Step::Fault(FaultKind::Timeout), stream([checkpoint("c1"), Part::Hang])]);
    let all = told(&mut follow(&script, Some("c0")), 3).await;
    assert_eq!(all, ["dropped", "streaming", "checkpoint c1"]);
    assert!(path(&script, 1).contains("wait="));
}

#[tokio::test(start_paused = true)]
async fn filters_are_asked_for_and_escaped() {
    let script = Script::of([]);
    let kinds = vec!["session.turn".into(), "custom.cli.*".into()];
    let query = FollowQuery { team: "team_1".into(), source: Some("src_&".into()), kinds };
    let mut all = script.client().follow(&query, Some("a=b".into()));
    assert!(all.next().now_or_never().is_none());
    assert_eq!(
        path(&script, 0),
        "/v1/teams/team_1/events?source=src_%26&kinds=session.turn,custom.cli.*&after=a%3Db"
    );
}
