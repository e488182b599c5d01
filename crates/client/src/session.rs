//! Sessions as the team knows them (spec 04).

use crate::call::Call;
use crate::client::Client;
use crate::error::ClientError;
use crate::path::Path;
use teamlamp_wire::envelope::List;
use teamlamp_wire::id::{MachineId, SessionId, TeamId};
use teamlamp_wire::session::{RegisterSessions, RegisteredSessions, Session, Turn};

/// Which sessions to list; absent: all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionQuery {
    /// Of one machine.
    pub machine: Option<MachineId>,
    /// Of one program.
    pub harness: Option<String>,
    /// That do this.
    pub turn: Option<Turn>,
    /// In a root of this name.
    pub root: Option<String>,
    /// Whose names contain this.
    pub text: Option<String>,
    /// That run now, or that don't.
    pub live: Option<bool>,
    /// 1 to 200; absent: 50.
    pub limit: Option<usize>,
    /// Where the page begins.
    pub cursor: Option<String>,
}

/// Each method fails as [`ClientError`] says.
impl Client {
    /// Makes this machine's native sessions known to the team, or updates them; at most 100. It may be
    /// repeated: the second time changes nothing.
    pub async fn register_sessions(
        &self,
        team: &TeamId,
        sessions: &RegisterSessions,
    ) -> Result<RegisteredSessions, ClientError> {
        self.change(Call::post(Path::team(team).to("sessions"), sessions)).await
    }

    /// A page of sessions, newest first.
    pub async fn sessions(&self, team: &TeamId, query: &SessionQuery) -> Result<List<Session>, ClientError> {
        let path = list(team, query).ask("limit", query.limit).ask("cursor", query.cursor.as_ref());
        self.page(path).await
    }

    /// All sessions that a query names, newest first, whatever its limit and cursor.
    pub async fn all_sessions(
        &self,
        team: &TeamId,
        query: &SessionQuery,
    ) -> Result<Vec<Session>, ClientError> {
        self.all(list(team, query)).await
    }

    /// One session.
    pub async fn session(&self, team: &TeamId, id: &SessionId) -> Result<Session, ClientError> {
        self.get(Path::team(team).to("sessions").piece(id)).await
    }
}

fn list(team: &TeamId, query: &SessionQuery) -> Path {
    Path::team(team)
        .to("sessions")
        .ask("machine", query.machine.as_ref())
        .ask("harness", query.harness.as_ref())
        .ask("turn", query.turn.map(Turn::as_str))
        .ask("root", query.root.as_ref())
        .ask("text", query.text.as_ref())
        .ask("live", query.live)
}
