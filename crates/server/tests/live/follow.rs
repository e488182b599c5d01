//! The client's endless stream against this server, behind a proxy that holds streams back.

use crate::kit::Live;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use http::header::ACCEPT;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::sync::Arc;
use teamlamp_client::{
    Client, FaultKind, FollowQuery, Followed, Mode, Request, Response, Transport, TransportFault, Upgrade,
};
use teamlamp_clock::Chance;
use teamlamp_wire::account::Role;
use teamlamp_wire::frame::Frame;
use teamlamp_wire::invitation::{CreateInvitation, PreviewInvitation};
use teamlamp_wire::machine::SendNote;

/// Carries everything but streams, of which no byte ever comes.
struct Proxy(Arc<Live>);

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proxy")
    }
}

impl Transport for Proxy {
    fn peer(&self) -> &'static str {
        "http://localhost"
    }
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportFault>> {
        async move {
            if request.headers.get(ACCEPT).is_some_and(|accept| accept == "text/event-stream") {
                return std::future::pending().await;
            }
            let io = TokioIo::new(self.0.connect().await);
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            self.0.tasks.spawn("proxy", async move {
                let _ = connection.await;
            });
            let mut asked = http::Request::new(Full::<Bytes>::from(request.body));
            *asked.uri_mut() = request.path_and_query.parse().unwrap();
            (*asked.method_mut(), *asked.headers_mut()) = (request.method, request.headers);
            asked.headers_mut().insert("host", "localhost".parse().unwrap());
            let (parts, body) = sender.send_request(asked).await.unwrap().into_parts();
            let body = futures_util::stream::once(async { Ok(body.collect().await.unwrap().to_bytes()) });
            Ok(Response { status: parts.status, headers: parts.headers, body: body.boxed() })
        }
        .boxed()
    }
    fn upgrade(&self, _: Request) -> BoxFuture<'_, Result<Upgrade, TransportFault>> {
        async { Err(TransportFault::new(FaultKind::Refused, "proxy", "no upgrades")) }.boxed()
    }
}

fn owner(live: &Arc<Live>) -> Client {
    let client = Client::new(Arc::new(Proxy(live.clone())), live.clock().clone(), Chance::seeded(1), "test");
    client.with_token(live.owner.token.clone().into())
}

fn follow(live: &Arc<Live>, after: Option<String>) -> BoxStream<'static, Followed> {
    owner(live).follow(&FollowQuery::all(live.team.as_str().into()), after)
}

/// The next event, and whether it is told as the past.
async fn event(stream: &mut BoxStream<'static, Followed>) -> (i64, bool) {
    loop {
        match stream.next().await.unwrap() {
            Followed::Frame { frame: Frame::Event { sequence, .. }, replayed } => {
                return (sequence, replayed);
            }
            Followed::Connected { mode } => assert_eq!(mode, Mode::Polling),
            Followed::Frame { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The cursor of a reader that has seen everything.
async fn settled(live: &Arc<Live>) -> String {
    let mut first = follow(live, None);
    loop {
        let item = first.next().await.unwrap();
        if let Followed::Frame { frame: Frame::SnapshotEnd { cursor }, .. } = item {
            return cursor;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn by_long_polls_what_happens_after_a_reconnection_is_live() {
    let live = Arc::new(Live::paused().await);
    let mut again = follow(&live, Some(settled(&live).await));
    let publish = async {
        while live.world.server.app().streams.open() == 0 {
            live.pass(1_000).await;
        }
        live.pass(5_000).await;
        live.publish("now", json!({})).await
    };
    let (told, sequence) = tokio::join!(event(&mut again), publish);
    assert_eq!(told, (sequence, false));
}

#[tokio::test(start_paused = true)]
async fn by_long_polls_what_was_missed_is_the_past_and_what_follows_is_live() {
    let live = Arc::new(Live::paused().await);
    let at = settled(&live).await;
    let events: Vec<_> = (0..40).map(|_| json!({ "kind": "custom.cli.missed" })).collect();
    live.post("events", &json!({ "events": events })).await;
    let mut again = follow(&live, Some(at));
    for _ in 0..40 {
        assert!(event(&mut again).await.1, "it happened while nobody listened");
    }
    let sequence = live.publish("now", json!({})).await;
    assert_eq!(event(&mut again).await, (sequence, false));
}

#[tokio::test]
async fn an_invitation_is_taken_back_and_a_note_is_sent() {
    let live = Arc::new(Live::real().await);
    let (client, team) = (owner(&live), live.team.as_str().into());
    let wish = CreateInvitation { role: Role::Member, expires_in_seconds: None, max_uses: None, note: None };
    let made = client.invite(&team, &wish).await.unwrap();
    let code = PreviewInvitation { code: made.code.unwrap() };
    client.preview(&code).await.unwrap();
    client.revoke_invitation(&team, &made.invitation.id).await.unwrap();
    assert_eq!(client.preview(&code).await.unwrap_err().status(), Some(410));

    let machine = live.machine("laptop").await;
    let note = SendNote { text: "lunch?".into() };
    let sent = client.send_note(&team, &machine.id().into(), &note).await.unwrap();
    let told = live.told("note.sent").await;
    assert_eq!(told.len(), 1);
    assert!(sent.note.id.as_str().starts_with("note_"), "{sent:?}");
    assert_eq!(told[0]["resource"]["id"], machine.id());
    assert!(!told[0].to_string().contains("lunch"), "what it says is its reader's");
}
