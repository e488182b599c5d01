//! What a transcript of Claude Code says of its turn, from its fixtures and from broken lines.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const NINE: Millis = 1_787_216_400_000; // 2026-08-20T09:00:00Z

fn feed(transcript: &mut Transcript, text: &str) {
    text.lines().for_each(|line| transcript.line(Line::Whole(line.as_bytes())));
}

fn read(text: &str) -> Transcript {
    let mut transcript = Transcript::default();
    feed(&mut transcript, text);
    transcript
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(super::super::fixture(name)).unwrap()
}

fn turn(transcript: &Transcript) -> (Turn, Option<Millis>, bool) {
    let seen = transcript.turn(None);
    (seen.turn, seen.since, seen.confirmed)
}

fn at(second: u32) -> String {
    format!("2026-08-20T09:00:{second:02}.000Z")
}

fn prompt(second: u32, text: &str) -> String {
    json!({"type":"user","cwd":"/home/dev/acme","timestamp":at(second),"message":{"role":"user","content":text}})
        .to_string()
}

fn call(second: u32, id: &str, name: &str) -> String {
    let content = json!([{"type":"tool_use","id":id,"name":name,"input":{}}]);
    json!({"type":"assistant","timestamp":at(second),
           "message":{"model":"claude-example-1","content":content,"stop_reason":"tool_use"}})
    .to_string()
}

fn result(second: u32, id: &str) -> String {
    let content = json!([{"type":"tool_result","tool_use_id":id,"content":"ok"}]);
    json!({"type":"user","timestamp":at(second),"message":{"role":"user","content":content}}).to_string()
}

fn end(second: u32) -> String {
    json!({"type":"assistant","timestamp":at(second),
           "message":{"model":"claude-example-1","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn"}})
    .to_string()
}

#[test]
fn an_idle_session_stays_idle_through_what_is_written_afterwards() {
    let transcript = read(&fixture("claude-idle.jsonl"));
    assert_eq!(turn(&transcript), (Turn::Idle, Some(NINE + 12_000), true));
    assert_eq!(transcript.title(), Some("Rename greeting helper"));
    assert_eq!(transcript.model.as_deref(), Some("claude-example-1"));
    assert_eq!(transcript.cwd.as_deref(), Some(std::path::Path::new("/home/dev/acme")));
    assert_eq!((transcript.started_at, transcript.lost), (Some(NINE), 0));
}

#[test]
fn each_line_of_a_turn_shows_what_it_means_at_its_own_time() {
    let (mut transcript, mut turns) = (Transcript::default(), Vec::new());
    for line in fixture("claude-idle.jsonl").lines() {
        transcript.line(Line::Whole(line.as_bytes()));
        turns.push((turn(&transcript).0, turn(&transcript).1.map(|at| at - NINE)));
    }
    let working = (Turn::Working, Some(0));
    let idle = (Turn::Idle, Some(12_000));
    assert_eq!(turns, [(Turn::Idle, None), working, working, working, idle, idle, idle, idle, idle]);
}

#[test]
fn work_read_from_a_transcript_is_not_confirmed_for_it_may_wait() {
    assert_eq!(turn(&read(&prompt(1, "Go"))), (Turn::Working, Some(NINE + 1_000), false));
}

#[test]
fn an_interrupt_ends_the_turn() {
    let transcript = read(&fixture("claude-interrupted.jsonl"));
    assert_eq!(turn(&transcript), (Turn::Idle, Some(NINE + 620_001), true));
    let transcript = read(&[prompt(1, "Go"), prompt(2, "[Request interrupted by user]")].join("\n"));
    assert_eq!(turn(&transcript), (Turn::Idle, Some(NINE + 2_000), true));
}

#[test]
fn compaction_is_no_prompt_and_an_api_error_ends_the_turn_without_being_a_model() {
    let text = fixture("claude-compact.jsonl");
    let before_the_error = text.lines().take(2).collect::<Vec<_>>().join("\n");
    let mut transcript = read(&[prompt(1, "Go"), end(2)].join("\n"));
    feed(&mut transcript, &before_the_error);
    assert_eq!(turn(&transcript).0, Turn::Idle);
    let mut transcript = read(&prompt(1, "Go"));
    feed(&mut transcript, &text);
    assert_eq!(turn(&transcript), (Turn::Idle, Some(NINE + 3_605_000), true));
    assert_eq!((transcript.model.as_deref(), transcript.title()), (None, Some("Go")));
}

