//! What the database says of itself: the server's id, its history, the folder that it belongs to.

use super::Tx;
use rusqlite::{Connection, OptionalExtension, params};

/// A value of `meta`.
pub fn get(db: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT value FROM meta WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
}

/// Writes a value of `meta`.
pub fn set(tx: &Tx<'_>, name: &str, value: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )?
    .execute(params![name, value])?;
    Ok(())
}
