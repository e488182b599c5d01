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
    target: Target,
    base: String,
    pools: RwLock<Pools>,
}

enum Target {
    Server { origin: String, tls: ClientConfig },
    Socket { path: PathBuf, shown: String },
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
        let base = origin.clone();
        Self::of(Target::Server { origin, tls }, base)
    }

    /// The connector behind a socket of this computer.
    ///
    /// # Errors
    /// Where the HTTP client can't be made.
    pub fn to_socket(path: &Path) -> Result<Self, TransportFault> {
        let shown = path.display().to_string();
        // The door answers to this name alone.
        Self::of(Target::Socket { path: path.to_owned(), shown }, "http://localhost".to_owned())
    }

    fn of(target: Target, base: String) -> Result<Self, TransportFault> {
        let pools = target.pools()?;
        Ok(Self { target, base, pools: RwLock::new(pools) })
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

impl Target {
    fn pools(&self) -> Result<Pools, TransportFault> {
        let build = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|e| TransportFault::new(FaultKind::Tls, self.shown(), e.to_string()))
        };
        Ok(Pools {
            calls: build(self.builder(true))?,
            upgrades: build(self.builder(false).http1_only().pool_max_idle_per_host(0))?,
        })
    }

    fn builder(&self, http2: bool) -> reqwest::ClientBuilder {
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .tcp_keepalive(KEEP_ALIVE)
            .tcp_nodelay(true);
        match self {
            Self::Server { origin, tls } => {
                let mut tls = tls.clone();
                let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
                tls.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
                let builder = builder
                    .tls_backend_preconfigured(tls)
                    .http2_keep_alive_interval(KEEP_ALIVE)
                    .http2_keep_alive_timeout(CONNECT);
                // A proxy can't know this computer's own addresses.
                if is_loopback(origin) { builder.no_proxy() } else { builder }
            }
            Self::Socket { path, .. } => local(builder, path),
        }
    }

    fn shown(&self) -> &str {
        match self {
            Self::Server { origin, .. } => origin,
            Self::Socket { shown, .. } => shown,
        }
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
        self.target.shown()
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
        match self.target.pools() {
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
        // The types of a tunnel's failure are private: their words are pinned by a test.
        if detail.starts_with("tunnel error") {
            kind = Some(FaultKind::Proxy);
        }
        cause = it.source();
    }
    TransportFault::new(kind.unwrap_or(FaultKind::Reset), peer, detail)
}

fn tls_fault<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    // An error of I/O shows the error that it wraps as itself, not as its cause.
    let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.and_then(|e| e.downcast_ref()).or_else(|| cause.downcast_ref())
}
