//! Joining and leaving a team: custody is proven before anything is made, the answer to an acceptance may
//! be lost, and what was made is kept before it is used.

mod fault;
mod pending;

pub use fault::{JoinFault, LeaveFault};

use crate::config::Server;
use crate::contexts::{Context, ContextMachine, Contexts, choose, new_id};
use crate::custody::{Kind, Place};
use crate::install::{Install, SignInFault};
use crate::outbox::Outbox;
use pending::{Pending, Wish};
use secrecy::{ExposeSecret, SecretString};
use teamlamp_client::{Client, ClientError};
use teamlamp_wire::account::{IssuedCredential, Role};
use teamlamp_wire::envelope::ErrorCode;
use teamlamp_wire::id::ServerId;
use teamlamp_wire::invitation::{
    AcceptInvitation, Accepted, Code, JoinLink, PreviewInvitation, check_origin, is_in_clear,
};
use teamlamp_wire::machine::{Enroll, Enrolled};
use teamlamp_wire::window::{JoinAccept, JoinFrom, JoinPreview, Joined};

/// How a team was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The team's name.
    pub team: String,
    /// Why the server could not be told, in a sentence, where it could not: the machine then stays in its
    /// list until an admin removes it.
    pub untold: Option<String>,
}

impl Install {
    /// What an invitation is, as the server itself says it.
    pub async fn preview(&self, from: &JoinFrom) -> Result<JoinPreview, JoinFault> {
        let (server, code) = read(from)?;
        let client = self.client(&server)?.at("preview");
        let invitation = client.preview(&PreviewInvitation { code: code.to_string() }).await?;
        let (pinned, in_clear) = (server.fingerprint.is_some(), is_in_clear(&server.origin));
        Ok(JoinPreview { origin: server.origin, pinned, in_clear, invitation })
    }

    /// Accepts an invitation, enrolls this machine (a viewer has none) and saves the context. With an
    /// owner's code it makes the team that `accept.team_name` names: this is how a server on this computer
    /// gets its first team, too. What failed half-way goes on where it stopped when the same is asked again.
    pub async fn join(&self, accept: JoinAccept) -> Result<Joined, JoinFault> {
        let (server, code) = read(&accept.invitation)?;
        let clean = |name: &str, what: &str| {
            teamlamp_wire::name::clean(name).map_err(|fault| JoinFault::Name(fault.sentence(what)))
        };
        let person = clean(&accept.person, "Your name")?;
        let machine = clean(&accept.machine, "The machine's name")?;
        let team_name = accept.team_name.as_deref().map(|n| clean(n, "The team's name")).transpose()?;
        let place = self.custody.prove().await?;
        let wish = Wish { server, code, person, team_name };
        let pending = Pending::of(&self.home, &wish, &self.clock, &self.chance)?;
        let context = match pending.accepted()? {
            Some(context) => context,
            None => self.accept(&wish, &pending, place).await?,
        };
        self.finish(context, &machine, &pending).await
    }

    /// Goes on with a joining of a server whose code was spent from here, and that was cut off before the
    /// team was saved; `None` where there is none. For who runs that server: it may be elsewhere since, and
    /// have another key.
    pub async fn resume(
        &self,
        at: &Server,
        server: &ServerId,
        machine: &str,
    ) -> Result<Option<Joined>, JoinFault> {
        let machine = teamlamp_wire::name::clean(machine)
            .map_err(|fault| JoinFault::Name(fault.sentence("The machine's name")))?;
        let Some((pending, mut context)) = Pending::of_server(&self.home, server)? else { return Ok(None) };
        (context.origin, context.fingerprint) = (at.origin.clone(), at.fingerprint.clone());
        self.finish(context, &machine, &pending).await.map(Some)
    }

    /// Enrolls this machine where it may be, and saves the team.
    async fn finish(
        &self,
        mut context: Context,
        machine: &str,
        pending: &Pending,
    ) -> Result<Joined, JoinFault> {
        if context.role > Role::Viewer {
            self.enroll(&mut context, machine, false).await?;
        }
        let joined = Joined {
            context: context.id.clone(),
            team: context.team_name.clone(),
            machine: context.machine.as_ref().map(|m| m.name.clone()),
        };
        Contexts::of(&self.home).update(self.clock.now_ms(), |all| {
            all.retain(|other| other.id != context.id);
            all.push(context);
        })?;
        pending.finish()?;
        tracing::info!(team = %joined.team, context = %joined.context, "joined a team");
        Ok(joined)
    }

    /// Spends the code, and keeps the credential that it brought.
    async fn accept(&self, wish: &Wish, pending: &Pending, place: Place) -> Result<Context, JoinFault> {
        let server = &wish.server;
        let client = self.client(server)?.at("join");
        let info = client.capabilities().await?;
        let body = AcceptInvitation {
            code: wish.code.to_string(),
            name: wish.person.clone(),
            team_name: wish.team_name.clone(),
        };
        let accepted = match self.known_person(&wish.server).await {
            None => client.with_key(pending.key()?).accept(&body).await?,
            Some(known) => {
                // Somebody of this server already: the same person joins another of its teams. The key is
                // another one, since it belongs to who asks.
                let known = known.at("join");
                match known.with_key(pending.key_as_known()?).accept(&body).await {
                    Err(fault) if fault.status() == Some(401) => {
                        client.with_key(pending.key()?).accept(&body).await?
                    }
                    done => done?,
                }
            }
        };
        let Accepted { principal, team, membership, credential } = accepted;
        let token = token(credential).ok_or(JoinFault::Spent)?;
        let context = Context {
            id: new_id(&team.name, self.chance.bits()),
            origin: server.origin.clone(),
            fingerprint: server.fingerprint.clone(),
            server_id: info.server_id,
            server_name: info.name,
            team_id: team.id,
            team_name: team.name,
            principal_id: principal.id,
            principal_name: principal.name,
            role: membership.role,
            machine: None,
            credential_ref: place,
        };
        self.custody.write(place, &context.id, Kind::User, token).await?;
        pending.accept(&context)?;
        Ok(context)
    }

