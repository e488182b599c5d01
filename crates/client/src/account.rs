//! Capabilities, `me`, teams, members, invitations and credentials (spec 01).

use crate::call::Call;
use crate::client::Client;
use crate::error::ClientError;
use crate::path::Path;
use teamlamp_wire::account::{
    Capabilities, ChangeMember, ChangeTeam, CreateTeam, CreatedTeam, Me, Member, Rotated, Team,
};
use teamlamp_wire::id::{InvitationId, PrincipalId, TeamId};
use teamlamp_wire::invitation::{
    AcceptInvitation, Accepted, CreateInvitation, CreatedInvitation, Invitation, InvitationPreview,
    PreviewInvitation,
};

/// Each method fails as [`ClientError`] says.
impl Client {
    /// What the server is and can; needs no credential.
    pub async fn capabilities(&self) -> Result<Capabilities, ClientError> {
        self.decode(&self.call(&Call::get(Path::new("/v1/capabilities"))).await?)
    }

    /// Who asks, and their teams.
    pub async fn me(&self) -> Result<Me, ClientError> {
        self.get(Path::new("/v1/me")).await
    }

    /// Makes a team, whose owner is the asker.
    pub async fn create_team(&self, team: &CreateTeam) -> Result<CreatedTeam, ClientError> {
        self.change(Call::post(Path::new("/v1/teams"), team)).await
    }

    /// A team.
    pub async fn team(&self, team: &TeamId) -> Result<Team, ClientError> {
        self.get(Path::team(team)).await
    }

    /// Changes a team as it was seen.
    pub async fn change_team(&self, seen: &Team, change: &ChangeTeam) -> Result<Team, ClientError> {
        self.change(Call::patch(Path::team(&seen.id), change).if_match(seen.revision)).await
    }

    /// All members of a team, by name.
    pub async fn members(&self, team: &TeamId) -> Result<Vec<Member>, ClientError> {
        self.all(Path::team(team).to("members")).await
    }

    /// One member.
    pub async fn member(&self, team: &TeamId, principal: &PrincipalId) -> Result<Member, ClientError> {
        self.get(Path::team(team).to("members").piece(principal)).await
    }

    /// Changes a member's role or activity as they were seen.
    pub async fn change_member(
        &self,
        team: &TeamId,
        seen: &Member,
        change: &ChangeMember,
    ) -> Result<Member, ClientError> {
        let path = Path::team(team).to("members").piece(&seen.principal.id);
        self.change(Call::patch(path, change).if_match(seen.revision)).await
    }

    /// Removes a member as they were seen.
    pub async fn remove_member(&self, team: &TeamId, seen: &Member) -> Result<(), ClientError> {
        let path = Path::team(team).to("members").piece(&seen.principal.id);
        self.change_quietly(Call::delete(path).if_match(seen.revision)).await
    }

    /// Makes an invitation. Its code and link are in this answer and never again.
    pub async fn invite(
        &self,
        team: &TeamId,
        invitation: &CreateInvitation,
    ) -> Result<CreatedInvitation, ClientError> {
        self.change(Call::post(Path::team(team).to("invitations"), invitation)).await
    }

    /// All invitations that the server still knows.
    pub async fn invitations(&self, team: &TeamId) -> Result<Vec<Invitation>, ClientError> {
        self.all(Path::team(team).to("invitations")).await
    }

    /// Ends an invitation.
    pub async fn revoke_invitation(&self, team: &TeamId, id: &InvitationId) -> Result<(), ClientError> {
        self.change_quietly(Call::delete(Path::team(team).to("invitations").piece(id))).await
    }

    /// What a code invites to, as the server says it; needs no credential and changes nothing.
    pub async fn preview(&self, code: &PreviewInvitation) -> Result<InvitationPreview, ClientError> {
        self.change(Call::post(Path::new("/v1/invitations/preview"), code).repeatable()).await
    }

    /// Accepts an invitation. A lost answer is asked for again under the same key, and whoever kept the
    /// key ([`Client::with_key`]) may go on asking for 24 hours: nobody joins twice.
    pub async fn accept(&self, accept: &AcceptInvitation) -> Result<Accepted, ClientError> {
        self.change(Call::post(Path::new("/v1/invitations/accept"), accept).repeatable()).await
    }

    /// A fresh token for this credential; the old one works until the new one is used, 24 h at most.
    pub async fn rotate(&self) -> Result<Rotated, ClientError> {
        self.change(Call::post_nothing(Path::new("/v1/credentials/rotate"))).await
    }

    /// Ends this credential.
    pub async fn sign_out(&self) -> Result<(), ClientError> {
        self.change_quietly(Call::delete(Path::new("/v1/credentials/current"))).await
    }
}
