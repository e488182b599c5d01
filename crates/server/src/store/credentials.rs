//! Credentials in the database: hashes of tokens, never tokens.

use super::Tx;
use crate::access::Caller;
use rusqlite::{Connection, OptionalExtension, Row, params};
use teamlamp_wire::Millis;
use teamlamp_wire::account::CredentialKind;
use teamlamp_wire::id::{CredentialId, MachineId, PrincipalId, TeamId};

/// SHA-256 of a whole token.
pub type TokenHash = [u8; 32];

/// A credential that is neither revoked nor of a revoked machine, with what decides whether a token is
/// one of its two.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Whose it is.
    pub caller: Caller,
    /// The hash of its token.
    pub token: TokenHash,
    /// The hash of the token of a rotation that was not used yet.
    pub next: Option<TokenHash>,
    /// When that one was issued.
    pub next_issued_at: Option<Millis>,
    /// When any token of it was first used.
    pub first_used_at: Option<Millis>,
    /// When it ends.
    pub expires_at: Millis,
}

/// A new credential.
#[derive(Clone, Debug)]
pub struct New<'a> {
    /// Which.
    pub id: &'a CredentialId,
    /// Whose.
    pub principal: &'a PrincipalId,
    /// What for.
    pub kind: CredentialKind,
    /// Team and machine of a machine credential.
    pub machine: Option<(&'a TeamId, &'a MachineId)>,
    /// The hash of its token.
    pub token: &'a TokenHash,
    /// When it ends.
    pub expires_at: Millis,
}

fn kept(row: &Row<'_>) -> rusqlite::Result<Kept> {
    let kind: String = row.get(2)?;
    let machine_name: Option<String> = row.get(6)?;
    let person: String = row.get(3)?;
    Ok(Kept {
        caller: Caller {
            credential_id: CredentialId(row.get(0)?),
            principal_id: PrincipalId(row.get(1)?),
            kind: CredentialKind::parse(&kind).unwrap_or(CredentialKind::App),
            name: machine_name.unwrap_or(person),
            team_id: row.get::<_, Option<String>>(4)?.map(TeamId),
            machine_id: row.get::<_, Option<String>>(5)?.map(MachineId),
        },
        token: row.get(7)?,
        next: row.get(8)?,
        next_issued_at: row.get(9)?,
        first_used_at: row.get(10)?,
        expires_at: row.get(11)?,
    })
}

/// The credential of an id, unless it or its machine was revoked.
pub fn find(db: &Connection, id: &CredentialId) -> rusqlite::Result<Option<Kept>> {
    db.prepare_cached(
        "SELECT c.id, c.principal_id, c.kind, p.name, c.team_id, c.machine_id, m.name,
                c.token_hash, c.next_hash, c.next_issued_at, c.first_used_at, c.expires_at
         FROM credentials c JOIN principals p ON p.id = c.principal_id
         LEFT JOIN machines m ON m.id = c.machine_id
         WHERE c.id = ?1 AND c.revoked_at IS NULL AND (c.machine_id IS NULL OR m.enrollment = 'active')",
    )?
    .query_row([id.as_str()], kept)
    .optional()
}

/// Whether a credential is neither revoked nor expired, and its machine (if it has one) is active.
pub fn is_valid(db: &Connection, id: &CredentialId, now: Millis) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM credentials c LEFT JOIN machines m ON m.id = c.machine_id
         WHERE c.id = ?1 AND c.revoked_at IS NULL AND c.expires_at > ?2
           AND (c.machine_id IS NULL OR m.enrollment = 'active')",
    )?
    .exists(params![id.as_str(), now])
}

/// Writes a new credential.
pub fn insert(tx: &Tx<'_>, new: &New<'_>) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO credentials (id, principal_id, kind, team_id, machine_id, token_hash, expires_at, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        new.id.as_str(),
        new.principal.as_str(),
        new.kind.as_str(),
        new.machine.map(|(team, _)| team.as_str()),
        new.machine.map(|(_, machine)| machine.as_str()),
        new.token,
        new.expires_at,
        tx.now_ms,
    ])?;
    Ok(())
}

