//! Rows of sessions: registering, what they do now, lists.

use super::Tx;
use crate::error::ApiError;
use crate::sessions::turns::State;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Serialize, Serializer};
use teamlamp_wire::Millis;
use teamlamp_wire::id::{MachineId, PrincipalId, SessionId, SourceId, TeamId};
use teamlamp_wire::session::{RegisterSession, Session, Turn};

/// A session with what its events say of it.
#[derive(Clone, Debug)]
pub struct Known {
    /// Which.
    pub id: SessionId,
    /// Its team.
    pub team_id: TeamId,
    /// The source that registered it.
    pub source_id: SourceId,
    /// Where it runs.
    pub machine_id: MachineId,
    /// The program.
    pub harness: String,
    /// Its root's name, where a heartbeat told it.
    pub root: Option<String>,
    /// What it does.
    pub state: State,
}

/// Reads a session.
pub fn known(db: &Connection, id: &SessionId) -> Result<Option<Known>, ApiError> {
    let known = db
        .prepare_cached(
            "SELECT s.team_id, s.source_id, s.machine_id, s.harness, r.name, s.bound, s.turn, s.turn_since
             FROM sessions s LEFT JOIN machine_roots r ON r.machine_id = s.machine_id AND r.id = s.root_id
             WHERE s.id = ?1",
        )?
        .query_row([id.as_str()], |row| {
            Ok(Known {
                id: id.clone(),
                team_id: TeamId(row.get(0)?),
                source_id: SourceId(row.get(1)?),
                machine_id: MachineId(row.get(2)?),
                harness: row.get(3)?,
                root: row.get(4)?,
                state: State { bound: row.get(5)?, turn: row.get(6)?, since: row.get(7)? },
            })
        })
        .optional()?;
    Ok(known)
}

/// The session of an origin.
pub fn of_origin(
    db: &Connection,
    source: &SourceId,
    harness: &str,
    native_id: &str,
) -> Result<Option<SessionId>, ApiError> {
    let id = db
        .prepare_cached("SELECT id FROM sessions WHERE source_id = ?1 AND harness = ?2 AND native_id = ?3")?
        .query_row([source.as_str(), harness, native_id], |row| row.get(0))
        .optional()?;
    Ok(id.map(SessionId))
}

/// Writes what a session does. Whose it was while it waited ends with the wait.
pub fn set_state(tx: &Tx<'_>, id: &SessionId, state: &State) -> Result<(), ApiError> {
    tx.prepare_cached(
        "UPDATE sessions SET bound = ?2, turn = ?3, turn_since = ?4, updated_at = ?5, revision = revision + 1,
           claimed_by = CASE WHEN ?6 THEN claimed_by END, claimed_until = CASE WHEN ?6 THEN claimed_until END
         WHERE id = ?1",
    )?
    .execute(params![id.as_str(), state.bound, state.turn, state.since, tx.now_ms, state.waits()])?;
    Ok(())
}

/// What a binding's descriptor says of its session.
#[derive(Clone, Debug, Default)]
pub struct Described<'a> {
    /// The root.
    pub root_id: Option<&'a str>,
    /// The model.
    pub model: Option<&'a str>,
    /// When it began.
    pub started_at: Option<Millis>,
    /// Whether its turn is known.
    pub confirmed: Option<bool>,
}

/// Writes what is told of a session where it differs; what is not told stays.
pub fn describe(tx: &Tx<'_>, id: &SessionId, told: &Described<'_>) -> Result<(), ApiError> {
    tx.prepare_cached(
        "UPDATE sessions SET root_id = coalesce(?2, root_id), model = coalesce(?3, model),
           started_at = coalesce(?4, started_at), confirmed = coalesce(?5, confirmed), updated_at = ?6,
           revision = revision + 1
         WHERE id = ?1 AND (coalesce(?2, root_id) IS NOT root_id OR coalesce(?3, model) IS NOT model
           OR coalesce(?4, started_at) IS NOT started_at OR coalesce(?5, confirmed) IS NOT confirmed)",
    )?
    .execute(params![
        id.as_str(),
        told.root_id,
        told.model,
        told.started_at,
        told.confirmed,
        tx.now_ms
    ])?;
    Ok(())
}

/// Makes a session of a machine's source.
pub fn insert(
    tx: &Tx<'_>,
    id: &SessionId,
    team: &TeamId,
    source: &SourceId,
    machine: &MachineId,
    told: &RegisterSession,
) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO sessions (id, team_id, source_id, machine_id, harness, native_id, root_id, model, started_at,
           created_at, updated_at, visibility)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10,
           (SELECT default_visibility FROM sources WHERE id = ?3))",
    )?
    .execute(params![
        id.as_str(),
        team.as_str(),
        source.as_str(),
        machine.as_str(),
        told.harness,
        told.native_id,
        told.root_id,
        told.model,
        told.started_at,
        tx.now_ms,
    ])?;
    Ok(())
}

