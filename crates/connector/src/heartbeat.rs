//! What a report says and when the next one is due: pure. Who sends it, and what its answer changes, is
//! the loop's business.

use crate::privacy::{AllShown, Native, Shown};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use teamlamp_clock::Moment;
use teamlamp_wire::Millis;
use teamlamp_wire::heartbeat::{Activity, Binding, Heartbeat, Root};
use teamlamp_wire::id::MachineId;
use teamlamp_wire::limits::{BINDINGS_MAX, ROOTS_MAX};
use teamlamp_wire::session::{RegisterSession, Turn};

/// What of a model's name is told, in characters.
const MODEL_CHARS: usize = 128;
/// The most harnesses that one root names (spec 02).
const HARNESSES: usize = 32;

/// Who reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The machine.
    pub machine: MachineId,
    /// This run of its connector.
    pub incarnation: String,
}

/// What a report says, without who says it when: two that are equal need no second sending at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    live: AllShown,
    gone: BTreeMap<Native, Option<Millis>>,
}

impl Said {
    /// What is to be said now: the live sessions, and of those that were told before and are `gone`, that
    /// and when they ended. More than a report holds is left out, the last by name.
    pub fn of(shown: &AllShown, gone: BTreeMap<Native, Option<Millis>>) -> Self {
        let mut live: AllShown = BTreeMap::new();
        let mut roots = BTreeSet::new();
        for (native, session) in shown.iter().filter(|(_, session)| session.live) {
            let fits = roots.contains(&session.root.id) || roots.len() < ROOTS_MAX;
            if live.len() + gone.len() < BINDINGS_MAX && fits {
                roots.insert(session.root.id.clone());
                live.insert(native.clone(), session.clone());
            }
        }
        Self { live, gone }
    }

    /// The live sessions of it.
    pub fn live(&self) -> &AllShown {
        &self.live
    }

    /// The whole report. A session that ended is `ended` in the activity of the very report in which its
    /// binding is gone (spec 03).
    pub fn report(&self, who: &Identity, sequence: u64) -> Heartbeat {
        let live = self.live.iter();
        let activity = live
            .clone()
            .map(|(native, session)| activity(native, session.turn, session.since))
            .chain(self.gone.iter().map(|(native, since)| activity(native, Turn::Ended, *since)));
        Heartbeat {
            incarnation_id: who.incarnation.clone(),
            sequence,
            bindings: live.map(|(native, session)| binding(native, session, who)).collect(),
            roots: self.roots(who),
            host_key_id: None,
            activity: Some(activity.collect()),
        }
    }

    /// The last report of a run that ends: no bindings, activity as it was (spec 02).
    pub fn farewell(&self, who: &Identity, sequence: u64) -> Heartbeat {
        Heartbeat { bindings: Vec::new(), activity: None, ..self.report(who, sequence) }
    }

    /// The live sessions that the team's server has to learn of, or learn something new about, before they
    /// are bound.
    pub fn registrations(&self, registered: &BTreeMap<Native, RegisterSession>) -> Vec<RegisterSession> {
        let all = self.live.iter().map(|(native, session)| (native, registration(native, session)));
        all.filter(|(native, wanted)| registered.get(native) != Some(wanted))
            .map(|(_, wanted)| wanted)
            .collect()
    }

    fn roots(&self, who: &Identity) -> Vec<Root> {
        let mut roots: BTreeMap<&str, Root> = BTreeMap::new();
        for (native, session) in &self.live {
            let root = roots.entry(&session.root.id).or_insert_with(|| Root {
                id: session.root.id.clone(),
                machine_id: who.machine.clone(),
                name: session.root.name.clone(),
                harnesses: Vec::new(),
            });
            if !root.harnesses.contains(&native.harness) && root.harnesses.len() < HARNESSES {
                root.harnesses.push(native.harness.clone());
            }
        }
        roots.into_values().collect()
    }
}

fn activity(native: &Native, turn: Turn, since: Option<Millis>) -> Activity {
    let (harness, native_id) = (native.harness.clone(), native.native_id.clone());
    Activity { harness, native_id, turn: turn.as_str().to_owned(), since }
}

fn binding(native: &Native, session: &Shown, who: &Identity) -> Binding {
    let mut descriptor = Map::new();
    descriptor.insert("root_id".into(), Value::from(session.root.id.as_str()));
    descriptor.insert("started_at".into(), Value::from(session.started_at));
    descriptor.insert("confirmed".into(), Value::from(session.confirmed));
    if let Some(model) = &session.model {
        descriptor.insert("model".into(), Value::from(cut(model)));
    }
    Binding {
        id: binding_id(native),
        machine_id: who.machine.clone(),
        incarnation_id: who.incarnation.clone(),
        harness: native.harness.clone(),
        native_session_id: native.native_id.clone(),
        descriptor,
    }
}

/// How a session is registered.
pub fn registration(native: &Native, session: &Shown) -> RegisterSession {
    RegisterSession {
        harness: native.harness.clone(),
        native_id: native.native_id.clone(),
        root_id: Some(session.root.id.clone()),
        title: session.title.clone(),
        model: session.model.as_deref().map(cut),
        started_at: session.started_at,
    }
}

fn cut(model: &str) -> String {
    model.chars().take(MODEL_CHARS).collect()
}

/// The same for the same session over all runs, so that a restart is no difference to the server.
fn binding_id(native: &Native) -> String {
    let digest = Sha256::digest(format!("{}\0{}", native.harness, native.native_id));
    digest.iter().take(16).fold("bind_".to_owned(), |id, byte| format!("{id}{byte:02x}"))
}

