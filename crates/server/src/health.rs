//! `GET /healthz` and `GET /readyz`: whether the process lives, and whether it can write.

use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::meta;

/// Handles `health.alive`.
///
/// # Errors
/// None.
pub async fn alive(_call: Call) -> Result<Reply, ApiError> {
    Ok(Reply::Json { status: 200, body: r#"{"status":"alive"}"#.into(), etag: None })
}

/// Handles `health.ready`: writes a row, so that a full or read-only disk shows.
///
/// # Errors
/// 503 with the reason.
pub async fn ready(call: Call) -> Result<Reply, ApiError> {
    call.app.store.write(|tx| Ok(meta::set(tx, "ready_at", &tx.now_ms.to_string())?)).await?;
    Ok(Reply::Json { status: 200, body: r#"{"status":"ready"}"#.into(), etag: None })
}
