//! Published events, their catalogue and how they are published (spec 03).

use crate::Millis;
use crate::id::{EventId, PrincipalId, SourceId, TeamId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A published, ordered fact of the team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Which.
    pub id: EventId,
    /// The team.
    pub org: TeamId,
    /// When it happened.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub at: Millis,
    /// Who made it happen.
    pub actor: Actor,
    /// What happened: a kind of the [`CATALOGUE`] or a custom one.
    pub kind: String,
    /// To what.
    pub resource: Resource,
    /// More of it; at most 16 KiB.
    #[cfg_attr(feature = "ts", ts(type = "Record<string, unknown>"))]
    pub data: Map<String, Value>,
}

/// Who made an event happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Actor {
    /// The principal; null for the system.
    pub principal_id: Option<PrincipalId>,
    /// `person`, `app`, `machine` or `system`.
    pub kind: ActorKind,
    /// Their name.
    pub name: String,
    /// On whose behalf it acted, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "ts", ts(as = "Option<Vec<Actor>>", optional))]
    pub on_behalf_of: Vec<Actor>,
}

/// What kind of actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ActorKind {
    /// A person.
    Person,
    /// An app.
    App,
    /// A machine's connector.
    Machine,
    /// The server itself.
    System,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resource {
    /// `team`, `principal`, `machine`, `session`, `app`, or a custom kind.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// An event with what stands beside its shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sequenced {
    /// Counts per team from 1 without gaps, in commit order.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub sequence: i64,
    /// The event.
    pub event: Event,
    /// The source that published it, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub source_id: Option<SourceId>,
}

/// `POST /v1/teams/{team}/events`: at most 100, all or none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Publish {
    /// In the order in which they happened.
    pub events: Vec<PublishEvent>,
}

/// One event to publish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishEvent {
    /// Chosen by the publisher, so that a repetition is one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<EventId>,
    /// The kind.
    pub kind: String,
    /// What it is about; a custom event's default is `{kind: "custom", id: <the kind>}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// More of it; at most 16 KiB.
    #[serde(default)]
    pub data: Map<String, Value>,
    /// When it happened; believed within the last 7 days and 60 s ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
}

/// The answer to [`Publish`], in its order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Published {
    /// One for each.
    pub events: Vec<PublishedEvent>,
}

/// What became of a published event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedEvent {
    /// Which.
    pub id: EventId,
    /// Its place in the team's order.
    pub sequence: i64,
}

/// Who may publish a kind through the API; every kind is also written by the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// Nobody: only the server writes it.
    Server,
    /// A machine, of its own sessions.
    Machine,
    /// A member who is not a viewer.
    Member,
    /// An app, of its own kinds.
    App,
}

/// Who may read a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Every active member of the team.
    Member,
    /// The machine's custodian and admins.
    Custodian,
}

/// One row of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The kind's name.
    pub name: &'static str,
    /// The kind of resource that it is about.
    pub resource: &'static str,
    /// Who may publish it.
    pub publisher: Publisher,
    /// Who may read it.
    pub reader: Reader,
    /// The fields of `data`: name, JSON type, whether it is always there.
    pub data: &'static [(&'static str, &'static str, bool)],
}

const NAME: &[(&str, &str, bool)] = &[("name", "string", true)];
const MEMBER: &[(&str, &str, bool)] =
    &[("name", "string", true), ("role", "string", true), ("active", "boolean", true)];
const CONNECTION: &[(&str, &str, bool)] = &[
    ("name", "string", true),
    ("from", "string", true),
    ("to", "string", true),
    ("last_seen_at", "integer", false),
    ("away", "object", false),
];
const STARTED: &[(&str, &str, bool)] = &[
    ("harness", "string", true),
    ("machine_id", "string", true),
    ("root", "string", false),
    ("title", "string", false),
    ("turn", "string", true),
    ("since", "integer", false),
];
const TURNED: &[(&str, &str, bool)] = &[
    ("harness", "string", true),
    ("machine_id", "string", true),
    ("root", "string", false),
    ("title", "string", false),
    ("from", "string", true),
    ("to", "string", true),
    ("since", "integer", false),
];
const ENDED: &[(&str, &str, bool)] = &[
    ("harness", "string", true),
    ("machine_id", "string", true),
    ("root", "string", false),
    ("reason", "string", true),
];
const FROM: &[(&str, &str, bool)] = &[("from", "string", true)];
const BY: &[(&str, &str, bool)] = &[("by", "string", true)];

const fn kind(
    name: &'static str,
    resource: &'static str,
    publisher: Publisher,
    reader: Reader,
    data: &'static [(&'static str, &'static str, bool)],
) -> Kind {
    Kind { name, resource, publisher, reader, data }
}

