//! Publishing events and reading their history; the streams are in [`crate::follow`] (spec 03).

use crate::call::Call;
use crate::client::Client;
use crate::error::ClientError;
use crate::path::Path;
use teamlamp_wire::envelope::List;
use teamlamp_wire::event::{Publish, Published, Sequenced};
use teamlamp_wire::id::{EventId, MachineId, PrincipalId, SessionId, TeamId};

/// Which events to read; absent: all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryQuery {
    /// Only those below this sequence.
    pub before: Option<i64>,
    /// 1 to 200; absent: 50.
    pub limit: Option<usize>,
    /// Of these kinds; empty: of all.
    pub kinds: Vec<String>,
    /// About a machine or its sessions.
    pub machine: Option<MachineId>,
    /// About a session.
    pub session: Option<SessionId>,
    /// Made by someone.
    pub actor: Option<PrincipalId>,
    /// Whose names, titles and strings contain this.
    pub text: Option<String>,
}

/// Each method fails as [`ClientError`] says.
impl Client {
    /// Publishes up to 100 events, all or none. It may be repeated where the events carry ids of their
    /// publisher's choice.
    pub async fn publish(&self, team: &TeamId, events: &Publish) -> Result<Published, ClientError> {
        self.change(Call::post(Path::team(team).to("events"), events)).await
    }

    /// A page of the past, newest first; its `next_cursor` is the next `before`.
    pub async fn history(&self, team: &TeamId, query: &HistoryQuery) -> Result<List<Sequenced>, ClientError> {
        let kinds = (!query.kinds.is_empty()).then(|| query.kinds.join(","));
        let path = Path::team(team)
            .to("events")
            .to("history")
            .ask("before", query.before)
            .ask("limit", query.limit)
            .ask("kinds", kinds)
            .ask("machine", query.machine.as_ref())
            .ask("session", query.session.as_ref())
            .ask("actor", query.actor.as_ref())
            .ask("text", query.text.as_ref());
        self.page(path).await
    }

    /// One event.
    pub async fn event(&self, team: &TeamId, id: &EventId) -> Result<Sequenced, ClientError> {
        self.get(Path::team(team).to("events").piece(id)).await
    }
}
