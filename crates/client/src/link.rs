//! The machine's WebSocket (spec 02): the handshake, text frames of at most 64 KiB, and liveness. When to
//! dial and what frames mean is the connector's business.

use crate::call::READ_MS;
use crate::client::Client;
use crate::error::{ClientError, FaultKind, Garbled, TransportFault};
use crate::machine::machine;
use crate::transport::{Io, Request, Upgrade};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderValue, Method};
use std::fmt;
use std::time::Duration;
use teamlamp_clock::{Clock, Moment, ms};
use teamlamp_wire::id::{MachineId, TeamId};
use teamlamp_wire::limits::{LINK_FRAME_BYTES, LINK_PING_MS, LINK_SILENCE_MS};
use teamlamp_wire::link::{FromMachine, FromServer};
use thiserror::Error;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

/// A write that takes longer goes nowhere.
const WRITE: Duration = Duration::from_secs(10);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why a link is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkEnd {
    /// The server closed it; a frame before may have said why.
    #[error("the server closed the link")]
    Closed,
    /// Nothing came for 40 s, or nothing could be written for 10.
    #[error("the link went silent")]
    Silent,
    /// The connection broke.
    #[error("the link broke: {0}")]
    Broken(String),
    /// What came, or was to be sent, breaks a rule.
    #[error("the link broke its rules: {0}")]
    Rules(String),
}

/// An established link. Whoever holds it calls [`Link::next`] again and again, which also keeps it alive.
pub struct Link {
    socket: WebSocketStream<Box<dyn Io>>,
    clock: Clock,
    ping_at: Moment,
    silent_at: Moment,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Client {
    /// Dials a machine's link with that machine's credential.
    ///
    /// # Errors
    /// As [`ClientError`] says, also where the server does not switch to a WebSocket.
    pub async fn link(&self, team: &TeamId, id: &MachineId) -> Result<Link, ClientError> {
        match self.clock.within(ms(READ_MS), self.dial(team, id)).await {
            Some(link) => link,
            None => {
                let detail = "no answer to the link's request";
                Err(TransportFault::new(FaultKind::Timeout, self.peer(), detail).into())
            }
        }
    }

    async fn dial(&self, team: &TeamId, id: &MachineId) -> Result<Link, ClientError> {
        let key = STANDARD.encode(self.chance.bytes::<16>());
        let mut headers = self.headers();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        if let Ok(key) = HeaderValue::from_str(&key) {
            headers.insert(SEC_WEBSOCKET_KEY, key);
        }
        let path_and_query = machine(team, id).to("link").as_str().to_owned();
        let request = Request { method: Method::GET, path_and_query, headers, body: Default::default() };
        let not_ours = |status: u16, detail: &str| {
            Err(Garbled::NotOurs { peer: self.peer().to_owned(), status, detail: detail.to_owned() }.into())
        };
        match self.transport.upgrade(request).await? {
            Upgrade::Answered(response) => {
                let status = response.status.as_u16();
                self.answer_of(response).await?;
                not_ours(status, "an answer in place of a WebSocket")
            }
            Upgrade::Switched { headers, io } => {
                let accepted = headers.get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
                if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
                    return not_ours(101, "a WebSocket that was not asked for");
                }
                Ok(Link::over(io, self.clock.clone()).await)
            }
        }
    }
}

impl Link {
    async fn over(io: Box<dyn Io>, clock: Clock) -> Self {
        let limits = WebSocketConfig::default()
            .max_message_size(Some(LINK_FRAME_BYTES))
            .max_frame_size(Some(LINK_FRAME_BYTES));
        let socket = WebSocketStream::from_raw_socket(io, Role::Client, Some(limits)).await;
        let now = clock.monotonic();
        Self { socket, clock, ping_at: now + ms(LINK_PING_MS), silent_at: now + ms(LINK_SILENCE_MS) }
    }

    /// The next frame of the server; frames of a type that this program doesn't know are passed over.
    /// Pings when it is time. It may be dropped and called again.
    ///
    /// # Errors
    /// Where the link is over; it stays so.
    pub async fn next(&mut self) -> Result<FromServer, LinkEnd> {
        loop {
            let (ping_at, silent_at) = (self.ping_at, self.silent_at);
            let due = ping_at.min(silent_at);
            let message = tokio::select! {
                biased;
                message = self.socket.next() => message,
                () = self.clock.sleep_until(due) => {
                    if self.clock.monotonic() >= silent_at {
                        return Err(LinkEnd::Silent);
                    }
                    self.ping_at = self.clock.monotonic() + ms(LINK_PING_MS);
                    self.write(Message::Ping(Default::default())).await?;
                    continue;
                }
            };
            let message = message.ok_or(LinkEnd::Closed)?.map_err(link_end)?;
            self.silent_at = self.clock.monotonic() + ms(LINK_SILENCE_MS);
            match message {
                Message::Text(text) => match serde_json::from_str(&text) {
                    Ok(FromServer::Unknown) => {}
                    Ok(frame) => return Ok(frame),
                    Err(fault) => return Err(LinkEnd::Rules(fault.to_string())),
                },
                Message::Binary(_) => return Err(LinkEnd::Rules("a binary frame".into())),
                // The library has its answers to these ready: they leave with the next read or flush.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                Message::Close(_) => {
                    let _ = self.clock.within(GOODBYE, self.socket.flush()).await;
                    return Err(LinkEnd::Closed);
                }
            }
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// Where the link is over, or the frame is larger than 64 KiB.
    pub async fn send(&mut self, frame: &FromMachine) -> Result<(), LinkEnd> {
        let text = serde_json::to_string(frame).map_err(|e| LinkEnd::Rules(e.to_string()))?;
        if text.len() > LINK_FRAME_BYTES {
            return Err(LinkEnd::Rules("a frame of more than 64 KiB".into()));
        }
        self.write(Message::text(text)).await
    }

    /// Says goodbye and waits for the server's, 1 s at most.
    pub async fn close(mut self) {
        let clock = self.clock.clone();
        let goodbye = async {
            if self.socket.close(None).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        let _ = clock.within(GOODBYE, goodbye).await;
    }

    async fn write(&mut self, message: Message) -> Result<(), LinkEnd> {
        match self.clock.within(WRITE, self.socket.send(message)).await {
            Some(done) => done.map_err(link_end),
            None => Err(LinkEnd::Silent),
        }
    }
}

fn link_end(fault: WsError) -> LinkEnd {
    match fault {
        WsError::ConnectionClosed
        | WsError::AlreadyClosed
        | WsError::Protocol(ProtocolError::SendAfterClosing) => LinkEnd::Closed,
        WsError::Io(_) | WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            LinkEnd::Broken(fault.to_string())
        }
        fault => LinkEnd::Rules(fault.to_string()),
    }
}

#[cfg(test)]
mod tests;
