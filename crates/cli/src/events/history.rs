//! The past, as far back as was asked for, oldest first.

use super::Filter;
use super::feed::Feed;
use crate::fail::Fail;
use crate::out::Out;
use teamlamp_client::Client;
use teamlamp_client::event::HistoryQuery;
use teamlamp_wire::Millis;
use teamlamp_wire::event::Sequenced;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::limits::PAGE_MAX;

/// More than this is not read at once.
pub(super) const MOST: usize = 20_000;

pub(super) async fn run(
    client: &Client,
    team: &TeamId,
    filter: &Filter,
    since: Millis,
    out: &Out,
) -> Result<(), Fail> {
    let events = read(client, team, filter, since, MOST, out).await?;
    if out.json {
        for it in &events {
            out.document(&serde_json::json!({"sequence": it.sequence, "event": it.event}))?;
        }
        return Ok(());
    }
    if events.is_empty() {
        out.note("Nothing happened in that time.");
    }
    let mut feed = Feed::of(filter.names.clone());
    let lines = feed.past(events.into_iter().map(|it| it.event).collect());
    for line in feed.draw(&lines, out.clock.now_ms(), out) {
        out.line(&line)?;
    }
    Ok(())
}

/// The events since a moment, at most so many of the newest, oldest first.
pub(super) async fn read(
    client: &Client,
    team: &TeamId,
    filter: &Filter,
    since: Millis,
    most: usize,
    out: &Out,
) -> Result<Vec<Sequenced>, Fail> {
    let mut events: Vec<Sequenced> = Vec::new();
    let mut query = HistoryQuery {
        limit: Some(PAGE_MAX.min(most)),
        kinds: filter.kinds.kinds().to_vec(),
        machine: filter.machine.clone(),
        ..HistoryQuery::default()
    };
    loop {
        let page = match client.history(team, &query).await {
            // A long past takes more questions than a minute has.
            Err(fault) if fault.status() == Some(429) => {
                out.clock.sleep(fault.retry_after().unwrap_or_default()).await;
                continue;
            }
            page => page?,
        };
        // Order is by sequence; an event's own time may be somewhat older than its neighbours'.
        let over = page.items.iter().all(|it| it.event.at < since);
        events.extend(page.items.into_iter().filter(|it| it.event.at >= since));
        query.before = page.next_cursor.and_then(|cursor| cursor.parse().ok());
        if over || query.before.is_none() || events.len() >= most {
            break;
        }
    }
    if events.len() >= MOST {
        out.note(&format!("Only the newest {MOST} events: ask for less time with --since."));
    }
    events.truncate(most);
    events.reverse();
    Ok(events)
}
