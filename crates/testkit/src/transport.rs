//! The client's transport over the simulated network: the real HTTP/1.1 of hyper over a connection of
//! [`crate::network`]. Like the one for real sockets it keeps an idle connection for the next request, so
//! that a request may meet a connection that is already dead.

use crate::network::{DialFault, Network};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use http::{HeaderValue, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_client::{FaultKind, Request, Response, Transport, TransportFault, Upgrade};
use teamlamp_clock::{Clock, Moment, Tasks, ms};

/// As the transport for real sockets has it.
const IDLE_MS: i64 = 30_000;
/// More connections than these are not kept.
const IDLE_MOST: usize = 4;

/// Carries requests of one host to one server.
#[derive(Clone, Debug)]
pub struct SimTransport {
    network: Network,
    from: String,
    /// The server's host, which is also what `Host` says.
    to: String,
    origin: String,
    clock: Clock,
    /// The process to which connections belong: they end with it.
    tasks: Tasks,
    idle: Arc<Mutex<Vec<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Full<Bytes>>,
    since: Moment,
}

impl SimTransport {
    /// A transport of the process that `tasks` is, on the host `from`, to the server at an `http` origin
    /// whose host is its name in the network.
    pub fn new(network: &Network, clock: &Clock, tasks: &Tasks, from: &str, origin: &str) -> Self {
        Self {
            network: network.clone(),
            from: from.to_owned(),
            to: origin.trim_start_matches("http://").to_owned(),
            origin: origin.to_owned(),
            clock: clock.clone(),
            tasks: tasks.clone(),
            idle: Arc::default(),
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, TransportFault> {
        if self.tasks.token().is_cancelled() {
            return Err(self.fault(FaultKind::Refused, "this process has ended"));
        }
        let io = self.network.dial(&self.from, &self.to).await.map_err(|fault| match fault {
            DialFault::Refused => self.fault(FaultKind::Refused, "connection refused"),
            DialFault::Timeout => self.fault(FaultKind::Timeout, "no answer to the dial"),
        })?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(io)).await.map_err(|fault| self.broken(&fault))?;
        self.tasks.spawn("simulated connection", async move {
            // How it ended is what its requests are told.
            let _ = connection.with_upgrades().await;
        });
        Ok(sender)
    }

    /// A kept connection that still looks alive.
    fn kept(&self) -> Option<SendRequest<Full<Bytes>>> {
        let now = self.clock.monotonic();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|it| it.sender.is_ready() && now - it.since < ms(IDLE_MS));
        idle.pop().map(|it| it.sender)
    }

    fn keep(&self, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MOST {
            idle.push(Idle { sender, since: self.clock.monotonic() });
        }
    }

    fn request(&self, request: Request) -> http::Request<Full<Bytes>> {
        let mut out = http::Request::new(Full::new(request.body));
        *out.method_mut() = request.method;
        *out.uri_mut() = request.path_and_query.parse().unwrap_or_default();
        *out.headers_mut() = request.headers;
        if let Ok(host) = HeaderValue::from_str(&self.to) {
            out.headers_mut().insert(http::header::HOST, host);
        }
        out
    }

    /// The head of the answer, and the connection that it came on.
    async fn exchange(
        &self,
        request: Request,
        afresh: bool,
    ) -> Result<(http::Response<Incoming>, SendRequest<Full<Bytes>>), TransportFault> {
        let mut request = self.request(request);
        if !afresh && let Some(mut sender) = self.kept() {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                // Nothing of it was sent: it may go over another connection.
                Err(mut unsent) => match unsent.take_message() {
                    Some(back) => request = back,
                    None => return Err(self.broken(unsent.error())),
                },
            }
        }
        let mut sender = self.connect().await?;
        let response = sender.send_request(request).await.map_err(|fault| self.broken(&fault))?;
        Ok((response, sender))
    }

    fn response(&self, head: http::Response<Incoming>, sender: SendRequest<Full<Bytes>>) -> Response {
        let (parts, body) = head.into_parts();
        let reading = Reading { transport: self.clone(), body, sender };
        let body = stream::unfold(Some(reading), |reading| async move {
            let mut it = reading?;
            match it.body.frame().await {
                Some(Ok(frame)) => Some((Ok(frame.into_data().unwrap_or_default()), Some(it))),
                Some(Err(fault)) => Some((Err(it.transport.broken(&fault)), None)),
                None => {
                    it.transport.keep(it.sender);
                    None
                }
            }
        });
        Response { status: parts.status, headers: parts.headers, body: body.boxed() }
    }

    fn broken(&self, fault: &hyper::Error) -> TransportFault {
        self.fault(FaultKind::Reset, &fault.to_string())
    }

    fn fault(&self, kind: FaultKind, detail: &str) -> TransportFault {
        TransportFault::new(kind, &self.origin, detail)
    }
}

struct Reading {
    transport: SimTransport,
    body: Incoming,
    sender: SendRequest<Full<Bytes>>,
}

impl Transport for SimTransport {
    fn peer(&self) -> &str {
        &self.origin
    }

    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportFault>> {
        async move {
            let (head, sender) = self.exchange(request, false).await?;
            Ok(self.response(head, sender))
        }
        .boxed()
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, TransportFault>> {
        async move {
            let (head, sender) = self.exchange(request, true).await?;
            if head.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Upgrade::Answered(self.response(head, sender)));
            }
            let headers = head.headers().clone();
            let upgraded = hyper::upgrade::on(head).await.map_err(|fault| self.broken(&fault))?;
            Ok(Upgrade::Switched { headers, io: Box::new(TokioIo::new(upgraded)) })
        }
        .boxed()
    }

    fn forget_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
