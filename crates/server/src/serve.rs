//! Connections: the listener, how many there may be, and each one's life with hyper. What a request is
//! begins in [`crate::dispatch`].

mod connections;
mod listen;
mod pace;

pub(crate) use connections::{Connected, Connections, Place};
pub(crate) use listen::listen;

use crate::access::proxies::is_trusted;
use crate::app::App;
use crate::dispatch::{self, Peer};
use crate::tls;
use axum::body::Body;
use http_body::Frame;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// The largest head of a request.
const HEAD_BYTES: usize = 64 << 10;
const HEADERS: usize = 100;
/// How long a connection may wait for its next request. Longer than clients and proxies keep theirs, so
/// that none sends into a connection that is being closed.
const IDLE: Duration = Duration::from_secs(90);
/// How long what runs may go on after the end of the server was asked for.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// The wait after a connection could not be accepted: out of descriptors, most likely.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The end of a connection by force: for whoever serves a stream on it to a reader that takes nothing
/// any more. Each request carries it in its extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut(CancellationToken);

impl Cut {
    /// Ends the connection at once.
    pub(crate) fn now(&self) {
        self.0.cancel();
    }
}

/// How long what was sent may stay without an answer of the other side's kernel. Comments and pings go
/// every 15 s, so the stream of a laptop that lost its network gives its place back within a minute and
/// not after the kernel's own quarter of an hour.
#[cfg(target_os = "linux")]
const UNHEARD_MS: u32 = 45_000;

/// Sets what every accepted socket has: small messages leave at once, and a peer that is gone is noticed.
fn prepare(socket: &tokio::net::TcpStream) {
    let _ = socket.set_nodelay(true);
    #[cfg(target_os = "linux")]
    if let Err(fault) = rustix::net::sockopt::set_tcp_user_timeout(socket, UNHEARD_MS) {
        tracing::debug!(%fault, "a peer that is gone is noticed when the kernel gives it up");
    }
}

/// Accepts connections until the server ends.
pub(crate) async fn accept(app: App, listener: TcpListener) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = app.tasks.token().cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, from)) => {
                let Some(place) = place(&app, from.ip()) else {
                    tracing::warn!(address = %from.ip(), "too many connections: one was closed");
                    continue;
                };
                let peer = Peer {
                    remote: from.ip().to_canonical(),
                    local: socket.local_addr().ok().map(|a| a.ip().to_canonical()),
                };
                prepare(&socket);
                app.tasks.spawn_to_end("connection", accepted_from(app.clone(), socket, peer, place));
            }
            Err(fault) => {
                tracing::warn!(%fault, "a connection could not be accepted");
                app.clock.sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// The place of a connection from an address. A trusted proxy speaks for many, each of whom has a bound
/// of their own ([`dispatch::answer`]).
fn place(app: &App, from: IpAddr) -> Option<Place> {
    let each = match is_trusted(from, &app.config.trusted_proxies) {
        true => usize::MAX,
        false => app.config.connections_per_address,
    };
    let connection = app.connections.take(from, app.config.connections, each)?;
    Some(Place { connection: Some(Arc::new(connection)), client: None })
}

/// Serves one connection that was accepted, after its handshake where this server encrypts.
async fn accepted_from(app: App, socket: TcpStream, peer: Peer, place: Place) {
    let Some(tls) = &app.tls else { return connection(app, socket, peer, place).await };
    let spoken = tokio::select! {
        biased;
        () = app.tasks.token().cancelled() => return,
        spoken = tls::handshake(socket, tls, &app.clock) => spoken,
    };
    match spoken {
        Ok(Some(stream)) => connection(app.clone(), stream, peer, place).await,
        Ok(None) => tracing::debug!("a connection that spoke no TLS was told so"),
        Err(fault) => tracing::debug!(%fault, "a handshake failed"),
    }
}

/// Serves one connection in a task of the server's.
pub(crate) fn start<IO>(app: &App, io: IO, peer: Peer)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    app.tasks.spawn_to_end("connection", connection(app.clone(), io, peer, Place::default()));
}

async fn connection<IO>(app: App, io: IO, peer: Peer, place: Place)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (io, pace) = pace::Paced::new(io, app.clock.clone());
    let cut = Cut::default();
    let service = service_fn({
        let (app, cut, place) = (app.clone(), cut.clone(), place.clone());
        move |mut request: http::Request<hyper::body::Incoming>| {
            let busy = pace.begin();
            let app = app.clone();
            request.extensions_mut().insert(cut.clone());
            request.extensions_mut().insert(place.clone());
            // hyper keeps room for this future as long as the connection lives: boxed, that of a stream
            // is a pointer and not all that a request may need.
            Box::pin(async move {
                let mut response = dispatch::answer(app, peer, request).await;
                let place = response.extensions_mut().remove::<Place>();
                if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
                    busy.for_good();
                    return Ok::<_, Infallible>(response.map(|body| Held {
                        body,
                        _busy: None,
                        _place: None,
                    }));
                }
                Ok(response.map(|body| Held { body, _busy: Some(busy), _place: place }))
            })
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES * 2)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let mut served = pin!(served);
    let result = tokio::select! {
        biased;
        () = app.tasks.token().cancelled() => {
            served.as_mut().graceful_shutdown();
            match app.clock.within(GRACE, served).await {
                Some(result) => result,
                None => return tracing::warn!("a request did not end in time: its connection was cut"),
            }
        }
        () = cut.0.cancelled() => return tracing::debug!("a connection whose reader takes nothing was cut"),
        result = served.as_mut() => result,
    };
    if let Err(fault) = result {
        tracing::debug!(%fault, "a connection ended early");
    }
}

/// A response's body that marks its connection busy, and holds its client's place, until it is sent or
/// dropped.
struct Held {
    body: Body,
    _busy: Option<pace::Busy>,
    _place: Option<Place>,
}

impl http_body::Body for Held {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// A server needs a descriptor for each stream: raises the process's soft limit to its hard one.
pub(crate) fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        if limit.current < limit.maximum {
            limit.current = limit.maximum;
            if let Err(fault) = setrlimit(Resource::Nofile, limit) {
                tracing::debug!(%fault, "the limit of open files stays as it is");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_socket_whose_peer_is_gone_does_not_wait_for_the_kernels_quarter_of_an_hour() {
        let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let dialled = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        prepare(&accepted);
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&accepted).unwrap(), UNHEARD_MS);
        assert!(accepted.nodelay().unwrap());
        drop(dialled);
    }
}
