//! Embeds the window's interface and generates a permission for each command, so that the capability
//! file names exactly what the window may ask for.

/// The commands of `teamlamp_wire::window`, which `src/commands.rs` implements.
const COMMANDS: &[&str] = &[
    "patches",
    "state",
    "start_team",
    "join_preview",
    "join_accept",
    "join_dismiss",
    "invite",
    "connect_now",
    "pause",
    "resume",
    "history",
    "set_custody",
    "retry_custody",
    "open_place",
    "show_team",
];

fn main() {
    let manifest = tauri_build::AppManifest::new().commands(COMMANDS);
    let attributes = tauri_build::Attributes::new().app_manifest(manifest);
    if let Err(fault) = tauri_build::try_build(attributes) {
        println!("cargo::error={fault:#}");
    }
}
