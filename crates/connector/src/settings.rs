//! `settings.json`: what the person decided on this install: where secrets go, which roots are hidden,
//! whether reporting is paused. Unreadable settings are a fault, never defaults: they might hide a root.

use crate::custody::Place;
use crate::home::Home;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use teamlamp_wire::local::Pause;

const FILE: &str = "settings.json";

/// The person's decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chosen {
    /// Where new secrets are put.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custody: Option<Place>,
    /// Ids or names of roots of which nothing leaves this machine.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub hidden_roots: BTreeSet<String>,
    /// The pause that was made and has not been ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

/// Why they can't be read or saved.
#[derive(Debug, thiserror::Error)]
#[error("The settings in {path} can't be used ({cause}): mend the file, or remove it to begin with none.")]
pub struct SettingsFault {
    path: PathBuf,
    cause: std::io::Error,
}

/// The settings of a home.
#[derive(Clone, Debug)]
pub struct Settings(Home);

impl Settings {
    /// The settings of a home.
    pub fn of(home: &Home) -> Self {
        Self(home.clone())
    }

    /// Reads them; without a file nothing was decided yet.
    pub fn load(&self) -> Result<Chosen, SettingsFault> {
        match self.0.read(FILE) {
            Ok(None) => Ok(Chosen::default()),
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_err(|cause| self.fault(cause.into())),
            Err(cause) => Err(self.fault(cause)),
        }
    }

    /// Changes them, and gives them as they now are.
    pub fn change(&self, change: impl FnOnce(&mut Chosen)) -> Result<Chosen, SettingsFault> {
        let _lock = self.0.lock("settings.lock").map_err(|cause| self.fault(cause))?;
        let mut chosen = self.load()?;
        change(&mut chosen);
        let bytes = serde_json::to_vec_pretty(&chosen).map_err(|cause| self.fault(cause.into()))?;
        self.0.write(FILE, &bytes).map_err(|cause| self.fault(cause))?;
        Ok(chosen)
    }

    fn fault(&self, cause: std::io::Error) -> SettingsFault {
        SettingsFault { path: self.0.path(FILE), cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_remembered_and_damaged_ones_are_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::of(&Home::at(dir.path()));
        settings.change(|s| s.hidden_roots.extend(["secret-project".into()])).unwrap();
        settings.change(|s| s.pause = Some(Pause { until: None })).unwrap();
        let chosen = settings.load().unwrap();
        assert!(chosen.hidden_roots.contains("secret-project") && chosen.pause.is_some());
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        let said = settings.change(|s| s.pause = None).unwrap_err().to_string();
        assert!(said.contains("settings.json") && said.contains("mend"), "{said}");
    }
}
