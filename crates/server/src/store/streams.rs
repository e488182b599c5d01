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
