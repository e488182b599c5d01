//! The link of one machine: dialled, greeted, held, dialled again. `run` → `once` → `dial`, then `hold`.
//! What a frame of the server leads to is said to [`Told`]; the WebSocket itself is the client library's.

use std::time::Duration;
use teamlamp_client::{Client, ClientError, Link, LinkEnd};
use teamlamp_clock::{Backoff, Chance, Clock, ms};
use teamlamp_wire::Millis;
use teamlamp_wire::id::{MachineId, TeamId};
use teamlamp_wire::limits::{LINK_BACKOFF_MS, LINK_HELLO_MS, LINK_STEADY_MS};
use teamlamp_wire::link::{ClosingReason, FromMachine, FromServer};
use teamlamp_wire::machine::AwayReason;
use tokio::sync::watch;

/// Whose link it is and what moves it.
#[derive(Debug)]
pub(crate) struct Linked<'a> {
    pub(crate) client: &'a Client,
    pub(crate) team: &'a TeamId,
    pub(crate) machine: &'a MachineId,
    pub(crate) version: &'a str,
    pub(crate) clock: &'a Clock,
    pub(crate) chance: &'a Chance,
    /// The run of the connector: another one after it was superseded.
    pub(crate) incarnation: watch::Receiver<String>,
    /// Rises with each heartbeat that was answered.
    pub(crate) answered: watch::Receiver<u64>,
    /// Rises where every wait is to be skipped.
    pub(crate) nudged: watch::Receiver<u64>,
    /// Rises where another connection to the same server works again.
    pub(crate) recovered: watch::Receiver<u64>,
    /// Rises where even a link that seems to live is to be dialled again: after sleep.
    pub(crate) redial: watch::Receiver<u64>,
    /// Why the machine goes, once it does.
    pub(crate) leaving: watch::Receiver<Option<AwayReason>>,
}

/// What the link tells.
pub(crate) trait Told {
    /// It is there; the server's clock and pace.
    fn up(&self, server_time: Millis, heartbeat_ms: i64);
    /// It was lost, and is dialled again at once.
    fn lost(&self);
    /// It can't be made; when it is tried again.
    fn down(&self, why: String, wait: Option<Duration>);
    /// The configuration is to be read again.
    fn configuration_changed(&self);
}

/// Why a link is not dialled again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The machine went: it said so and closed.
    Left,
    /// The credential is refused.
    Refused,
}

/// Why one link is over.
#[derive(Debug)]
enum Once {
    Left,
    Refused,
    /// Dial again at once, because somebody asked.
    Redial,
    /// The server would only close it again before this machine's next heartbeat is answered.
    AfterHeartbeat(&'static str),
    Failed {
        why: String,
        lived: Duration,
        wait: Option<Duration>,
    },
}

impl Linked<'_> {
    /// Holds a link for as long as it is polled, and again after each loss.
    pub(crate) async fn run(mut self, told: &impl Told) -> Over {
        let mut backoff = Backoff::new(LINK_BACKOFF_MS);
        loop {
            match self.once(told).await {
                Once::Left => return Over::Left,
                Once::Refused => return Over::Refused,
                Once::Redial => told.lost(),
                Once::AfterHeartbeat(why) => {
                    told.down(why.to_owned(), None);
                    self.answered.mark_unchanged();
                    let Self { answered, leaving, .. } = &mut self;
                    tokio::select! {
                        biased;
                        () = left(leaving) => return Over::Left,
                        _ = answered.changed() => {}
                    }
                }
                Once::Failed { why, lived, wait } => {
                    if lived >= ms(LINK_STEADY_MS) {
                        backoff.reset();
                    }
                    if let Some(over) = self.pause(told, &mut backoff, why, wait, lived).await {
                        return over;
                    }
                }
            }
        }
    }

    /// Waits before the next dial: not at all for a link that was there and is the first to be lost.
    async fn pause(
        &mut self,
        told: &impl Told,
        backoff: &mut Backoff,
        why: String,
        named: Option<Duration>,
        lived: Duration,
    ) -> Option<Over> {
        let first = backoff.tries() == 0 && !lived.is_zero();
        let jittered = backoff.next(self.chance);
        tracing::debug!(%why, ?lived, first, "the link is over");
        if first {
            told.lost();
            return None;
        }
        let wait = named.map_or(jittered, |named| named.max(jittered));
        told.down(why, Some(wait));
        let Self { clock, nudged, recovered, leaving, .. } = self;
        tokio::select! {
            biased;
            () = left(leaving) => Some(Over::Left),
            _ = nudged.changed() => None,
            _ = recovered.changed() => None,
            () = clock.sleep(wait) => None,
        }
    }

