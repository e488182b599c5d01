//! Whose request it is: the bearer token of the `Authorization` header against the hashes of the store.
//! Missing, malformed, unknown, revoked and expired are all alike to the caller (spec 01). What was read
//! of a credential is remembered until a commit changes anything of credentials, so that most requests
//! ask the database nothing about who asks.

use super::Caller;
use crate::app::App;
use crate::error::ApiError;
use crate::store::credentials::{self, Kept, TokenHash};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use subtle::ConstantTimeEq;
use teamlamp_clock::Chance;
use teamlamp_wire::Millis;
use teamlamp_wire::account::CredentialKind;
use teamlamp_wire::id::CredentialId;
use teamlamp_wire::limits::{ROTATION_OVERLAP_MS, USER_CREDENTIAL_MS};

/// A user credential's end moves at most this often, so that using it writes little.
const SLIDE_MS: Millis = 86_400_000;

/// Makes a token of a credential and what is stored of it.
pub fn new_token(id: &CredentialId, chance: &Chance) -> (String, TokenHash) {
    let token = format!("{id}.{}", URL_SAFE_NO_PAD.encode(chance.bytes::<32>()));
    let hash = hash(&token);
    (token, hash)
}

fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

/// The credential id and hash of a well-formed `Authorization` header.
fn read(headers: &HeaderMap) -> Option<(CredentialId, TokenHash)> {
    let mut values = headers.get_all(http::header::AUTHORIZATION).iter();
    let (value, more) = (values.next()?, values.next());
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let fine = more.is_none()
        && scheme.eq_ignore_ascii_case("bearer")
        && id.strip_prefix(CredentialId::PREFIX).is_some_and(|rest| rest.starts_with('_'))
        && id.len() <= 64
        && plain(id)
        && secret.len() == 43
        && plain(secret);
    fine.then(|| (id.into(), hash(token)))
}

/// What a use of a token changes in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    /// Something must be written.
    touch: bool,
    /// The new end of a credential that slides.
    expires_at: Option<Millis>,
}

/// Whether a token is one of a credential's two now, and what its use changes.
fn judge(kept: &Kept, token: &TokenHash, now: Millis) -> Option<Use> {
    let is_current: bool = kept.token.ct_eq(token).into();
    let is_next: bool = kept.next.is_some_and(|next| next.ct_eq(token).into());
    let overlap_ended = kept.next_issued_at.is_some_and(|at| now > at + ROTATION_OVERLAP_MS);
    if kept.expires_at <= now || !(is_next || (is_current && !overlap_ended)) {
        return None;
    }
    let slides =
        kept.caller.kind == CredentialKind::User && kept.expires_at < now + USER_CREDENTIAL_MS - SLIDE_MS;
    let expires_at = slides.then_some(now + USER_CREDENTIAL_MS);
    Some(Use { touch: is_next || slides || kept.first_used_at.is_none(), expires_at })
}

/// How many credentials are remembered.
const REMEMBERED: usize = 10_000;

/// Credentials as they were last read, each with the count of changes before its reading.
#[derive(Debug, Default)]
pub struct Known(Mutex<BTreeMap<CredentialId, (u64, Kept)>>);

impl Known {
    fn get(&self, id: &CredentialId, changes: u64) -> Option<Kept> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).filter(|(then, _)| *then == changes).map(|(_, kept)| kept.clone())
    }

    fn put(&self, id: CredentialId, changes: u64, kept: Kept) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED && !known.contains_key(&id) {
            known.retain(|_, (then, _)| *then == changes);
            if known.len() >= REMEMBERED {
                known.clear();
            }
        }
        known.insert(id, (changes, kept));
    }
}

/// The credential of an id, unless it was revoked.
async fn look_up(app: &App, id: &CredentialId) -> Result<Option<Kept>, ApiError> {
    // Counted before it is read: a commit in between makes what was read old at once.
    let changes = app.hub.callers_changed();
    if let Some(kept) = app.known.get(id, changes) {
        return Ok(Some(kept));
    }
    let asked = id.clone();
    let found = app.store.read(move |db| Ok(credentials::find(db, &asked)?)).await?;
    if let Some(kept) = &found {
        app.known.put(id.clone(), changes, kept.clone());
    }
    Ok(found)
}

