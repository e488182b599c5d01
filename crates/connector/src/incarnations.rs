//! `incarnations.json`: the last runs of this install, by which it tells its own run from a clone's.

use crate::home::Home;
use teamlamp_clock::Chance;

const FILE: &str = "incarnations.json";
/// The server remembers 16 of a machine; several contexts and restarts share this list.
const KEPT: usize = 64;

/// A fresh id for a run, remembered as this install's.
pub(crate) fn fresh(home: &Home, chance: &Chance) -> std::io::Result<String> {
    let id = format!("inc_{:032x}", chance.bits());
    let _lock = home.lock("incarnations.lock")?;
    let mut all = load(home)?;
    all.push(id.clone());
    let surplus = all.len().saturating_sub(KEPT);
    all.drain(..surplus);
    home.write(FILE, &serde_json::to_vec(&all)?)?;
    Ok(id)
}

/// Whether a run was this install's.
pub(crate) fn is_ours(home: &Home, id: &str) -> bool {
    load(home).is_ok_and(|all| all.iter().any(|own| own == id))
}

fn load(home: &Home) -> std::io::Result<Vec<String>> {
    // A damaged list only makes a clone of this install's own run: the person is asked once too often.
    Ok(home.read(FILE)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_runs_are_known_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let all: Vec<_> = (0..70).map(|_| fresh(&home, &Chance::system()).unwrap()).collect();
        assert!(is_ours(&home, &all[69]) && is_ours(&home, &all[6]) && !is_ours(&home, &all[5]));
        assert!(!is_ours(&home, "inc_other"));
    }
}
