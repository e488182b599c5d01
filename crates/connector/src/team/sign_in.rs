//! Staying signed in: the credential out of custody, its rotation, and what happens when the server
//! refuses it. Nobody else reads custody while a context runs, and nobody tries a refused credential again.

use super::Team;
use crate::contexts::{Context, Contexts};
use crate::custody::{Fault, Kind};
use crate::enrollment::{JoinFault, token};
use crate::incarnations;
use crate::install::SignInFault;
use crate::state::{Ended, Kept};
use secrecy::{ExposeSecret, SecretString};
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use teamlamp_client::{Client, ClientError};
use teamlamp_clock::{Backoff, ms};
use teamlamp_wire::limits::{MACHINE_CREDENTIAL_MS, MACHINE_CREDENTIAL_ROTATE_MS};
use teamlamp_wire::machine::Enrollment;
use tokio::sync::watch;

/// Waits for a keyring: it may come up seconds after its person logged in.
const CUSTODY_MS: (i64, i64) = (2_000, 30_000);
/// Waits for a server that should say why it refuses.
const ASK_MS: (i64, i64) = (1_000, 30_000);
/// After this many refusals in a row only a person, or an hour, goes on.
const REFUSALS: u32 = 3;
/// A sign-in that held for so long was good: its end is no refusal in a row with those before it.
const HELD: Duration = Duration::from_secs(300);
const HOUR: Duration = Duration::from_secs(3_600);

/// A client with a credential, and the number of that sign-in.
#[derive(Clone, Debug)]
pub(super) struct Signed {
    pub(super) client: Client,
    pub(super) number: u64,
}

/// What makes the present sign-in useless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trouble {
    #[default]
    None,
    Refused(u64),
    Cloned(u64),
}

/// The present sign-in of a context.
#[derive(Debug, Default)]
pub(super) struct SignIn {
    current: watch::Sender<Option<Signed>>,
    trouble: watch::Sender<Trouble>,
    /// The token of the present sign-in, or of the last one: what custody is compared with.
    token: Mutex<Option<SecretString>>,
}

impl SignIn {
    pub(super) fn now(&self) -> Option<Client> {
        self.current.borrow().as_ref().map(|signed| signed.client.clone())
    }

