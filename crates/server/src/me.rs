//! `GET /v1/me`: who asks, with what, and where they belong.

use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::store::{credentials, members};
use teamlamp_wire::account::{CredentialInfo, Me};

/// Handles `me.read`. A machine's credential sees its own team alone.
///
/// # Errors
/// 401.
pub async fn read(call: Call) -> Result<Reply, ApiError> {
    let caller = call.caller()?.clone();
    let me = call.read(move |db| {
        let kept = credentials::find(db, &caller.credential_id)?.ok_or_else(ApiError::unauthenticated)?;
        let principal =
            members::principal(db, &caller.principal_id)?.ok_or_else(ApiError::unauthenticated)?;
        let mut memberships = members::of_principal(db, &caller.principal_id)?;
        memberships.retain(|m| caller.team_id.as_ref().is_none_or(|own| *own == m.team.id));
        let credential =
            CredentialInfo { id: caller.credential_id, kind: caller.kind, expires_at: kept.expires_at };
        Ok(Me { principal, credential, memberships })
    });
    let me = me.await?;
    call.one(me)
}
