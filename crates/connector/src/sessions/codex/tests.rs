//! What a rollout of Codex says of its turn, from its fixtures and from broken lines.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const NINE: Millis = 1_787_216_400_000; // 2026-08-20T09:00:00Z
const LATER: Millis = NINE + 3_600_000;

fn feed(rollout: &mut Rollout, text: &str) {
    text.lines().for_each(|line| rollout.line(Line::Whole(line.as_bytes())));
}

fn read(text: &str) -> Rollout {
    let mut rollout = Rollout::default();
    feed(&mut rollout, text);
    rollout
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(super::super::fixture(name)).unwrap()
}

fn record(second: u32, kind: &str, payload: Value) -> String {
    json!({"timestamp":format!("2026-08-20T09:00:{second:02}.000Z"),"type":kind,"payload":payload})
        .to_string()
}

fn meta() -> String {
    record(0, "session_meta", json!({"id":"01a00000-0000-7000-8000-000000000002","cwd":"/home/dev/acme"}))
}

fn started(second: u32, id: &str) -> String {
    record(second, "event_msg", json!({"type":"task_started","turn_id":id}))
}

fn ended(second: u32, id: &str) -> String {
    record(second, "event_msg", json!({"type":"task_complete","turn_id":id,"last_agent_message":null}))
}

fn context(policy: &str, sandbox: &str) -> String {
    let payload = json!({"approval_policy":policy,"approvals_reviewer":"user","sandbox_policy":{"type":sandbox},"model":"m"});
    record(1, "turn_context", payload)
}

fn call(second: u32, id: &str, name: &str, arguments: &str) -> String {
    record(
        second,
        "response_item",
        json!({"type":"function_call","name":name,"call_id":id,"arguments":arguments}),
    )
}

const ESCALATED: &str = r#"{"cmd":"x","sandbox_permissions":"require_escalated"}"#;

fn childless() -> Writer {
    Writer { started_at: None, has_child: Some(false) }
}

fn turn(rollout: &Rollout) -> (Turn, Option<Millis>, bool) {
    let seen = rollout.turn(Writer::default(), LATER);
    (seen.turn, seen.since, seen.confirmed)
}

#[test]
fn finished_and_aborted_turns_are_idle_since_their_end() {
    let rollout = read(&fixture("codex-complete-and-abort.jsonl"));
    assert_eq!(turn(&rollout), (Turn::Idle, Some(NINE + 65_000), true));
    assert_eq!(rollout.id.as_deref(), Some("01a00000-0000-7000-8000-000000000002"));
    assert_eq!(
        (rollout.model.as_deref(), rollout.prompt.as_deref()),
        (Some("gpt-example"), Some("List the modules"))
    );
    assert_eq!((rollout.started_at, rollout.is_subagent, rollout.lost), (Some(NINE), false, 0));
    let text = fixture("codex-complete-and-abort.jsonl");
    let first_turn = text.lines().take(8).collect::<Vec<_>>().join("\n");
    assert_eq!(turn(&read(&first_turn)), (Turn::Idle, Some(NINE + 13_100), true));
    let amid = text.lines().take(7).collect::<Vec<_>>().join("\n");
    assert_eq!(turn(&read(&amid)), (Turn::Working, Some(NINE + 8_200), true));
}

#[test]
fn an_open_escalated_call_waits_only_where_no_child_runs_and_says_it_is_a_reading() {
    let rollout = read(&fixture("codex-waiting-approval.jsonl"));
    let asked_at = NINE + 10_400;
    let waiting = TurnSeen::likely(Turn::WaitingApproval, Some(asked_at));
    let working = TurnSeen::likely(Turn::Working, Some(NINE + 8_101));
    assert_eq!(rollout.turn(childless(), asked_at + APPROVAL_SHOWS_MS), waiting);
    assert_eq!(rollout.turn(childless(), asked_at + APPROVAL_SHOWS_MS - 1), working);
    let running = Writer { has_child: Some(true), ..childless() };
    assert_eq!(rollout.turn(running, LATER), working);
    let unseen = Writer { has_child: None, ..childless() };
    assert_eq!(rollout.turn(unseen, LATER), working);
}