#[test]
fn a_sub_agents_lines_never_change_its_parents_turn() {
    let sub_agent = fixture("claude-subagent.jsonl");
    let mut transcript = read(&prompt(1, "Go"));
    feed(&mut transcript, &sub_agent);
    assert_eq!(turn(&transcript), (Turn::Working, Some(NINE + 1_000), false));
    feed(&mut transcript, &end(9));
    feed(&mut transcript, &sub_agent);
    assert_eq!(turn(&transcript), (Turn::Idle, Some(NINE + 9_000), true));
    assert_eq!(read(&sub_agent), Transcript::default());
}

#[test]
fn an_open_question_waits_until_its_own_answer() {
    let mut transcript =
        read(&[prompt(1, "Go"), call(2, "q", "AskUserQuestion"), call(3, "b", "Bash")].join("\n"));
    assert_eq!(turn(&transcript), (Turn::WaitingInput, Some(NINE + 2_000), true));
    feed(&mut transcript, &result(4, "b"));
    assert_eq!(turn(&transcript).0, Turn::WaitingInput);
    feed(&mut transcript, &result(5, "q"));
    assert_eq!(turn(&transcript), (Turn::Working, Some(NINE + 5_000), false));
    let transcript = read(&[prompt(1, "Go"), call(2, "p", "ExitPlanMode")].join("\n"));
    assert_eq!(turn(&transcript).0, Turn::WaitingApproval);
}

