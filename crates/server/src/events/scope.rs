//! What one stream is about: a team and its filters. Readers of one scope share cursors and bytes.

use crate::error::ApiError;
use crate::store::events::{Current, Stored};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use teamlamp_wire::event::KindFilter;
use teamlamp_wire::id::TeamId;

/// A team and the filters of a stream on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    team: TeamId,
    source: Option<String>,
    kinds: KindFilter,
    digest: [u8; 16],
}

impl Scope {
    /// The scope that a query names.
    ///
    /// # Errors
    /// 400 for a kind that is not in the catalogue.
    pub fn parse(team: &TeamId, query: &BTreeMap<String, String>) -> Result<Self, ApiError> {
        let source = query.get("source").cloned();
        let kinds = match query.get("kinds") {
            Some(list) => KindFilter::parse(list).map_err(ApiError::invalid)?,
            None => KindFilter::default(),
        };
        let mut hash = Sha256::new();
        let filters = [Some(team.as_str()), source.as_deref()].into_iter();
        for part in filters.chain(kinds.kinds().iter().map(|kind| Some(kind.as_str()))) {
            // With its length, and a source that is not asked for apart from one of no characters.
            let length = part.map_or(u64::MAX, |text| text.len() as u64);
            hash.update(length.to_be_bytes());
            hash.update(part.unwrap_or_default());
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        Ok(Self { team: team.clone(), source, kinds, digest })
    }

    /// The team.
    pub fn team(&self) -> &TeamId {
        &self.team
    }
    /// The source, where one is asked for.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }
    /// Whether nothing of the team is left out.
    pub fn is_everything(&self) -> bool {
        self.source.is_none() && self.kinds.kinds().is_empty()
    }
    /// Equal for equal scopes, whatever the order and repetition of kinds.
    pub fn digest(&self) -> &[u8; 16] {
        &self.digest
    }
    /// Whether an event was asked for.
    pub fn admits(&self, event: &Stored) -> bool {
        self.source.as_ref().is_none_or(|s| event.source_id.as_ref() == Some(s))
            && self.kinds.admits(&event.kind)
    }
    /// Whether a resource belongs in the snapshot.
    pub fn admits_current(&self, current: &Current) -> bool {
        // No source is the empty one: that place is of resources that have none.
        self.source.as_ref().is_none_or(|s| !s.is_empty() && *s == current.key.source)
            && self.kinds.admits_resource(&current.key.kind, &current.event_kind)
    }
}
