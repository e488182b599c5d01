//! To come.

/// Why the outbox can't be used.
#[derive(Debug, thiserror::Error)]
#[error("The outbox in {path} can't be opened ({cause}): mend its owner, or move that file away.")]
pub struct OutboxFault {
    pub(crate) path: std::path::PathBuf,
    pub(crate) cause: String,
}
