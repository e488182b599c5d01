//! Connections: the listener, how many there may be, and each one's life with hyper. What a request is
//! begins in [`crate::dispatch`].

mod pace;

use crate::app::App;
use crate::dispatch::{self, Peer};
use axum::body::Body;
use http_body::Frame;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
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

/// The open connections. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// One open connection; dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Connected {
    connections: Connections,
    address: IpAddr,
}

impl Connections {
    /// Takes a place; `None` where all, or all of this address, are taken. This computer's own address
    /// has no bound of its own: a proxy in front speaks from there.
    pub(crate) fn take(&self, address: IpAddr, most: usize, most_per_address: usize) -> Option<Connected> {
        let address = address.to_canonical();
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = open.get(&address).copied().unwrap_or(0);
        let crowded = !address.is_loopback() && here >= most_per_address;
        if crowded || open.values().sum::<usize>() >= most {
            return None;
        }
        open.insert(address, here + 1);
        Some(Connected { connections: self.clone(), address })
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut open = self.connections.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

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
                let (most, each) = (app.config.connections, app.config.connections_per_address);
                let Some(place) = app.connections.take(from.ip(), most, each) else {
                    tracing::warn!(address = %from.ip(), "too many connections: one was closed");
                    continue;
                };
                let peer = Peer {
                    remote: from.ip().to_canonical(),
                    local: socket.local_addr().ok().map(|a| a.ip().to_canonical()),
                };
                prepare(&socket);
                start(&app, socket, peer, Some(place));
            }
            Err(fault) => {
                tracing::warn!(%fault, "a connection could not be accepted");
                app.clock.sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Serves one connection in a task of the server's.
pub(crate) fn start<IO>(app: &App, io: IO, peer: Peer, place: Option<Connected>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = connection(app.clone(), io, peer, place);
    app.tasks.spawn_to_end("connection", connection);
}

async fn connection<IO>(app: App, io: IO, peer: Peer, place: Option<Connected>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _place = place;
    let (io, pace) = pace::Paced::new(io, app.clock.clone());
    let cut = Cut::default();
    let service = service_fn({
        let (app, cut) = (app.clone(), cut.clone());
        move |mut request: http::Request<hyper::body::Incoming>| {
            let busy = pace.begin();
            let app = app.clone();
            request.extensions_mut().insert(cut.clone());
            // hyper keeps room for this future as long as the connection lives: boxed, that of a stream
            // is a pointer and not all that a request may need.
            Box::pin(async move {
                let response = dispatch::answer(app, peer, request).await;
                if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
                    busy.for_good();
                    return Ok::<_, Infallible>(response.map(|body| Held { body, _busy: None }));
                }
                Ok(response.map(|body| Held { body, _busy: Some(busy) }))
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

/// A response's body that marks its connection busy until it is sent or dropped.
struct Held {
    body: Body,
    _busy: Option<pace::Busy>,
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

/// A socket that listens at `address`.
///
/// # Errors
/// What the system says.
pub(crate) async fn listen(address: std::net::SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
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

    #[test]
    fn connections_are_bounded_in_all_and_by_address() {
        let connections = Connections::default();
        let far: IpAddr = [192, 0, 2, 1].into();
        let here: IpAddr = [127, 0, 0, 1].into();
        let first = connections.take(far, 4, 2).unwrap();
        let _second = connections.take(far, 4, 2).unwrap();
        assert!(connections.take(far, 4, 2).is_none());
        let _others = [connections.take(here, 4, 1).unwrap(), connections.take(here, 4, 1).unwrap()];
        assert!(connections.take(here, 4, 1).is_none());
        drop(first);
        assert!(connections.take(far, 4, 2).is_some());
    }
}
