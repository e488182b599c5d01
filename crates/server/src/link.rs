//! `GET …/machines/{machine}/link`: the one WebSocket that a machine's connector holds open. While it
//! lives the machine is linked; notes and changes go over it (spec 02).

use crate::access::rate_limit::Bucket;
use crate::access::{Caller, guard};
use crate::app::App;
use crate::error::ApiError;
use crate::heartbeat::say_cloned;
use crate::hub::LinkWord;
use crate::presence;
use crate::request::{Call, Reply};
use crate::serve::Place;
use crate::store::streams::{self, Credential};
use crate::store::{Tx, heartbeats, notes, presence as presence_rows};
use axum::extract::FromRequestParts;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use std::time::Duration;
use teamlamp_clock::{Moment, ms};
use teamlamp_wire::Millis;
use teamlamp_wire::envelope::ErrorCode;
use teamlamp_wire::heartbeat::Watched;
use teamlamp_wire::id::{MachineId, NoteId, TeamId};
use teamlamp_wire::limits::{
    HEARTBEAT_MS, LINK_FRAME_BYTES, LINK_HELLO_MS, LINK_PING_MS, LINK_SILENCE_MS, RATE_BURST, RATE_PER_MINUTE,
};
use teamlamp_wire::link::{ClosingReason, FromMachine, FromServer};
use tokio::sync::oneshot;

/// How long one frame may take to leave.
const SEND: Duration = Duration::from_secs(10);
/// How long the other side may take to see that this one closes.
const FAREWELL: Duration = Duration::from_secs(1);
/// How many notes go at once.
const NOTES: usize = 32;

/// Handles `machines.link`.
///
/// # Errors
/// 400 for what is no WebSocket handshake, 401, 403, 404.
pub async fn open(mut call: Call) -> Result<Reply, ApiError> {
    let (app, caller) = (call.app.clone(), call.caller()?.clone());
    let (team, machine, now) = (call.team(), call.machine(), app.clock.now_ms());
    {
        let (caller, team, machine) = (caller.clone(), team.clone(), machine.clone());
        call.read(move |db| {
            guard::credential_at(db, &caller, now)?;
            guard::own_machine(db, &caller, &team, &machine)
        })
        .await?;
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut call.parts, &()).await;
    let upgrade =
        upgrade.map_err(|_| ApiError::invalid("This path is a WebSocket: open it with its handshake."))?;
    let (sender, socket) = oneshot::channel();
    let response = upgrade.max_message_size(LINK_FRAME_BYTES).max_frame_size(LINK_FRAME_BYTES).on_upgrade(
        move |socket| async move {
            let _ = sender.send(socket);
        },
    );
    // The connection's own task ends with the handshake; its place is taken as long as the link lives.
    let place = call.parts.extensions.get::<Place>().cloned();
    app.clone().tasks.spawn_to_end("link", async move {
        let _place = place;
        // The handshake's answer is on its way; a peer that never takes it is not waited for.
        if let Some(Ok(socket)) = app.clock.within(ms(LINK_HELLO_MS), socket).await {
            let heard_at = app.clock.monotonic();
            let (bucket, read_at) = (Bucket::full(heard_at, RATE_BURST), heard_at);
            Link {
                app,
                caller,
                team,
                machine,
                socket,
                heard_at,
                watched: Vec::new(),
                noted: None,
                bucket,
                read_at,
            }
            .run()
            .await;
        }
    });
    Ok(Reply::Raw(response))
}

struct Link {
    app: App,
    caller: Caller,
    team: TeamId,
    machine: MachineId,
    socket: WebSocket,
    /// When the machine was last heard, by anything.
    heard_at: Moment,
    /// The sessions that it was last told someone follows.
    watched: Vec<Watched>,
    /// The last note that was sent over this link.
    noted: Option<NoteId>,
    /// What the machine may still say at once; more waits where it is.
    bucket: Bucket,
    /// From when on it is read again.
    read_at: Moment,
}

/// Why a link ends.
enum End {
    /// The other side went, or could not be reached.
    Gone,
    /// This side closes.
    Closing(ClosingReason),
}

impl From<ApiError> for End {
    fn from(refusal: ApiError) -> Self {
        Self::Closing(match refusal.body.code {
            ErrorCode::AuthenticationRequired | ErrorCode::Forbidden | ErrorCode::NotFound => {
                ClosingReason::MachineRevoked
            }
            _ => {
                tracing::warn!(%refusal, "a link ends: the store failed");
                ClosingReason::Unavailable
            }
        })
    }
}

/// Why a run of a machine may say nothing any more; `None` where it may.
fn refusal(
    tx: &Tx<'_>,
    caller: &Caller,
    team: &TeamId,
    machine: &MachineId,
    incarnation: &str,
) -> Result<Option<ClosingReason>, ApiError> {
    match streams::credential(tx, &caller.credential_id, tx.now_ms)? {
        Credential::Valid(_) => {}
        Credential::Revoked => return Ok(Some(ClosingReason::MachineRevoked)),
        Credential::Expired => return Ok(Some(ClosingReason::CredentialExpired)),
    }
    guard::own_machine(tx, caller, team, machine)?;
    let superseded = heartbeats::is_superseded(tx, machine, incarnation)?;
    Ok(superseded.then_some(ClosingReason::IncarnationSuperseded))
}

