//! The scripted server's side of a link.

use super::{Scripted, routes};
use futures_util::{SinkExt, StreamExt};
use http::HeaderMap;
use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use teamlamp_client::{Request, Upgrade};
use teamlamp_wire::link::{FromMachine, FromServer};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

pub(super) fn upgrade(server: &Scripted, request: &Request) -> Upgrade {
    {
        let mut state = server.state();
        state.dials += 1;
        state.calls.push("link".into());
    }
    if let Some(refusal) = routes::unauthorized(server, request, true) {
        return Upgrade::Answered(refusal);
    }
    let (near, far) = tokio::io::duplex(1 << 16);
    let own = server.clone();
    server.tasks.spawn("scripted link", async move { hold(own, far).await });
    let key = request.headers.get(SEC_WEBSOCKET_KEY).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()).parse().unwrap());
    Upgrade::Switched { headers, io: Box::new(near) }
}

async fn hold(server: Scripted, io: DuplexStream) {
    let mut say = server.say.subscribe();
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
    loop {
        let text = tokio::select! {
            biased;
            said = say.recv() => match said {
                Ok(Some(frame)) => serde_json::to_string(&frame).unwrap(),
                _ => return,
            },
            heard = socket.next() => {
                let Some(Ok(heard)) = heard else { return };
                let Message::Text(text) = heard else { continue };
                let frame: FromMachine = serde_json::from_str(&text).unwrap();
                let hello = matches!(frame, FromMachine::Hello { .. });
                let mut state = server.state();
                state.calls.push(if hello { "hello" } else { "away" }.into());
                state.heard.push(frame);
                if !hello {
                    continue;
                }
                let server_time = server.clock.now_ms() + 500;
                serde_json::to_string(&FromServer::Welcome { server_time, heartbeat_ms: 15_000 }).unwrap()
            }
        };
        if socket.send(Message::text(text)).await.is_err() {
            return;
        }
    }
}
