//! What of the found sessions may leave this machine: pure. A hidden root leaves nothing at all; a title
//! leaves only where a sync rule shares titles. Everything that is sent goes through [`shown`].

use crate::sessions::{Found, FoundRoot};
use std::collections::{BTreeMap, BTreeSet};
use teamlamp_wire::Millis;
use teamlamp_wire::machine::SyncRule;
use teamlamp_wire::session::Turn;

/// A native session by its program and its own id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Native {
    /// The program.
    pub harness: String,
    /// Its own id of the session.
    pub native_id: String,
}

/// What may be told of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its folder, as it may be named.
    pub root: FoundRoot,
    /// Its title, where the root shares it.
    pub title: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// When it began.
    pub started_at: Option<Millis>,
    /// What it does.
    pub turn: Turn,
    /// Since when.
    pub since: Option<Millis>,
    /// Whether that is known.
    pub confirmed: bool,
    /// Whether it lives; else it has just ended.
    pub live: bool,
}

/// What may be told of all sessions.
pub type AllShown = BTreeMap<Native, Shown>;

/// What the person and the team decided about sharing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    /// Ids or names of roots of which nothing leaves.
    pub hidden: BTreeSet<String>,
    /// The team's sync rules of this machine.
    pub rules: Vec<SyncRule>,
}

impl Sharing {
    /// Whether nothing of a root leaves.
    pub fn hides(&self, root: &FoundRoot) -> bool {
        self.hidden.contains(&root.id) || self.hidden.contains(&root.name)
    }

    /// Whether titles of a root's sessions leave: as the rule says that names most of (root, harness).
    pub fn shares_titles(&self, root_id: &str, harness: &str) -> bool {
        let fits = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        self.rules
            .iter()
            .filter(|r| r.state != "removed" && fits(&r.root_id, root_id) && fits(&r.harness, harness))
            .max_by_key(|r| (r.root_id.is_some(), r.harness.is_some()))
            .is_some_and(|r| r.state == "active" && matches!(r.level.as_str(), "titles" | "content"))
    }
}

/// What of the found sessions may be told.
pub fn shown(found: &Found, sharing: &Sharing) -> AllShown {
    let told = found.sessions.iter().filter(|(_, session)| !sharing.hides(&session.root));
    told.map(|(key, session)| {
        let titles = sharing.shares_titles(&session.root.id, key.harness);
        let title = session.title.as_ref().filter(|_| titles).map(|title| title.reveal().to_owned());
        let native = Native { harness: key.harness.to_owned(), native_id: key.native_id.clone() };
        let shown = Shown {
            root: session.root.clone(),
            title,
            model: session.model.clone(),
            started_at: session.started_at,
            turn: session.turn,
            since: session.since,
            confirmed: session.confirmed,
            live: session.live,
        };
        (native, shown)
    })
    .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sessions::{FoundSession, PrivateTitle, SessionKey};

    pub(crate) fn session(root: &str, turn: Turn, since: Millis) -> FoundSession {
        FoundSession {
            cwd: format!("/home/ada/{root}").into(),
            root: FoundRoot { id: format!("root_{root}"), name: root.into() },
            title: Some(PrivateTitle::new("the secret plan")),
            model: Some("m1".into()),
            started_at: Some(1),
            turn,
            since: Some(since),
            confirmed: true,
            live: turn != Turn::Ended,
            pid: Some(7),
        }
    }

    pub(crate) fn found(sessions: &[(&str, FoundSession)]) -> Found {
        let key = |id: &str| SessionKey { harness: "codex", native_id: id.into() };
        let sessions = sessions.iter().map(|(id, session)| (key(id), session.clone())).collect();
        Found { settled: true, sessions, ..Found::default() }
    }

    pub(crate) fn rule(root: Option<&str>, level: &str, state: &str) -> SyncRule {
        SyncRule {
            id: "r".into(),
            machine_id: "mach_1".into(),
            source_id: "src_1".into(),
            root_id: root.map(Into::into),
            harness: None,
            level: level.into(),
            visibility: "team".into(),
            state: state.into(),
            revision: 1,
        }
    }

    #[test]
    fn a_hidden_root_leaves_nothing_by_id_or_by_name() {
        let found = found(&[("a", session("open", Turn::Idle, 5)), ("b", session("shut", Turn::Idle, 5))]);
        for hidden in ["shut", "root_shut"] {
            let sharing =
                Sharing { hidden: [hidden.to_owned()].into(), rules: vec![rule(None, "content", "active")] };
            let told = shown(&found, &sharing);
            assert_eq!(told.len(), 1);
            assert!(!format!("{told:?}").contains("shut"));
        }
    }

    #[test]
    fn a_title_leaves_only_where_the_most_exact_rule_shares_it() {
        let found = found(&[("a", session("x", Turn::Idle, 5))]);
        let title = |rules: Vec<SyncRule>| {
            let sharing = Sharing { hidden: BTreeSet::new(), rules };
            shown(&found, &sharing).into_values().next().unwrap().title
        };
        assert_eq!(title(vec![]), None);
        assert_eq!(title(vec![rule(None, "activity", "active")]), None);
        assert!(title(vec![rule(None, "titles", "active")]).is_some());
        assert!(title(vec![rule(Some("root_x"), "content", "active")]).is_some());
        assert_eq!(
            title(vec![rule(None, "titles", "active"), rule(Some("root_x"), "titles", "paused")]),
            None
        );
        assert_eq!(
            title(vec![rule(None, "titles", "active"), rule(Some("root_x"), "activity", "active")]),
            None
        );
        assert!(
            title(vec![rule(None, "titles", "active"), rule(Some("root_x"), "activity", "removed")])
                .is_some()
        );
    }

    #[test]
    fn no_path_of_this_disk_is_told() {
        let told = shown(&found(&[("a", session("x", Turn::Idle, 5))]), &Sharing::default());
        assert!(!format!("{told:?}").contains("/home/ada"));
    }
}