/// Every kind but the custom ones. Routes, filters, documents and the interface read it from here.
pub const CATALOGUE: &[Kind] = &[
    kind("team.created", "team", Publisher::Server, Reader::Member, NAME),
    kind("team.renamed", "team", Publisher::Server, Reader::Member, NAME),
    kind("member.joined", "principal", Publisher::Server, Reader::Member, MEMBER),
    kind("member.changed", "principal", Publisher::Server, Reader::Member, MEMBER),
    kind("member.removed", "principal", Publisher::Server, Reader::Member, MEMBER),
    kind("machine.enrolled", "machine", Publisher::Server, Reader::Member, NAME),
    kind("machine.renamed", "machine", Publisher::Server, Reader::Member, NAME),
    kind("machine.revoked", "machine", Publisher::Server, Reader::Member, NAME),
    kind("machine.online", "machine", Publisher::Server, Reader::Member, CONNECTION),
    kind("machine.unlinked", "machine", Publisher::Server, Reader::Member, CONNECTION),
    kind("machine.offline", "machine", Publisher::Server, Reader::Member, CONNECTION),
    kind("machine.cloned", "machine", Publisher::Server, Reader::Custodian, NAME),
    kind("session.started", "session", Publisher::Machine, Reader::Member, STARTED),
    kind("session.turn", "session", Publisher::Machine, Reader::Member, TURNED),
    kind("session.ended", "session", Publisher::Machine, Reader::Member, ENDED),
    kind("session.published", "session", Publisher::Server, Reader::Member, &[]),
    kind("session.deleted", "session", Publisher::Server, Reader::Member, &[]),
    kind("note.sent", "machine", Publisher::Server, Reader::Member, FROM),
    kind("attention.claimed", "session", Publisher::Server, Reader::Member, BY),
    kind("attention.released", "session", Publisher::Server, Reader::Member, BY),
    kind("app.installed", "app", Publisher::Server, Reader::Member, NAME),
    kind("app.removed", "app", Publisher::Server, Reader::Member, NAME),
    kind("webhook.disabled", "app", Publisher::Server, Reader::Member, &[]),
];

/// What a kind is, as far as its name tells.
#[derive(Clone, Copy, Debug)]
pub enum KindOf<'a> {
    /// A row of the catalogue.
    Listed(&'static Kind),
    /// `custom.cli.<name>`: a member's script.
    Cli(&'a str),
    /// `custom.<app>.<name>`.
    App {
        /// The app's name.
        app: &'a str,
        /// The event's.
        name: &'a str,
    },
}

/// Whether a text is a custom event's name, or an own resource kind: 1 to 64 of `[a-z0-9_.-]`.
pub fn is_custom_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-'))
}

/// Looks a kind up; `None` where there is none of this name.
pub fn kind_of(kind: &str) -> Option<KindOf<'_>> {
    if let Some(row) = CATALOGUE.iter().find(|k| k.name == kind) {
        return Some(KindOf::Listed(row));
    }
    let (app, name) = kind.strip_prefix("custom.")?.split_once('.')?;
    if !is_custom_name(name) || !is_custom_name(app) {
        return None;
    }
    Some(if app == "cli" { KindOf::Cli(name) } else { KindOf::App { app, name } })
}

/// Which kinds a stream or a history asks for; empty means all. The order and repetition of kinds make
/// no difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindFilter(Vec<String>);

impl KindFilter {
    /// Reads a comma-separated list; a kind that is not in the catalogue is refused in one sentence.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut kinds = Vec::new();
        for kind in list.split(',') {
            let shown = crate::text::visible(&kind.chars().take(80).collect::<String>());
            let plain = match kind.strip_suffix('*') {
                // `custom.cli.*` and `custom.<app>.*`, with or without the beginning of a name.
                Some(head) if head.starts_with("custom.") && kind_of(&format!("{head}x")).is_some() => true,
                Some(_) => false,
                None => kind_of(kind).is_some(),
            };
            if !plain {
                return Err(format!("`{shown}` is no kind of event: GET /v1/openapi.json lists them."));
            }
            kinds.push(kind.to_owned());
        }
        kinds.sort();
        kinds.dedup();
        Ok(Self(kinds))
    }
    /// Whether nothing is filtered.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }
    /// The kinds, sorted; equal filters are equal lists.
    pub fn kinds(&self) -> &[String] {
        &self.0
    }
    /// Whether an event of this kind was asked for.
    pub fn admits(&self, kind: &str) -> bool {
        self.is_all()
            || self.0.iter().any(|k| match k.strip_suffix('*') {
                Some(head) => kind.starts_with(head),
                None => k == kind,
            })
    }
    /// Whether a resource belongs in a snapshot: its kind is one of an asked-for listed event's, or its
    /// current event was asked for (custom kinds: by the current event only).
    pub fn admits_resource(&self, resource_kind: &str, current_kind: &str) -> bool {
        self.admits(current_kind)
            || CATALOGUE
                .iter()
                .any(|row| row.resource == resource_kind && self.0.iter().any(|k| k == row.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_names_each_kind_once() {
        for (i, row) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[i + 1..].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(row.name.contains('.') && !row.resource.is_empty());
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        assert!(
            matches!(kind_of("session.turn"), Some(KindOf::Listed(k)) if k.publisher == Publisher::Machine)
        );
        assert!(matches!(kind_of("custom.cli.deploy"), Some(KindOf::Cli("deploy"))));
        assert!(matches!(kind_of("custom.bot.x.y"), Some(KindOf::App { app: "bot", name: "x.y" })));
        for bad in ["session.sang", "custom.cli.", "custom.cli", "custom..x", "custom.cli.Deploy", ""] {
            assert!(kind_of(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn filters_are_equal_whatever_their_order() {
        let a = KindFilter::parse("session.turn,machine.online,session.turn").unwrap();
        assert_eq!(a, KindFilter::parse("machine.online,session.turn").unwrap());
        assert!(a.admits("session.turn") && !a.admits("session.ended"));
        assert!(a.admits_resource("machine", "machine.offline"));
        assert!(!a.admits_resource("team", "team.created"));
        let custom = KindFilter::parse("custom.cli.*").unwrap();
        assert!(custom.admits("custom.cli.deploy") && !custom.admits("custom.bot.deploy"));
        assert!(!custom.admits_resource("custom", "custom.bot.x"));
        for bad in ["session.*", "nope", "", "custom.*", "machine.online,", "*"] {
            assert!(KindFilter::parse(bad).is_err(), "{bad}");
        }
    }
}
