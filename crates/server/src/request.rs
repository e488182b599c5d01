//! One request from its route to its answer: [`Call`] is what a handler gets, [`Reply`] what it gives.
//! What every route shares (sizes, credential, limits, idempotency, errors) happens here, once.

use crate::access::Caller;
use crate::app::App;
use crate::error::ApiError;
use crate::router::Route;
use crate::store::Tx;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::IpAddr;
use teamlamp_wire::envelope::{Context, List, One};
use teamlamp_wire::id::{MachineId, RequestId, TeamId};
use teamlamp_wire::json;

/// A handler: a plain function, so that the route table is plain data.
pub type Handler = fn(Call) -> BoxFuture<'static, Result<Reply, ApiError>>;

/// A request whose credential, size and query were checked.
#[derive(Debug)]
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
    pub parts: http::request::Parts,
    /// The body, within its limit.
    pub body: Bytes,
    /// The request's id in the log.
    pub request_id: RequestId,
    /// The address that it came from.
    pub peer: IpAddr,
    /// The enrolled machine that the header names, where it may stand there; not yet looked up.
    pub machine_header: Option<MachineId>,
}

/// An answer.
#[derive(Debug)]
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

impl Call {
    /// Who asks, on a route that needs a credential.
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
    /// The body as `T`, strictly (spec 01), or a 400 that says what is wrong.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        json::read(&self.body).map_err(ApiError::invalid)
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
    pub fn one<T: Serialize>(&self, data: T) -> Result<Reply, ApiError> {
        one(self.context(), 200, data, None)
    }
    /// A list, 200.
    pub fn list<T: Serialize>(&self, items: Vec<T>, next_cursor: Option<String>) -> Result<Reply, ApiError> {
        let body = serde_json::to_string(&List::new(self.context(), items, next_cursor))?;
        Ok(Reply::Json { status: 200, body, etag: None })
    }
    /// Runs a change: its authority first, then, unless the same request was answered before, the act,
    /// and keeps the answer with the idempotency key in the same transaction (spec 01).
    ///
    /// `authority` re-reads what allows the change; `act` gets what it found.
    pub async fn change<A, F, G>(self, authority: F, act: G) -> Result<Reply, ApiError>
    where
        A: Send + 'static,
        F: FnOnce(&Tx<'_>, &Call) -> Result<A, ApiError> + Send + 'static,
        G: FnOnce(&Tx<'_>, &Call, A) -> Result<Reply, ApiError> + Send + 'static,
    {
        let store = self.app.store.clone();
        store
            .write(move |tx| {
                if let Some(caller) = &self.caller {
                    crate::access::guard::credential(tx, caller)?;
                }
                let found = authority(tx, &self)?;
                crate::access::idempotency::once(tx, &self, |tx| act(tx, &self, found))
            })
            .await
    }
    /// Runs a read on one snapshot.
    pub async fn read<T, F>(&self, query: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&rusqlite::Connection) -> Result<T, ApiError> + Send + 'static,
    {
        self.app.store.read(query).await
    }
}

/// One result in its envelope with a status and, where it has one, its revision.
pub fn one<T: Serialize>(
    context: Context,
    status: u16,
    data: T,
    revision: Option<i64>,
) -> Result<Reply, ApiError> {
    let body = serde_json::to_string(&One::new(context, data))?;
    Ok(Reply::Json { status, body, etag: revision })
}
