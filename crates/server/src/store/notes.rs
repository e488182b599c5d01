//! Rows of teammates' notes to machines.

use super::Tx;
use crate::error::ApiError;
use rusqlite::{Connection, params};
use teamlamp_wire::Millis;
use teamlamp_wire::id::{MachineId, NoteId, PrincipalId, TeamId};

/// How long a note is kept until it is acknowledged.
pub const KEPT_MS: i64 = 7 * 86_400_000;

/// A note that waits for its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which.
    pub id: NoteId,
    /// The sender's name.
    pub from: String,
    /// What they say.
    pub text: String,
    /// When.
    pub at: Millis,
}

/// The greatest id of a note, whosever.
pub fn last(db: &Connection) -> Result<Option<NoteId>, ApiError> {
    let id: Option<String> =
        db.prepare_cached("SELECT max(id) FROM machine_notes")?.query_row([], |row| row.get(0))?;
    Ok(id.map(NoteId))
}

/// Writes a note.
pub fn insert(
    tx: &Tx<'_>,
    id: &NoteId,
    machine: &MachineId,
    (sender, name): (&PrincipalId, &str),
    text: &str,
) -> Result<(), ApiError> {
    tx.prepare_cached(
        "INSERT INTO machine_notes (id, machine_id, sender_id, sender_name, text, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![id.as_str(), machine.as_str(), sender.as_str(), name, text, tx.now_ms])?;
    Ok(())
}

/// When the notes were sent that someone sent to machines of a team after a moment, oldest first.
pub fn sent_since(
    db: &Connection,
    team: &TeamId,
    sender: &PrincipalId,
    since: Millis,
) -> Result<Vec<Millis>, ApiError> {
    let mut statement = db.prepare_cached(
        "SELECT n.at FROM machine_notes n JOIN machines m ON m.id = n.machine_id
         WHERE n.sender_id = ?1 AND n.at > ?2 AND m.team_id = ?3 ORDER BY n.at",
    )?;
    let rows = statement.query_map(params![sender.as_str(), since, team.as_str()], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The notes of a machine that wait, after an id, oldest first, at most `limit`.
pub fn waiting(
    db: &Connection,
    machine: &MachineId,
    after: Option<&NoteId>,
    now: Millis,
    limit: usize,
) -> Result<Vec<Waiting>, ApiError> {
    let mut statement = db.prepare_cached(
        "SELECT id, sender_name, text, at FROM machine_notes
         WHERE machine_id = ?1 AND acknowledged_at IS NULL AND id > ?2 AND at > ?3 ORDER BY id LIMIT ?4",
    )?;
    let after = after.map_or("", NoteId::as_str);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![machine.as_str(), after, now - KEPT_MS, limit], |row| {
        Ok(Waiting { id: NoteId(row.get(0)?), from: row.get(1)?, text: row.get(2)?, at: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Notes that a machine's person saw a note; its text goes.
pub fn acknowledge(tx: &Tx<'_>, machine: &MachineId, id: &NoteId) -> Result<(), ApiError> {
    tx.prepare_cached(
        "UPDATE machine_notes SET acknowledged_at = ?3, text = ''
         WHERE id = ?2 AND machine_id = ?1 AND acknowledged_at IS NULL",
    )?
    .execute(params![machine.as_str(), id.as_str(), tx.now_ms])?;
    Ok(())
}
