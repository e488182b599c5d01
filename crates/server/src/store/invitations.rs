//! Invitations in the database: HMACs of codes, never codes.

use super::Tx;
use rusqlite::{Connection, OptionalExtension, Row, params};
use teamlamp_wire::Millis;
use teamlamp_wire::account::Role;
use teamlamp_wire::id::{InvitationId, PrincipalId, TeamId};
use teamlamp_wire::invitation::Invitation;
use teamlamp_wire::limits::INVITATION_KEPT_MS;

/// An invitation with what the wire does not say.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What the wire says.
    pub invitation: Invitation,
    /// The team; none for the owner's code of a new server.
    pub team: Option<TeamId>,
    /// When it was used up or revoked.
    pub ended_at: Option<Millis>,
}

/// How an invitation stands at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may be used.
    Open,
    /// It was used up, revoked, or its time ran out.
    Ended,
    /// It ended so long ago that it is not known any more.
    Forgotten,
}

impl Kept {
    /// How it stands.
    pub fn standing(&self, now: Millis) -> Standing {
        let expired = Some(self.invitation.expires_at).filter(|at| *at <= now);
        match self.ended_at.or(expired) {
            None => Standing::Open,
            Some(ended) if now - ended < INVITATION_KEPT_MS => Standing::Ended,
            Some(_) => Standing::Forgotten,
        }
    }
}

const KEPT: &str =
    "SELECT id, team_id, role, expires_at, max_uses, uses, note, revision, created_by, ended_at
     FROM invitations";

fn kept(row: &Row<'_>) -> rusqlite::Result<Kept> {
    Ok(Kept {
        invitation: Invitation {
            id: InvitationId(row.get(0)?),
            role: Role::parse(&row.get::<_, String>(2)?).unwrap_or(Role::Viewer),
            expires_at: row.get(3)?,
            max_uses: row.get(4)?,
            uses: row.get(5)?,
            note: row.get(6)?,
            revision: row.get(7)?,
            created_by: row.get::<_, Option<String>>(8)?.map(PrincipalId),
        },
        team: row.get::<_, Option<String>>(1)?.map(TeamId),
        ended_at: row.get(9)?,
    })
}

/// The invitation of a code.
pub fn by_code(db: &Connection, mac: &[u8; 32]) -> rusqlite::Result<Option<Kept>> {
    db.prepare_cached(&format!("{KEPT} WHERE code_mac = ?1"))?.query_row([mac], kept).optional()
}

/// An invitation of a team.
pub fn find(db: &Connection, team: &TeamId, id: &InvitationId) -> rusqlite::Result<Option<Kept>> {
    db.prepare_cached(&format!("{KEPT} WHERE team_id = ?1 AND id = ?2"))?
        .query_row([team.as_str(), id.as_str()], kept)
        .optional()
}

/// A page of a team's invitations that were not revoked, oldest first, after an id (ids rise with time).
pub fn page(
    db: &Connection,
    team: &TeamId,
    after: Option<(Millis, &str)>,
    now: Millis,
    limit: usize,
) -> rusqlite::Result<Vec<(Millis, Invitation)>> {
    let (at, id) = after.unwrap_or((i64::MIN, ""));
    db.prepare_cached(
        "SELECT id, team_id, role, expires_at, max_uses, uses, note, revision, created_by, ended_at, created_at
         FROM invitations
         WHERE team_id = ?1 AND (created_at, id) > (?2, ?3) AND (ended_at IS NULL OR uses >= max_uses)
           AND COALESCE(ended_at, expires_at) > ?4
         ORDER BY created_at, id LIMIT ?5",
    )?
    .query_map(
        params![
            team.as_str(),
            at,
            id,
            now - INVITATION_KEPT_MS,
            i64::try_from(limit).unwrap_or(i64::MAX)
        ],
        |row| Ok((row.get(10)?, kept(row)?.invitation)),
    )?
    .collect()
}

/// The invitations of a team that somebody made and that are still open.
pub fn open_of(tx: &Tx<'_>, team: &TeamId, maker: &PrincipalId) -> rusqlite::Result<Vec<Invitation>> {
    let sql = format!(
        "{KEPT} WHERE team_id = ?1 AND created_by = ?2 AND ended_at IS NULL AND expires_at > ?3 ORDER BY id"
    );
    let mut statement = tx.prepare_cached(&sql)?;
    let open = statement.query_map(params![team.as_str(), maker.as_str(), tx.now_ms], kept)?;
    open.map(|kept| kept.map(|kept| kept.invitation)).collect()
}

/// Writes a new invitation under its code's HMAC.
pub fn insert(
    tx: &Tx<'_>,
    team: Option<&TeamId>,
    invitation: &Invitation,
    mac: &[u8; 32],
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO invitations (id, team_id, role, code_mac, expires_at, max_uses, note, created_by, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        invitation.id.as_str(),
        team.map(TeamId::as_str),
        invitation.role.as_str(),
        mac,
        invitation.expires_at,
        invitation.max_uses,
        invitation.note,
        invitation.created_by.as_ref().map(PrincipalId::as_str),
        tx.now_ms,
    ])?;
    Ok(())
}

/// Spends a use; the last one ends the invitation.
pub fn spend(tx: &Tx<'_>, id: &InvitationId) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE invitations SET uses = uses + 1, revision = revision + 1,
           ended_at = CASE WHEN uses + 1 >= max_uses THEN ?2 ELSE ended_at END
         WHERE id = ?1",
    )?
    .execute(params![id.as_str(), tx.now_ms])?;
    Ok(())
}

/// Ends an invitation by hand.
pub fn revoke(tx: &Tx<'_>, id: &InvitationId) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE invitations SET ended_at = ?2, revision = revision + 1 WHERE id = ?1")?
        .execute(params![id.as_str(), tx.now_ms])?;
    Ok(())
}

/// Ends the owner's codes of a new server that were not used.
pub fn revoke_owner_codes(tx: &Tx<'_>) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE invitations SET ended_at = ?1 WHERE team_id IS NULL AND ended_at IS NULL")?
        .execute([tx.now_ms])?;
    Ok(())
}
