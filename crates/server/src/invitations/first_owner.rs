//! The owner's code of a new server: made at its first start, kept in a private file of the data folder
//! until it is used.

use crate::app::App;
use crate::error::ApiError;
use crate::folder::write_private;
use crate::store::{invitations, teams};
use std::path::PathBuf;
use teamlamp_wire::account::Role;
use teamlamp_wire::id::InvitationId;
use teamlamp_wire::invitation::{Code, Invitation, JoinLink};

/// The file's name in the data folder.
pub const FILE: &str = "first-owner-link";
/// How long an owner's code lives; each start of a server without a team renews it.
const LIFETIME_MS: i64 = 365 * 86_400_000;

fn path(app: &App) -> PathBuf {
    app.config.data.join(FILE)
}

/// Makes sure that a server without a team has an owner's code that works, and its link (with today's
/// origin) in the file; that one with a team has none.
///
/// # Errors
/// A store or folder that can't be written.
pub async fn prepare(app: &App) -> Result<(), ApiError> {
    let path = path(app);
    let kept = std::fs::read_to_string(&path).ok().and_then(|text| JoinLink::parse(&text).ok());
    let (keys, chance) = (app.keys.clone(), app.chance.clone());
    let code = app.store.write(move |tx| {
        if teams::exist(tx)? {
            return Ok(None);
        }
        if let Some(link) = kept {
            let known = invitations::by_code(tx, &keys.code_mac(&link.code))?;
            if known.is_some_and(|k| k.standing(tx.now_ms) == invitations::Standing::Open) {
                return Ok(Some(link.code));
            }
        }
        invitations::revoke_owner_codes(tx)?;
        let code = Code::from_random(chance.below(1 << 50));
        let invitation = Invitation {
            id: InvitationId::new(tx.now_ms, chance.bits()),
            role: Role::Owner,
            expires_at: tx.now_ms + LIFETIME_MS,
            max_uses: 1,
            uses: 0,
            note: None,
            revision: 1,
            created_by: None,
        };
        invitations::insert(tx, None, &invitation, &keys.code_mac(&code))?;
        Ok(Some(code))
    });
    match code.await? {
        None => forget(app),
        Some(code) => {
            let fingerprint = app.fingerprint.clone();
            let link = JoinLink { server: app.origin.clone(), code, fingerprint, team: None };
            write_private(&path, format!("{link}\n").as_bytes()).map_err(ApiError::internal)?;
        }
    }
    Ok(())
}

/// The link with the owner's code, while it was not used.
pub fn link(app: &App) -> Option<JoinLink> {
    JoinLink::parse(&std::fs::read_to_string(path(app)).ok()?).ok()
}

/// Removes the file: its code was used.
pub fn forget(app: &App) {
    if let Err(fault) = std::fs::remove_file(path(app))
        && fault.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%fault, "the used owner's link could not be removed");
    }
}