/// A session's revision.
pub fn revision(db: &Connection, id: &SessionId) -> Result<i64, ApiError> {
    Ok(db
        .prepare_cached("SELECT revision FROM sessions WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))?)
}

/// The bound sessions of a machine.
pub fn bound_of(db: &Connection, machine: &MachineId) -> Result<Vec<SessionId>, ApiError> {
    let mut statement = db.prepare_cached("SELECT id FROM sessions WHERE machine_id = ?1 AND bound = 1")?;
    let rows = statement.query_map([machine.as_str()], |row| Ok(SessionId(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What a list asks for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The machine.
    pub machine: Option<String>,
    /// The program.
    pub harness: Option<String>,
    /// The turn.
    pub turn: Option<String>,
    /// The root: its id or its name.
    pub root: Option<String>,
    /// Part of a title, root, model, program or native id, in lower case.
    pub text: Option<String>,
    /// Whether it is live.
    pub live: Option<bool>,
}

const FIELDS: &str =
    "s.id, s.harness, s.native_id, s.machine_id, r.name, s.title, s.model, s.turn, s.turn_since,
    s.confirmed, s.bound AND coalesce(p.connection, 'offline') <> 'offline', s.started_at,
    s.updated_at, s.visibility, s.revision, s.claimed_by, s.created_at, s.root_id";
const LIVE: &str = "(s.bound AND coalesce(p.connection, 'offline') <> 'offline')";
const BESIDE: &str = "LEFT JOIN machine_roots r ON r.machine_id = s.machine_id AND r.id = s.root_id
    LEFT JOIN machine_presence p ON p.machine_id = s.machine_id";

/// A session of a list with its place in the order.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The session.
    pub session: Session,
    /// Its turn as it was reported.
    turn: String,
    /// When it was registered: the order of lists, which nothing changes.
    pub created_at: Millis,
}

/// The session, with its turn as the word that was reported: also one that this server does not know.
impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut session = serde_json::to_value(&self.session).map_err(serde::ser::Error::custom)?;
        session["turn"] = self.turn.as_str().into();
        session.serialize(serializer)
    }
}

fn listed(row: &Row<'_>) -> rusqlite::Result<Listed> {
    let turn: String = row.get(7)?;
    let session = Session {
        id: SessionId(row.get(0)?),
        harness: row.get(1)?,
        native_id: row.get(2)?,
        machine_id: MachineId(row.get(3)?),
        root: row.get(4)?,
        title: row.get(5)?,
        model: row.get(6)?,
        turn: Turn::parse(&turn),
        turn_since: row.get(8)?,
        confirmed: row.get(9)?,
        live: row.get(10)?,
        started_at: row.get(11)?,
        updated_at: row.get(12)?,
        visibility: row.get(13)?,
        revision: row.get(14)?,
        claimed_by: row.get::<_, Option<String>>(15)?.map(PrincipalId),
    };
    Ok(Listed { session, turn, created_at: row.get(16)? })
}

/// One session of a team.
pub fn one(db: &Connection, team: &TeamId, id: &str) -> Result<Option<Listed>, ApiError> {
    Ok(db
        .prepare_cached(&format!(
            "SELECT {FIELDS} FROM sessions s {BESIDE} WHERE s.team_id = ?1 AND s.id = ?2"
        ))?
        .query_row([team.as_str(), id], listed)
        .optional()?)
}

/// Some sessions of a team in order, and how far the look went.
#[derive(Debug)]
pub struct Window {
    /// Those that are wanted.
    pub found: Vec<Listed>,
    /// The place of the last that was looked at; `None` where there are no more.
    pub last: Option<(Millis, String)>,
}

/// Looks at the next `size` sessions of a team that were registered before a place, newest first, until
/// `most` are found.
pub fn window(
    db: &Connection,
    team: &TeamId,
    wanted: &Wanted,
    before: Option<(Millis, &str)>,
    (size, most): (usize, usize),
) -> Result<Window, ApiError> {
    // Live sessions are few among many: their own index finds them.
    let bound = if wanted.live == Some(true) { "AND bound = 1" } else { "" };
    let sql = format!(
        "SELECT {FIELDS},
           (?4 IS NULL OR s.machine_id = ?4) AND (?5 IS NULL OR s.harness = ?5)
           AND (?6 IS NULL OR s.turn = ?6) AND (?7 IS NULL OR r.name IS ?7 OR s.root_id IS ?7)
           AND (?8 IS NULL OR {LIVE} = ?8)
         FROM (SELECT * FROM sessions WHERE team_id = ?1 {bound} AND (created_at, id) < (?2, ?3)
               ORDER BY created_at DESC, id DESC LIMIT ?9) s
         {BESIDE} ORDER BY s.created_at DESC, s.id DESC"
    );
    let (at, id) = before.unwrap_or((i64::MAX, ""));
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params![
        team.as_str(),
        at,
        id,
        wanted.machine,
        wanted.harness,
        wanted.turn,
        wanted.root,
        wanted.live,
        i64::try_from(size).unwrap_or(i64::MAX),
    ])?;
    let (mut found, mut last, mut count) = (Vec::new(), None, 0);
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        count += 1;
        let item = listed(row)?;
        last = Some((item.created_at, item.session.id.0.clone()));
        let fits: bool = row.get(18)?;
        if fits && wanted.text.as_ref().is_none_or(|text| mentions(&item.session, text)) {
            found.push(item);
        }
    }
    let more = count == size || found.len() >= most;
    Ok(Window { found, last: last.filter(|_| more) })
}

fn mentions(session: &Session, text: &str) -> bool {
    let optional = [&session.title, &session.root, &session.model];
    [&session.harness, &session.native_id]
        .into_iter()
        .chain(optional.into_iter().flatten())
        .any(|field| field.to_lowercase().contains(text))
}
