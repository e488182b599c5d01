//! A machine's periodic full report and its answer (spec 02).

use crate::id::MachineId;
use crate::limits::{BINDINGS_MAX, DESCRIPTOR_BYTES, JSON_DEPTH, ROOTS_MAX, SEQUENCE_MAX};
use crate::machine::{Machine, is_key};
use crate::{Millis, json};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// `POST …/machines/{machine}/heartbeat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Heartbeat {
    /// The run of the connector; 1 to 128 characters.
    pub incarnation_id: String,
    /// Counts the reports of this run from 1, to 2^53-1.
    pub sequence: u64,
    /// The native sessions that run here; at most 4096.
    pub bindings: Vec<Binding>,
    /// The folders in which they do; at most 1024.
    pub roots: Vec<Root>,
    /// What the machine says of its hardware: `^[A-Za-z0-9_-]{16,128}$`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_key_id: Option<String>,
    /// What the sessions do. Absent: as last reported; empty: nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Vec<Activity>>,
}

/// A folder on the machine in which harnesses work, as the machine chooses to name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Root {
    /// The machine's id of it; 1 to 128 characters.
    pub id: String,
    /// This machine.
    pub machine_id: MachineId,
    /// What it is called; 1 to 128 characters.
    pub name: String,
    /// The programs seen there; at most 32 of 1 to 64 characters.
    pub harnesses: Vec<String>,
}

/// 'This native session runs on this machine in this incarnation, here.'
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Binding {
    /// The machine's id of it; 1 to 128 characters.
    pub id: String,
    /// This machine.
    pub machine_id: MachineId,
    /// This heartbeat's.
    pub incarnation_id: String,
    /// The program; 1 to 64 characters.
    pub harness: String,
    /// Its own id of the session; 1 to 256 characters.
    pub native_session_id: String,
    /// Everything else: `root_id`, `started_at`, `model`, `confirmed`, …; at most 8 KiB.
    #[serde(flatten)]
    pub descriptor: Map<String, Value>,
}

/// What one native session does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Activity {
    /// The program; 1 to 64 characters.
    pub harness: String,
    /// Its own id of the session; 1 to 256 characters.
    pub native_id: String,
    /// A [`crate::session::Turn`] as a word; 1 to 32 characters.
    pub turn: String,
    /// Since when, by the machine's clock.
    #[serde(default)]
    pub since: Option<Millis>,
}

/// Why a heartbeat's contents are refused: one sentence that says which item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

/// `what` is made only where it is wanted: thousands of items are looked at, and most are fine.
fn length<W: fmt::Display>(what: impl FnOnce() -> W, text: &str, max: usize) -> Result<(), Violation> {
    // Characters are never more than bytes.
    let chars = if text.len() <= max { text.len() } else { text.chars().count() };
    if (1..=max).contains(&chars) {
        return Ok(());
    }
    let what = what();
    Err(Violation(format!("{what} has {chars} characters: allowed are 1 to {max}.")))
}

/// How many bytes a value has as JSON, without writing it anywhere.
fn json_size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// How deep a binding's own fields may nest: the report, its list and the binding are levels too.
const DESCRIPTOR_LEVELS: usize = JSON_DEPTH - 3;

/// By hand, since what is flattened by derivation is read twice and hides duplicate keys.
impl<'de> Deserialize<'de> for Binding {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Binding;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a binding")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Binding, A::Error> {
                let mut listed: [Option<String>; 5] = Default::default();
                let mut descriptor = Map::new();
                while let Some(key) = entries.next_key_seed(json::Key)? {
                    match LISTED.iter().position(|name| *name == key) {
                        Some(place) if listed[place].is_some() => return Err(json::twice(&key)),
                        Some(place) => listed[place] = Some(entries.next_value()?),
                        None if descriptor.contains_key(key.as_ref()) => return Err(json::twice(&key)),
                        None => {
                            let value =
                                entries.next_value_seed(json::Strict { levels: DESCRIPTOR_LEVELS })?;
                            descriptor.insert(key.into_owned(), value);
                        }
                    }
                }
                let mut names = LISTED.iter();
                let mut fields = listed.into_iter().map(|value| {
                    let name = names.next().copied().unwrap_or_default();
                    value.ok_or_else(|| de::Error::missing_field(name))
                });
                let mut next = || fields.next().unwrap_or_else(|| Err(de::Error::missing_field("id")));
                Ok(Binding {
                    id: next()?,
                    machine_id: MachineId(next()?),
                    incarnation_id: next()?,
                    harness: next()?,
                    native_session_id: next()?,
                    descriptor,
                })
            }
        }
        input.deserialize_map(Fields)
    }
}

/// The fields of a binding that are none of its descriptor's, in their order.
const LISTED: [&str; 5] = ["id", "machine_id", "incarnation_id", "harness", "native_session_id"];

