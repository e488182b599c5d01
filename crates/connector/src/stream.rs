//! The one upstream stream of a context, and its readers.

/// One reader of a context's events.
#[derive(Debug)]
pub struct Events(());

/// How the upstream stream is.
#[derive(Debug)]
pub struct Upstream(());

/// What the kept frames can't serve: go to the server itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);
