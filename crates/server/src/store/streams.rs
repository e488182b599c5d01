//! What the opening of a stream asks of credentials and machines.

use crate::error::ApiError;
use rusqlite::{Connection, OptionalExtension, params};
use teamlamp_wire::Millis;
use teamlamp_wire::id::{CredentialId, MachineId, TeamId};

/// When a credential ends by itself.
pub fn credential_end(conn: &Connection, credential: &CredentialId) -> Result<Millis, ApiError> {
    let end = conn
        .prepare_cached("SELECT expires_at FROM credentials WHERE id = ?1")?
        .query_row([credential.as_str()], |row| row.get(0))
        .optional()?;
    Ok(end.unwrap_or(0))
}

/// Whether a machine is enrolled and active in a team.
pub fn machine_is_active(conn: &Connection, team: &TeamId, machine: &MachineId) -> Result<bool, ApiError> {
    let active = conn
        .prepare_cached("SELECT 1 FROM machines WHERE id = ?1 AND team_id = ?2 AND enrollment = 'active'")?
        .exists(params![machine.as_str(), team.as_str()])?;
    Ok(active)
}

/// What became of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// It is valid, and ends by itself then.
    Valid(Millis),
    /// It, or its machine, was revoked.
    Revoked,
    /// Its time is over.
    Expired,
}

/// What became of a machine's credential.
pub fn credential(conn: &Connection, credential: &CredentialId, now: Millis) -> Result<Credential, ApiError> {
    let row: Option<(Millis, bool)> = conn
        .prepare_cached(
            "SELECT c.expires_at, c.revoked_at IS NULL AND coalesce(m.enrollment, 'active') = 'active'
             FROM credentials c LEFT JOIN machines m ON m.id = c.machine_id WHERE c.id = ?1",
        )?
        .query_row([credential.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match row {
        Some((expires_at, true)) if expires_at > now => Credential::Valid(expires_at),
        Some((_, true)) => Credential::Expired,
        _ => Credential::Revoked,
    })
}

/// What a machine's configuration was last changed by.
pub fn configuration_mark(conn: &Connection, machine: &MachineId) -> Result<Option<i64>, ApiError> {
    let mark = conn
        .prepare_cached("SELECT revision FROM sources WHERE machine_id = ?1")?
        .query_row([machine.as_str()], |row| row.get(0))
        .optional()?;
    Ok(mark)
}
