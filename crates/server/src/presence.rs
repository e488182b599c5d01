//! Who is there. The store's rows say it and nothing else does: one function, [`settle`], keeps them
//! true in the transaction of whatever changed the facts, and a timer calls it when time alone has
//! (spec 02). Each transition is written with its event.

pub mod reconcile;
pub mod stream;
pub mod trust;

use crate::app::App;
use crate::error::ApiError;
use crate::events::append::{NewEvent, append, system};
use crate::store::Tx;
use crate::store::presence::{self as rows, Known};
use serde_json::json;
use std::time::Duration;
use teamlamp_clock::ms;
use teamlamp_wire::Millis;
use teamlamp_wire::id::MachineId;
use teamlamp_wire::limits::RESTART_GRACE_MS;
use teamlamp_wire::machine::Connection;
use teamlamp_wire::presence::{Facts, connection};

/// How many machines one transaction of the timer settles.
const BATCH: usize = 100;
/// The wait after a store that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// What a machine's presence is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decision {
    connection: Connection,
    linked: bool,
    /// When time alone would change it.
    due: Option<Millis>,
}

/// Decides from what is stored, whether this process holds the link, and since when it has listened.
fn decide(known: &Known, link_held: bool, since: Millis, now: Millis) -> Decision {
    // A revoked machine can't be heard from, whatever it still holds.
    if !known.active {
        return Decision { connection: Connection::Offline, linked: false, due: None };
    }
    let facts = Facts {
        last_seen_at: trust::heard_at(known.last_seen_at, since, now),
        linked: known.linked,
        link_held,
        before: known.connection,
        server_started_at: since,
    };
    let (connection, due) = connection(&facts, now);
    let grace_until = since + RESTART_GRACE_MS;
    let may_be_dialling = known.linked && !link_held && now < grace_until;
    let link_due = may_be_dialling.then_some(grace_until);
    let due = due.into_iter().chain(link_due).min();
    Decision { connection, linked: link_held || may_be_dialling, due }
}

/// Brings what the store says of a machine's presence up to date, and writes a transition with its
/// event where it changed. Called in the transaction of whatever changed the facts.
///
/// # Errors
/// What the store says.
pub fn settle(tx: &Tx<'_>, app: &App, machine: &MachineId) -> Result<(), ApiError> {
    match rows::known(tx, machine)? {
        Some(known) => settle_known(tx, app, &known).map(|_| ()),
        None => Ok(()),
    }
}

/// [`settle`] after a link that this process held has ended: it is not one that may be dialling back.
///
/// # Errors
/// What the store says.
pub fn link_ended(tx: &Tx<'_>, app: &App, machine: &MachineId) -> Result<(), ApiError> {
    let Some(known) = rows::known(tx, machine)? else { return Ok(()) };
    let decision = decide_now(tx, app, &Known { linked: false, ..known.clone() });
    write(tx, app, &known, decision).map(|_| ())
}

/// [`settle`] of a machine that was read in this transaction; its presence after.
///
/// # Errors
/// What the store says.
pub fn settle_known(tx: &Tx<'_>, app: &App, known: &Known) -> Result<Connection, ApiError> {
    let decision = decide_now(tx, app, known);
    write(tx, app, known, decision)
}

fn decide_now(tx: &Tx<'_>, app: &App, known: &Known) -> Decision {
    let since = app.trust.since_of(&app.clock, &known.machine_id);
    decide(known, app.hub.holds(&known.machine_id), since, tx.now_ms)
}

fn write(tx: &Tx<'_>, app: &App, known: &Known, now: Decision) -> Result<Connection, ApiError> {
    if (now.connection, now.linked) == (known.connection, known.linked) {
        return Ok(now.connection);
    }
    rows::record(tx, known, now.linked, now.connection)?;
    if now.connection != known.connection {
        rows::record_transition(tx, known, now.linked, now.connection)?;
        append(tx, &app.chance, &known.team_id, event(known, now.connection))?;
    }
    tx.after_commit(|effects| {
        effects.presence.insert(known.team_id.clone());
    });
    Ok(now.connection)
}

