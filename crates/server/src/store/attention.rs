//! Who said 'mine' to a session that waits, and until when that holds: columns of the session's own row.

use super::Tx;
use crate::error::ApiError;
use crate::sessions::turns::State;
use rusqlite::{Connection, OptionalExtension, params};
use teamlamp_wire::Millis;
use teamlamp_wire::id::{PrincipalId, SessionId, TeamId};

/// A session as far as attention goes.
#[derive(Clone, Debug)]
pub struct Attention {
    /// What it does.
    pub state: State,
    /// Whose it is now, and that person's name.
    pub claimed_by: Option<(PrincipalId, String)>,
}

/// The attention of a team's session.
pub fn of(db: &Connection, team: &TeamId, session: &SessionId) -> Result<Option<Attention>, ApiError> {
    Ok(db
        .prepare_cached(
            "SELECT s.bound, s.turn, s.turn_since, s.claimed_by, p.name FROM sessions s
             LEFT JOIN principals p ON p.id = s.claimed_by WHERE s.team_id = ?1 AND s.id = ?2",
        )?
        .query_row([team.as_str(), session.as_str()], |row| {
            let by = row.get::<_, Option<String>>(3)?.map(PrincipalId).zip(row.get(4)?);
            let state = State { bound: row.get(0)?, turn: row.get(1)?, since: row.get(2)? };
            Ok(Attention { state, claimed_by: by })
        })
        .optional()?)
}

/// Makes a session somebody's, for as long as the team's `attention_minutes` say.
pub fn claim(tx: &Tx<'_>, session: &SessionId, who: &PrincipalId) -> Result<(), ApiError> {
    tx.prepare_cached(
        "UPDATE sessions SET claimed_by = ?2, updated_at = ?3, revision = revision + 1, claimed_until = ?3
           + 60000 * (SELECT attention_minutes FROM teams WHERE id = sessions.team_id) WHERE id = ?1",
    )?
    .execute(params![session.as_str(), who.as_str(), tx.now_ms])?;
    Ok(())
}

/// Makes a session nobody's.
pub fn release(tx: &Tx<'_>, session: &SessionId) -> Result<(), ApiError> {
    tx.prepare_cached(
        "UPDATE sessions SET claimed_by = NULL, claimed_until = NULL, updated_at = ?2, revision = revision + 1
         WHERE id = ?1",
    )?
    .execute(params![session.as_str(), tx.now_ms])?;
    Ok(())
}

/// When the next 'mine' ends by itself.
pub fn next_end(db: &Connection) -> Result<Option<Millis>, ApiError> {
    Ok(db
        .prepare_cached("SELECT min(claimed_until) FROM sessions WHERE claimed_until IS NOT NULL")?
        .query_row([], |row| row.get(0))?)
}

/// Sessions whose 'mine' has ended, oldest first, with their teams.
pub fn ended(db: &Connection, now: Millis, most: usize) -> Result<Vec<(TeamId, SessionId)>, ApiError> {
    let mut statement = db.prepare_cached(
        "SELECT team_id, id FROM sessions WHERE claimed_until <= ?1 ORDER BY claimed_until LIMIT ?2",
    )?;
    let rows = statement.query_map(params![now, i64::try_from(most).unwrap_or(i64::MAX)], ids)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What a person holds in a team.
pub fn held_by(db: &Connection, team: &TeamId, who: &PrincipalId) -> Result<Vec<SessionId>, ApiError> {
    let mut statement =
        db.prepare_cached("SELECT team_id, id FROM sessions WHERE claimed_by = ?2 AND team_id = ?1")?;
    let rows = statement.query_map([team.as_str(), who.as_str()], ids)?;
    Ok(rows.map(|row| row.map(|(_, session)| session)).collect::<Result<_, _>>()?)
}

fn ids(row: &rusqlite::Row<'_>) -> rusqlite::Result<(TeamId, SessionId)> {
    Ok((TeamId(row.get(0)?), SessionId(row.get(1)?)))
}
