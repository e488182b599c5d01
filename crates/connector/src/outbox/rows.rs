//! The rows of the outbox: their shape, the event that each becomes, and how the oldest give way.

use crate::privacy::{AllShown, Native, Shown};
use crate::recorder::{Change, What};
use crate::sessions::FoundRoot;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use teamlamp_wire::Millis;
use teamlamp_wire::event::{PublishEvent, Resource};
use teamlamp_wire::id::{EventId, MachineId, SessionId};
use teamlamp_wire::session::{RegisterSession, Turn};

/// Which event a row becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `session.started`.
    Started,
    /// `session.turn`.
    Turned,
    /// `session.ended`.
    Ended,
}

impl Kind {
    /// The event's kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "session.started",
            Self::Turned => "session.turn",
            Self::Ended => "session.ended",
        }
    }
}

/// One change that waits, without any title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The event's id, chosen when it happened: however often it is sent, it is one event.
    pub id: EventId,
    /// The program.
    pub harness: String,
    /// Its own id of the session.
    pub native_id: String,
    /// What happened.
    pub kind: Kind,
    /// When.
    pub at: Millis,
    /// The turn before; none where it began.
    pub from: Option<Turn>,
    /// The turn from then on.
    pub to: Turn,
    /// The root's id.
    pub root_id: String,
    /// The root's name.
    pub root_name: String,
    /// The model.
    pub model: Option<String>,
    /// When the session began.
    pub started_at: Option<Millis>,
}

impl Row {
    pub(super) fn of(change: &Change, id: EventId) -> Self {
        let shown = &change.shown;
        let (from, to) = match change.what {
            What::Started { turn } => (None, turn),
            What::Turned { from, to } => (Some(from), to),
            What::Ended => (Some(shown.turn), Turn::Ended),
        };
        Self {
            id,
            harness: change.native.harness.clone(),
            native_id: change.native.native_id.clone(),
            kind: Kind::from(&change.what),
            at: change.at,
            from,
            to,
            root_id: shown.root.id.clone(),
            root_name: shown.root.name.clone(),
            model: shown.model.clone(),
            started_at: shown.started_at,
        }
    }

    /// Its session.
    pub fn native(&self) -> Native {
        Native { harness: self.harness.clone(), native_id: self.native_id.clone() }
    }

    /// Its root.
    pub fn root(&self) -> FoundRoot {
        FoundRoot { id: self.root_id.clone(), name: self.root_name.clone() }
    }

    /// How its session is registered: without a title, whose sharing may have ended meanwhile.
    pub fn registration(&self) -> RegisterSession {
        crate::heartbeat::registration(
            &self.native(),
            &Shown {
                root: self.root(),
                title: None,
                model: self.model.clone(),
                started_at: self.started_at,
                turn: self.to,
                since: None,
                confirmed: false,
                live: false,
            },
        )
    }

    /// The event that it becomes.
    pub fn event(&self, session: &SessionId, machine: &MachineId) -> PublishEvent {
        let own = match self.kind {
            Kind::Started => json!({"turn": self.to, "since": self.at}),
            Kind::Turned => json!({"from": self.from, "to": self.to, "since": self.at}),
            Kind::Ended => json!({"reason": "ended"}),
        };
        let mut data = Map::new();
        data.insert("harness".into(), Value::from(self.harness.as_str()));
        data.insert("machine_id".into(), Value::from(machine.as_str()));
        data.insert("root".into(), Value::from(self.root_name.as_str()));
        if let Value::Object(own) = own {
            data.extend(own);
        }
        PublishEvent {
            id: Some(self.id.clone()),
            kind: self.kind.as_str().to_owned(),
            resource: Some(Resource { kind: "session".into(), id: session.0.clone() }),
            data,
            at: Some(self.at),
        }
    }
}

/// Folds up to `most` of the oldest turns into the next turn of their session, which then says where the
/// first of them came from; a turn after which the session ended just goes. How many went.
pub(super) fn fold(db: &Connection, most: i64) -> rusqlite::Result<usize> {
    let mut folded = 0;
    let mut oldest = db.prepare_cached(
        "SELECT number, context, harness, native_id, row FROM rows WHERE kind = 'session.turn' ORDER BY number LIMIT ?",
    )?;
    let oldest: Vec<(i64, String, String, String, String)> = oldest
        .query_map([most], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?)))?
        .collect::<Result<_, _>>()?;
    for (number, context, harness, native_id, text) in oldest {
        let next: Option<(i64, String)> = db
            .prepare_cached(
                "SELECT number, row FROM rows WHERE context = ? AND harness = ? AND native_id = ? AND number > ?
                 ORDER BY number LIMIT 1",
            )?
            .query_row(params![context, harness, native_id, number], |r| Ok((r.get(0)?, r.get(1)?)))
            .optional()?;
        // The last turn of a session that lives is told by the next report anyway.
        if let Some((next, next_text)) = next
            && let (Ok(gone), Ok(mut kept)) =
                (serde_json::from_str::<Row>(&text), serde_json::from_str::<Row>(&next_text))
        {
            kept.from = gone.from;
            let text = serde_json::to_string(&kept).map_err(super::invalid)?;
            db.prepare_cached("UPDATE rows SET row = ? WHERE number = ?")?.execute(params![text, next])?;
        }
        folded += db.prepare_cached("DELETE FROM rows WHERE number = ?")?.execute([number])?;
    }
    Ok(folded)
}

/// Drops the oldest rows, of whatever kind. How many went.
pub(super) fn drop_oldest(db: &Connection, most: i64) -> rusqlite::Result<usize> {
    db.execute("DELETE FROM rows WHERE number IN (SELECT number FROM rows ORDER BY number LIMIT ?)", [most])
}

/// A session of which the team was told, as it is remembered.
#[derive(Serialize, Deserialize)]
struct Told {
    harness: String,
    native_id: String,
    turn: Turn,
    since: Option<Millis>,
    root_id: String,
    root_name: String,
    model: Option<String>,
    started_at: Option<Millis>,
}

pub(super) fn told_text(told: &AllShown) -> String {
    let all: Vec<Told> = told
        .iter()
        .map(|(native, shown)| Told {
            harness: native.harness.clone(),
            native_id: native.native_id.clone(),
            turn: shown.turn,
            since: shown.since,
            root_id: shown.root.id.clone(),
            root_name: shown.root.name.clone(),
            model: shown.model.clone(),
            started_at: shown.started_at,
        })
        .collect();
    // These types have text keys and plain values: they can be written.
    serde_json::to_string(&all).unwrap_or_default()
}

pub(super) fn told_from(text: &str) -> AllShown {
    let all: Vec<Told> = serde_json::from_str(text).unwrap_or_default();
    let shown = |told: Told| {
        let native = Native { harness: told.harness, native_id: told.native_id };
        let shown = Shown {
            root: FoundRoot { id: told.root_id, name: told.root_name },
            title: None,
            model: told.model,
            started_at: told.started_at,
            turn: told.turn,
            since: told.since,
            confirmed: false,
            live: true,
        };
        (native, shown)
    };
    all.into_iter().map(shown).collect()
}