/// How often to report: what the server says, within reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// When nothing changes.
    pub every: Duration,
    /// Between reports of changes, at least.
    pub least: Duration,
}

impl Pace {
    /// The intervals that a server names, kept where its own presence still works.
    pub fn of(heartbeat_ms: i64, report_min_ms: i64) -> Self {
        let least = teamlamp_clock::ms(report_min_ms.clamp(1_000, 15_000));
        Self { every: teamlamp_clock::ms(heartbeat_ms.clamp(1_000, 30_000)).max(least), least }
    }

    /// When the next report is due: at once for the first one and, at most each `least`, for a change;
    /// else after `every` as `jittered` by the caller.
    pub fn next(&self, last: Option<Moment>, changed: bool, jittered: Duration, now: Moment) -> Moment {
        match last {
            None => now,
            Some(last) => last + if changed { self.least } else { jittered },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::tests::{found, session};
    use crate::privacy::{Sharing, shown};
    use serde_json::json;

    fn who() -> Identity {
        Identity { machine: "mach_1".into(), incarnation: "inc".into() }
    }

    fn two() -> Said {
        let found = found(&[
            ("a", session("acme", Turn::Working, 50)),
            ("b", session("acme", Turn::WaitingApproval, 60)),
            ("c", session("acme", Turn::Ended, 70)),
        ]);
        Said::of(&shown(&found, &Sharing::default()), BTreeMap::new())
    }

    #[test]
    fn a_report_names_live_sessions_their_roots_and_their_turns() {
        let beat = two().report(&who(), 3);
        assert_eq!(beat.check_fields().and_then(|()| beat.check_contents(&"mach_1".into())), Ok(()));
        assert_eq!((beat.bindings.len(), beat.roots.len(), beat.sequence), (2, 1, 3));
        assert_eq!(beat.roots[0].name, "acme");
        assert_eq!(
            Value::Object(beat.bindings[0].descriptor.clone()),
            json!({"root_id": "root_acme", "started_at": 1, "confirmed": true, "model": "m1"})
        );
        let turns: Vec<_> =
            beat.activity.unwrap().into_iter().map(|a| (a.native_id, a.turn, a.since)).collect();
        let expected =
            [("a".into(), "working".into(), Some(50)), ("b".into(), "waiting_approval".into(), Some(60))];
        assert_eq!(turns, expected);
    }

    #[test]
    fn an_end_is_told_in_the_report_in_which_the_binding_is_gone() {
        let gone = BTreeMap::from([(Native { harness: "codex".into(), native_id: "z".into() }, Some(90))]);
        let beat = Said::of(&AllShown::new(), gone).report(&who(), 1);
        assert!(beat.bindings.is_empty());
        let said = &beat.activity.unwrap()[0];
        assert_eq!((said.native_id.as_str(), said.turn.as_str(), said.since), ("z", "ended", Some(90)));
    }

    #[test]
    fn a_farewell_has_no_bindings_and_leaves_the_activity_alone() {
        let beat = two().farewell(&who(), 9);
        assert!(beat.bindings.is_empty() && beat.activity.is_none() && beat.sequence == 9);
    }

    #[test]
    fn a_binding_keeps_its_id_over_runs() {
        let first = two().report(&who(), 1).bindings[0].id.clone();
        let other = Identity { incarnation: "other".into(), ..who() };
        assert_eq!(two().report(&other, 1).bindings[0].id, first);
        assert_ne!(two().report(&who(), 1).bindings[1].id, first);
    }

    #[test]
    fn what_is_new_or_changed_is_registered_first() {
        let mut registered = BTreeMap::new();
        let wanted = two().registrations(&registered);
        assert_eq!(wanted.len(), 2, "only live ones");
        for session in wanted {
            let native = Native { harness: session.harness.clone(), native_id: session.native_id.clone() };
            registered.insert(native, session);
        }
        assert!(two().registrations(&registered).is_empty());
        registered.values_mut().next().unwrap().model = None;
        assert_eq!(two().registrations(&registered).len(), 1);
    }

    #[test]
    fn more_sessions_than_a_report_holds_are_cut_to_one_that_is_accepted() {
        let template = two().live.into_values().next().unwrap();
        let many: AllShown = (0..5000)
            .map(|n| (Native { harness: "codex".into(), native_id: format!("{n:04}") }, template.clone()))
            .collect();
        let gone = BTreeMap::from([(Native { harness: "codex".into(), native_id: "z".into() }, None)]);
        let beat = Said::of(&many, gone).report(&who(), 1);
        assert_eq!(beat.check_fields().and_then(|()| beat.check_contents(&"mach_1".into())), Ok(()));
        assert_eq!(beat.bindings.len(), 4095);
    }

    #[test]
    fn reports_are_due_at_once_on_change_and_else_by_the_interval() {
        let pace = Pace::of(15_000, 1_000);
        let (now, jittered) = (Moment::now(), Duration::from_millis(14_200));
        assert_eq!(pace.next(None, false, jittered, now), now);
        assert_eq!(pace.next(Some(now), true, jittered, now), now + Duration::from_secs(1));
        assert_eq!(pace.next(Some(now), false, jittered, now), now + jittered);
        assert_eq!(Pace::of(0, 0), Pace { every: Duration::from_secs(1), least: Duration::from_secs(1) });
    }
}
