//! What a handler gets and gives: [`Call`] and [`Reply`], and the two ways to the store: a change that
//! happens once, and a read on one snapshot.

use crate::access::idempotency::{self, Keyed};
use crate::access::{Caller, audit, guard};
use crate::app::App;
use crate::error::ApiError;
use crate::router::Route;
use crate::store::Tx;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::IpAddr;
use teamlamp_wire::envelope::{Context, ErrorCode, List, One};
use teamlamp_wire::id::{MachineId, RequestId, TeamId};
use teamlamp_wire::json;
use teamlamp_wire::limits::{PAGE_DEFAULT, PAGE_MAX};

/// A handler: a plain function, so that the route table is plain data.
pub type Handler = fn(Call) -> BoxFuture<'static, Result<Reply, ApiError>>;

/// A request whose credential, size, query and headers were checked.
pub struct Call {
    /// The server's parts.
    pub app: App,
    /// The row of the route table.
    pub route: &'static Route,
    /// Who asks; `None` only where the route needs no credential and none valid was sent.
    pub caller: Option<Caller>,
    /// The path's parameters by name.
    pub params: BTreeMap<String, String>,
    /// The query's parameters; unknown ones were refused by the route's list.
    pub query: BTreeMap<String, String>,
    /// Method, headers and extensions (an upgrade takes what it needs from here).
    pub parts: Parts,
    /// The body, within its limit.
    pub body: Bytes,
    /// The request's id in the log.
    pub request_id: RequestId,
    /// The address that it came from.
    pub peer: IpAddr,
    /// The enrolled machine that the header names, where it may stand there; not yet looked up.
    pub machine_header: Option<MachineId>,
    /// The key under which the answer of a change is kept.
    pub idempotency_key: Option<String>,
    /// What that key stands for, once the change is under way.
    pub keyed: Option<Keyed>,
}

/// Headers, query and body hold secrets, so a call says little of itself.
impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("operation", &self.route.operation)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

/// An answer.
pub enum Reply {
    /// JSON with a status and, for a resource with a revision, its `ETag`.
    Json {
        /// 200 or 201.
        status: u16,
        /// The whole body.
        body: String,
        /// The revision.
        etag: Option<i64>,
    },
    /// 204.
    Empty,
    /// A stream or an upgrade.
    Raw(Response),
}

/// Answers hold secrets too.
impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Reply {
    /// The answer's status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Json { status, .. } => *status,
            Self::Empty => 204,
            Self::Raw(response) => response.status().as_u16(),
        }
    }
}

/// Which part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many items.
    pub limit: usize,
    /// The order's key of the item before the first.
    pub after: Option<Vec<String>>,
}

impl Page {
    /// The key's two parts, where the order is by two.
    pub fn after_pair(&self) -> Option<(&str, &str)> {
        match self.after.as_deref() {
            Some([first, second]) => Some((first, second)),
            _ => None,
        }
    }
}