#[test]
fn silence_is_no_wait() {
    let rollout =
        read(&[meta(), started(1, "a"), call(2, "c", "exec_command", r#"{"cmd":"make"}"#)].join("\n"));
    let seen = rollout.turn(childless(), LATER);
    assert_eq!(seen, TurnSeen::known(Turn::Working, Some(NINE + 1_000)));
}

#[test]
fn no_approval_is_waited_for_where_none_is_asked() {
    let escalated = [started(1, "a"), call(2, "c", "exec_command", ESCALATED)].join("\n");
    for (policy, sandbox, expected) in [
        ("on-request", "workspace-write", Turn::WaitingApproval),
        ("on-request", "danger-full-access", Turn::Working),
        ("never", "workspace-write", Turn::Working),
    ] {
        let rollout = read(&[meta(), context(policy, sandbox), escalated.clone()].join("\n"));
        assert_eq!(rollout.turn(childless(), LATER).turn, expected, "{policy} {sandbox}");
    }
    let reviewed =
        record(1, "turn_context", json!({"approval_policy":"on-request","approvals_reviewer":"auto"}));
    let rollout = read(&[meta(), reviewed, escalated].join("\n"));
    assert_eq!(rollout.turn(childless(), LATER).turn, Turn::Working);
}

#[test]
fn a_wait_is_cleared_by_its_output_and_by_the_end_of_the_turn() {
    let waiting = [meta(), started(1, "a"), call(2, "c", "exec_command", ESCALATED)].join("\n");
    let output =
        record(3, "response_item", json!({"type":"function_call_output","call_id":"c","output":"aborted"}));
    for (line, expected) in [
        (output, Turn::Working),
        (record(3, "event_msg", json!({"type":"turn_aborted","turn_id":"a"})), Turn::Idle),
        (started(3, "b"), Turn::Working),
    ] {
        let rollout = read(&[waiting.clone(), line.clone()].join("\n"));
        assert_eq!(rollout.turn(childless(), LATER).turn, expected, "{line}");
    }
}

#[test]
fn a_patch_that_speaks_of_escalation_asks_for_none() {
    let patch = json!({"type":"custom_tool_call","name":"apply_patch","call_id":"c","input":"+\"require_escalated\""});
    let rollout = read(&[meta(), started(1, "a"), record(2, "response_item", patch)].join("\n"));
    assert_eq!(rollout.open_escalation(), None);
    let quoted =
        call(2, "c", "exec_command", r#"{"cmd":"grep '\"sandbox_permissions\":\"require_escalated\"' ."}"#);
    assert_eq!(read(&[meta(), started(1, "a"), quoted].join("\n")).open_escalation(), None);
    let freeform = json!({"type":"custom_tool_call","name":"exec","call_id":"c","input":"run({\"sandbox_permissions\":\"require_escalated\"})"});
    let rollout = read(&[meta(), started(1, "a"), record(2, "response_item", freeform)].join("\n"));
    assert_eq!(rollout.open_escalation(), Some(Some(NINE + 2_000)));
}

#[test]
fn a_question_to_the_person_is_known() {
    let rollout = read(&[meta(), started(1, "a"), call(2, "c", "request_user_input", "{}")].join("\n"));
    assert_eq!(turn(&rollout), (Turn::WaitingInput, Some(NINE + 2_000), true));
}

#[test]
fn a_commentary_before_a_tool_is_not_the_end() {
    let said = record(2, "event_msg", json!({"type":"agent_message","message":"I will look."}));
    assert_eq!(turn(&read(&[meta(), started(1, "a"), said].join("\n"))).0, Turn::Working);
}

#[test]
fn a_late_end_of_an_older_turn_ends_nothing() {
    let rollout = read(&[meta(), started(1, "a"), started(5, "b"), ended(6, "a")].join("\n"));
    assert_eq!(turn(&rollout), (Turn::Working, Some(NINE + 5_000), true));
    let rollout = read(&[meta(), started(1, "a"), ended(2, "a"), ended(9, "a")].join("\n"));
    assert_eq!(turn(&rollout).1, Some(NINE + 2_000));
}

#[test]
fn a_failed_turn_is_idle_and_settings_written_afterwards_are_no_turn() {
    let failed =
        json!({"type":"task_complete","turn_id":"a","error":{"message":"no","codex_error_info":"other"}});
    let settings = record(9, "event_msg", json!({"type":"thread_settings_applied"}));
    let text = [meta(), started(1, "a"), record(3, "event_msg", failed), settings].join("\n");
    assert_eq!(turn(&read(&text)), (Turn::Idle, Some(NINE + 3_000), true));
}

#[test]
fn a_turn_left_open_by_a_crash_does_not_go_on_in_the_process_that_resumed_it() {
    let rollout = read(&[meta(), started(1, "a")].join("\n"));
    let resumed = Writer { started_at: Some(NINE + 60_000), has_child: None };
    assert_eq!(rollout.turn(resumed, LATER), TurnSeen::likely(Turn::Idle, Some(NINE + 60_000)));
    let same = Writer { started_at: Some(NINE - 5_000), has_child: None };
    assert_eq!(rollout.turn(same, LATER).turn, Turn::Working);
}

#[test]
fn the_first_meta_is_the_files_and_sub_agents_say_so() {
    let parent =
        record(0, "session_meta", json!({"id":"01a00000-0000-7000-8000-0000000000ff","cwd":"/other"}));
    let rollout = read(&[meta(), parent].join("\n"));
    assert_eq!(rollout.id.as_deref(), Some("01a00000-0000-7000-8000-000000000002"));
    assert_eq!(rollout.cwd, Some("/home/dev/acme".into()));
    for meta in [
        json!({"id":"01a00000-0000-7000-8000-000000000003","source":{"subagent":{"thread_spawn":{}}}}),
        json!({"id":"01a00000-0000-7000-8000-000000000003","thread_source":"subagent"}),
    ] {
        assert!(read(&record(0, "session_meta", meta)).is_subagent);
    }
}

#[test]
fn a_continuation_is_the_same_thread_and_its_injected_text_no_prompt() {
    let rollout = read(&fixture("codex-continuation.jsonl"));
    assert_eq!(rollout.id.as_deref(), Some("01a00000-0000-7000-8000-000000000001"));
    assert_eq!(rollout.prompt.as_deref(), Some("Continue please"));
    assert_eq!(turn(&rollout).0, Turn::Idle);
    let name = "rollout-2026-08-27T11-00-00-01a00000-0000-7000-8000-000000000001_01a00000-0000-7000-8000-0000000000ff.jsonl";
    assert_eq!(thread_of(name), rollout.id.as_deref());
}

#[test]
fn names_of_other_files_name_no_thread() {
    assert_eq!(
        thread_of("rollout-2026-08-27T11-00-00-01a00000-0000-7000-8000-000000000001.jsonl"),
        Some("01a00000-0000-7000-8000-000000000001")
    );
    for name in [
        "rollout-2026-08-27T11-00-00-01a00000-0000-7000-8000-000000000001.jsonl.zst",
        "rollout-2026-08-27T11-00-00-01a00000-0000-7000-8000-000000000001_x.jsonl",
        "rollout-2026-08-27T11-00-00.jsonl",
        "rollout-é026-08-27T11-00-00-01a00000-0000-7000-8000-000000000001.jsonl",
        "history.jsonl",
    ] {
        assert_eq!(thread_of(name), None, "{name}");
    }
    assert_eq!(made_at("01a22dde-d6ae-7781-a8f0-c5311323cba8"), Some(1_796_065_908_398));
    assert_eq!(made_at("01a22dde-d6ae-4781-a8f0-c5311323cba8"), None);
}

#[test]
fn a_file_from_before_the_envelope_tells_no_turn() {
    let rollout = read(&fixture("codex-pre-envelope.jsonl"));
    assert_eq!(rollout.id.as_deref(), Some("00000000-0000-4000-8000-00000000000a"));
    assert_eq!((turn(&rollout).0, &rollout.cwd), (Turn::Unknown, &None));
}

#[test]
fn of_a_tail_without_a_start_the_turn_is_open_and_its_start_not_made_up() {
    let mut rollout = read(&[meta(), started(1, "a"), call(2, "c", "request_user_input", "{}")].join("\n"));
    rollout.gap();
    assert_eq!(turn(&rollout), (Turn::Unknown, None, false));
    feed(&mut rollout, &call(5, "c", "exec_command", "{}"));
    assert_eq!(turn(&rollout), (Turn::Working, None, false));
    assert!(!rollout.tells_turn());
    feed(&mut rollout, &ended(9, "z"));
    assert_eq!((turn(&rollout), rollout.tells_turn()), ((Turn::Idle, Some(NINE + 9_000), true), true));
}

#[test]
fn null_broken_and_overlong_lines_are_counted_and_passed_over() {
    let mut rollout = read(&[meta(), started(1, "a")].join("\n"));
    let before = rollout.clone();
    feed(&mut rollout, "null\n{\"type\":\"event_msg\",\"payload\":{\"type\":\"task_com\n{}\n{\"payload\":7}");
    rollout.line(Line::Overlong);
    assert_eq!(rollout.lost, 3);
    assert_eq!(Rollout { lost: 0, ..rollout }, before);
}

#[test]
fn a_turn_of_endless_calls_stays_in_bounds() {
    let mut rollout = read(&[meta(), started(1, "a")].join("\n"));
    for at in 0..2_000 {
        feed(&mut rollout, &call(2, &format!("c{at}"), "exec_command", "{}"));
    }
    assert_eq!(rollout.calls.len(), CALLS_MAX);
}

proptest! {
    #[test]
    fn no_bytes_panic(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..8), name in ".{0,80}") {
        let mut rollout = Rollout::default();
        lines.iter().for_each(|line| rollout.line(Line::Whole(line)));
        rollout.turn(childless(), 0);
        thread_of(&name);
        made_at(&name);
    }

    #[test]
    fn where_the_file_is_cut_into_reads_does_not_show(cuts in proptest::collection::vec(0usize..6_000, 0..10)) {
        let text = ["codex-waiting-approval.jsonl", "codex-complete-and-abort.jsonl"].map(fixture).concat();
        prop_assert_eq!(super::super::tail::fed_in_pieces::<Rollout>(text.as_bytes(), cuts), read(&text));
    }
}
