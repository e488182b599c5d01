//! Someone who speaks to the server from a host without a connector: joins with a code, and asks and
//! changes things. What they were answered is theirs to remember.

use crate::network::Network;
use crate::record::Record;
use crate::server::ORIGIN;
use crate::transport::SimTransport;
use http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_client::{Client, ClientError, IdempotencyKey};
use teamlamp_clock::{Chance, Clock, Tasks, ms};
use teamlamp_wire::id::PrincipalId;
use teamlamp_wire::invitation::AcceptInvitation;

/// How often someone asks again for an answer that was lost, and the wait between.
const TRIES: usize = 200;
const AGAIN_MS: i64 = 3_000;

/// Someone with a credential. Clones are the same person.
#[derive(Clone, Debug)]
pub struct Person {
    /// Their name, and their host's.
    pub name: String,
    /// Who they are to the server.
    pub principal: PrincipalId,
    /// Speaks to the server as them.
    pub client: Client,
    /// What carries their requests.
    pub transport: Arc<SimTransport>,
    token: Arc<Mutex<SecretString>>,
}

/// What someone needs before they are anybody.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// The network.
    pub network: Network,
    /// Their clock.
    pub clock: Clock,
    /// Their randomness.
    pub chance: Chance,
    /// The record of the run.
    pub record: Record,
    /// Their process: connections end with it.
    pub process: Tasks,
}

impl Visitor {
    /// Joins with a code, however often the answer is lost: always the same acceptance. `None` where the
    /// server refuses.
    pub async fn join(&self, name: &str, code: &str, team_name: Option<&str>) -> Option<Person> {
        let transport = Arc::new(SimTransport::new(&self.network, &self.clock, &self.process, name, ORIGIN));
        let anonymous =
            Client::new(transport.clone(), self.clock.clone(), self.chance.fork(), "simulation 0.1.0");
        let key = IdempotencyKey::new(&self.chance);
        let wish = AcceptInvitation {
            code: code.to_owned(),
            name: name.to_owned(),
            team_name: team_name.map(str::to_owned),
        };
        for _ in 0..TRIES {
            match anonymous.with_key(key.clone()).accept(&wish).await {
                Ok(accepted) => {
                    let Some(token) = accepted.credential.token else {
                        self.record.broken(format!("{name} joined and has no token"));
                        return None;
                    };
                    self.record.secret(&token);
                    let token = SecretString::from(token);
                    return Some(Person {
                        name: name.to_owned(),
                        principal: accepted.principal.id,
                        client: anonymous.with_token(token.clone()),
                        transport,
                        token: Arc::new(Mutex::new(token)),
                    });
                }
                Err(fault) if fault.may_pass() || fault.status() == Some(429) => {
                    self.record.note(name, format!("joins again: {fault}"));
                    self.clock.sleep(ms(AGAIN_MS)).await;
                }
                Err(fault) => {
                    self.record.note(name, format!("may not join: {fault}"));
                    return None;
                }
            }
        }
        self.record.broken(format!("{name} could not join in {TRIES} tries"));
        None
    }
}

impl Person {
    /// Gets a fresh token in place of the old one, which goes on working until this one is used.
    ///
    /// # Errors
    /// As the client says; the old token then still stands.
    pub async fn rotate(&self, record: &Record) -> Result<(), ClientError> {
        let rotated = self.client.rotate().await?;
        if let Some(token) = rotated.credential.token {
            record.secret(&token);
            let token = SecretString::from(token);
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
            self.client.replace_token(token);
        }
        Ok(())
    }

    /// The credential as a request carries it.
    pub fn headers(&self) -> HeaderMap {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut headers = HeaderMap::new();
        if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())) {
            value.set_sensitive(true);
            headers.insert(http::header::AUTHORIZATION, value);
        }
        headers
    }
}