/// The holder of the credential that a request presents; `None` where it presents no valid one.
///
/// # Errors
/// A store that can't be read.
pub async fn find(app: &App, headers: &HeaderMap) -> Result<Option<Caller>, ApiError> {
    let Some((id, token)) = read(headers) else { return Ok(None) };
    let now = app.clock.now_ms();
    // An unknown id costs the same comparison as a known one.
    let Some(kept) = look_up(app, &id).await? else {
        let _ = std::hint::black_box(token.ct_eq(&[0; 32]));
        return Ok(None);
    };
    let Some(used) = judge(&kept, &token, now) else { return Ok(None) };
    if used.touch {
        let noted =
            app.store.write(move |tx| Ok(credentials::touch(tx, &id, &token, used.expires_at)?)).await;
        match noted {
            Ok(true) => {}
            // Another request ended this token meanwhile.
            Ok(false) => return Ok(None),
            // Reading goes on where nothing can be written; what changes something fails by itself.
            Err(fault) => tracing::warn!(%fault, "the use of a credential could not be noted"),
        }
    }
    Ok(Some(kept.caller))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_000_000_000_000;

    fn kept(token: &str, next: Option<(&str, Millis)>) -> Kept {
        Kept {
            caller: Caller {
                credential_id: "cred_1".into(),
                kind: CredentialKind::User,
                principal_id: "prin_1".into(),
                name: "Ada".into(),
                team_id: None,
                machine_id: None,
            },
            token: hash(token),
            next: next.map(|(token, _)| hash(token)),
            next_issued_at: next.map(|(_, at)| at),
            first_used_at: Some(NOW - 5),
            expires_at: NOW + USER_CREDENTIAL_MS,
        }
    }

    #[test]
    fn a_token_reads_back_and_others_do_not() {
        let id = CredentialId::from("cred_0123");
        let (token, stored) = new_token(&id, &Chance::seeded(1));
        assert_eq!(token.len(), "cred_0123".len() + 1 + 43);
        let headers = |values: &[String]| {
            let mut map = HeaderMap::new();
            for value in values {
                map.append(http::header::AUTHORIZATION, value.parse().unwrap());
            }
            map
        };
        assert_eq!(read(&headers(&[format!("Bearer {token}")])), Some((id.clone(), stored)));
        assert_eq!(read(&headers(&[format!("bearer {token}")])), Some((id, stored)));
        let long = format!("Bearer cred_{}.{}", "a".repeat(99), "b".repeat(43));
        for bad in [
            vec![],
            vec![token.clone()],
            vec![format!("Basic {token}")],
            vec![format!("Bearer {token}x")],
            vec![format!("Bearer {}", token.replace('.', ":"))],
            vec![format!("Bearer {}", token.replace("cred_", "team_"))],
            vec![long],
            vec![format!("Bearer {token}"), format!("Bearer {token}")],
        ] {
            assert_eq!(read(&headers(&bad)), None, "{bad:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_header_panics(bytes in proptest::collection::vec(32u8..=255, 0..200)) {
            let mut headers = HeaderMap::new();
            // DEL can stand in no header.
            let bytes: Vec<u8> = bytes.into_iter().filter(|b| *b != 127).collect();
            let value = [b"Bearer ".as_slice(), &bytes].concat();
            headers.insert(http::header::AUTHORIZATION, http::HeaderValue::from_bytes(&value).unwrap());
            let _ = read(&headers);
        }
    }

    #[test]
    fn what_is_known_of_a_credential_is_forgotten_with_any_change_and_bounded() {
        let known = Known::default();
        known.put("cred_1".into(), 7, kept("t", None));
        assert!(known.get(&"cred_1".into(), 7).is_some());
        assert!(known.get(&"cred_1".into(), 8).is_none());
        for number in 0..REMEMBERED + 10 {
            known.put(format!("cred_{number}").into(), 8, kept("t", None));
        }
        assert!(known.0.lock().unwrap().len() <= REMEMBERED);
    }

    #[test]
    fn the_old_token_lives_until_the_new_one_is_used_a_day_at_most() {
        let day = ROTATION_OVERLAP_MS;
        let rotated = kept("old", Some(("new", NOW)));
        assert_eq!(judge(&rotated, &hash("old"), NOW + day), Some(Use { touch: false, expires_at: None }));
        assert_eq!(judge(&rotated, &hash("old"), NOW + day + 1), None);
        assert!(judge(&rotated, &hash("new"), NOW + day + 1).is_some_and(|u| u.touch));
        assert_eq!(judge(&rotated, &hash("other"), NOW), None);
    }

    #[test]
    fn a_persons_credential_slides_at_most_once_a_day_and_a_machines_never() {
        let mut theirs = kept("t", None);
        assert_eq!(judge(&theirs, &hash("t"), NOW), Some(Use { touch: false, expires_at: None }));
        let later = NOW + SLIDE_MS + 1;
        let slid = judge(&theirs, &hash("t"), later).unwrap();
        assert_eq!(slid, Use { touch: true, expires_at: Some(later + USER_CREDENTIAL_MS) });
        theirs.caller.kind = CredentialKind::Machine;
        assert_eq!(judge(&theirs, &hash("t"), later), Some(Use { touch: false, expires_at: None }));
        assert_eq!(judge(&theirs, &hash("t"), theirs.expires_at), None);
        theirs.first_used_at = None;
        assert!(judge(&theirs, &hash("t"), NOW).is_some_and(|u| u.touch));
    }
}