impl Call {
    /// Who asks, on a route that needs a credential.
    ///
    /// # Errors
    /// 401 where nobody does.
    pub fn caller(&self) -> Result<&Caller, ApiError> {
        self.caller.as_ref().ok_or_else(ApiError::unauthenticated)
    }
    /// A parameter of the path; it is there by the route's own pattern.
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }
    /// The team of the path.
    pub fn team(&self) -> TeamId {
        self.param("team").into()
    }
    /// The machine of the path.
    pub fn machine(&self) -> MachineId {
        self.param("machine").into()
    }
    /// What of the team the path names, for the audit.
    pub fn target(&self) -> Option<&str> {
        self.params.iter().find(|(name, _)| *name != "team").map(|(_, value)| value.as_str())
    }
    /// The body as `T`, strictly (spec 01), or a 400 that says what is wrong.
    ///
    /// # Errors
    /// 400.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        json::read(&self.body).map_err(ApiError::invalid)
    }
    /// The revision that `If-Match` names.
    ///
    /// # Errors
    /// 400 where it is absent, a list, `*`, weak or no revision.
    pub fn if_match(&self) -> Result<i64, ApiError> {
        let mut values = self.parts.headers.get_all(http::header::IF_MATCH).iter();
        let value = values.next().and_then(|v| v.to_str().ok()).map(str::trim);
        let bare = value.map(|v| v.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(v));
        bare.filter(|v| v.bytes().all(|b| b.is_ascii_digit()) && values.next().is_none())
            .and_then(|v| v.parse().ok())
            .ok_or_else(|| {
                ApiError::invalid(
                    "Say in If-Match which one revision of it you saw, such as `If-Match: \"7\"`.",
                )
            })
    }
    /// Which part of a list is asked for: `limit` 1 to 200 and `cursor`.
    ///
    /// # Errors
    /// 400 for a limit out of its range and a cursor that is none of this list.
    pub fn page(&self) -> Result<Page, ApiError> {
        self.page_of(PAGE_DEFAULT)
    }
    /// [`Call::page`] of a list that answers another number where none is asked for.
    ///
    /// # Errors
    /// As [`Call::page`].
    pub fn page_of(&self, default: usize) -> Result<Page, ApiError> {
        let limit = match self.query.get("limit") {
            None => default,
            Some(text) => text
                .parse()
                .ok()
                .filter(|n| (1..=PAGE_MAX).contains(n) && text.bytes().all(|b| b.is_ascii_digit()))
                .ok_or_else(|| {
                    ApiError::invalid(format!("`limit` must be a number from 1 to {PAGE_MAX}."))
                })?,
        };
        let after = self.query.get("cursor").map(|text| self.read_cursor(text)).transpose()?;
        Ok(Page { limit, after })
    }
    fn read_cursor(&self, text: &str) -> Result<Vec<String>, ApiError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() <= 2048);
        let key = bytes.and_then(|bytes| serde_json::from_slice::<(String, Vec<String>)>(&bytes).ok());
        let own = key.filter(|(operation, key)| operation == self.route.operation && key.len() == 2);
        own.map(|(_, key)| key).ok_or_else(|| {
            ApiError::invalid("`cursor` is none that this list gave: leave it out to begin at the beginning.")
        })
    }
    /// Where the answer is made.
    pub fn context(&self) -> Context {
        Context {
            server_id: Some(self.app.server_id.clone()),
            team_id: self.params.get("team").map(|t| TeamId(t.clone())),
            principal_id: self.caller.as_ref().map(|c| c.principal_id.clone()),
        }
    }
    /// One result, 200.
    ///
    /// # Errors
    /// What serializing says.
    pub fn one<T: Serialize>(&self, data: T) -> Result<Reply, ApiError> {
        one(self.context(), 200, data, None)
    }
    /// One result with a revision, 200.
    ///
    /// # Errors
    /// What serializing says.
    pub fn revised<T: Serialize>(&self, data: T, revision: i64) -> Result<Reply, ApiError> {
        one(self.context(), 200, data, Some(revision))
    }
    /// A list, 200.
    ///
    /// # Errors
    /// What serializing says.
    pub fn list<T: Serialize>(&self, items: Vec<T>, next_cursor: Option<String>) -> Result<Reply, ApiError> {
        let body = serde_json::to_string(&List::new(self.context(), items, next_cursor))?;
        Ok(Reply::Json { status: 200, body, etag: None })
    }
    /// A page of a list from at most one item more than its limit; `key` is an item's place in the order.
    ///
    /// # Errors
    /// What serializing says.
    pub fn listed<T: Serialize>(
        &self,
        page: &Page,
        mut items: Vec<T>,
        key: impl Fn(&T) -> [String; 2],
    ) -> Result<Reply, ApiError> {
        let next = self.next_cursor(page, &mut items, key)?;
        self.list(items, next)
    }
    /// Cuts what is more than a page, and says where the next one begins.
    ///
    /// # Errors
    /// What serializing says.
    pub fn next_cursor<T>(
        &self,
        page: &Page,
        items: &mut Vec<T>,
        key: impl Fn(&T) -> [String; 2],
    ) -> Result<Option<String>, ApiError> {
        let more = items.len() > page.limit;
        items.truncate(page.limit);
        items.last().filter(|_| more).map(|last| self.cursor_after(&key(last))).transpose()
    }
    /// The cursor of what comes after a place in this list's order.
    ///
    /// # Errors
    /// What serializing says.
    pub fn cursor_after(&self, key: &[String; 2]) -> Result<String, ApiError> {
        let cursor = serde_json::to_vec(&(self.route.operation, key))?;
        Ok(URL_SAFE_NO_PAD.encode(cursor))
    }
    /// Runs a change: its authority first, then, unless the same request was answered before, the act,
    /// and keeps the answer with the idempotency key in the same transaction (spec 01). A refusal of a
    /// change of access is audited.
    ///
    /// `authority` re-reads what allows the change; `act` gets what it found.
    ///
    /// # Errors
    /// What `authority` and `act` return.
    pub async fn change<A, F, G>(self, authority: F, act: G) -> Result<Reply, ApiError>
    where
        A: Send + 'static,
        F: FnOnce(&Tx<'_>, &Self) -> Result<A, ApiError> + Send + 'static,
        G: FnOnce(&Tx<'_>, &Self, A) -> Result<Reply, ApiError> + Send + 'static,
    {
        self.guarded(move |tx, call| {
            if let Some(caller) = &call.caller {
                guard::credential(tx, caller)?;
            }
            let found = authority(tx, call)?;
            idempotency::once(tx, call, |tx| act(tx, call, found))
        })
        .await
    }
    /// [`Call::change`] for a change that looks at its own idempotency: still one at a time under its
    /// key, still audited where it is refused.
    ///
    /// # Errors
    /// What `change` returns.
    pub async fn guarded<F>(mut self, change: F) -> Result<Reply, ApiError>
    where
        F: FnOnce(&Tx<'_>, &Self) -> Result<Reply, ApiError> + Send + 'static,
    {
        let app = self.app.clone();
        // Digested here, beside the writer: a body may be large.
        self.keyed = idempotency::of(&self);
        let _flight = match &self.keyed {
            Some(keyed) => Some(app.flights.enter(&keyed.scope, &app.clock).await?),
            None => None,
        };
        let denial = audit::Denial::of(&self);
        let result = app.store.write(move |tx| change(tx, &self)).await;
        let refused =
            |refusal: &&ApiError| matches!(refusal.body.code, ErrorCode::Forbidden | ErrorCode::Conflict);
        let denial = denial.zip(result.as_ref().err().filter(refused));
        if let Some(denial) = denial.map(|(denial, refusal)| denial.in_team(refusal.team.as_ref())) {
            audit::denied(&app, denial).await;
        }
        result
    }
    /// Runs a read on one snapshot.
    ///
    /// # Errors
    /// What `query` returns.
    pub async fn read<T, F>(&self, query: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&rusqlite::Connection) -> Result<T, ApiError> + Send + 'static,
    {
        self.app.store.read(query).await
    }
}

/// One result in its envelope with a status and, where it has one, its revision.
///
/// # Errors
/// What serializing says.
pub fn one<T: Serialize>(
    context: Context,
    status: u16,
    data: T,
    revision: Option<i64>,
) -> Result<Reply, ApiError> {
    let body = serde_json::to_string(&One::new(context, data))?;
    Ok(Reply::Json { status, body, etag: revision })
}

/// The query's parameters, each at most once and known to the route.
///
/// # Errors
/// 400 that names the parameter.
pub fn query(parts: &Parts, route: &Route) -> Result<BTreeMap<String, String>, ApiError> {
    let mut found = BTreeMap::new();
    for pair in parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8().map(std::borrow::Cow::into_owned).ok()
        };
        let (Some(name), Some(value)) = (decode(name), decode(value)) else {
            return Err(ApiError::invalid("The query is not percent-encoded UTF-8."));
        };
        let shown = teamlamp_wire::text::visible(&name.chars().take(64).collect::<String>());
        if !route.query.contains(&name.as_str()) {
            let known = match route.query {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            return Err(ApiError::invalid(format!(
                "`{shown}` is no parameter of this path; it knows {known}."
            )));
        }
        if found.insert(name, value).is_some() {
            return Err(ApiError::invalid(format!("`{shown}` stands twice in the query.")));
        }
    }
    Ok(found)
}