    /// Waits until there is one.
    pub(super) async fn wait(&self) -> Signed {
        let mut current = self.current.subscribe();
        loop {
            if let Some(signed) = current.borrow_and_update().clone() {
                return signed;
            }
            if current.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until this one is over.
    pub(super) async fn over(&self, number: u64) {
        let mut current = self.current.subscribe();
        let over = |now: &Option<Signed>| now.as_ref().is_none_or(|signed| signed.number != number);
        if current.wait_for(over).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The server refused it.
    pub(super) fn refused(&self, number: u64) {
        self.end(number, Trouble::Refused(number));
    }

    /// Another computer reports with it.
    pub(super) fn cloned(&self, number: u64) {
        self.end(number, Trouble::Cloned(number));
    }

    /// Keeps what the present sign-in is made with.
    fn holds(&self, token: SecretString) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }

    /// Whether a token is another one than the sign-in was made with.
    fn differs(&self, token: &SecretString) -> bool {
        let held = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(ExposeSecret::expose_secret) != Some(token.expose_secret())
    }

    fn end(&self, number: u64, trouble: Trouble) {
        let ended =
            self.current.send_if_modified(|now| now.take_if(|signed| signed.number == number).is_some());
        if ended {
            self.trouble.send_replace(trouble);
        }
    }
}

/// How a refusal goes on.
enum Then {
    /// With this credential.
    With(Client),
    /// As a person decides, or in an hour.
    Person(Ended),
}

impl Team {
    /// Keeps the context signed in for as long as it is polled.
    pub(super) async fn stay_signed_in(&self) {
        let mut number = 0;
        let mut next = None;
        let mut refusals = 0;
        loop {
            let client = match next.take() {
                Some(client) => client,
                None => self.load().await,
            };
            number += 1;
            self.change(|f| (f.kept, f.ended, f.enrolling, f.custody) = (Kept::Yes, None, false, None));
            self.sign_in.trouble.send_replace(Trouble::None);
            self.sign_in.current.send_replace(Some(Signed { client: client.clone(), number }));
            let began = self.install.clock.monotonic();
            let trouble = tokio::select! {
                biased;
                trouble = self.trouble() => trouble,
                never = self.rotate_in_time(&client) => match never {},
            };
            // One connection may be answered while another is refused: only time says that it was good.
            if self.install.clock.monotonic() - began >= HELD {
                refusals = 0;
            }
            let then = match trouble {
                Trouble::Cloned(_) => Then::Person(Ended::Cloned),
                _ => self.recover(&client, &mut refusals).await,
            };
            match then {
                Then::With(client) => next = Some(client),
                Then::Person(ended) => {
                    self.wait_for_person(ended).await;
                    refusals = 0;
                }
            }
        }
    }

    fn kind(&self) -> Kind {
        if self.context().machine.is_some() { Kind::Machine } else { Kind::User }
    }

    /// The client with the credential out of custody. A missing credential waits for a person.
    async fn load(&self) -> Client {
        loop {
            let fault = match self.kept_client().await {
                Ok(client) => return client,
                Err(fault) => fault,
            };
            tracing::warn!(context = %self.id, %fault, "no sign-in");
            match fault {
                SignInFault::Client(fault) => {
                    let now = self.now();
                    self.change(|f| f.heartbeat.failed(now, fault.sentence(), None));
                }
                SignInFault::Absent(_) | SignInFault::Custody(_) => self.change(|f| f.kept = Kept::No),
            }
            self.pause_for(HOUR).await;
        }
    }

    /// A credential out of custody. A locked or missing keyring is waited for: it says nothing of the
    /// credential in it.
    async fn credential(&self, context: &Context, kind: Kind) -> Result<SecretString, SignInFault> {
        let mut backoff = Backoff::new(CUSTODY_MS);
        loop {
            match self.install.credential(context, kind).await {
                Err(SignInFault::Custody(fault)) => self.custody_fails(&fault, &mut backoff).await,
                answered => {
                    self.change(|f| f.custody = None);
                    return answered;
                }
            }
        }
    }

    /// Says what is wrong with custody, and waits; who unlocks it wakes this.
    async fn custody_fails(&self, fault: &Fault, backoff: &mut Backoff) {
        tracing::warn!(context = %self.id, %fault, "no sign-in");
        self.change(|f| (f.custody, f.enrolling) = (Some(fault.to_string()), false));
        self.pause_for(backoff.next(&self.install.chance).max(Duration::from_secs(1))).await;
    }

    async fn kept_client(&self) -> Result<Client, SignInFault> {
        let context = self.context();
        let token = self.credential(&context, self.kind()).await?;
        self.sign_in.holds(token.clone());
        self.install.client_as(&context, token)
    }

    /// Waits, unless something or somebody wants to go on.
    async fn pause_for(&self, wait: Duration) {
        let mut nudge = self.signals.nudge.subscribe();
        tokio::select! {
            biased;
            _ = nudge.changed() => {}
            () = self.install.clock.sleep(wait) => {}
        }
    }

    async fn wait_for_person(&self, ended: Ended) {
        let bound = if ended == Ended::Cloned { HOUR * 24 } else { HOUR };
        self.change(|f| (f.ended, f.enrolling) = (Some(ended), false));
        let mut person = self.signals.person.subscribe();
        tokio::select! {
            biased;
            _ = person.changed() => {}
            () = self.install.clock.sleep(bound) => {}
        }
        self.change(|f| f.ended = None);
    }

    async fn trouble(&self) -> Trouble {
        let mut trouble = self.sign_in.trouble.subscribe();
        let found = trouble.wait_for(|t| *t != Trouble::None).await.map(|found| *found);
        match found {
            Ok(found) => found,
            Err(_) => std::future::pending().await,
        }
    }

    /// What a refusal means and how it goes on (spec 06): another process may have rotated; else one
    /// enrollment by the person's credential, but not where somebody ended this machine on purpose, nor
    /// where another computer reports as it.
    async fn recover(&self, refused: &Client, refusals: &mut u32) -> Then {
        let mut context = self.context();
        if let Ok(token) = self.credential(&context, self.kind()).await
            && self.sign_in.differs(&token)
        {
            self.sign_in.holds(token.clone());
            return Then::With(refused.with_token(token));
        }
        let Some(machine) = context.machine.clone() else { return Then::Person(Ended::Expired) };
        if *refusals + 1 >= REFUSALS {
            tracing::warn!(context = %self.id, refusals, "refused again and again: waiting for the person");
            return Then::Person(Ended::Expired);
        }
        let person = self.credential(&context, Kind::User).await;
        let person = match person.and_then(|token| self.install.client_as(&context, token)) {
            Ok(person) => person.at("recover"),
            Err(_) => return Then::Person(Ended::Expired),
        };
        match self.ask_about_machine(&person, &context).await {
            Ask::Ended(ended) => return Then::Person(ended),
            Ask::Ours => {}
        }
        self.change(|f| f.enrolling = true);
        tracing::info!(context = %self.id, "the sign-in was refused: enrolling this machine again");
        match self.install.enroll(&mut context, &machine.name, false).await {
            Ok(()) => {
                *refusals += 1;
                self.enrolled(context).await
            }
            Err(fault) => self.not_enrolled(fault, refused).await,
        }
    }

    /// Only an answer about this machine is a refusal: what passes is waited for, and tried again.
    async fn not_enrolled(&self, fault: JoinFault, refused: &Client) -> Then {
        tracing::warn!(context = %self.id, %fault, "could not be enrolled again");
        self.change(|f| f.enrolling = false);
        match fault {
            JoinFault::Custody(fault) => self.custody_fails(&fault, &mut Backoff::new(CUSTODY_MS)).await,
            JoinFault::Server(fault) if !is_answer(&fault) => {
                let wait = ms(ASK_MS.1).max(fault.retry_after().unwrap_or_default());
                let (now, next) = (self.now(), i64::try_from(wait.as_millis()).unwrap_or(0));
                self.change(|f| f.heartbeat.failed(now, fault.sentence(), Some(now + next)));
                self.pause_for(wait).await;
            }
            _ => return Then::Person(Ended::Expired),
        }
        Then::With(refused.clone())
    }

    async fn enrolled(&self, context: Context) -> Then {
        self.save(&context);
        self.set_context(context.clone());
        self.kept_client().await.map_or(Then::Person(Ended::Expired), Then::With)
    }

    /// What the server says of this machine to its person; a server that does not answer is asked again.
    async fn ask_about_machine(&self, person: &Client, context: &Context) -> Ask {
        let Some(machine) = &context.machine else { return Ask::Ended(Ended::Revoked) };
        let mut backoff = Backoff::new(ASK_MS);
        loop {
            let fault = match person.machine(&context.team_id, &machine.id).await {
                Ok(seen) if seen.enrollment == Enrollment::Revoked => return Ask::Ended(Ended::Revoked),
                Ok(seen) => {
                    let other =
                        seen.incarnation_id.filter(|id| !incarnations::is_ours(&self.install.home, id));
                    return other.map_or(Ask::Ours, |_| Ask::Ended(Ended::Cloned));
                }
                Err(fault) => fault,
            };
            match fault.status() {
                Some(401) => return Ask::Ended(Ended::Expired),
                Some(403 | 404) => return Ask::Ended(Ended::Revoked),
                _ => {}
            }
            let wait = backoff.next(&self.install.chance).max(fault.retry_after().unwrap_or_default());
            let (now, next) = (self.now(), i64::try_from(wait.as_millis()).unwrap_or(0));
            self.change(|f| f.heartbeat.failed(now, fault.sentence(), Some(now + next)));
            self.pause_for(wait.max(Duration::from_secs(1))).await;
        }
    }

    /// Rotates the machine credential once two thirds of its life are over, and tries again each hour
    /// where that fails.
    async fn rotate_in_time(&self, client: &Client) -> Infallible {
        loop {
            let Some(machine) = self.context().machine else { return std::future::pending().await };
            let due = machine.credential_expires_at - (MACHINE_CREDENTIAL_MS - MACHINE_CREDENTIAL_ROTATE_MS);
            let wait = due.saturating_sub(self.now());
            // The wall clock may jump: it is looked at again each hour.
            if wait > 0 || self.signals.pause.borrow().is_some() {
                self.install.clock.sleep(ms(wait.max(1_000)).min(HOUR)).await;
                continue;
            }
            if let Err(fault) = self.rotate(client).await {
                tracing::warn!(context = %self.id, %fault, "the sign-in could not be renewed; it is tried again in an hour");
                self.install.clock.sleep(HOUR).await;
            }
        }
    }

    async fn rotate(&self, client: &Client) -> Result<(), JoinFault> {
        let rotated = client.at("rotate").rotate().await?.credential;
        let expires_at = rotated.expires_at;
        let fresh: SecretString = token(rotated).ok_or(JoinFault::Spent)?;
        let mut context = self.context();
        // Kept before it is used: the old one is good until then.
        self.install.custody.write(context.credential_ref, &context.id, Kind::Machine, fresh.clone()).await?;
        self.sign_in.holds(fresh.clone());
        client.replace_token(fresh);
        if let Some(machine) = &mut context.machine {
            machine.credential_expires_at = expires_at;
        }
        self.save(&context);
        self.set_context(context.clone());
        // The person's credential lives for as long as it is used.
        if let Ok(person) = self.install.signed_in(&context, Kind::User).await
            && let Err(fault) = person.at("renew").me().await
        {
            tracing::warn!(context = %self.id, %fault, "the person's sign-in could not be renewed");
        }
        Ok(())
    }

    fn save(&self, context: &Context) {
        let saved = Contexts::of(&self.install.home).update(self.now(), |all| {
            all.iter_mut().filter(|other| other.id == context.id).for_each(|other| *other = context.clone());
        });
        if let Err(fault) = saved {
            tracing::error!(context = %self.id, %fault, "the context could not be saved");
        }
    }
}

/// Whether a server said of the request itself that it is refused: not that it has no time, not nothing.
fn is_answer(fault: &ClientError) -> bool {
    matches!(fault, ClientError::Refused(_)) && !fault.may_pass() && fault.retry_after().is_none()
}

enum Ask {
    /// It is active, and nobody else's.
    Ours,
    Ended(Ended),
}
