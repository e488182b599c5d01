//! Machines and their sources in the database, as far as accounts and enrollment go. Reports, presence
//! and notes have files of their own.

use super::Tx;
use super::credentials::callers_change;
use super::presence::{away, connection_of};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::LazyLock;
use teamlamp_wire::heartbeat::Root;
use teamlamp_wire::id::{MachineId, PrincipalId, SourceId, TeamId};
use teamlamp_wire::machine::{Connection as Presence, Enrollment, Machine, Source};

/// What [`machine`] reads, from the first column on.
pub(super) const COLUMNS: &str = "m.id, m.name, m.custodian_id, m.enrollment, p.connection, m.last_seen_at,
       m.incarnation_id, m.host_key_id, m.revision, m.away_reason, m.away_since, m.clock_offset_ms";
static MACHINE: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {COLUMNS} FROM machines m LEFT JOIN machine_presence p ON p.machine_id = m.id")
});

/// The machine of a row.
pub(super) fn machine(row: &Row<'_>) -> rusqlite::Result<Machine> {
    let presence: Option<String> = row.get(4)?;
    let reason: Option<String> = row.get(9)?;
    let since: Option<i64> = row.get(10)?;
    Ok(Machine {
        id: MachineId(row.get(0)?),
        name: row.get(1)?,
        custodian_id: PrincipalId(row.get(2)?),
        enrollment: match row.get_ref(3)?.as_str()? {
            "active" => Enrollment::Active,
            _ => Enrollment::Revoked,
        },
        // The presence of the last committed transition: what the presence stream has said too.
        connection: presence.map_or(Presence::Offline, |word| connection_of(&word)),
        last_seen_at: row.get(5)?,
        incarnation_id: row.get(6)?,
        host_key_id: row.get(7)?,
        revision: row.get(8)?,
        away: away(reason.as_deref(), since),
        clock_offset_ms: row.get(11)?,
    })
}

/// A machine of a team, revoked or not, with the offset of its clock.
pub fn find(db: &Connection, team: &TeamId, id: &MachineId) -> rusqlite::Result<Option<Machine>> {
    db.prepare_cached(&format!("{} WHERE m.team_id = ?1 AND m.id = ?2", *MACHINE))?
        .query_row([team.as_str(), id.as_str()], machine)
        .optional()
}

/// A page of the machines that `viewer` may see, by name, then id: the active ones, their own revoked
/// ones, and every revoked one where `all`.
pub fn page(
    db: &Connection,
    team: &TeamId,
    viewer: &PrincipalId,
    all: bool,
    after: Option<(&str, &str)>,
    limit: usize,
) -> rusqlite::Result<Vec<Machine>> {
    let (name, id) = after.unwrap_or_default();
    db.prepare_cached(&format!(
        "{} WHERE m.team_id = ?1 AND (m.enrollment = 'active' OR m.custodian_id = ?2 OR ?3)
           AND (m.name, m.id) > (?4, ?5)
         ORDER BY m.name, m.id LIMIT ?6",
        *MACHINE
    ))?
    .query_map(
        params![team.as_str(), viewer.as_str(), all, name, id, i64::try_from(limit).unwrap_or(i64::MAX)],
        machine,
    )?
    .collect()
}

/// This custodian's machine that was enrolled with a key.
pub fn by_key(
    db: &Connection,
    team: &TeamId,
    custodian: &PrincipalId,
    key_hash: &[u8; 32],
) -> rusqlite::Result<Option<Machine>> {
    db.prepare_cached(&format!(
        "{} WHERE m.team_id = ?1 AND m.enrollment_key_hash = ?2 AND m.custodian_id = ?3",
        *MACHINE
    ))?
    .query_row(params![team.as_str(), key_hash, custodian.as_str()], machine)
    .optional()
}

/// The machine that holds a name (as [`teamlamp_wire::name::fold`] compares it), whoever's.
pub fn by_name(db: &Connection, team: &TeamId, name_fold: &str) -> rusqlite::Result<Option<Machine>> {
    db.prepare_cached(&format!("{} WHERE m.team_id = ?1 AND m.name_fold = ?2", *MACHINE))?
        .query_row([team.as_str(), name_fold], machine)
        .optional()
}

/// What an enrollment writes.
#[derive(Clone, Debug)]
pub struct Enrolling<'a> {
    /// The team.
    pub team: &'a TeamId,
    /// The name.
    pub name: &'a str,
    /// The name as it is compared.
    pub name_fold: &'a str,
    /// Who enrolls it.
    pub custodian: &'a PrincipalId,
    /// SHA-256 of the enrollment key.
    pub key_hash: &'a [u8; 32],
}

