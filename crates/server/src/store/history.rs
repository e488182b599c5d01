//! A team's events newest first, with filters: one bounded look at a time.

use super::backfill::{self, EVENT_LOOKUP};
use super::events::{COLUMNS, Stored, stored};
use crate::error::ApiError;
use rusqlite::{Connection, params};
use teamlamp_wire::id::{MachineId, TeamId};

/// How much one look takes: sequences, or events of whom the history is of.
pub const WINDOW: i64 = 1_000;

/// What a history asks for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The machine that an event concerns.
    pub machine: Option<MachineId>,
    /// The session that it is about.
    pub session: Option<String>,
    /// The principal who made it happen.
    pub actor: Option<String>,
}

/// What one look found.
#[derive(Debug)]
pub struct Look {
    /// Newest first; what is wanted, and nothing else.
    pub events: Vec<Stored>,
    /// Every event from here on was looked at: the next look goes below. 1 where the history begins.
    pub from: i64,
}

/// Looks at events below a sequence. A history of a machine, a session or an actor reads that one's own
/// events alone, once the walk of old events is done; before, and without a filter, a window of sequences.
///
/// # Errors
/// What the store says.
pub fn look(conn: &Connection, team: &TeamId, wanted: &Wanted, before: i64) -> Result<Look, ApiError> {
    // The narrowest first: of a session there are the fewest, of an actor the most.
    let narrow = [
        (2, wanted.session.as_deref()),
        (1, wanted.machine.as_ref().map(MachineId::as_str)),
        (3, wanted.actor.as_deref()),
    ];
    let narrow = narrow.into_iter().find_map(|(about, id)| Some((about, id?)));
    match narrow {
        Some((about, id)) if backfill::is_done(conn, EVENT_LOOKUP)? => {
            let oldest = oldest_of(conn, team, (about, id), before)?;
            let Some(from) = oldest else { return Ok(Look { events: Vec::new(), from: 1 }) };
            let from_clause = "event_lookup l JOIN events e ON e.team_id = l.team_id AND e.sequence = l.sequence
                 WHERE l.team_id = ?1 AND l.about = ?7 AND l.id = ?8 AND l.sequence >= ?2 AND l.sequence < ?3";
            let found = (from_clause, "l.sequence");
            let events = within(conn, team, wanted, (from, before), found, Some((about, id)))?;
            Ok(Look { events, from })
        }
        _ => {
            let from = (before - WINDOW).max(1);
            let all = "events e WHERE e.team_id = ?1 AND e.sequence >= ?2 AND e.sequence < ?3
                 AND ?7 IS NULL AND ?8 IS NULL";
            let events = within(conn, team, wanted, (from, before), (all, "e.sequence"), None)?;
            Ok(Look { events, from })
        }
    }
}

/// The sequence of the last of a window of events about something; `None` where there are none.
fn oldest_of(
    conn: &Connection,
    team: &TeamId,
    (about, id): (i64, &str),
    before: i64,
) -> Result<Option<i64>, ApiError> {
    let (oldest, count): (Option<i64>, i64) = conn
        .prepare_cached(
            "SELECT min(sequence), count(*) FROM (
               SELECT sequence FROM event_lookup
               WHERE team_id = ?1 AND about = ?2 AND id = ?3 AND sequence < ?4 ORDER BY sequence DESC LIMIT ?5)",
        )?
        .query_row(params![team.as_str(), about, id, before, WINDOW], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(oldest.map(|oldest| if count < WINDOW { 1 } else { oldest }))
}

fn within(
    conn: &Connection,
    team: &TeamId,
    wanted: &Wanted,
    (from, before): (i64, i64),
    (rows_of, order): (&str, &str),
    narrow: Option<(i64, &str)>,
) -> Result<Vec<Stored>, ApiError> {
    let sql = format!(
        "SELECT {} FROM {rows_of}
           AND (?4 IS NULL OR e.machine_id = ?4)
           AND (?5 IS NULL OR (e.resource_kind = 'session' AND e.resource_id = ?5))
           AND (?6 IS NULL OR e.actor_id = ?6)
         ORDER BY {order} DESC",
        *COLUMNS
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let machine = wanted.machine.as_ref().map(MachineId::as_str);
    let (about, id) = narrow.unzip();
    let rows = statement.query_map(
        params![team.as_str(), from, before, machine, wanted.session, wanted.actor, about, id],
        |row| stored(team, row),
    )?;
    Ok(rows.collect::<Result<_, _>>()?)
}
