//! The feed as it happens: a snapshot or the latest events first, then each new one, across drops and
//! restarts of server and connector.

use super::Filter;
use super::feed::Feed;
use super::history;
use crate::args::Events;
use crate::fail::Fail;
use crate::out::{Out, Style};
use crate::words;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use teamlamp_client::session::SessionQuery;
use teamlamp_client::{Client, ClientError, Door, Ending, FollowQuery, Followed, Mode};
use teamlamp_clock::ms;
use teamlamp_connector::Context;
use teamlamp_wire::event::Event;
use teamlamp_wire::frame::Frame;
use teamlamp_wire::local::State;
use teamlamp_wire::machine::Connection as Presence;
use teamlamp_wire::text::visible;

/// How many past events stand before the live ones, where no time was asked for.
const LATEST: usize = 10;

/// Where events come from.
pub(super) struct Sources {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) door: Door,
}

pub(super) async fn run(args: &Events, filter: &Filter, from: Sources, out: &Out) -> Result<(), Fail> {
    let mut stream = open(args, &from).await;
    if out.json {
        return frames(&mut stream, filter, out).await;
    }
    let mut shown =
        Shown { feed: Feed::of(filter.names.clone()), highest: 0, connection: Connection::default() };
    // Without a cursor the latest events are shown once the snapshot is whole: what is later comes live.
    let mut opening = args.after.is_none();
    loop {
        let due = shown.feed.due_at().map(|due| ms(due - out.clock.now_ms()));
        let item = tokio::select! {
            biased;
            item = stream.next() => item,
            () = out.clock.sleep(due.unwrap_or_default()), if due.is_some() => {
                let lines = shown.feed.due(out.clock.now_ms());
                shown.print(&lines, out)?;
                continue;
            }
        };
        let Some(item) = item else { return Ok(()) };
        if let Some(said) = shown.connection.says(&item) {
            out.note(&out.paint(Style::Quiet, &said));
        }
        match item {
            Followed::Frame { frame: Frame::SnapshotEnd { .. }, .. } if opening => {
                opening = false;
                shown.open(args, filter, &from, out).await?;
            }
            Followed::Frame { frame: Frame::Event { sequence, data, .. }, .. } => {
                shown.event(sequence, data, filter, out)?;
            }
            Followed::Gap { events_missed, .. } => shown.gap(events_missed, out)?,
            Followed::Ended { why } => return Err(ended(why)),
            Followed::Frame { .. } | Followed::Connected { .. } | Followed::Dropped { .. } => {}
        }
    }
}

/// The connector's stream while that is live, else the server's own.
async fn open(args: &Events, from: &Sources) -> BoxStream<'static, Followed> {
    let query = FollowQuery::all(from.context.team_id.clone());
    let status = from.door.status().await.ok();
    let serves = status.is_some_and(|status| {
        let here = status.contexts.iter().find(|context| context.id == from.context.id);
        here.is_some_and(|context| context.state == State::Online)
    });
    match serves {
        true => from.door.follow_or_server(&from.context.id, &from.client, &query, args.after.clone()),
        false => from.client.follow(&query, args.after.clone()),
    }
}

/// The frames as they are, one a line; events that were not asked for are left out.
async fn frames(stream: &mut BoxStream<'static, Followed>, filter: &Filter, out: &Out) -> Result<(), Fail> {
    let mut connection = Connection::default();
    while let Some(item) = stream.next().await {
        if let Some(said) = connection.says(&item) {
            out.note(&said);
        }
        match item {
            Followed::Frame { frame, .. } => {
                let admitted = match &frame {
                    Frame::Event { data, .. } | Frame::SnapshotItem { data, .. } => filter.admits(data),
                    _ => true,
                };
                if admitted {
                    out.document(&frame)?;
                }
            }
            Followed::Ended { why } => return Err(ended(why)),
            Followed::Connected { .. } | Followed::Gap { .. } | Followed::Dropped { .. } => {}
        }
    }
    Ok(())
}

fn ended(why: Ending) -> Fail {
    match why {
        Ending::Refused(fault) => fault.into(),
        Ending::AccessRevoked(reason) => {
            Fail::failed(format!("Your access to this team has ended ({reason}): ask for a new invitation."))
        }
    }
}

/// What was said of the connection: an outage is said once, not at each try.
#[derive(Debug, Default)]
struct Connection {
    lost: bool,
}

impl Connection {
    /// What there is to say of it now.
    fn says(&mut self, item: &Followed) -> Option<String> {
        match item {
            Followed::Connected { mode: Mode::Polling } => {
                self.lost = false;
                let held = "Something on the way holds live streams back: asking for news instead.";
                Some(held.to_owned())
            }
            Followed::Connected { mode: Mode::Streaming } => {
                std::mem::take(&mut self.lost).then(|| "Connected again.".to_owned())
            }
            Followed::Dropped { why, wait } => {
                let sentence = visible(&why.sentence());
                match why.retry_after() {
                    Some(_) => Some(format!("{sentence} Next try in {} s.", wait.as_secs())),
                    None if std::mem::replace(&mut self.lost, true) => None,
                    None => Some(format!("{sentence} Coming back by itself.")),
                }
            }
            Followed::Frame { .. } | Followed::Gap { .. } | Followed::Ended { .. } => None,
        }
    }
}