/// Writes a new machine, its source and its presence.
pub fn insert(tx: &Tx<'_>, id: &MachineId, source: &SourceId, new: &Enrolling<'_>) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO machines
           (id, team_id, name, name_fold, custodian_id, enrollment, enrollment_key_hash, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, 'active', ?6, ?7)",
    )?
    .execute(params![
        id.as_str(),
        new.team.as_str(),
        new.name,
        new.name_fold,
        new.custodian.as_str(),
        new.key_hash,
        tx.now_ms
    ])?;
    tx.prepare_cached(
        "INSERT INTO sources (id, team_id, name, kind, state, machine_id, custodian_id, default_visibility)
         VALUES (?1, ?2, ?3, 'connector', 'active', ?4, ?5, 'restricted')",
    )?
    .execute(params![
        source.as_str(),
        new.team.as_str(),
        source_name(new.name),
        id.as_str(),
        new.custodian.as_str()
    ])?;
    tx.prepare_cached("INSERT INTO machine_presence (machine_id, team_id, changed_at) VALUES (?1, ?2, ?3)")?
        .execute(params![id.as_str(), new.team.as_str(), tx.now_ms])?;
    Ok(())
}

/// Makes a machine active again with a key and a name, its source too; what changes raises a revision.
pub fn enroll_again(tx: &Tx<'_>, id: &MachineId, new: &Enrolling<'_>) -> rusqlite::Result<()> {
    callers_change(tx);
    tx.prepare_cached(
        "UPDATE machines SET name = ?2, name_fold = ?3, enrollment = 'active', enrollment_key_hash = ?4,
           revision = revision + 1
         WHERE id = ?1 AND (name <> ?2 OR enrollment <> 'active' OR enrollment_key_hash <> ?4)",
    )?
    .execute(params![id.as_str(), new.name, new.name_fold, new.key_hash])?;
    set_source(tx, id, new.name, "active")
}

/// Renames a machine and its source.
pub fn rename(tx: &Tx<'_>, id: &MachineId, name: &str, name_fold: &str) -> rusqlite::Result<()> {
    callers_change(tx);
    tx.prepare_cached(
        "UPDATE machines SET name = ?2, name_fold = ?3, revision = revision + 1 WHERE id = ?1",
    )?
    .execute([id.as_str(), name, name_fold])?;
    tx.prepare_cached("UPDATE sources SET name = ?2, revision = revision + 1 WHERE machine_id = ?1")?
        .execute([id.as_str(), &source_name(name)])?;
    Ok(())
}

/// Revokes a machine and its source.
pub fn revoke(tx: &Tx<'_>, id: &MachineId) -> rusqlite::Result<()> {
    callers_change(tx);
    tx.prepare_cached("UPDATE machines SET enrollment = 'revoked', revision = revision + 1 WHERE id = ?1")?
        .execute([id.as_str()])?;
    tx.prepare_cached("UPDATE sources SET state = 'revoked', revision = revision + 1 WHERE machine_id = ?1")?
        .execute([id.as_str()])?;
    Ok(())
}

fn set_source(tx: &Tx<'_>, machine: &MachineId, name: &str, state: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE sources SET name = ?2, state = ?3, revision = revision + 1
         WHERE machine_id = ?1 AND (name <> ?2 OR state <> ?3)",
    )?
    .execute([machine.as_str(), &source_name(name), state])?;
    Ok(())
}

fn source_name(machine: &str) -> String {
    format!("{machine} connector")
}

/// The active machines of a custodian in a team, by id.
pub fn active_of(db: &Connection, team: &TeamId, custodian: &PrincipalId) -> rusqlite::Result<Vec<Machine>> {
    db.prepare_cached(&format!(
        "{} WHERE m.team_id = ?1 AND m.custodian_id = ?2 AND m.enrollment = 'active' ORDER BY m.id",
        *MACHINE
    ))?
    .query_map([team.as_str(), custodian.as_str()], machine)?
    .collect()
}

/// A machine's source.
pub fn source(db: &Connection, machine: &MachineId) -> rusqlite::Result<Option<Source>> {
    db.prepare_cached(
        "SELECT id, name, kind, state, machine_id, custodian_id, default_visibility, revision,
                last_received_at, decoder
         FROM sources WHERE machine_id = ?1",
    )?
    .query_row([machine.as_str()], |row| {
        Ok(Source {
            id: SourceId(row.get(0)?),
            name: row.get(1)?,
            kind: row.get(2)?,
            state: row.get(3)?,
            machine_id: row.get::<_, Option<String>>(4)?.map(MachineId),
            custodian_id: PrincipalId(row.get(5)?),
            default_visibility: row.get(6)?,
            revision: row.get(7)?,
            last_received_at: row.get(8)?,
            decoder: row.get(9)?,
        })
    })
    .optional()
}

/// A page of a machine's roots by name, then id.
pub fn roots(
    db: &Connection,
    machine: &MachineId,
    after: Option<(&str, &str)>,
    limit: usize,
) -> rusqlite::Result<Vec<Root>> {
    let (name, id) = after.unwrap_or_default();
    db.prepare_cached(
        "SELECT id, name, harnesses FROM machine_roots
         WHERE machine_id = ?1 AND (name, id) > (?2, ?3) ORDER BY name, id LIMIT ?4",
    )?
    .query_map(params![machine.as_str(), name, id, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let harnesses: String = row.get(2)?;
        Ok(Root {
            id: row.get(0)?,
            machine_id: machine.clone(),
            name: row.get(1)?,
            // Written by this program as a JSON list.
            harnesses: serde_json::from_str(&harnesses).unwrap_or_default(),
        })
    })?
    .collect()
}
