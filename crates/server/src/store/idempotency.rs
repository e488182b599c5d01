//! Stored answers to requests with an idempotency key.

use super::Tx;
use rusqlite::{Connection, OptionalExtension, params};
use teamlamp_wire::id::CredentialId;
use teamlamp_wire::limits::IDEMPOTENCY_MS;

/// Under what an answer is kept; empty strings stand for none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The team of the path.
    pub team: String,
    /// Who asked.
    pub principal: String,
    /// The route's operation.
    pub route: String,
    /// The key of the request.
    pub key: String,
}

/// A stored answer.
#[derive(Clone, Debug)]
pub struct Record {
    /// Keyed digest of the request.
    pub digest: [u8; 32],
    /// The answer's status.
    pub status: u16,
    /// Its body without secrets; empty for 204.
    pub body: String,
    /// Its `ETag`.
    pub etag: Option<i64>,
    /// The credential that the request made (accept only).
    pub credential: Option<CredentialId>,
}

/// The answer that is kept under a scope and has not expired.
pub fn find(db: &Connection, scope: &Scope, now: i64) -> rusqlite::Result<Option<Record>> {
    db.prepare_cached(
        "SELECT digest, status, body, etag, credential_id FROM idempotency
         WHERE team_id = ?1 AND principal_id = ?2 AND route = ?3 AND key = ?4 AND expires_at > ?5",
    )?
    .query_row(params![scope.team, scope.principal, scope.route, scope.key, now], |row| {
        Ok(Record {
            digest: row.get(0)?,
            status: row.get(1)?,
            body: row.get(2)?,
            etag: row.get(3)?,
            credential: row.get::<_, Option<String>>(4)?.map(CredentialId),
        })
    })
    .optional()
}

/// Keeps an answer for 24 hours, in the place of one that has expired.
pub fn keep(tx: &Tx<'_>, scope: &Scope, record: &Record) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "DELETE FROM idempotency
         WHERE team_id = ?1 AND principal_id = ?2 AND route = ?3 AND key = ?4 AND expires_at <= ?5",
    )?
    .execute(params![scope.team, scope.principal, scope.route, scope.key, tx.now_ms])?;
    tx.prepare_cached(
        "INSERT INTO idempotency
           (team_id, principal_id, route, key, digest, status, body, etag, credential_id, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        scope.team,
        scope.principal,
        scope.route,
        scope.key,
        record.digest,
        record.status,
        record.body,
        record.etag,
        record.credential.as_ref().map(CredentialId::as_str),
        tx.now_ms + IDEMPOTENCY_MS,
    ])?;
    Ok(())
}
