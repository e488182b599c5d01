//! Who asks, and what they may: credentials, guards, limits, idempotency, audit.

pub mod audit;
pub mod auth;
pub mod guard;
pub mod hosts;
pub mod idempotency;
pub mod origins;
pub mod proxies;
pub mod rate_limit;

use teamlamp_wire::account::{CredentialKind, Role};
use teamlamp_wire::event::{Actor, ActorKind};
use teamlamp_wire::id::{CredentialId, MachineId, PrincipalId, TeamId};

/// The holder of a valid credential.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// The credential.
    pub credential_id: CredentialId,
    /// What it is for.
    pub kind: CredentialKind,
    /// Who acts: a person, or for a machine credential its custodian.
    pub principal_id: PrincipalId,
    /// What the feed calls them: the person's name, or the machine's of a machine credential.
    pub name: String,
    /// The team of a machine credential.
    pub team_id: Option<TeamId>,
    /// The machine of a machine credential.
    pub machine_id: Option<MachineId>,
}

impl Caller {
    /// The caller as the actor of an event.
    pub fn actor(&self) -> Actor {
        let kind = match self.kind {
            CredentialKind::User => ActorKind::Person,
            CredentialKind::Machine => ActorKind::Machine,
            CredentialKind::App => ActorKind::App,
        };
        let principal_id = Some(self.principal_id.clone());
        Actor { principal_id, kind, name: self.name.clone(), on_behalf_of: Vec::new() }
    }
}

/// An active membership, as a guard found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The team.
    pub team_id: TeamId,
    /// What the caller may do there.
    pub role: Role,
}
