//! What goes out before a report: the rows of the outbox, in order, and sessions that the team does not
//! know yet.

use super::Team;
use crate::journal::Full;
use crate::outbox::{Row, settle};
use crate::privacy::Native;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;
use teamlamp_client::session::SessionQuery;
use teamlamp_client::{Client, ClientError, FaultKind, IdempotencyKey, TransportFault};
use teamlamp_wire::event::Publish;
use teamlamp_wire::id::SessionId;
use teamlamp_wire::limits::{PAGE_MAX, PUBLISH_MAX};
use teamlamp_wire::session::{RegisterSession, RegisterSessions};

/// How long the outbox may keep a report waiting (spec 03).
const BOUND: Duration = Duration::from_secs(10);

/// Sends what waits. Within its time it sends all of it; what is left goes out before the next report.
pub(super) async fn outbox(team: &Team, client: &Client) -> Result<(), ClientError> {
    if team.journal.waiting(1).is_empty() {
        return Ok(());
    }
    match team.install.clock.within(BOUND, send(team, &client.at("outbox"))).await {
        Some(Err(Stop::Server(fault))) => Err(fault),
        // A disk that is full is tried again with the next report: sent twice, the rows count once.
        None | Some(Ok(()) | Err(Stop::Disk)) => Ok(()),
    }
}

/// Why not all of it was sent.
enum Stop {
    Server(ClientError),
    /// What was sent can't be taken out of the outbox.
    Disk,
}

impl From<ClientError> for Stop {
    fn from(fault: ClientError) -> Self {
        Self::Server(fault)
    }
}

impl From<Full> for Stop {
    fn from(_: Full) -> Self {
        Self::Disk
    }
}

async fn send(team: &Team, client: &Client) -> Result<(), Stop> {
    let context = team.context();
    let machine = context.machine.ok_or_else(no_machine)?.id;
    // A report may have arrived of which only the answer was lost: the newest sessions say so.
    let query = SessionQuery { machine: Some(machine.clone()), ..SessionQuery::default() };
    let known = client.newest_sessions(&context.team_id, &query, PAGE_MAX).await?;
    loop {
        let rows = team.journal.waiting(i64::try_from(PUBLISH_MAX).unwrap_or(1));
        if rows.is_empty() {
            return Ok(());
        }
        let (rows, needless) = settle(rows, &known, &team.journal.sharing());
        team.journal.done(&needless)?;
        if rows.is_empty() {
            continue;
        }
        register(team, client, unknown(team, &rows)).await?;
        let ids = ids(team);
        let (known_rows, lost): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|(_, row)| ids.contains_key(&row.native()));
        team.journal.done(&lost.iter().map(|(number, _)| *number).collect::<Vec<_>>())?;
        if !known_rows.is_empty() {
            publish(team, client, &known_rows, &ids, &machine).await?;
        }
    }
}

/// Publishes a batch; where the server refuses it as such, its rows one by one, and drops what is refused.
async fn publish(
    team: &Team,
    client: &Client,
    rows: &[(i64, Row)],
    ids: &BTreeMap<Native, SessionId>,
    machine: &teamlamp_wire::id::MachineId,
) -> Result<(), Stop> {
    let whole = publish_once(team, client, rows, ids, machine).await;
    match whole {
        Err(fault) if is_final(&fault) && rows.len() > 1 => {
            for row in rows {
                Box::pin(publish(team, client, std::slice::from_ref(row), ids, machine)).await?;
            }
            return Ok(());
        }
        Err(fault) if is_final(&fault) => {
            tracing::warn!(context = %team.id, %fault, "an event was refused and is dropped");
        }
        done => done?,
    }
    Ok(team.journal.done(&rows.iter().map(|(number, _)| *number).collect::<Vec<_>>())?)
}

async fn publish_once(
    team: &Team,
    client: &Client,
    rows: &[(i64, Row)],
    ids: &BTreeMap<Native, SessionId>,
    machine: &teamlamp_wire::id::MachineId,
) -> Result<(), ClientError> {
    let events =
        rows.iter().filter_map(|(_, row)| Some(row.event(ids.get(&row.native())?, machine))).collect();
    let digest = rows.iter().fold(Sha256::new(), |sum, (_, row)| sum.chain_update(row.id.as_str()));
    // The same rows are the same request, also after a restart.
    let key = digest.finalize().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let client = IdempotencyKey::kept(&key).map_or_else(|| client.clone(), |key| client.with_key(key));
    client.publish(&team.context().team_id, &Publish { events }).await.map(|_| ())
}

/// Whether the same would be refused for ever. A sign-in that ended, and load, are not of the request.
fn is_final(fault: &ClientError) -> bool {
    matches!(fault.status(), Some(400 | 404 | 409 | 410 | 413))
        && fault.retry_after().is_none()
        && !fault.may_pass()
}

fn ids(team: &Team) -> BTreeMap<Native, SessionId> {
    let registered = team.reporter.registered.lock().unwrap_or_else(PoisonError::into_inner);
    registered.iter().map(|(native, (_, id))| (native.clone(), id.clone())).collect()
}

fn unknown(team: &Team, rows: &[(i64, Row)]) -> Vec<RegisterSession> {
    let ids = ids(team);
    let rows = rows.iter().filter(|(_, row)| !ids.contains_key(&row.native()));
    let distinct: BTreeMap<Native, RegisterSession> =
        rows.map(|(_, row)| (row.native(), row.registration())).collect();
    distinct.into_values().collect()
}

/// Registers sessions and remembers their ids.
pub(super) async fn register(
    team: &Team,
    client: &Client,
    wanted: Vec<RegisterSession>,
) -> Result<(), ClientError> {
    for sessions in wanted.chunks(PUBLISH_MAX) {
        let request = RegisterSessions { sessions: sessions.to_vec() };
        let answer = client.at("register").register_sessions(&team.context().team_id, &request).await?;
        let mut registered = team.reporter.registered.lock().unwrap_or_else(PoisonError::into_inner);
        for (session, made) in sessions.iter().zip(answer.sessions) {
            let native = Native { harness: session.harness.clone(), native_id: session.native_id.clone() };
            registered.insert(native, (session.clone(), made.id));
        }
    }
    Ok(())
}

pub(super) fn took_long(peer: &str) -> ClientError {
    TransportFault::new(FaultKind::Timeout, peer, "nothing came in time").into()
}

pub(super) fn no_machine() -> ClientError {
    TransportFault::new(FaultKind::Address, "the team", "This context has no machine.").into()
}
