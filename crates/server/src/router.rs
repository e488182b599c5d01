//! Every route of the server, in one table: capabilities, OpenAPI and the dispatcher read it.

use crate::request::Handler;
use http::Method;
use teamlamp_wire::limits;

/// Who may call a route at all; what they may do is the handler's guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing; a valid credential is still looked at where one is sent.
    Nothing,
    /// A valid credential.
    Credential,
}

/// One row of the table.
#[derive(Debug)]
pub struct Route {
    /// The `operationId`, which capabilities and the audit name.
    pub operation: &'static str,
    /// The method.
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// Who may call it at all.
    pub needs: Needs,
    /// The query parameters that it knows; any other is refused.
    pub query: &'static [&'static str],
    /// The largest body.
    pub body_bytes: usize,
    /// What does it.
    pub handler: Handler,
}

impl Route {
    const fn new(operation: &'static str, method: Method, path: &'static str, handler: Handler) -> Self {
        let body_bytes = limits::BODY_BYTES;
        Self { operation, method, path, needs: Needs::Credential, query: &[], body_bytes, handler }
    }
    const fn open(mut self) -> Self {
        self.needs = Needs::Nothing;
        self
    }
    const fn query(mut self, query: &'static [&'static str]) -> Self {
        self.query = query;
        self
    }
    const fn body(mut self, bytes: usize) -> Self {
        self.body_bytes = bytes;
        self
    }
}
