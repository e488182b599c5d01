//! One install: its home, its custody, and how it reaches servers. What it can do without a running
//! connector stands here and in [`crate::enrollment`].

use crate::config::{Server, Transports};
use crate::contexts::{Context, Contexts, ContextsFault, Loaded};
use crate::custody::{Custody, Fault, Kind};
use crate::home::Home;
use secrecy::SecretString;
use teamlamp_client::{Client, ClientError};
use teamlamp_clock::{Chance, Clock};

/// One install. Clones are the same one.
#[derive(Clone)]
pub struct Install {
    /// Where it keeps what it knows.
    pub home: Home,
    /// Its clock.
    pub clock: Clock,
    /// Its randomness.
    pub chance: Chance,
    /// Its secrets.
    pub custody: Custody,
    /// How it reaches servers.
    pub transports: Transports,
    /// The program that hosts it, as servers tally it: `teamlamp 0.1.0`.
    pub program: String,
}

impl std::fmt::Debug for Install {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Install")
            .field("home", &self.home)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Why there is no signed-in client for a context.
#[derive(Debug, thiserror::Error)]
pub enum SignInFault {
    /// The secret can't be had.
    #[error(transparent)]
    Custody(#[from] Fault),
    /// None is kept.
    #[error("No sign-in is kept for the team {0}: join it again with a new invitation.")]
    Absent(String),
    /// The server's address can't be used.
    #[error("{}", .0.sentence())]
    Client(#[from] ClientError),
}

impl Install {
    /// The saved team connections.
    pub fn contexts(&self) -> Result<Loaded, ContextsFault> {
        Contexts::of(&self.home).load(self.clock.now_ms())
    }

    /// A client of a server, without a credential.
    pub fn client(&self, server: &Server) -> Result<Client, ClientError> {
        let transport = (self.transports)(server)?;
        Ok(Client::new(transport, self.clock.clone(), self.chance.clone(), &self.program))
    }

    /// A context's secret.
    pub(crate) async fn credential(
        &self,
        context: &Context,
        kind: Kind,
    ) -> Result<SecretString, SignInFault> {
        let token = self.custody.read(context.credential_ref, &context.id, kind).await?;
        token.ok_or_else(|| SignInFault::Absent(context.team_name.clone()))
    }

    /// A client of a context's server with a credential.
    pub(crate) fn client_as(&self, context: &Context, token: SecretString) -> Result<Client, SignInFault> {
        let client = self.client(&context.server())?.with_token(token);
        Ok(match &context.machine {
            Some(machine) => client.as_machine(machine.id.clone()),
            None => client,
        })
    }

    /// A client of a context's server, signed in as its person or as this machine.
    pub async fn signed_in(&self, context: &Context, kind: Kind) -> Result<Client, SignInFault> {
        self.client_as(context, self.credential(context, kind).await?)
    }
}
