//! Capabilities, `me`, teams, members and credentials (spec 01).

use crate::Millis;
use crate::id::{AuditId, CredentialId, PrincipalId, ServerId, TeamId};
use serde::{Deserialize, Serialize};

/// `GET /v1/capabilities`, bare, without authentication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// Always 1.
    pub version: u32,
    /// The server.
    pub server_id: ServerId,
    /// Always `teams.v1`.
    pub protocol: String,
    /// The `operationId` of every route that the server has.
    pub operations: Vec<String>,
    /// Always `["bearer"]`.
    pub auth_modes: Vec<String>,
    /// The server's name for people.
    pub name: String,
    /// Whether it serves the local network.
    pub lan: bool,
}

/// What a member may do in a team, from most to least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Role {
    /// Reads only.
    Viewer,
    /// Enrolls machines and publishes.
    Member,
    /// Manages members, invitations and machines.
    Admin,
    /// Also makes and removes owners.
    Owner,
}

impl Role {
    /// The role's word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }
    /// The role of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Viewer, Self::Member, Self::Admin, Self::Owner].into_iter().find(|r| r.as_str() == word)
    }
    /// Admin or owner.
    pub fn is_admin(self) -> bool {
        self >= Self::Admin
    }
}

/// What a credential is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CredentialKind {
    /// A person's.
    User,
    /// One machine's connector.
    Machine,
    /// An app's.
    App,
}

impl CredentialKind {
    /// The kind's word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Machine => "machine",
            Self::App => "app",
        }
    }
    /// The kind of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::User, Self::Machine, Self::App].into_iter().find(|k| k.as_str() == word)
    }
}

/// A person or an app by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Principal {
    /// Who.
    pub id: PrincipalId,
    /// Their name.
    pub name: String,
    /// `person` or `app`.
    pub kind: String,
}

/// `GET /v1/me`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Me {
    /// Who asks.
    pub principal: Principal,
    /// With what.
    pub credential: CredentialInfo,
    /// Their teams.
    pub memberships: Vec<MyMembership>,
}

/// The credential of a request, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CredentialInfo {
    /// Which.
    pub id: CredentialId,
    /// What for.
    pub kind: CredentialKind,
    /// When it ends.
    pub expires_at: Millis,
}

/// One of the asker's memberships.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MyMembership {
    /// The team.
    pub team: TeamRef,
    /// What they may do.
    pub role: Role,
    /// Whether the membership counts.
    pub active: bool,
}

/// A team by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TeamRef {
    /// Which.
    pub id: TeamId,
    /// Its name.
    pub name: String,
}

/// `GET /v1/teams/{team}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Team {
    /// Which.
    pub id: TeamId,
    /// Its name.
    pub name: String,
    /// Rises with every change of it.
    pub revision: i64,
    /// How it is set.
    pub settings: TeamSettings,
    /// What it counts.
    pub counts: TeamCounts,
}

/// A team's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TeamSettings {
    /// Whether members who are not viewers may invite members.
    pub members_may_invite: bool,
    /// How long events are kept, in days.
    pub retention_days: u32,
    /// After how many minutes a claimed session that still waits is said once more.
    pub attention_minutes: u32,
}

/// What a team counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TeamCounts {
    /// Active members.
    pub members: u32,
    /// Active machines.
    pub machines: u32,
    /// Machines online.
    pub online: u32,
}

/// `POST /v1/teams`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateTeam {
    /// The new team's name.
    pub name: String,
}

/// The answer to `POST /v1/teams`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedTeam {
    /// The team.
    pub team: TeamRef,
    /// Its maker's membership: owner.
    pub membership: Membership,
}

/// `PATCH /v1/teams/{team}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeTeam {
    /// A new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New settings; what is absent stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<ChangeTeamSettings>,
}

/// The settings of [`ChangeTeam`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeTeamSettings {
    /// See [`TeamSettings::members_may_invite`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members_may_invite: Option<bool>,
    /// See [`TeamSettings::retention_days`]; 1 to 365.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u32>,
    /// See [`TeamSettings::attention_minutes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_minutes: Option<u32>,
}

/// What someone may do in a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Membership {
    /// What they may do.
    pub role: Role,
    /// Whether it counts.
    pub active: bool,
}

/// A member of a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    /// Who.
    pub principal: Principal,
    /// What they may do.
    pub role: Role,
    /// Whether the membership counts.
    pub active: bool,
    /// Rises with every change of it.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub revision: i64,
    /// Since when.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub joined_at: Millis,
}

/// `PATCH …/members/{principal}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeMember {
    /// A new role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Deactivate or reactivate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}

/// A credential as it is handed out: with its secret, once. `token` is null and `redacted` true where
/// the answer is a stored one (spec 01, idempotency).
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IssuedCredential {
    /// The bearer token.
    pub token: Option<String>,
    /// What for.
    pub kind: CredentialKind,
    /// When it ends.
    pub expires_at: Millis,
    /// True where the secret was taken out of a stored answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

impl std::fmt::Debug for IssuedCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedCredential")
            .field("token", &self.token.as_ref().map(|_| "***"))
            .field("kind", &self.kind)
            .field("expires_at", &self.expires_at)
            .finish()
    }
}

/// The answer to `POST /v1/credentials/rotate`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rotated {
    /// The same credential with a fresh token.
    pub credential: IssuedCredential,
}

/// A row of the audit (spec 05).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditRow {
    /// Which.
    pub id: AuditId,
    /// When; of a folded row, the last time.
    pub at: Millis,
    /// Who.
    pub actor: Option<PrincipalId>,
    /// The `operationId`.
    pub operation: String,
    /// On what.
    pub target_id: Option<String>,
    /// `allowed` or `denied`.
    pub outcome: String,
    /// The revision that the change made.
    pub revision: Option<i64>,
    /// The request.
    pub request_id: Option<String>,
    /// How often, where refusals were folded.
    pub count: i64,
}
