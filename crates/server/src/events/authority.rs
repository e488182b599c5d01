//! What allows a reader to go on: looked at before each page of events, from the table whenever the hub
//! or the team's epoch says that something about it may have changed (spec 03, rule 6).

use crate::access::{Caller, guard};
use crate::app::App;
use crate::error::ApiError;
use crate::hub::Hub;
use crate::store::events::{Stored, head};
use crate::store::streams;
use rusqlite::Connection;
use teamlamp_wire::Millis;
use teamlamp_wire::account::Role;
use teamlamp_wire::envelope::ErrorCode;
use teamlamp_wire::id::TeamId;

/// A reader's authority as one look found it.
#[derive(Clone, Debug)]
pub struct Authority {
    caller: Caller,
    team: TeamId,
    role: Role,
    epoch: i64,
    expires_at: Millis,
    /// The hub's count of ended credentials before the look.
    credentials: u64,
}

/// What became of an authority.
#[derive(Clone, Debug)]
pub enum Look {
    /// It holds, perhaps for longer.
    Holds(Authority),
    /// What anyone may do has changed; this is what the reader may do now.
    Changed(Authority),
    /// It ended, and why.
    Ended(&'static str),
}

impl Authority {
    /// Looks a caller's authority up.
    ///
    /// # Errors
    /// 401 where the credential ended, 404 where the caller is no member of the team.
    pub fn read(
        conn: &Connection,
        caller: &Caller,
        team: &TeamId,
        now: Millis,
        credentials: u64,
    ) -> Result<Self, ApiError> {
        guard::credential_at(conn, caller, now)?;
        let role = guard::member(conn, caller, team)?.role;
        let epoch = head(conn, team)?.ok_or_else(|| ApiError::not_found("team"))?.auth_epoch;
        let expires_at = streams::credential_end(conn, &caller.credential_id)?;
        Ok(Self { caller: caller.clone(), team: team.clone(), role, epoch, expires_at, credentials })
    }

    /// The epoch of what anyone may do at which this was looked up.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Whether time or the end of some credential asks for another look.
    pub fn is_doubtful(&self, hub: &Hub, now: Millis) -> bool {
        now >= self.expires_at || hub.credentials_ended() != self.credentials
    }

    /// Whether this reader may see an event.
    pub fn may_read(&self, event: &Stored) -> bool {
        event.only_for.as_ref().is_none_or(|who| *who == self.caller.principal_id || self.role.is_admin())
    }

    /// Whether there is no event of the team that this reader may not see.
    pub fn reads_everything(&self) -> bool {
        self.role.is_admin()
    }

    /// Looks again.
    ///
    /// # Errors
    /// A store that can't be read; nothing is said of the authority then.
    pub async fn look_again(&self, app: &App) -> Result<Look, ApiError> {
        let (before, now, credentials) = (self.clone(), app.clock.now_ms(), app.hub.credentials_ended());
        app.store
            .read(move |conn| match Self::read(conn, &before.caller, &before.team, now, credentials) {
                Ok(found) if found.epoch == before.epoch => Ok(Look::Holds(found)),
                Ok(found) => Ok(Look::Changed(found)),
                Err(refusal) => match refusal.body.code {
                    ErrorCode::NotFound => Ok(Look::Ended("membership_ended")),
                    ErrorCode::AuthenticationRequired => match &before.caller.machine_id {
                        Some(machine) if !streams::machine_is_active(conn, &before.team, machine)? => {
                            Ok(Look::Ended("machine_revoked"))
                        }
                        _ => Ok(Look::Ended("credential_ended")),
                    },
                    _ => Err(refusal),
                },
            })
            .await
    }
}