/// What a look at the tables tells a link.
struct Look {
    credential: Credential,
    superseded: bool,
    configuration: Option<i64>,
    notes: Vec<notes::Waiting>,
}

impl Link {
    async fn run(mut self) {
        let end = match self.greeting().await {
            Ok(incarnation) => self.linked(incarnation).await,
            Err(end) => end,
        };
        if let End::Closing(reason) = end {
            self.close(reason).await;
        }
    }

    /// Waits for the hello and receives it; the run that said it.
    async fn greeting(&mut self) -> Result<String, End> {
        let (clock, end) = (self.app.clock.clone(), self.app.tasks.token().clone());
        let hello = async {
            loop {
                match self.next().await? {
                    FromMachine::Unknown => {}
                    FromMachine::Hello { incarnation_id, now, .. } => return Ok((incarnation_id, now)),
                    _ => return Err(End::Closing(ClosingReason::Protocol)),
                }
            }
        };
        let (incarnation, now) = tokio::select! {
            biased;
            () = end.cancelled() => return Err(End::Closing(ClosingReason::Shutdown)),
            hello = clock.within(ms(LINK_HELLO_MS), hello) => {
                hello.unwrap_or(Err(End::Closing(ClosingReason::Protocol)))?
            }
        };
        if !(1..=128).contains(&incarnation.chars().count()) {
            return Err(End::Closing(ClosingReason::Protocol));
        }
        let greeted = self.change(&incarnation, move |tx, machine| {
            presence_rows::greet(tx, machine, now.saturating_sub(tx.now_ms))
        });
        let greeted = greeted.await;
        if let Err(End::Closing(ClosingReason::IncarnationSuperseded)) = &greeted {
            say_cloned(&self.app, &self.team, &self.machine, incarnation.clone()).await;
        }
        greeted.map(|()| incarnation)
    }

