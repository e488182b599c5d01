//! Teams in the database.

use super::Tx;
use rusqlite::{Connection, OptionalExtension, params};
use teamlamp_wire::account::{Team, TeamCounts, TeamRef, TeamSettings};
use teamlamp_wire::id::TeamId;

/// A team with its settings and counts.
pub fn find(db: &Connection, id: &TeamId) -> rusqlite::Result<Option<Team>> {
    db.prepare_cached(
        "SELECT t.id, t.name, t.revision, t.members_may_invite, t.retention_days, t.attention_minutes,
           (SELECT count(*) FROM memberships WHERE team_id = t.id AND active = 1),
           (SELECT count(*) FROM machines WHERE team_id = t.id AND enrollment = 'active'),
           (SELECT count(*) FROM machines m JOIN machine_presence p ON p.machine_id = m.id
            WHERE m.team_id = t.id AND m.enrollment = 'active' AND p.connection = 'online')
         FROM teams t WHERE t.id = ?1",
    )?
    .query_row([id.as_str()], |row| {
        Ok(Team {
            id: TeamId(row.get(0)?),
            name: row.get(1)?,
            revision: row.get(2)?,
            settings: TeamSettings {
                members_may_invite: row.get(3)?,
                retention_days: row.get(4)?,
                attention_minutes: row.get(5)?,
            },
            counts: TeamCounts { members: row.get(6)?, machines: row.get(7)?, online: row.get(8)? },
        })
    })
    .optional()
}

/// A team by name.
pub fn reference(db: &Connection, id: &TeamId) -> rusqlite::Result<Option<TeamRef>> {
    db.prepare_cached("SELECT id, name FROM teams WHERE id = ?1")?
        .query_row([id.as_str()], |row| Ok(TeamRef { id: TeamId(row.get(0)?), name: row.get(1)? }))
        .optional()
}

/// Whether there is any team yet.
pub fn exist(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM teams")?.exists([])
}

/// Writes a new team with the default settings.
pub fn insert(tx: &Tx<'_>, id: &TeamId, name: &str) -> rusqlite::Result<TeamRef> {
    tx.prepare_cached("INSERT INTO teams (id, name, created_at) VALUES (?1, ?2, ?3)")?.execute(params![
        id.as_str(),
        name,
        tx.now_ms
    ])?;
    Ok(TeamRef { id: id.clone(), name: name.to_owned() })
}

/// Changes a team's name and settings; its revision rises.
pub fn update(tx: &Tx<'_>, id: &TeamId, name: &str, settings: &TeamSettings) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE teams SET name = ?2, members_may_invite = ?3, retention_days = ?4, attention_minutes = ?5,
           revision = revision + 1 WHERE id = ?1",
    )?
    .execute(params![
        id.as_str(),
        name,
        settings.members_may_invite,
        settings.retention_days,
        settings.attention_minutes,
    ])?;
    Ok(())
}

/// The count of changes of what anyone may do in a team.
pub fn auth_epoch(db: &Connection, id: &TeamId) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT auth_epoch FROM teams WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
}

/// What someone may do in a team changes: open streams look at their authority again after the commit.
pub fn raise_auth_epoch(tx: &Tx<'_>, id: &TeamId) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE teams SET auth_epoch = auth_epoch + 1 WHERE id = ?1")?
        .execute([id.as_str()])?;
    tx.after_commit(|effects| {
        effects.access.insert(id.clone());
    });
    Ok(())
}