impl Heartbeat {
    /// Reads a report, as strictly as [`json::read`] reads: the types refuse duplicate and unknown keys,
    /// and what they don't list is read strictly by itself, so that no second pass is needed.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        json::fit(bytes)
    }

    /// Checks the fields that come before everything else: incarnation, sequence, counts, host key.
    pub fn check_fields(&self) -> Result<(), Violation> {
        length(|| "incarnation_id", &self.incarnation_id, 128)?;
        if !(1..=SEQUENCE_MAX).contains(&self.sequence) {
            return Err(Violation(format!("sequence must be from 1 to {SEQUENCE_MAX}.")));
        }
        let activity = self.activity.as_deref().unwrap_or_default();
        for (what, count, max) in [
            ("bindings", self.bindings.len(), BINDINGS_MAX),
            ("roots", self.roots.len(), ROOTS_MAX),
            ("activity", activity.len(), BINDINGS_MAX),
        ] {
            if count > max {
                return Err(Violation(format!("{what} has {count} items: at most {max} are read.")));
            }
        }
        if self.host_key_id.as_deref().is_some_and(|k| !is_key(k)) {
            return Err(Violation("host_key_id must be 16 to 128 of A-Z, a-z, 0-9, _ and -.".into()));
        }
        Ok(())
    }

    /// Checks the contents of roots, bindings and activity for the machine that reports them.
    pub fn check_contents(&self, machine: &MachineId) -> Result<(), Violation> {
        let mut ids = BTreeSet::new();
        for root in &self.roots {
            let named = || short(&root.id);
            length(|| "The id of a root", &root.id, 128)?;
            length(|| format!("The name of root `{}`", named()), &root.name, 128)?;
            if root.machine_id != *machine {
                return Err(Violation(format!("Root `{}` names another machine.", named())));
            }
            if root.harnesses.len() > 32 {
                return Err(Violation(format!("Root `{}` names more than 32 harnesses.", named())));
            }
            for harness in &root.harnesses {
                length(|| format!("A harness of root `{}`", named()), harness, 64)?;
            }
            if !ids.insert(&root.id) {
                return Err(Violation(format!("Root `{}` is listed twice.", named())));
            }
        }
        for binding in &self.bindings {
            let named = || short(&binding.id);
            length(|| "The id of a binding", &binding.id, 128)?;
            length(|| format!("harness of binding `{}`", named()), &binding.harness, 64)?;
            let native = &binding.native_session_id;
            length(|| format!("native_session_id of binding `{}`", named()), native, 256)?;
            if binding.machine_id != *machine {
                return Err(Violation(format!("Binding `{}` names another machine.", named())));
            }
            if binding.incarnation_id != self.incarnation_id {
                return Err(Violation(format!("Binding `{}` names another incarnation.", named())));
            }
            if json_size(&binding.descriptor) > DESCRIPTOR_BYTES {
                return Err(Violation(format!("The descriptor of binding `{}` is over 8 KiB.", named())));
            }
        }
        for item in self.activity.iter().flatten() {
            length(|| "harness of an activity", &item.harness, 64)?;
            length(|| "native_id of an activity", &item.native_id, 256)?;
            length(|| format!("turn of activity `{}`", short(&item.native_id)), &item.turn, 32)?;
        }
        Ok(())
    }

    /// The bindings by id; of a repeated id the last counts.
    pub fn distinct_bindings(&self) -> Vec<&Binding> {
        let mut seen = BTreeSet::new();
        let mut last: Vec<&Binding> =
            self.bindings.iter().rev().filter(|b| seen.insert(b.id.as_str())).collect();
        last.sort_by(|a, b| a.id.cmp(&b.id));
        last
    }

    /// The activity sorted by (harness, native id); of a repeated pair the last counts.
    pub fn distinct_activity(&self) -> Option<Vec<&Activity>> {
        let items = self.activity.as_ref()?;
        let mut seen = BTreeSet::new();
        let mut last: Vec<&Activity> =
            items.iter().rev().filter(|a| seen.insert((a.harness.as_str(), a.native_id.as_str()))).collect();
        last.sort_by(|a, b| (&a.harness, &a.native_id).cmp(&(&b.harness, &b.native_id)));
        Some(last)
    }
}

fn short(id: &str) -> String {
    crate::text::visible(&id.chars().take(40).collect::<String>())
}

/// The answer to a heartbeat, flat in `data`: the machine's fields and these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeartbeatAnswer {
    /// The machine as it now is.
    #[serde(flatten)]
    pub machine: Machine,
    /// The machine's sessions that someone follows live now; at most 90.
    pub watched: Vec<Watched>,
    /// Bindings whose native session this machine's source has not registered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbound_bindings: Vec<Unbound>,
}

/// A native session that someone follows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// The program.
    pub harness: String,
    /// Its own id of the session.
    pub native_id: String,
}