    /// Writes what the machine said. The guards are read again in its transaction: after the commit of a
    /// revocation nothing happens that was said before it.
    async fn change(
        &mut self,
        incarnation: &str,
        what: impl FnOnce(&Tx<'_>, &MachineId) -> Result<(), ApiError> + Send + 'static,
    ) -> Result<(), End> {
        let (caller, team, machine, run) =
            (self.caller.clone(), self.team.clone(), self.machine.clone(), incarnation.to_owned());
        let changed = self.app.store.write(move |tx| {
            if let Some(reason) = refusal(tx, &caller, &team, &machine, &run)? {
                return Ok(Some(reason));
            }
            what(tx, &machine).map(|()| None)
        });
        match changed.await? {
            Some(reason) => Err(End::Closing(reason)),
            None => Ok(()),
        }
    }

    /// Holds the machine's link until it ends, and writes what that means to its presence.
    async fn linked(&mut self, incarnation: String) -> End {
        let mut held = self.app.hub.link(&self.machine);
        let ended = match self.settle(presence::settle).await {
            Ok(()) => self.live(&incarnation, &mut held.word).await,
            Err(end) => Err(end),
        };
        let end = match ended {
            Err(end) => end,
            Ok(never) => match never {},
        };
        drop(held);
        // A server that ends does not say that everybody left; a newer link has the place of this one.
        let keeps = matches!(end, End::Closing(ClosingReason::Shutdown)) || self.app.hub.holds(&self.machine);
        if !keeps && self.settle(presence::link_ended).await.is_err() {
            self.app.trust.begin_again(&self.app.clock);
            self.app.hub.wake_presence_timer();
        }
        end
    }

    async fn settle(
        &mut self,
        how: fn(&Tx<'_>, &App, &MachineId) -> Result<(), ApiError>,
    ) -> Result<(), End> {
        let (app, machine) = (self.app.clone(), self.machine.clone());
        Ok(self.app.store.write(move |tx| how(tx, &app, &machine)).await?)
    }

    async fn live(
        &mut self,
        incarnation: &str,
        word: &mut tokio::sync::watch::Receiver<LinkWord>,
    ) -> Result<std::convert::Infallible, End> {
        let clock = self.app.clock.clone();
        let end = self.app.tasks.token().clone();
        self.say(&FromServer::Welcome { server_time: clock.now_ms(), heartbeat_ms: HEARTBEAT_MS }).await?;
        let mut configuration = None;
        let mut ends_at = self.look(incarnation, &mut configuration).await?;
        let mut ping_at = clock.monotonic() + ms(LINK_PING_MS);
        loop {
            let silent_at = self.heard_at + ms(LINK_SILENCE_MS);
            tokio::select! {
                biased;
                () = end.cancelled() => return Err(End::Closing(ClosingReason::Shutdown)),
                changed = word.changed() => {
                    // Without its place in the hub a link could hear nothing any more.
                    if changed.is_err() { return Err(End::Closing(ClosingReason::Replaced)) }
                    let told = *word.borrow_and_update();
                    if let Some(reason) = told.close { return Err(End::Closing(reason)) }
                    ends_at = self.look(incarnation, &mut configuration).await?;
                }
                () = clock.sleep_until(ping_at.min(silent_at)) => {
                    let now = clock.monotonic();
                    if now >= self.heard_at + ms(LINK_SILENCE_MS) {
                        return Err(End::Gone);
                    }
                    if now < ping_at {
                        continue;
                    }
                    if clock.now_ms() >= ends_at {
                        ends_at = self.look(incarnation, &mut configuration).await?;
                    }
                    self.send(Message::Ping(bytes::Bytes::new())).await?;
                    ping_at = clock.monotonic() + ms(LINK_PING_MS);
                }
                // After the timer: a machine that never stops talking is still pinged.
                frame = self.next() => self.hear(incarnation, frame?).await?,
            }
        }
    }

    async fn hear(&mut self, incarnation: &str, frame: FromMachine) -> Result<(), End> {
        match frame {
            FromMachine::Unknown => Ok(()),
            FromMachine::Hello { .. } => Err(End::Closing(ClosingReason::Protocol)),
            FromMachine::Ack { id } => {
                self.change(incarnation, move |tx, machine| notes::acknowledge(tx, machine, &id)).await
            }
            FromMachine::Away { reason } => {
                self.change(incarnation, move |tx, machine| presence_rows::set_away(tx, machine, reason))
                    .await
            }
        }
    }

    /// Looks for what the machine is to be told; until when its credential lasts.
    async fn look(&mut self, incarnation: &str, configuration: &mut Option<i64>) -> Result<Millis, End> {
        loop {
            let (credential, machine) = (self.caller.credential_id.clone(), self.machine.clone());
            let (run, noted, now) = (incarnation.to_owned(), self.noted.clone(), self.app.clock.now_ms());
            let look = self.app.store.read(move |db| {
                Ok(Look {
                    credential: streams::credential(db, &credential, now)?,
                    superseded: heartbeats::is_superseded(db, &machine, &run)?,
                    configuration: streams::configuration_mark(db, &machine)?,
                    notes: notes::waiting(db, &machine, noted.as_ref(), now, NOTES)?,
                })
            });
            let look = look.await?;
            let ends_at = match look.credential {
                Credential::Valid(ends_at) => ends_at,
                Credential::Revoked => return Err(End::Closing(ClosingReason::MachineRevoked)),
                Credential::Expired => return Err(End::Closing(ClosingReason::CredentialExpired)),
            };
            if look.superseded {
                return Err(End::Closing(ClosingReason::IncarnationSuperseded));
            }
            if configuration.is_some() && *configuration != look.configuration {
                self.say(&FromServer::ConfigurationChanged).await?;
            }
            *configuration = look.configuration;
            let watched = self.app.followed.of(&self.machine);
            if watched != self.watched {
                self.watched.clone_from(&watched);
                self.say(&FromServer::Watched { items: watched }).await?;
            }
            let whole = look.notes.len() < NOTES;
            for notes::Waiting { id, from, text, at } in look.notes {
                self.noted = Some(id.clone());
                self.say(&FromServer::Note { id, from, text, at }).await?;
            }
            if whole {
                return Ok(ends_at);
            }
        }
    }

    /// The next frame of the machine's. One that says more than it may is read more slowly.
    async fn next(&mut self) -> Result<FromMachine, End> {
        loop {
            self.app.clock.sleep_until(self.read_at).await;
            let message = match self.socket.recv().await {
                Some(Ok(message)) => message,
                // A frame over the limit, or none of WebSocket's.
                Some(Err(_)) => return Err(End::Closing(ClosingReason::Protocol)),
                None => return Err(End::Gone),
            };
            self.heard_at = self.app.clock.monotonic();
            if let Err(seconds) = self.bucket.take(self.heard_at, RATE_PER_MINUTE, RATE_BURST) {
                self.read_at = self.heard_at + Duration::from_secs(seconds);
            }
            match message {
                Message::Text(text) => {
                    return serde_json::from_str(&text).map_err(|_| End::Closing(ClosingReason::Protocol));
                }
                Message::Binary(_) => return Err(End::Closing(ClosingReason::Protocol)),
                Message::Close(_) => return Err(End::Gone),
                Message::Ping(_) | Message::Pong(_) => {}
            }
        }
    }

    async fn say(&mut self, frame: &FromServer) -> Result<(), End> {
        let text = serde_json::to_string(frame).map_err(ApiError::from)?;
        self.send(Message::Text(text.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        match self.app.clock.within(SEND, self.socket.send(message)).await {
            Some(Ok(())) => Ok(()),
            _ => Err(End::Gone),
        }
    }

    async fn close(mut self, reason: ClosingReason) {
        let clock = self.app.clock.clone();
        if self.say(&FromServer::Closing { reason }).await.is_err() {
            return;
        }
        let _ = self.send(Message::Close(None)).await;
        // Until the other side has seen it: a socket that is dropped with bytes unread loses what was sent.
        clock.within(FAREWELL, async { while let Some(Ok(_)) = self.socket.recv().await {} }).await;
    }
}
