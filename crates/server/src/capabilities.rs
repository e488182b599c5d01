//! `GET /v1/capabilities`: what this server is and can, for anyone who reaches it.

use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::router::ROUTES;
use teamlamp_wire::account::Capabilities;

/// Handles `capabilities.read`.
///
/// # Errors
/// None of its own.
pub async fn read(call: Call) -> Result<Reply, ApiError> {
    let capabilities = Capabilities {
        version: teamlamp_wire::VERSION,
        server_id: call.app.server_id.clone(),
        protocol: teamlamp_wire::PROTOCOL.into(),
        operations: ROUTES.iter().map(|route| route.operation.to_owned()).collect(),
        auth_modes: vec!["bearer".into()],
        name: call.app.config.name.clone(),
        lan: call.app.config.lan,
    };
    Ok(Reply::Json { status: 200, body: serde_json::to_string(&capabilities)?, etag: None })
}