/// Notes a use: the first one, the first one of a rotation's token (which ends the old token), and the
/// later end of a credential that slides. False where the token is no longer this credential's.
pub fn touch(
    tx: &Tx<'_>,
    id: &CredentialId,
    token: &TokenHash,
    expires_at: Option<Millis>,
) -> rusqlite::Result<bool> {
    let rows = tx
        .prepare_cached(
            "UPDATE credentials SET
               token_hash = ?2,
               next_hash = CASE WHEN next_hash = ?2 THEN NULL ELSE next_hash END,
               next_issued_at = CASE WHEN next_hash = ?2 THEN NULL ELSE next_issued_at END,
               first_used_at = COALESCE(first_used_at, ?3),
               expires_at = MAX(expires_at, COALESCE(?4, expires_at))
             WHERE id = ?1 AND revoked_at IS NULL AND expires_at > ?3 AND (token_hash = ?2 OR next_hash = ?2)",
        )?
        .execute(params![id.as_str(), token, tx.now_ms, expires_at])?;
    callers_change(tx);
    Ok(rows == 1)
}

/// What was read of credentials before this commit is old after it.
pub(super) fn callers_change(tx: &Tx<'_>) {
    tx.after_commit(|effects| effects.callers = true);
}

/// Gives a credential a second token, in the place of an earlier second one that was not used. The day that
/// the first token has left begins with the first rotation.
pub fn rotate(tx: &Tx<'_>, id: &CredentialId, next: &TokenHash, expires_at: Millis) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE credentials SET next_hash = ?2, next_issued_at = COALESCE(next_issued_at, ?3),
           expires_at = MAX(expires_at, ?4)
         WHERE id = ?1",
    )?
    .execute(params![id.as_str(), next, tx.now_ms, expires_at])?;
    callers_change(tx);
    Ok(())
}

/// Gives a credential that was never used a second token; false where it was used, or has ended. The first
/// one may have reached who asked after all, so either works until the second is used.
pub fn give_another(tx: &Tx<'_>, id: &CredentialId, token: &TokenHash) -> rusqlite::Result<bool> {
    let rows = tx
        .prepare_cached(
            "UPDATE credentials SET next_hash = ?2, next_issued_at = COALESCE(next_issued_at, ?3)
             WHERE id = ?1 AND first_used_at IS NULL AND revoked_at IS NULL AND expires_at > ?3",
        )?
        .execute(params![id.as_str(), token, tx.now_ms])?;
    callers_change(tx);
    Ok(rows == 1)
}

/// Their streams and links notice after the commit.
fn ended(tx: &Tx<'_>, credentials: impl IntoIterator<Item = CredentialId>) {
    callers_change(tx);
    tx.after_commit(|effects| effects.credentials.extend(credentials));
}

/// Revokes one credential.
pub fn revoke(tx: &Tx<'_>, id: &CredentialId) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE credentials SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL")?
        .execute(params![id.as_str(), tx.now_ms])?;
    ended(tx, [id.clone()]);
    Ok(())
}

/// Revokes every credential of a machine.
pub fn revoke_of_machine(tx: &Tx<'_>, machine: &MachineId) -> rusqlite::Result<()> {
    let of_it = tx
        .prepare_cached(
            "UPDATE credentials SET revoked_at = ?2 WHERE machine_id = ?1 AND revoked_at IS NULL RETURNING id",
        )?
        .query_map(params![machine.as_str(), tx.now_ms], |row| Ok(CredentialId(row.get(0)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    ended(tx, of_it);
    Ok(())
}

/// Revokes the machine and app credentials that a principal holds in a team, or all that it holds.
pub fn revoke_of_principal(
    tx: &Tx<'_>,
    principal: &PrincipalId,
    team: Option<&TeamId>,
) -> rusqlite::Result<()> {
    let of_it = tx
        .prepare_cached(
            "UPDATE credentials SET revoked_at = ?3
             WHERE principal_id = ?1 AND (?2 IS NULL OR team_id = ?2) AND revoked_at IS NULL RETURNING id",
        )?
        .query_map(params![principal.as_str(), team.map(TeamId::as_str), tx.now_ms], |row| {
            Ok(CredentialId(row.get(0)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    ended(tx, of_it);
    Ok(())
}