#[test]
fn a_wait_is_cleared_by_a_prompt_an_interrupt_and_an_end() {
    for (line, expected) in [
        (prompt(9, "Never mind"), Turn::Working),
        (prompt(9, "[Request interrupted by user for tool use]"), Turn::Idle),
        (end(9), Turn::Idle),
        (r#"{"type":"system","subtype":"turn_duration"}"#.to_owned(), Turn::Idle),
    ] {
        let text = [prompt(1, "Go"), call(2, "q", "AskUserQuestion"), line.clone()].join("\n");
        assert_eq!(turn(&read(&text)).0, expected, "{line}");
    }
}

#[test]
fn a_slash_command_that_is_no_prompt_leaves_the_turn_as_it_was() {
    let command = prompt(5, "<command-name>/model</command-name>");
    let output = prompt(6, "<local-command-stdout>Set model</local-command-stdout>");
    let mut transcript = read(&[prompt(1, "Go"), end(2), command.clone()].join("\n"));
    assert_eq!(turn(&transcript).0, Turn::Working);
    feed(&mut transcript, &output);
    assert_eq!(turn(&transcript), (Turn::Idle, Some(NINE + 2_000), true));
    let transcript = read(&[command, output].join("\n"));
    assert_eq!((turn(&transcript).0, transcript.title()), (Turn::Idle, None));
}

#[test]
fn what_is_not_activity_changes_nothing() {
    let idle = read(&[prompt(1, "Go"), end(2)].join("\n"));
    for line in [
        r#"{"type":"system","subtype":"away_summary","timestamp":"2026-08-20T09:00:50.000Z"}"#,
        r#"{"type":"system","subtype":"local_command","timestamp":"2026-08-20T09:00:50.000Z"}"#,
        r#"{"type":"last-prompt","lastPrompt":"Go"}"#,
        r#"{"type":"queue-operation","operation":"enqueue","content":"more"}"#,
        r#"{"type":"progress","data":{"type":"hook_progress"}}"#,
        r#"{"type":"file-history-snapshot"}"#,
        r#"{"type":"a-type-of-next-year","timestamp":"2026-08-20T09:00:50.000Z"}"#,
        r#"{"type":"user","isMeta":true,"message":{"content":"caveat"},"timestamp":"2026-08-20T09:00:50.000Z"}"#,
        r#"{"type":"user"}"#,
        r#"{"type":7}"#,
        "{}",
        "",
    ] {
        let mut transcript = idle.clone();
        feed(&mut transcript, line);
        assert_eq!(transcript, idle, "{line}");
    }
}

#[test]
fn null_broken_and_strange_lines_are_counted_and_passed_over() {
    let mut transcript = read(&[prompt(1, "Go"), end(2)].join("\n"));
    feed(
        &mut transcript,
        "null\n[]\n{\"type\":\"us\n{\"type\":\"user\",\"mes{\"type\":\"ai-title\",\"aiTitle\":\"Saved\"}",
    );
    assert_eq!((turn(&transcript).0, transcript.lost, transcript.title()), (Turn::Idle, 4, Some("Saved")));
    let strange = json!({"type":"assistant","message":{"content":"text","stop_reason":7,"model":null}});
    feed(&mut transcript, &strange.to_string());
    assert_eq!(turn(&transcript).0, Turn::Working);
}

#[test]
fn a_line_too_long_to_read_makes_the_turn_uncertain_not_another() {
    let mut transcript = read(&[prompt(1, "Go"), end(2)].join("\n"));
    transcript.line(Line::Overlong);
    assert_eq!(turn(&transcript), (Turn::Idle, Some(NINE + 2_000), false));
}

#[test]
fn a_record_without_a_time_makes_no_time_up() {
    for stamp in [json!(null), json!("soon"), json!(-1)] {
        let line = json!({"type":"user","timestamp":stamp,"message":{"content":"Go"}}).to_string();
        assert_eq!(turn(&read(&line)), (Turn::Working, None, false));
    }
}

#[test]
fn of_a_tail_that_begins_amid_a_turn_the_start_is_not_made_up() {
    let mut transcript = read(&prompt(1, "Go"));
    transcript.gap();
    assert_eq!(turn(&transcript), (Turn::Unknown, None, false));
    assert!(!transcript.tells_turn());
    feed(&mut transcript, &result(30, "x"));
    assert_eq!(turn(&transcript), (Turn::Working, None, false));
    feed(&mut transcript, &end(40));
    assert_eq!(turn(&transcript), (Turn::Idle, Some(NINE + 40_000), true));
}

#[test]
fn a_turn_left_open_by_a_crash_does_not_go_on_in_the_next_process() {
    let transcript = read(&prompt(1, "Go"));
    let crashed = transcript.turn(Some(NINE + 60_000));
    assert_eq!(crashed, TurnSeen::likely(Turn::Idle, Some(NINE + 60_000)));
    assert_eq!(transcript.turn(Some(NINE - 60_000)).turn, Turn::Working);
}

#[test]
fn titles_come_in_their_order_and_prompts_that_are_none_give_none() {
    let mut transcript = read(&prompt(1, "<system-reminder>x</system-reminder>"));
    assert_eq!(transcript.title(), None);
    feed(&mut transcript, &prompt(2, "First words\nand more"));
    assert_eq!(transcript.title(), Some("First words"));
    feed(&mut transcript, r#"{"type":"summary","summary":"Sum","leafUuid":"x"}"#);
    feed(&mut transcript, r#"{"type":"custom-title","customTitle":"Mine"}"#);
    feed(&mut transcript, r#"{"type":"ai-title","aiTitle":"Machine's"}"#);
    assert_eq!(transcript.title(), Some("Mine"));
}

#[test]
fn the_folder_is_the_one_the_session_began_in() {
    let mut transcript = read(&prompt(1, "Go"));
    feed(&mut transcript, r#"{"type":"user","cwd":"/elsewhere","message":{"content":"cd"}}"#);
    assert_eq!(transcript.cwd.as_deref(), Some(std::path::Path::new("/home/dev/acme")));
}

proptest! {
    #[test]
    fn no_bytes_panic(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..8)) {
        let mut transcript = Transcript::default();
        lines.iter().for_each(|line| transcript.line(Line::Whole(line)));
        transcript.turn(Some(0));
    }

    #[test]
    fn where_the_file_is_cut_into_reads_does_not_show(cuts in proptest::collection::vec(0usize..6_000, 0..10)) {
        let text = ["claude-idle.jsonl", "claude-interrupted.jsonl", "claude-compact.jsonl"].map(fixture).concat();
        prop_assert_eq!(super::super::tail::fed_in_pieces::<Transcript>(text.as_bytes(), cuts), read(&text));
    }
}
