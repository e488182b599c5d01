//! Claude Code's live registry: one small file for each running process, `sessions/<pid>.json`, with the
//! state that no transcript tells. Pure: names and bytes in, entries and turns out. Its fields are not
//! documented by the vendor: what is not known here is `unknown`, never guessed.

use super::harness::{TurnSeen, is_uuid};
use super::records::{self, Record, moment, one_line, text};
use serde_json::Value;
use std::path::PathBuf;
use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;

/// The largest file that is taken for an entry.
pub(super) const ENTRY_BYTES: u64 = 64 << 10;

/// One running process by its own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The process.
    pub(super) pid: u32,
    /// What tells it from a later process of the same number.
    pub(super) proc_start: Option<String>,
    /// Its session now.
    pub(super) session_id: String,
    /// Its folder.
    pub(super) cwd: PathBuf,
    /// When it began.
    pub(super) started_at: Option<Millis>,
    /// What it calls the session.
    pub(super) name: Option<String>,
    /// What it says it does; absent from processes that run under an SDK.
    pub(super) seen: Option<TurnSeen>,
}

/// The process of a registry file's name. Exactly digits and `.json`: the files beside it hold peers'
/// tokens, some of them JSON too, and are never opened.
pub(super) fn pid_of(file_name: &str) -> Option<u32> {
    let digits = file_name.strip_suffix(".json")?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The entry of a registry file, if it is one.
pub(super) fn read(pid: u32, bytes: &[u8]) -> Option<Entry> {
    let reading = records::read(bytes);
    let record = reading.record.filter(|_| !reading.lost)?;
    let number_or_text = |field| match record.get(field)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    if number_or_text("pid").is_some_and(|told| told != pid.to_string()) {
        return None;
    }
    Some(Entry {
        pid,
        proc_start: number_or_text("procStart"),
        session_id: text(&record, "sessionId").filter(|id| is_uuid(id))?.to_owned(),
        cwd: text(&record, "cwd").map(PathBuf::from).filter(|path| path.is_absolute())?,
        started_at: moment(record.get("startedAt")),
        name: text(&record, "name").and_then(one_line),
        seen: status(&record),
    })
}

fn status(record: &Record) -> Option<TurnSeen> {
    let since = moment(record.get("statusUpdatedAt")).or_else(|| moment(record.get("updatedAt")));
    let turn = match record.get("status")?.as_str()? {
        "busy" => Turn::Working,
        // At `shell` the prompt is idle and only a background command lives.
        "idle" | "shell" => Turn::Idle,
        "waiting" => match text(record, "waitingFor") {
            Some("permission prompt" | "sandbox request" | "worker request") => Turn::WaitingApproval,
            Some("input needed" | "dialog open") => Turn::WaitingInput,
            _ => Turn::Unknown,
        },
        _ => Turn::Unknown,
    };
    Some(if turn == Turn::Unknown { TurnSeen::likely(turn, since) } else { TurnSeen::known(turn, since) })
}

impl Entry {
    /// How much a person wants to know of this entry rather than of another process of the same session.
    pub(super) fn weight(&self) -> (u8, Option<Millis>) {
        let Some(seen) = self.seen else { return (0, self.started_at) };
        let rank = match seen.turn {
            turn if turn.waits() => 4,
            Turn::Working => 3,
            Turn::Idle => 2,
            _ => 1,
        };
        (rank, seen.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn entry(change: impl FnOnce(&mut Value)) -> Option<Entry> {
        let bytes = std::fs::read(super::super::fixture("claude-registry-4242.json")).unwrap();
        let mut value: Value = serde_json::from_slice(&bytes).unwrap();
        change(&mut value);
        read(4242, value.to_string().as_bytes())
    }

    fn turn(status: &str, waiting_for: Option<&str>) -> TurnSeen {
        let change = |v: &mut Value| {
            v["status"] = json!(status);
            v.as_object_mut().unwrap().remove("waitingFor");
            if let Some(what) = waiting_for {
                v["waitingFor"] = json!(what);
            }
        };
        entry(change).unwrap().seen.unwrap()
    }

    #[test]
    fn only_a_pid_and_json_is_a_registry_file() {
        assert_eq!(pid_of("4242.json"), Some(4242));
        let others = [
            "4242.a1b2.key",
            "4242.key",
            "pid-4242.json",
            "4242.json.tmp",
            ".json",
            "a.json",
            "4242",
            "-1.json",
            "99999999999.json",
            "+1.json",
        ];
        for other in others {
            assert_eq!(pid_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_entry_waits_for_approval_since_its_status_changed() {
        let entry = entry(|_| ()).unwrap();
        assert_eq!(entry.proc_start.as_deref(), Some("8123456"));
        assert_eq!(entry.started_at, Some(1_787_216_395_000));
        assert_eq!(entry.seen, Some(TurnSeen::known(Turn::WaitingApproval, Some(1_787_216_404_000))));
    }

    #[test]
    fn every_status_has_its_turn_and_a_strange_one_is_unknown() {
        let known = [
            ("busy", None, Turn::Working),
            ("idle", None, Turn::Idle),
            ("shell", None, Turn::Idle),
            ("waiting", Some("permission prompt"), Turn::WaitingApproval),
            ("waiting", Some("sandbox request"), Turn::WaitingApproval),
            ("waiting", Some("worker request"), Turn::WaitingApproval),
            ("waiting", Some("input needed"), Turn::WaitingInput),
            ("waiting", Some("dialog open"), Turn::WaitingInput),
        ];
        for (status, waiting_for, expected) in known {
            let seen = turn(status, waiting_for);
            assert_eq!((seen.turn, seen.confirmed), (expected, true), "{status} {waiting_for:?}");
        }
        for (status, waiting_for) in [("compacting", None), ("waiting", None), ("waiting", Some("a bus"))] {
            let seen = turn(status, waiting_for);
            assert_eq!((seen.turn, seen.confirmed), (Turn::Unknown, false), "{status} {waiting_for:?}");
        }
        assert_eq!(entry(|v| v["status"] = json!(7)).unwrap().seen, None);
    }

    #[test]
    fn an_older_or_foreign_file_is_no_entry() {
        assert_eq!(read(1, br#"{"session_id":"11111111-1111-4111-8111-111111111111","cwd":"/x"}"#), None);
        assert_eq!(entry(|v| v["pid"] = json!(7)), None);
        assert_eq!(entry(|v| v["sessionId"] = json!("../../etc/passwd")), None);
        assert_eq!(entry(|v| v["cwd"] = json!("relative")), None);
        for bytes in ["", "null", "[]", "{", "{\"pid\":4242"] {
            assert_eq!(read(4242, bytes.as_bytes()), None, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(1, &bytes);
        }
    }
}