    /// A client as the person whom this install already is on a server.
    async fn known_person(&self, server: &Server) -> Option<Client> {
        let contexts = self.contexts().ok()?.contexts;
        let context = contexts.iter().find(|c| c.server() == *server)?;
        self.signed_in(context, Kind::User).await.ok()
    }

    /// Enrolls this machine by its person's credential and keeps what that brings. `fresh` makes a new
    /// identity; else the same key finds the same machine.
    pub(crate) async fn enroll(
        &self,
        context: &mut Context,
        name: &str,
        fresh: bool,
    ) -> Result<(), JoinFault> {
        let (place, id) = (context.credential_ref, context.id.clone());
        let client = match self.signed_in(context, Kind::User).await {
            Ok(client) => client.at("enroll"),
            Err(SignInFault::Custody(fault)) => return Err(fault.into()),
            Err(SignInFault::Client(fault)) => return Err(fault.into()),
            Err(SignInFault::Absent(_)) => return Err(JoinFault::SignedOut),
        };
        let kept = match fresh {
            true => None,
            false => self.custody.read(place, &id, Kind::Enrollment).await?,
        };
        let key =
            kept.unwrap_or_else(|| format!("{:032x}{:032x}", self.chance.bits(), self.chance.bits()).into());
        self.custody.write(place, &id, Kind::Enrollment, key.clone()).await?;
        let wish = Enroll { name: name.to_owned(), enrollment_key: key.expose_secret().to_owned() };
        let Enrolled { machine, source, credential } = client.enroll(&context.team_id, &wish).await?;
        let expires_at = credential.expires_at;
        let token = token(credential).ok_or(JoinFault::Spent)?;
        self.custody.write(place, &id, Kind::Machine, token).await?;
        context.machine = Some(ContextMachine {
            id: machine.id,
            name: machine.name,
            source_id: source.id,
            credential_expires_at: expires_at,
        });
        Ok(())
    }

    /// Revokes this machine in a team, signs out, and forgets the context and its secrets. Where the
    /// server can't be told, the rest is done all the same.
    pub async fn leave(&self, context: &str) -> Result<Left, LeaveFault> {
        let contexts = Contexts::of(&self.home);
        let all = contexts.load(self.clock.now_ms())?.contexts;
        let context = choose(&all, Some(context)).map_err(LeaveFault::Unknown)?.clone();
        let untold = match self.revoke(&context).await {
            Ok(()) => None,
            // What can't be read now could not be forgotten either, and would be left behind.
            Err(SignInFault::Custody(fault)) => return Err(fault.into()),
            Err(fault) => Some(fault.to_string()),
        };
        self.custody.forget(context.credential_ref, &context.id).await?;
        contexts.update(self.clock.now_ms(), |all| all.retain(|other| other.id != context.id))?;
        if let Err(fault) = Outbox::open(&self.home, self.clock.now_ms()).and_then(|o| o.forget(&context.id))
        {
            tracing::warn!(%fault, "what waited for a team that was left is still in the outbox");
        }
        Ok(Left { team: context.team_name, untold })
    }

    async fn revoke(&self, context: &Context) -> Result<(), SignInFault> {
        let client = self.signed_in(context, Kind::User).await?.at("leave");
        if let Some(machine) = &context.machine {
            match client.machine(&context.team_id, &machine.id).await {
                Ok(seen) => gone_is_fine(client.revoke_machine(&context.team_id, &seen).await)?,
                Err(fault) => gone_is_fine(Err(fault))?,
            }
        }
        Ok(client.sign_out().await?)
    }
}

fn gone_is_fine(done: Result<(), ClientError>) -> Result<(), ClientError> {
    match done {
        Err(fault) if matches!(fault.code(), Some(ErrorCode::NotFound | ErrorCode::Conflict)) => Ok(()),
        done => done,
    }
}

/// The secret of a credential; none in a stored answer.
pub(crate) fn token(credential: IssuedCredential) -> Option<SecretString> {
    credential.token.map(SecretString::from)
}

/// What an invitation says as the person has it.
fn read(from: &JoinFrom) -> Result<(Server, Code), JoinFault> {
    match from {
        JoinFrom::Link { link } => {
            let link = JoinLink::parse(link).map_err(JoinFault::Link)?;
            Ok((Server { origin: link.server, fingerprint: link.fingerprint }, link.code))
        }
        JoinFrom::Code { code, server } => {
            let incomplete = "The code is not complete: it has ten letters and digits, like 7K3QF-9XW2M.";
            let code = Code::parse(code).ok_or_else(|| JoinFault::Link(incomplete.into()))?;
            let origin = check_origin(server.trim()).map_err(JoinFault::Link)?;
            Ok((Server { origin, fingerprint: None }, code))
        }
    }
}

#[cfg(test)]
mod tests;