/// A binding without a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unbound {
    /// The binding's id.
    pub id: String,
    /// The program.
    pub harness: String,
    /// Its own id of the session.
    pub native_session_id: String,
    /// `no_session`.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn beat() -> Heartbeat {
        serde_json::from_value(json!({
            "incarnation_id": "inc", "sequence": 1,
            "bindings": [{"id": "b", "machine_id": "mach_1", "incarnation_id": "inc",
                          "harness": "codex", "native_session_id": "n", "root_id": "r", "confirmed": true}],
            "roots": [{"id": "r", "machine_id": "mach_1", "name": "acme", "harnesses": ["codex"]}],
            "activity": [{"harness": "codex", "native_id": "n", "turn": "idle", "since": null}],
        }))
        .unwrap()
    }

    fn refused(change: impl FnOnce(&mut Heartbeat)) -> String {
        let mut it = beat();
        change(&mut it);
        it.check_fields().and_then(|()| it.check_contents(&"mach_1".into())).unwrap_err().0
    }

    #[test]
    fn a_good_report_passes_and_keeps_its_descriptor() {
        let it = beat();
        assert_eq!(it.check_fields().and_then(|()| it.check_contents(&"mach_1".into())), Ok(()));
        assert_eq!(it.bindings[0].descriptor["root_id"], "r");
    }

    #[test]
    fn a_report_is_read_as_strictly_as_any_body() {
        let body = |binding: &str| {
            format!(r#"{{"incarnation_id":"i","sequence":1,"roots":[],"bindings":[{binding}]}}"#)
        };
        let fine = r#""id":"b","machine_id":"m","incarnation_id":"i","harness":"h","native_session_id":"n""#;
        let read = |binding: &str| Heartbeat::read(body(binding).as_bytes());
        let nested = |n: usize| format!(r#"{{{fine},"x":{}1{}}}"#, "[".repeat(n), "]".repeat(n));
        assert!(read(&format!("{{{fine}}}")).is_ok());
        for bad in [
            format!(r#"{{{fine},"id":"c"}}"#),
            format!(r#"{{{fine},"x":1,"x":2}}"#),
            format!(r#"{{{fine},"x":{{"a":[{{"b":1,"b":1}}]}}}}"#),
            r#"{"id":"b"}"#.to_owned(),
            format!(r#"{{{fine},"harness":5}}"#),
            "[1]".to_owned(),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
            // What one way of reading refuses, the other does too.
            assert!(json::read::<Heartbeat>(body(&bad).as_bytes()).is_err(), "{bad}");
        }
        for levels in 60..63 {
            let whole = body(&nested(levels));
            assert_eq!(
                Heartbeat::read(whole.as_bytes()).is_ok(),
                json::check(whole.as_bytes()).is_ok(),
                "{levels}"
            );
        }
        for bad in
            [r#"{"incarnation_id":"i","incarnation_id":"i","sequence":1,"roots":[],"bindings":[]}"#, "{} x"]
        {
            assert!(Heartbeat::read(bad.as_bytes()).is_err());
        }
    }

    #[test]
    fn each_limit_says_which_item() {
        assert!(refused(|h| h.incarnation_id = String::new()).contains("incarnation_id"));
        assert!(refused(|h| h.sequence = 0).contains("sequence"));
        assert!(refused(|h| h.sequence = 1 << 53).contains("sequence"));
        assert!(refused(|h| h.bindings = vec![h.bindings[0].clone(); 4097]).contains("bindings"));
        assert!(refused(|h| h.roots = vec![h.roots[0].clone(); 1025]).contains("roots"));
        assert!(
            refused(|h| h.activity = Some(vec![h.activity.clone().unwrap()[0].clone(); 4097]))
                .contains("activity")
        );
        assert!(refused(|h| h.host_key_id = Some("short".into())).contains("host_key_id"));
        assert!(refused(|h| h.roots.push(h.roots[0].clone())).contains("twice"));
        assert!(refused(|h| h.roots[0].machine_id = "mach_2".into()).contains("another machine"));
        assert!(refused(|h| h.roots[0].harnesses = vec!["a".into(); 33]).contains("32"));
        assert!(refused(|h| h.roots[0].name = "x".repeat(129)).contains("name of root"));
        assert!(refused(|h| h.bindings[0].machine_id = "mach_2".into()).contains("another machine"));
        assert!(refused(|h| h.bindings[0].incarnation_id = "old".into()).contains("incarnation"));
        assert!(refused(|h| h.bindings[0].native_session_id = "x".repeat(257)).contains("native_session_id"));
        let big = json!("x".repeat(9000));
        assert!(
            refused(|h| {
                h.bindings[0].descriptor.insert("t".into(), big);
            })
            .contains("8 KiB")
        );
        assert!(refused(|h| h.activity.as_mut().unwrap()[0].turn = String::new()).contains("turn"));
    }

    #[test]
    fn of_a_repeated_id_the_last_counts() {
        let mut it = beat();
        let mut second = it.bindings[0].clone();
        second.harness = "claude-code".into();
        it.bindings.push(second);
        assert_eq!(it.distinct_bindings().len(), 1);
        assert_eq!(it.distinct_bindings()[0].harness, "claude-code");
        let mut later = it.activity.clone().unwrap()[0].clone();
        later.turn = "working".into();
        it.activity.as_mut().unwrap().push(later);
        assert_eq!(it.distinct_activity().unwrap()[0].turn, "working");
    }
}