/// What a person has been shown.
struct Shown {
    feed: Feed,
    highest: i64,
    connection: Connection,
}

impl Shown {
    /// What the team is like, and its latest events.
    async fn open(&mut self, args: &Events, filter: &Filter, from: &Sources, out: &Out) -> Result<(), Fail> {
        if let Ok(line) = now(from, out).await {
            out.line(&line)?;
            out.line("")?;
        }
        let (since, most) = match args.since {
            Some(seconds) => (out.clock.now_ms() - seconds * 1_000, history::MOST),
            None => (0, LATEST),
        };
        let team = &from.context.team_id;
        let Ok(events) = history::read(&from.client, team, filter, since, most, out).await else {
            return Ok(());
        };
        self.highest = events.last().map_or(0, |it| it.sequence);
        let lines = self.feed.past(events.into_iter().map(|it| it.event).collect());
        self.print(&lines, out)
    }

    fn event(&mut self, sequence: i64, event: Event, filter: &Filter, out: &Out) -> Result<(), Fail> {
        if sequence <= self.highest {
            return Ok(());
        }
        self.highest = sequence;
        if !filter.admits(&event) {
            self.feed.names.learn(&event);
            return Ok(());
        }
        let lines = self.feed.take(event, out.clock.now_ms());
        self.print(&lines, out)
    }

    fn gap(&mut self, events_missed: Option<i64>, out: &Out) -> Result<(), Fail> {
        self.highest = 0;
        let missed = match events_missed {
            Some(n) => format!("{n} older events are gone"),
            None => "some older events are gone".into(),
        };
        Ok(out.line(&out.paint(Style::Quiet, &format!("          –  {missed}")))?)
    }

    fn print(&mut self, lines: &[super::line::Line], out: &Out) -> Result<(), Fail> {
        for line in self.feed.draw(lines, out.clock.now_ms(), out) {
            out.line(&line)?;
        }
        Ok(())
    }
}

/// One line: who is up, what runs, who waits.
async fn now(from: &Sources, out: &Out) -> Result<String, ClientError> {
    let team = &from.context.team_id;
    let machines = from.client.machines(team).await?;
    let live = SessionQuery { live: Some(true), ..SessionQuery::default() };
    let sessions = from.client.all_sessions(team, &live).await?;
    let online = machines.iter().filter(|m| m.connection == Presence::Online).count();
    let waiting = sessions.iter().filter(|s| s.turn.waits()).count();
    let mut line = format!(
        "{}  {} of {} online, {}",
        out.paint(Style::Strong, &visible(&from.context.team_name)),
        online,
        words::count(machines.len(), "machine", "machines"),
        match sessions.len() {
            0 => "no agents run".to_owned(),
            n => words::count(n, "agent runs", "agents run"),
        },
    );
    if waiting > 0 {
        let waits = words::count(waiting, "waits for a person", "wait for a person");
        line = format!("{line}, {}", out.paint(Style::Waiting, &waits));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use teamlamp_client::{FaultKind, Refusal, TransportFault};
    use teamlamp_wire::envelope::{ErrorBody, ErrorCode};

    #[test]
    fn an_outage_is_said_once_and_so_is_its_end() {
        let dropped = || Followed::Dropped {
            why: TransportFault::new(FaultKind::Closed, "http://127.0.0.1:1", "x").into(),
            wait: Duration::from_millis(300),
        };
        let connected = || Followed::Connected { mode: Mode::Streaming };
        let mut connection = Connection::default();
        let mut said = |item: Followed| connection.says(&item).unwrap_or_default();
        assert_eq!(said(connected()), "", "the first connection is no news");
        assert!(said(dropped()).starts_with("http://127.0.0.1:1 closed the connection."));
        assert_eq!((said(dropped()), said(dropped())), (String::new(), String::new()));
        assert_eq!(said(connected()), "Connected again.");
        assert_ne!(said(dropped()), "");
    }

    #[test]
    fn a_refusal_for_load_says_how_long_it_takes() {
        let body = ErrorBody {
            code: ErrorCode::RateLimited,
            message: "Too many streams.".into(),
            retryable: None,
            details: None,
        };
        let refusal = Refusal { status: 429, body, retry_after: Some(Duration::from_secs(30)) };
        let why = ClientError::Refused(refusal);
        let item = Followed::Dropped { why, wait: Duration::from_secs(30) };
        assert_eq!(Connection::default().says(&item).as_deref(), Some("Too many streams. Next try in 30 s."));
    }
}
