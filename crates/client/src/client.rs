//! A call: its headers, its time limit, its repetitions, and what its answer means. The methods of each
//! route stand in the modules of their domain and go through here.

use crate::answer::{Answer, has_type, refusal};
use crate::call::Call;
use crate::error::{ClientError, FaultKind, Garbled, TransportFault};
use crate::path::Path;
use crate::transport::{Body, Request, Response, Transport};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use teamlamp_clock::{Backoff, Chance, Clock, ms};
use teamlamp_wire::envelope::{List, One};
use teamlamp_wire::id::MachineId;
use teamlamp_wire::limits::{CALLER_CHARS, PAGE_MAX};
use teamlamp_wire::{HEADER_CALLER, HEADER_IDEMPOTENCY, HEADER_MACHINE};

/// How often a GET is tried (spec 01), and the waits between.
const TRIES: u32 = 5;
const WAIT_MS: (i64, i64) = (250, 5_000);
/// No answer of this protocol is larger.
const ANSWER_BYTES: usize = 32 << 20;
/// No list of this protocol has more pages.
pub(crate) const PAGES: usize = 1_000;

/// Names one change, so that it is made once however often it is sent (24 hours, spec 01).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// A fresh key.
    pub fn new(chance: &Chance) -> Self {
        Self(format!("{:032x}", chance.bits()))
    }

    /// A key that was kept: 1 to 128 visible ASCII characters; `None` where it can be none.
    pub fn kept(text: &str) -> Option<Self> {
        let fits = (1..=teamlamp_wire::limits::IDEMPOTENCY_KEY_CHARS).contains(&text.len());
        (fits && text.bytes().all(|b| b.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }

    /// The key as it is sent and kept.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One server, spoken to with one credential. Clones share the credential.
#[derive(Clone)]
pub struct Client {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    token: Arc<RwLock<Option<SecretString>>>,
    machine: Option<MachineId>,
    program: Arc<str>,
    site: Arc<str>,
    key: Option<IdempotencyKey>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("peer", &self.transport.peer()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client without a credential. `program` is what the server tallies its requests under:
    /// `teamlamp 0.1.0`.
    pub fn new(transport: Arc<dyn Transport>, clock: Clock, chance: Chance, program: &str) -> Self {
        Self {
            transport,
            clock,
            chance,
            token: Arc::default(),
            machine: None,
            program: program.into(),
            site: "".into(),
            key: None,
        }
    }

    /// The same server with a credential of its own.
    #[must_use]
    pub fn with_token(&self, token: SecretString) -> Self {
        Self { token: Arc::new(RwLock::new(Some(token))), ..self.clone() }
    }

    /// Puts another credential in the place of this one, for every clone: after a rotation, running
    /// streams then come back with the new one.
    pub fn replace_token(&self, token: SecretString) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }

    /// The same client, saying which enrolled machine this install is.
    #[must_use]
    pub fn as_machine(&self, machine: MachineId) -> Self {
        Self { machine: Some(machine), ..self.clone() }
    }

    /// The same client, naming the place in the program that calls; at most 60 characters.
    #[must_use]
    pub fn at(&self, site: &str) -> Self {
        Self { site: site.into(), ..self.clone() }
    }

    /// The same client for one change that may be sent again: whoever repeats it with this key makes it
    /// once.
    #[must_use]
    pub fn with_key(&self, key: IdempotencyKey) -> Self {
        Self { key: Some(key), ..self.clone() }
    }

    /// Where requests go.
    pub fn peer(&self) -> &str {
        self.transport.peer()
    }

    /// Forgets pooled connections: after sleep or a change of network.
    pub fn forget_idle(&self) {
        self.transport.forget_idle();
    }

    /// A key for [`Client::with_key`].
    pub fn new_key(&self) -> IdempotencyKey {
        IdempotencyKey::new(&self.chance)
    }

    /// The headers that every request carries.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        set(HEADER_CALLER, &caller(&self.program, &self.site));
        set(USER_AGENT.as_str(), &caller(&self.program, ""));
        if let Some(machine) = &self.machine {
            set(HEADER_MACHINE, machine.as_str());
        }
        let token = self.token.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = token.as_ref()
            && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        headers
    }

    /// Asks for one result.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: Path) -> Result<T, ClientError> {
        Ok(self.decode::<One<T>>(&self.call(&Call::get(path)).await?)?.data)
    }

    /// Asks for one page of a list.
    pub(crate) async fn page<T: DeserializeOwned>(&self, path: Path) -> Result<List<T>, ClientError> {
        self.decode(&self.call(&Call::get(path)).await?)
    }

    /// Asks for a whole list, page after page.
    pub(crate) async fn all<T: DeserializeOwned>(&self, path: Path) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        let mut cursor = None::<String>;
        for _ in 0..PAGES {
            let page: List<T> =
                self.page(path.clone().ask("limit", Some(PAGE_MAX)).ask("cursor", cursor)).await?;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(items);
            }
        }
        let detail = format!("a list of more than {PAGES} pages");
        Err(Garbled::NotOurs { peer: self.peer().to_owned(), status: 200, detail }.into())
    }

    /// Makes a change and reads its result.
    pub(crate) async fn change<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        Ok(self.decode::<One<T>>(&self.call(&call).await?)?.data)
    }

    /// Makes a change that answers nothing.
    pub(crate) async fn change_quietly(&self, call: Call) -> Result<(), ClientError> {
        self.call(&call).await.map(|_| ())
    }

    /// Reads a body, bare.
    pub(crate) fn decode<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, ClientError> {
        serde_json::from_slice(&answer.body).map_err(|e| {
            let status = answer.status.as_u16();
            Garbled::NotOurs { peer: self.peer().to_owned(), status, detail: e.to_string() }.into()
        })
    }

    /// Makes a call, again where it may be repeated and may pass.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, ClientError> {
        let mut backoff = Backoff::new(WAIT_MS);
        let key = self.key.clone().unwrap_or_else(|| self.new_key());
        loop {
            let fault = match self.once(call, &key).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if !call.repeatable || !fault.may_pass() || backoff.tries() + 1 >= TRIES {
                return Err(fault);
            }
            let wait = backoff.next(&self.chance);
            tracing::debug!(method = %call.method, path = call.bare_path(), %fault, ?wait, "asking again");
            self.clock.sleep(wait).await;
        }
    }

    async fn once(&self, call: &Call, key: &IdempotencyKey) -> Result<Answer, ClientError> {
        let mut headers = self.headers();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(revision) = call.if_match {
            headers.insert(IF_MATCH, value_of(&format!("\"{revision}\"")));
        }
        if call.method != Method::GET {
            headers.insert(HEADER_IDEMPOTENCY, value_of(key.as_str()));
        }
        if !call.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let request = Request {
            method: call.method.clone(),
            path_and_query: call.path.as_str().to_owned(),
            headers,
            body: call.body.clone(),
        };
        let answered = async { self.answer_of(self.transport.send(request).await?).await };
        match self.clock.within(ms(call.limit_ms), answered).await {
            Some(answer) => answer,
            None => Err(self.timed_out(call.limit_ms).into()),
        }
    }

    /// The answer, where it is a success of this protocol; else what it is instead.
    pub(crate) async fn answer_of(&self, response: Response) -> Result<Answer, ClientError> {
        let (status, headers) = (response.status, response.headers.clone());
        let peer = self.peer().to_owned();
        let is_json = has_type(&headers, "application/json");
        let Some(body) = response.read(ANSWER_BYTES).await? else {
            let detail = format!("more than {ANSWER_BYTES} bytes");
            return Err(Garbled::NotOurs { peer, status: status.as_u16(), detail }.into());
        };
        if status.is_success() && (is_json || status == StatusCode::NO_CONTENT) {
            return Ok(Answer { status, body });
        }
        Err(refusal(peer, status, &headers, &body))
    }

    /// Asks for a stream, whose body comes as it comes; the caller bounds how long its head may take.
    pub(crate) async fn open_stream(&self, path: &Path) -> Result<Body, ClientError> {
        let mut headers = self.headers();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let path_and_query = path.as_str().to_owned();
        let request = Request { method: Method::GET, path_and_query, headers, body: Bytes::new() };
        let response = self.transport.send(request).await?;
        if response.status == StatusCode::OK && has_type(&response.headers, "text/event-stream") {
            return Ok(response.body);
        }
        let status = response.status.as_u16();
        self.answer_of(response).await?;
        let detail = "an answer in place of a stream".to_owned();
        Err(Garbled::NotOurs { peer: self.peer().to_owned(), status, detail }.into())
    }

    /// Asks once, for a bare body.
    pub(crate) async fn poll<T: DeserializeOwned>(
        &self,
        path: Path,
        limit_ms: i64,
    ) -> Result<T, ClientError> {
        self.decode(&self.once(&Call::get(path).within_ms(limit_ms), &self.new_key()).await?)
    }

    fn timed_out(&self, limit_ms: i64) -> TransportFault {
        let detail = format!("nothing came within {} s", limit_ms / 1_000);
        TransportFault::new(FaultKind::Timeout, self.peer(), detail)
    }
}

fn value_of(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("-"))
}

/// The caller's header: the program, then the call site, which is always whole; 120 printable ASCII
/// characters, of which the site has at most 60.
fn caller(program: &str, site: &str) -> String {
    let ascii = |text: &str| text.chars().filter(|c| matches!(c, ' '..='~')).collect::<String>();
    let (most, site_most) = CALLER_CHARS;
    let site: String = ascii(site).chars().take(site_most).collect();
    if site.is_empty() {
        return ascii(program).chars().take(most).collect();
    }
    let program: String = ascii(program).chars().take(most - site.len() - 1).collect();
    format!("{program} {site}")
}

#[cfg(test)]
mod tests;
