//! Every change of access and every refusal of one, for a team's admins (spec 05).

use crate::app::App;
use crate::error::ApiError;
use crate::request::Call;
use crate::store::Tx;
use crate::store::audit::{self, Act};
use teamlamp_wire::id::{AuditId, PrincipalId, RequestId, TeamId};

/// The longest target that is kept of a refusal: it may be any text of a path.
const TARGET_CHARS: usize = 80;

/// What a change of access changed.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    target: &'a str,
    operation: Option<&'static str>,
    team: Option<&'a TeamId>,
    actor: Option<&'a PrincipalId>,
    revision: Option<i64>,
}

impl<'a> Entry<'a> {
    /// Of a target, by who asks, in the team of the path.
    pub fn of(target: &'a str) -> Self {
        Self { target, operation: None, team: None, actor: None, revision: None }
    }
    /// In another team than the path's, where there is one.
    pub fn in_team(mut self, team: Option<&'a TeamId>) -> Self {
        self.team = team;
        self
    }
    /// By what another operation brings with it.
    pub fn as_operation(mut self, operation: &'static str) -> Self {
        self.operation = Some(operation);
        self
    }
    /// By somebody who had no credential yet.
    pub fn by(mut self, actor: &'a PrincipalId) -> Self {
        self.actor = Some(actor);
        self
    }
    /// The revision that it made.
    pub fn revision(mut self, revision: i64) -> Self {
        self.revision = Some(revision);
        self
    }
}

/// Notes a change of access in its own transaction.
///
/// # Errors
/// A store that can't be written.
pub fn allowed(tx: &Tx<'_>, call: &Call, entry: &Entry<'_>) -> Result<(), ApiError> {
    let of_path = call.params.get("team").map(|team| TeamId(team.clone()));
    let id = AuditId::new(tx.now_ms, call.app.chance.bits());
    let act = Act {
        id: &id,
        team: entry.team.or(of_path.as_ref()),
        actor: entry.actor.or(call.caller.as_ref().map(|c| &c.principal_id)),
        operation: entry.operation.unwrap_or(call.route.operation),
        target: Some(entry.target),
        revision: entry.revision,
        request_id: call.request_id.as_str(),
    };
    Ok(audit::allowed(tx, &act)?)
}

/// What the audit says of a change of access, should it be refused.
#[derive(Clone, Debug)]
pub struct Denial {
    team: Option<TeamId>,
    actor: Option<PrincipalId>,
    operation: &'static str,
    target: Option<String>,
    request_id: RequestId,
}

impl Denial {
    /// Of a call; `None` where its route changes nothing of access.
    pub fn of(call: &Call) -> Option<Self> {
        call.route.access.then(|| Self {
            team: call.params.get("team").map(|team| TeamId(team.clone())),
            actor: call.caller.as_ref().map(|c| c.principal_id.clone()),
            operation: call.route.operation,
            target: call.target().map(|target| target.chars().take(TARGET_CHARS).collect()),
            request_id: call.request_id.clone(),
        })
    }
    /// In another team than the path's, where there is one.
    pub fn in_team(mut self, team: Option<&TeamId>) -> Self {
        self.team = team.cloned().or(self.team);
        self
    }
}

/// Notes a refusal. One that can't be written is in the log: the refusal itself stands.
pub async fn denied(app: &App, denial: Denial) {
    let id = AuditId::new(app.clock.now_ms(), app.chance.bits());
    let noted = app.store.write(move |tx| {
        let act = Act {
            id: &id,
            team: denial.team.as_ref(),
            actor: denial.actor.as_ref(),
            operation: denial.operation,
            target: denial.target.as_deref(),
            revision: None,
            request_id: denial.request_id.as_str(),
        };
        Ok(audit::denied(tx, &act)?)
    });
    if let Err(fault) = noted.await {
        tracing::warn!(%fault, "a refusal could not be audited");
    }
}
