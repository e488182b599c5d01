//! Sessions as the team knows them (spec 04).

use crate::call::Call;
use crate::client::{Client, PAGES};
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

    /// The newest `most` sessions (at most 200) that a query names. A server that looks through a long list
    /// answers with short pages, over which this goes on.
    pub async fn newest_sessions(
        &self,
        team: &TeamId,
        query: &SessionQuery,
        most: usize,
    ) -> Result<Vec<Session>, ClientError> {
        let mut query = SessionQuery { limit: Some(most), ..query.clone() };
        let mut newest = Vec::new();
        for _ in 0..PAGES {
            let page = self.sessions(team, &query).await?;
            newest.extend(page.items);
            query.cursor = page.next_cursor;
            if newest.len() >= most || query.cursor.is_none() {
                break;
            }
        }
        newest.truncate(most);
        Ok(newest)
    }

    /// All sessions that a query names, newest first, whatever its limit and cursor.
    pub async fn all_sessions(
        &self,
        team: &TeamId,
        query: &SessionQuery,
    ) -> Result<Vec<Session>, ClientError> {
        self.all(list(team, query)).await
    }

    /// Says 'mine' to a session that waits for a person; the session as it is then.
    pub async fn claim_attention(&self, team: &TeamId, id: &SessionId) -> Result<Session, ClientError> {
        self.change(Call::post_nothing(attention(team, id))).await
    }

    /// Makes a session nobody's again.
    pub async fn release_attention(&self, team: &TeamId, id: &SessionId) -> Result<(), ClientError> {
        self.change_quietly(Call::delete(attention(team, id))).await
    }

    /// One session.
    pub async fn session(&self, team: &TeamId, id: &SessionId) -> Result<Session, ClientError> {
        self.get(Path::team(team).to("sessions").piece(id)).await
    }
}

fn attention(team: &TeamId, id: &SessionId) -> Path {
    Path::team(team).to("sessions").piece(id).to("attention")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, Step};

    #[tokio::test(start_paused = true)]
    async fn the_newest_are_looked_for_over_pages_that_hold_none() {
        let page = |ids: &[&str], next: &str| {
            let item = |id: &&str| {
                format!(
                    r#"{{"id":"{id}","harness":"codex","native_id":"n","machine_id":"mach_1","root":null,
                    "title":null,"model":null,"turn":"idle","turn_since":1,"confirmed":true,"live":false,
                    "started_at":null,"updated_at":1,"visibility":"restricted","revision":1,"claimed_by":null}}"#
                )
            };
            let items: Vec<String> = ids.iter().map(item).collect();
            let body = format!(
                r#"{{"version":1,"context":{{}},"items":[{}],"next_cursor":{next}}}"#,
                items.join(",")
            );
            Step::json(200, body)
        };
        let script = Script::of([page(&[], r#""on""#), page(&["sess_1", "sess_2"], r#""more""#)]);
        let query = SessionQuery { machine: Some("mach_1".into()), ..SessionQuery::default() };
        let found = script.client().newest_sessions(&"team_1".into(), &query, 2).await.unwrap();
        assert_eq!(found.len(), 2);
        let asked: Vec<String> = script.asked().into_iter().map(|request| request.path_and_query).collect();
        assert!(asked.len() == 2 && asked[1].contains("machine=mach_1") && asked[1].contains("cursor=on"));
    }
}
