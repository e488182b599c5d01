//! `GET /healthz` and `GET /readyz`: whether the process lives, and whether it can write.

use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::{Tx, meta};
use std::time::Duration;
use teamlamp_clock::Moment;

/// Handles `health.alive`.
///
/// # Errors
/// None.
pub async fn alive(_call: Call) -> Result<Reply, ApiError> {
    Ok(Reply::Json { status: 200, body: r#"{"status":"alive"}"#.into(), etag: None })
}

/// How long an answer stands: nobody needs a credential to ask, and each look costs a write.
const STANDS: Duration = Duration::from_secs(1);

/// When it was last looked whether the store can be written, and what was found.
#[derive(Debug, Default)]
pub struct Ready(tokio::sync::Mutex<Option<(Moment, Result<(), ApiError>)>>);

/// Handles `health.ready`: writes a row, so that a full or read-only disk shows.
///
/// # Errors
/// 503 with the reason.
pub async fn ready(call: Call) -> Result<Reply, ApiError> {
    let (app, now) = (&call.app, call.app.clock.monotonic());
    let mut last = app.ready.0.lock().await;
    let found = match &*last {
        Some((at, found)) if *at + STANDS > now => found.clone(),
        _ => {
            let row = |tx: &Tx<'_>| Ok(meta::set(tx, "ready_at", &tx.now_ms.to_string())?);
            let found = app.store.write(row).await;
            *last = Some((now, found.clone()));
            found
        }
    };
    found?;
    // That row could be written; what stands on a damaged page can't be read, and on a full disk what is larger
    // can't be kept.
    if let Some(fault) = app.store.fault() {
        return Err(fault.refusal("met by an earlier request"));
    }
    Ok(Reply::Json { status: 200, body: r#"{"status":"ready"}"#.into(), etag: None })
}
