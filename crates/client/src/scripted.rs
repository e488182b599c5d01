//! A transport for tests that answers from a script, and remembers what it was asked and how many answers
//! were open at once.

use crate::error::{FaultKind, TransportFault};
use crate::transport::{Io, Request, Response, Transport, Upgrade};
use crate::{Client, IdempotencyKey};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use teamlamp_clock::{Chance, Clock, ms};

/// What becomes of one request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A head and then these parts.
    Answer(u16, &'static [(&'static str, &'static str)], Vec<Part>),
    /// No answer.
    Fault(FaultKind),
    /// Nothing, for ever.
    Hang,
    /// This long nothing, then the step.
    After(i64, Box<Step>),
}

/// A part of a body; it ends after the last.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Bytes(String),
    Pause(i64),
    Break,
    Hang,
}

pub(crate) const JSON: &[(&str, &str)] = &[("content-type", "application/json; charset=utf-8")];
pub(crate) const SSE: &[(&str, &str)] = &[("content-type", "text/event-stream")];
pub(crate) const HTML: &[(&str, &str)] = &[("content-type", "text/html")];

impl Step {
    pub(crate) fn json(status: u16, body: impl Into<String>) -> Self {
        Self::Answer(status, JSON, vec![Part::Bytes(body.into())])
    }
    /// A success with a result.
    pub(crate) fn data(data: impl Into<String>) -> Self {
        Self::json(200, format!(r#"{{"version":1,"context":{{}},"data":{}}}"#, data.into()))
    }
    /// A refusal with a code.
    pub(crate) fn refusal(status: u16, code: &str) -> Self {
        Self::json(status, format!(r#"{{"error":{{"code":"{code}","message":"No."}}}}"#))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    steps: Mutex<VecDeque<Step>>,
    asked: Mutex<Vec<Request>>,
    open: Arc<Mutex<(usize, usize)>>,
    upgraded: Mutex<Option<Box<dyn Io>>>,
}

/// Counts an answer as open while it lives.
struct Open(Arc<Mutex<(usize, usize)>>);

impl Open {
    fn new(counts: &Arc<Mutex<(usize, usize)>>) -> Self {
        let mut it = counts.lock().unwrap();
        it.0 += 1;
        it.1 = it.1.max(it.0);
        Self(counts.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().unwrap().0 -= 1;
    }
}

impl std::fmt::Debug for Box<dyn Io> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Io")
    }
}

impl Script {
    pub(crate) fn of(steps: impl IntoIterator<Item = Step>) -> Arc<Self> {
        Arc::new(Self { steps: Mutex::new(steps.into_iter().collect()), ..Self::default() })
    }
    /// A client over this script, at 1,000,000 ms, with the chances of a seed.
    pub(crate) fn client(self: &Arc<Self>) -> Client {
        self.client_of(1)
    }
    /// With the chances of this seed.
    pub(crate) fn client_of(self: &Arc<Self>, seed: u64) -> Client {
        Client::new(self.clone(), Clock::starting_at(1_000_000), Chance::seeded(seed), "test 1.0")
    }
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
    /// A header of the nth request.
    pub(crate) fn header(&self, n: usize, name: &str) -> Option<String> {
        Some(self.asked()[n].headers.get(name)?.to_str().unwrap().to_owned())
    }
    /// The most answers that were ever open at once.
    pub(crate) fn most_open(&self) -> usize {
        self.open.lock().unwrap().1
    }
    /// What the next upgrade switches to.
    pub(crate) fn will_upgrade(&self, io: impl Io + 'static) {
        *self.upgraded.lock().unwrap() = Some(Box::new(io));
    }

    fn step(&self, request: Request) -> Step {
        self.asked.lock().unwrap().push(request);
        self.steps.lock().unwrap().pop_front().unwrap_or(Step::Hang)
    }

    fn answer(&self, step: Step) -> BoxFuture<'_, Result<Response, TransportFault>> {
        async move {
            match step {
                Step::Fault(kind) => Err(TransportFault::new(kind, "test", "scripted")),
                Step::Hang => std::future::pending().await,
                Step::After(wait, step) => {
                    Clock::starting_at(0).sleep(ms(wait)).await;
                    self.answer(*step).await
                }
                Step::Answer(status, headers, parts) => {
                    let open = Open::new(&self.open);
                    let body = stream::unfold((VecDeque::from(parts), open), |(mut parts, open)| async {
                        loop {
                            return match parts.pop_front()? {
                                Part::Bytes(text) => Some((Ok(Bytes::from(text)), (parts, open))),
                                Part::Break => {
                                    let fault = TransportFault::new(FaultKind::Reset, "test", "scripted");
                                    Some((Err(fault), (parts, open)))
                                }
                                Part::Hang => std::future::pending().await,
                                Part::Pause(wait) => {
                                    Clock::starting_at(0).sleep(ms(wait)).await;
                                    continue;
                                }
                            };
                        }
                    });
                    let named = headers
                        .iter()
                        .map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)));
                    Ok(Response {
                        status: StatusCode::from_u16(status).unwrap(),
                        headers: named.collect(),
                        body: body.boxed(),
                    })
                }
            }
        }
        .boxed()
    }
}

impl Transport for Script {
    fn peer(&self) -> &str {
        "https://test"
    }
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportFault>> {
        let step = self.step(request);
        self.answer(step)
    }
    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, TransportFault>> {
        if let Some(io) = self.upgraded.lock().unwrap().take() {
            let key = request.headers.get("sec-websocket-key").unwrap().as_bytes();
            let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key);
            let headers = HeaderMap::from_iter([(
                http::header::SEC_WEBSOCKET_ACCEPT,
                HeaderValue::from_str(&accept).unwrap(),
            )]);
            self.asked.lock().unwrap().push(request);
            return async move { Ok(Upgrade::Switched { headers, io }) }.boxed();
        }
        let step = self.step(request);
        async move { Ok(Upgrade::Answered(self.answer(step).await?)) }.boxed()
    }
}

/// A key that a test names.
pub(crate) fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::kept(text).unwrap()
}