fn event(known: &Known, to: Connection) -> NewEvent {
    let mut data = json!({
        "name": known.name,
        "from": known.connection,
        "to": to,
        "last_seen_at": known.last_seen_at,
    });
    if let Some(away) = &known.away {
        data["away"] = json!(away);
    }
    let kind = format!("machine.{}", to.as_str());
    NewEvent::new(system(), &kind, "machine", known.machine_id.as_str(), data).of_machine(&known.machine_id)
}

/// The timer: finds what falls due at the moment when it does.
pub async fn watch(app: App) {
    loop {
        let wait = match look(&app).await {
            Ok(due) => due.map(|due| ms(due - app.clock.now_ms())),
            Err(fault) => {
                // A failure of the server's own store never changes anyone's presence.
                app.trust.begin_again(&app.clock);
                tracing::warn!(%fault, "presence could not be brought up to date");
                Some(AGAIN)
            }
        };
        let due = async {
            match wait {
                Some(wait) => app.clock.sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = app.hub.presence_due() => {}
            () = due => {}
        }
    }
}

/// Settles what is due; when something next will be.
async fn look(app: &App) -> Result<Option<Millis>, ApiError> {
    let up = app.store.read(rows::up).await?;
    let now = app.clock.now_ms();
    let mut next = None;
    let mut overdue = Vec::new();
    for known in up {
        let since = app.trust.since_of(&app.clock, &known.machine_id);
        let then = decide(&known, app.hub.holds(&known.machine_id), since, now);
        if (then.connection, then.linked) != (known.connection, known.linked) {
            overdue.push(known.machine_id);
            continue;
        }
        next = next.into_iter().chain(then.due).min();
    }
    if overdue.is_empty() {
        return Ok(next);
    }
    for machines in overdue.chunks(BATCH) {
        let (app, machines) = (app.clone(), machines.to_vec());
        let store = app.store.clone();
        store.write(move |tx| machines.iter().try_for_each(|machine| settle(tx, &app, machine))).await?;
    }
    // What was settled may have a next moment of its own: the commit woke the timer for it.
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Connection::{Offline, Online, Unlinked};

    fn known(last_seen_at: Option<Millis>, linked: bool, connection: Connection) -> Known {
        Known {
            machine_id: "mach_1".into(),
            team_id: "team_1".into(),
            name: "a".into(),
            active: true,
            last_seen_at,
            away: None,
            linked,
            connection,
        }
    }

    #[test]
    fn the_link_of_before_a_restart_counts_until_the_grace_ends() {
        let known = known(Some(900_000), true, Online);
        let now = decide(&known, false, 1_000_000, 1_044_999);
        assert_eq!(now, Decision { connection: Online, linked: true, due: Some(1_045_000) });
        let after = decide(&known, false, 1_000_000, 1_045_000);
        assert_eq!(after, Decision { connection: Offline, linked: false, due: None });
    }

    #[test]
    fn a_link_without_a_heartbeat_is_offline_and_one_that_ended_unlinked() {
        let now = decide(&known(None, false, Offline), true, 0, 2_000_000);
        assert_eq!(now, Decision { connection: Offline, linked: true, due: None });
        let now = decide(&known(Some(1_999_000), true, Online), false, 0, 2_000_000);
        assert_eq!(now, Decision { connection: Unlinked, linked: false, due: Some(2_044_000) });
    }

    #[test]
    fn a_stored_link_of_a_machine_that_is_offline_ends_with_the_grace_too() {
        let now = decide(&known(Some(0), true, Offline), false, 1_000_000, 1_000_001);
        assert_eq!(now, Decision { connection: Offline, linked: true, due: Some(1_045_000) });
    }

    #[test]
    fn a_revoked_machine_is_offline_at_once() {
        let revoked = Known { active: false, ..known(Some(1_999_999), true, Online) };
        assert_eq!(decide(&revoked, true, 0, 2_000_000).connection, Offline);
    }

    #[test]
    fn a_clock_that_was_set_back_neither_ends_nor_keeps_anyone() {
        let known = known(Some(9_000_000), true, Online);
        let now = decide(&known, true, 2_000_000, 2_000_001);
        assert_eq!((now.connection, now.due), (Online, Some(2_045_000)));
        assert_eq!(decide(&known, true, 2_000_000, 2_045_000).connection, Offline);
    }
}