    async fn once(&mut self, told: &impl Told) -> Once {
        // What is asked for during a dial that then fails is not lost.
        self.redial.mark_unchanged();
        self.nudged.mark_unchanged();
        self.recovered.mark_unchanged();
        let Self { client, team, machine, leaving, .. } = self;
        let dialled = tokio::select! {
            biased;
            () = left(leaving) => return Once::Left,
            dialled = client.link(team, machine) => dialled,
        };
        match dialled {
            Ok(link) => self.hold(link, told).await,
            Err(fault) => not_dialled(&fault),
        }
    }

    async fn hold(&mut self, mut link: Link, told: &impl Told) -> Once {
        let began = self.clock.monotonic();
        let hello = FromMachine::Hello {
            incarnation_id: self.incarnation.borrow().clone(),
            version: self.version.to_owned(),
            now: self.clock.now_ms(),
        };
        let failed = |end: LinkEnd, lived| Once::Failed { why: sentence(&end), lived, wait: None };
        if let Err(end) = link.send(&hello).await {
            return failed(end, Duration::ZERO);
        }
        // A server that says nothing to a hello is no server; it has as long as it gives a machine.
        let mut greeted = false;
        let unheard = began + ms(LINK_HELLO_MS * 2);
        loop {
            let Self { clock, leaving, redial, .. } = self;
            let said = tokio::select! {
                biased;
                () = left(leaving) => return self.leave(link).await,
                _ = redial.changed() => return Once::Redial,
                said = link.next() => said,
                () = clock.sleep_until(unheard), if !greeted => Err(LinkEnd::Silent),
            };
            // Only a link that was greeted has lived.
            let lived = || if greeted { self.clock.monotonic() - began } else { Duration::ZERO };
            match said {
                Ok(FromServer::Welcome { server_time, heartbeat_ms }) => {
                    greeted = true;
                    told.up(server_time, heartbeat_ms);
                    // Its own recovery is no reason to dial again at once.
                    self.recovered.mark_unchanged();
                }
                Ok(FromServer::ConfigurationChanged) => told.configuration_changed(),
                Ok(FromServer::Closing { reason }) => {
                    let lived = lived();
                    link.close().await;
                    return closing(reason, lived);
                }
                // Every change is reported at once anyway; a note is shown by a later version, and is
                // sent again until it is.
                Ok(FromServer::Watched { .. } | FromServer::Note { .. } | FromServer::Unknown) => {}
                Err(end) => return failed(end, lived()),
            }
        }
    }

    async fn leave(&self, mut link: Link) -> Once {
        let reason = *self.leaving.borrow();
        if let Some(reason) = reason
            && link.send(&FromMachine::Away { reason }).await.is_ok()
        {
            link.close().await;
        }
        Once::Left
    }
}

/// Waits until the machine goes.
async fn left(leaving: &mut watch::Receiver<Option<AwayReason>>) {
    if leaving.wait_for(Option::is_some).await.is_err() {
        // Whoever could say so is gone, and with it this future.
        std::future::pending::<()>().await;
    }
}

fn not_dialled(fault: &ClientError) -> Once {
    match fault.status() {
        Some(401 | 403 | 404) => Once::Refused,
        _ => Once::Failed { why: fault.sentence(), lived: Duration::ZERO, wait: fault.retry_after() },
    }
}

fn closing(reason: ClosingReason, lived: Duration) -> Once {
    let failed = |why: &str| Once::Failed { why: why.to_owned(), lived, wait: None };
    match reason {
        ClosingReason::MachineRevoked | ClosingReason::CredentialExpired => Once::Refused,
        ClosingReason::Replaced => Once::AfterHeartbeat("Another connection of this machine took its place."),
        ClosingReason::IncarnationSuperseded => {
            Once::AfterHeartbeat("Another run of this machine took its place.")
        }
        ClosingReason::Shutdown => failed("The server is shutting down."),
        ClosingReason::Unavailable => failed("The server can't serve now."),
        ClosingReason::Protocol | ClosingReason::Unknown => failed("The server closed the link."),
    }
}

fn sentence(end: &LinkEnd) -> String {
    let sentence = match end {
        LinkEnd::Closed => "The server closed it.",
        LinkEnd::Silent => "Nothing came over it for a while.",
        LinkEnd::Broken(_) => "The connection broke.",
        LinkEnd::Rules(_) => "The server said something unreadable.",
    };
    sentence.to_owned()
}
