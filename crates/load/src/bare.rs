//! What Teamlamp's streams are compared with: an axum handler that broadcasts ready-made bytes, with no
//! storage, no order and no authority.

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use futures_util::{StreamExt, stream};
use tokio::sync::broadcast;

async fn follow(State(events): State<broadcast::Sender<Bytes>>) -> Response {
    let live = stream::unfold(events.subscribe(), |mut events| async move {
        match events.recv().await {
            Ok(bytes) => Some((Ok::<_, std::io::Error>(bytes), events)),
            Err(_) => None,
        }
    });
    let begin = stream::once(std::future::ready(Ok(Bytes::from_static(b": begin\n\n"))));
    let mut response = Response::new(Body::from_stream(begin.chain(live)));
    let kind = axum::http::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert("content-type", kind);
    response
}

async fn publish(State(events): State<broadcast::Sender<Bytes>>, body: Bytes) -> &'static str {
    let _ = events.send(Bytes::from([b"data: ".as_slice(), &body, b"\n\n"].concat()));
    "{}"
}

/// Runs the handler until it is killed; its first line says where it listens.
pub(crate) async fn serve() -> Result<()> {
    let (events, _) = broadcast::channel(1 << 14);
    let app = Router::new().route("/events", get(follow).post(publish)).with_state(events);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
