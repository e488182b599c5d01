//! Principals and their memberships in the database.

use super::Tx;
use rusqlite::{Connection, OptionalExtension, Row, params};
use teamlamp_wire::account::{Member, Membership, MyMembership, Principal, Role, TeamRef};
use teamlamp_wire::id::{PrincipalId, TeamId};

fn role(word: &str) -> Role {
    // Only words of roles are ever written; one of a later version may do the least.
    Role::parse(word).unwrap_or(Role::Viewer)
}

fn member(row: &Row<'_>) -> rusqlite::Result<Member> {
    Ok(Member {
        principal: Principal { id: PrincipalId(row.get(0)?), name: row.get(1)?, kind: row.get(2)? },
        role: role(&row.get::<_, String>(3)?),
        active: row.get(4)?,
        revision: row.get(5)?,
        joined_at: row.get(6)?,
    })
}

const MEMBER: &str = "SELECT p.id, p.name, p.kind, m.role, m.active, m.revision, m.joined_at
     FROM memberships m JOIN principals p ON p.id = m.principal_id";

/// A principal.
pub fn principal(db: &Connection, id: &PrincipalId) -> rusqlite::Result<Option<Principal>> {
    db.prepare_cached("SELECT id, name, kind FROM principals WHERE id = ?1")?
        .query_row([id.as_str()], |row| {
            Ok(Principal { id: PrincipalId(row.get(0)?), name: row.get(1)?, kind: row.get(2)? })
        })
        .optional()
}

/// Writes a new person.
pub fn insert_person(tx: &Tx<'_>, id: &PrincipalId, name: &str) -> rusqlite::Result<()> {
    tx.prepare_cached("INSERT INTO principals (id, name, kind, created_at) VALUES (?1, ?2, 'person', ?3)")?
        .execute(params![id.as_str(), name, tx.now_ms])?;
    Ok(())
}

/// The role of an active membership.
pub fn active_role(
    db: &Connection,
    team: &TeamId,
    principal: &PrincipalId,
) -> rusqlite::Result<Option<Role>> {
    let word: Option<String> = db
        .prepare_cached(
            "SELECT role FROM memberships WHERE team_id = ?1 AND principal_id = ?2 AND active = 1",
        )?
        .query_row([team.as_str(), principal.as_str()], |row| row.get(0))
        .optional()?;
    Ok(word.map(|word| role(&word)))
}

/// A membership, active or not.
pub fn find(db: &Connection, team: &TeamId, principal: &PrincipalId) -> rusqlite::Result<Option<Member>> {
    db.prepare_cached(&format!("{MEMBER} WHERE m.team_id = ?1 AND m.principal_id = ?2"))?
        .query_row([team.as_str(), principal.as_str()], member)
        .optional()
}

/// A page of a team's memberships by name, then id, after a (name, id).
pub fn page(
    db: &Connection,
    team: &TeamId,
    after: Option<(&str, &str)>,
    limit: usize,
) -> rusqlite::Result<Vec<Member>> {
    let (name, id) = after.unwrap_or_default();
    db.prepare_cached(&format!(
        "{MEMBER} WHERE m.team_id = ?1 AND (p.name, p.id) > (?2, ?3) ORDER BY p.name, p.id LIMIT ?4"
    ))?
    .query_map(params![team.as_str(), name, id, i64::try_from(limit).unwrap_or(i64::MAX)], member)?
    .collect()
}

/// Who asks' own memberships, by the team's name, then id.
pub fn of_principal(db: &Connection, principal: &PrincipalId) -> rusqlite::Result<Vec<MyMembership>> {
    db.prepare_cached(
        "SELECT t.id, t.name, m.role, m.active FROM memberships m JOIN teams t ON t.id = m.team_id
         WHERE m.principal_id = ?1 ORDER BY t.name, t.id",
    )?
    .query_map([principal.as_str()], |row| {
        Ok(MyMembership {
            team: TeamRef { id: TeamId(row.get(0)?), name: row.get(1)? },
            role: role(&row.get::<_, String>(2)?),
            active: row.get(3)?,
        })
    })?
    .collect()
}

/// Writes a new, active membership. Its revision is the team's epoch, which is above every revision of an
/// earlier membership of the same person: an `If-Match` of that one fits nothing any more.
pub fn insert(
    tx: &Tx<'_>,
    team: &TeamId,
    principal: &PrincipalId,
    role: Role,
) -> rusqlite::Result<Membership> {
    tx.prepare_cached(
        "INSERT INTO memberships (team_id, principal_id, role, joined_at, revision)
         SELECT ?1, ?2, ?3, ?4, auth_epoch FROM teams WHERE id = ?1",
    )?
    .execute(params![team.as_str(), principal.as_str(), role.as_str(), tx.now_ms])?;
    Ok(Membership { role, active: true })
}

/// Changes a membership; its revision rises.
pub fn update(
    tx: &Tx<'_>,
    team: &TeamId,
    principal: &PrincipalId,
    role: Role,
    active: bool,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE memberships SET role = ?3, active = ?4, revision = revision + 1
         WHERE team_id = ?1 AND principal_id = ?2",
    )?
    .execute(params![team.as_str(), principal.as_str(), role.as_str(), active])?;
    Ok(())
}

/// Takes a membership away.
pub fn delete(tx: &Tx<'_>, team: &TeamId, principal: &PrincipalId) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM memberships WHERE team_id = ?1 AND principal_id = ?2")?
        .execute([team.as_str(), principal.as_str()])?;
    Ok(())
}

/// How many active owners a team has besides one.
pub fn other_owners(db: &Connection, team: &TeamId, besides: &PrincipalId) -> rusqlite::Result<i64> {
    db.prepare_cached(
        "SELECT count(*) FROM memberships
         WHERE team_id = ?1 AND principal_id <> ?2 AND role = 'owner' AND active = 1",
    )?
    .query_row([team.as_str(), besides.as_str()], |row| row.get(0))
}

/// Whether a principal is an active member of any team.
pub fn is_anywhere(db: &Connection, principal: &PrincipalId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM memberships WHERE principal_id = ?1 AND active = 1")?
        .exists([principal.as_str()])
}

/// Whether a principal owns any team.
pub fn owns_any(db: &Connection, principal: &PrincipalId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM memberships WHERE principal_id = ?1 AND active = 1 AND role = 'owner'")?
        .exists([principal.as_str()])
}
