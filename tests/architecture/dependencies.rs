//! Which crate may use what, with the reason for each ban.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What each member may use of the others in its normal dependencies.
const DIRECTION: &[(&str, &[&str])] = &[
    ("teamlamp-wire", &[]),
    ("teamlamp-clock", &[]),
    ("teamlamp-client", &["teamlamp-wire", "teamlamp-clock"]),
    ("teamlamp-connector", &["teamlamp-wire", "teamlamp-clock", "teamlamp-client"]),
    ("teamlamp-server", &["teamlamp-wire", "teamlamp-clock"]),
    (
        "teamlamp",
        &["teamlamp-wire", "teamlamp-clock", "teamlamp-client", "teamlamp-connector", "teamlamp-server"],
    ),
    (
        "teamlamp-desktop",
        &["teamlamp-wire", "teamlamp-clock", "teamlamp-client", "teamlamp-connector", "teamlamp-server"],
    ),
    (
        "teamlamp-testkit",
        &["teamlamp-wire", "teamlamp-clock", "teamlamp-client", "teamlamp-connector", "teamlamp-server"],
    ),
    (
        "teamlamp-load",
        &["teamlamp-wire", "teamlamp-clock", "teamlamp-client", "teamlamp-connector", "teamlamp-server"],
    ),
    ("teamlamp-tests", &[]),
];

/// Libraries that only some members may use.
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    (
        "tauri",
        &["teamlamp-desktop"],
        "the desktop shell is the outermost part; everything else runs without it",
    ),
    ("tauri-plugin-deep-link", &["teamlamp-desktop"], "the same"),
    ("tauri-plugin-notification", &["teamlamp-desktop"], "the same"),
    ("tauri-plugin-single-instance", &["teamlamp-desktop"], "the same"),
    ("tokio", &["!teamlamp-wire"], "the contract does no I/O"),
    (
        "axum",
        &["teamlamp-server", "teamlamp-connector", "teamlamp-load"],
        "only the server and the door serve HTTP",
    ),
    (
        "rusqlite",
        &["teamlamp-server", "teamlamp-connector", "teamlamp-load"],
        "only stores know SQL, and the benchmark that fills one",
    ),
    ("keyring", &["teamlamp-connector"], "custody is one place"),
    ("reqwest", &["teamlamp-client"], "one client, so one policy for TLS, proxies and redirects"),
    ("mdns-sd", &["teamlamp-server", "teamlamp-connector"], "one announces, the other looks"),
    ("rcgen", &["teamlamp-server"], "certificates are made in one place"),
    ("notify", &["teamlamp-connector"], "files are watched in one place"),
    ("rand", &["teamlamp-clock"], "randomness has one gate"),
    ("anyhow", &["teamlamp-testkit", "teamlamp-load"], "libraries have typed errors"),
];

/// Normal dependencies of each workspace member, by name.
fn members() -> BTreeMap<String, BTreeSet<String>> {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(super::top())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| {
            let normal = package["dependencies"].as_array().expect("dependencies").iter();
            let normal = normal.filter(|d| d["kind"].is_null()).map(|d| text(&d["name"])).collect();
            (text(&package["name"]), normal)
        })
        .collect()
}

#[test]
fn members_depend_only_downwards() {
    let members = members();
    let rules: BTreeMap<&str, &[&str]> = DIRECTION.iter().copied().collect();
    for (name, uses) in &members {
        let allowed = rules.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no row in DIRECTION"));
        for used in uses.iter().filter(|u| members.contains_key(*u)) {
            assert!(allowed.contains(&used.as_str()), "{name} may not depend on {used}");
        }
    }
}

#[test]
fn libraries_stay_where_they_belong() {
    for (name, uses) in members() {
        for (library, places, why) in ONLY_IN {
            let banned_here = places.contains(&format!("!{name}").as_str());
            let listed = places.iter().any(|p| !p.starts_with('!'));
            if uses.contains(*library) && (banned_here || (listed && !places.contains(&name.as_str()))) {
                panic!("{name} uses {library}: {why}");
            }
        }
    }
}
