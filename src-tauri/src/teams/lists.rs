//! Reading what a team's server holds into the model: machines, sessions, the person's role, the past.

use super::Teams;
use crate::failure::of_client;
use crate::model::{Again, Team};
use teamlamp_client::event::HistoryQuery;
use teamlamp_client::session::SessionQuery;
use teamlamp_client::{Client, ClientError};
use teamlamp_wire::event::Sequenced;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::window::{Failure, HISTORY_MAX, HOUR_MS};

/// The most pages of the past that are read at a start: 1,000 events.
const PAGES_MAX: usize = 5;
/// The most sessions that are read beside the live ones: those that ended last.
const ENDED_MAX: usize = 200;

/// The reader of one team.
pub(super) struct Reader {
    teams: Teams,
    context: String,
    team: TeamId,
    /// Signed in, until the server refuses that.
    client: Option<Client>,
    past: bool,
}

impl Reader {
    pub(super) fn new(teams: Teams, context: String, team: TeamId) -> Self {
        Self { teams, context, team, client: None, past: true }
    }

    /// Has the past read with the next reading: at the start, and after a gap.
    pub(super) fn wants_past(&mut self) {
        self.past = true;
    }

    /// Reads what is wanted; false where that failed and has to be tried again.
    pub(super) async fn read(&mut self, again: Again) -> bool {
        match self.try_read(again).await {
            Ok(()) => true,
            Err(fault) => {
                tracing::info!(context = %self.context, code = %fault.code, why = %fault.message, "a team could not be read");
                false
            }
        }
    }

    async fn try_read(&mut self, again: Again) -> Result<(), Failure> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.teams.person(&self.context).await?.at("window"),
        };
        let read = self.read_with(&client, again).await;
        // Another process of this home may have renewed the sign-in.
        let refused = matches!(&read, Err(fault) if fault.status() == Some(401));
        self.client = (!refused).then_some(client);
        read.map_err(|fault| of_client(&fault))
    }

    async fn read_with(&mut self, client: &Client, again: Again) -> Result<(), ClientError> {
        let clock = self.teams.0.install.clock.clone();
        if again.team {
            let (team, me) = (client.team(&self.team).await?, client.me().await?);
            let role = me.memberships.iter().find(|m| m.team.id == self.team).map(|m| m.role);
            self.change(|shown| {
                (shown.role, shown.retention_days) = (role, Some(team.settings.retention_days))
            });
        }
        if again.lists {
            let machines = client.machines(&self.team).await?;
            let live = SessionQuery { live: Some(true), ..SessionQuery::default() };
            let mut sessions = client.all_sessions(&self.team, &live).await?;
            let newest = client.newest_sessions(&self.team, &SessionQuery::default(), ENDED_MAX).await?;
            sessions.extend(newest.into_iter().filter(|session| !session.live));
            self.change(|shown| shown.lists(machines, sessions, clock.now_ms()));
        }
        if self.past {
            let past = self.past(client, clock.now_ms()).await?;
            self.change(|shown| shown.history(past, clock.now_ms()));
            self.past = false;
        }
        Ok(())
    }

    /// The past that is worth reading at once: down to what the feed holds, or an hour, or a bound.
    async fn past(&self, client: &Client, now: i64) -> Result<Vec<Sequenced>, ClientError> {
        let held =
            self.teams.0.desktop.read(|m| m.teams.get(&self.context).map_or(0, |t| t.feed.last_sequence()));
        let mut past: Vec<Sequenced> = Vec::new();
        let mut before = None;
        for _ in 0..PAGES_MAX {
            let query = HistoryQuery { before, limit: Some(HISTORY_MAX), ..HistoryQuery::default() };
            let page = client.history(&self.team, &query).await?;
            before = page.next_cursor.and_then(|cursor| cursor.parse().ok());
            past.extend(page.items);
            let oldest = past.last();
            let enough =
                oldest.is_none_or(|o| o.sequence <= held || (held == 0 && o.event.at < now - HOUR_MS));
            if before.is_none() || enough {
                break;
            }
        }
        Ok(past)
    }

    fn change(&self, change: impl FnOnce(&mut Team)) {
        self.teams.0.desktop.change(|model| model.teams.get_mut(&self.context).map(change));
    }
}
