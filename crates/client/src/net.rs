//! The transport over real sockets, by `reqwest`: to a server's origin, or to the local door's socket. It
//! owns connections and what their failures are called; it knows nothing of the protocol.

use crate::error::{FaultKind, TransportFault};
use crate::tls;
use crate::transport::{Request, Response, Transport, Upgrade};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use http::StatusCode;
use rustls::ClientConfig;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

pub use crate::tls::Trust;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// An idle connection is kept this long: longer than from one heartbeat to the next, and shorter than
/// what servers and balancers close, so that few requests meet a connection that is already gone.
const IDLE: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A peer over real sockets.
pub struct Http {
    peer: String,
    /// What stands before a path.
    base: String,
    /// The socket, where it is one of this computer.
    socket: Option<PathBuf>,
    tls: ClientConfig,
    pools: RwLock<Pools>,
}

#[derive(Clone)]
struct Pools {
    calls: reqwest::Client,
    /// HTTP/1.1 alone, which an upgrade needs.
    upgrades: reqwest::Client,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&self.peer()).finish()
    }
}

impl Http {
    /// A server at an origin: `https`, or `http` to this computer or a private address.
    ///
    /// # Errors
    /// Where the origin is another, or the trust can't be read.
    pub fn to_server(origin: &str, trust: &Trust) -> Result<Self, TransportFault> {
        let origin = teamlamp_wire::invitation::check_origin(origin)
            .map_err(|sentence| TransportFault::new(FaultKind::Address, origin, sentence))?;
        let tls = tls::config(&origin, trust, origin.starts_with("https://"))?;
        Self::of(origin.clone(), origin, None, tls)
    }

    /// The connector behind a socket of this computer.
    ///
    /// # Errors
    /// Where the HTTP client can't be made.
    pub fn to_socket(path: &Path) -> Result<Self, TransportFault> {
        let peer = path.display().to_string();
        let tls = tls::config(&peer, &Trust::default(), false)?;
        // The door answers to this name alone.
        Self::of(peer, "http://localhost".to_owned(), Some(path.to_owned()), tls)
    }

    fn of(
        peer: String,
        base: String,
        socket: Option<PathBuf>,
        tls: ClientConfig,
    ) -> Result<Self, TransportFault> {
        let pools = Pools::new(&peer, socket.as_deref(), &tls)?;
        Ok(Self { peer, base, socket, tls, pools: RwLock::new(pools) })
    }

    fn pools(&self) -> Pools {
        self.pools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn execute(
        &self,
        client: reqwest::Client,
        request: Request,
    ) -> Result<reqwest::Response, TransportFault> {
        let url = format!("{}{}", self.base, request.path_and_query);
        let mut builder = client.request(request.method, url).headers(request.headers);
        if !request.body.is_empty() {
            builder = builder.body(request.body);
        }
        builder.send().await.map_err(|fault| classify(self.peer(), &fault))
    }
}

impl Pools {
    fn new(peer: &str, socket: Option<&Path>, tls: &ClientConfig) -> Result<Self, TransportFault> {
        let build = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|e| TransportFault::new(FaultKind::Tls, peer, e.to_string()))
        };
        let calls = builder(peer, socket, tls, &[b"h2", b"http/1.1"])
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(CONNECT);
        let upgrades = builder(peer, socket, tls, &[b"http/1.1"]).http1_only().pool_max_idle_per_host(0);
        Ok(Self { calls: build(calls)?, upgrades: build(upgrades)? })
    }
}

fn builder(
    peer: &str,
    socket: Option<&Path>,
    tls: &ClientConfig,
    protocols: &[&[u8]],
) -> reqwest::ClientBuilder {
    let mut tls = tls.clone();
    tls.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .tcp_keepalive(KEEP_ALIVE)
        .tcp_nodelay(true);
    match socket {
        Some(path) => local(builder, path),
        // A proxy can't know this computer's own addresses.
        None if is_loopback(peer) => builder.no_proxy(),
        None => builder,
    }
}

#[cfg(unix)]
fn local(builder: reqwest::ClientBuilder, path: &Path) -> reqwest::ClientBuilder {
    builder.no_proxy().unix_socket(path)
}

#[cfg(windows)]
fn local(builder: reqwest::ClientBuilder, path: &Path) -> reqwest::ClientBuilder {
    builder.no_proxy().windows_named_pipe(path)
}

fn is_loopback(origin: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    host.starts_with("localhost") || host.starts_with("127.") || host.starts_with("[::1]")
}

impl Transport for Http {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportFault>> {
        async move {
            let answer = self.execute(self.pools().calls, request).await?;
            Ok(response(self.peer(), answer))
        }
        .boxed()
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, TransportFault>> {
        async move {
            let answer = self.execute(self.pools().upgrades, request).await?;
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Upgrade::Answered(response(self.peer(), answer)));
            }
            let headers = answer.headers().clone();
            let io = answer.upgrade().await.map_err(|fault| classify(self.peer(), &fault))?;
            Ok(Upgrade::Switched { headers, io: Box::new(io) })
        }
        .boxed()
    }

    fn forget_idle(&self) {
        match Pools::new(&self.peer, self.socket.as_deref(), &self.tls) {
            Ok(pools) => *self.pools.write().unwrap_or_else(PoisonError::into_inner) = pools,
            Err(fault) => tracing::warn!(%fault, "kept the old connections"),
        }
    }
}

fn response(peer: &str, answer: reqwest::Response) -> Response {
    let peer = peer.to_owned();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.bytes_stream().map(move |chunk| chunk.map_err(|fault| classify(&peer, &fault)));
    Response { status, headers, body: body.boxed() }
}

/// What a failure is called. `reqwest` tells some of it, the causes below it the rest.
fn classify(peer: &str, fault: &reqwest::Error) -> TransportFault {
    let mut kind = if fault.is_dns() {
        Some(FaultKind::Dns)
    } else if fault.is_timeout() {
        Some(FaultKind::Timeout)
    } else {
        None
    };
    let mut detail = String::new();
    let mut cause = std::error::Error::source(fault);
    while let Some(it) = cause {
        if let Some(tls) = tls_fault(it) {
            let (kind, sentence) = tls::told(tls);
            return TransportFault::new(kind, peer, sentence);
        }
        detail = it.to_string();
        if let Some(io) = it.downcast_ref::<io::Error>()
            && matches!(io.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        {
            kind = kind.or(Some(FaultKind::Refused));
        }
        // These types are private: a test pins their words.
        if detail.starts_with("tunnel error") {
            kind = Some(FaultKind::Proxy);
        } else if detail == "invalid dns name" {
            kind = Some(FaultKind::Dns);
        }
        cause = it.source();
    }
    TransportFault::new(kind.unwrap_or(FaultKind::Reset), peer, detail)
}

/// The failure of TLS in a cause. An error of I/O shows what it wraps as itself, not as its cause, and may
/// wrap another of its kind.
fn tls_fault<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    match cause.downcast_ref::<io::Error>() {
        Some(io) => tls_fault(io.get_ref()?),
        None => cause.downcast_ref(),
    }
}
