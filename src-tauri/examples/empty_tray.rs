//! A Tauri app that has a tray icon with one entry and nothing else: what the memory of Teamlamp in the
//! tray is compared with (docs/BENCHMARKS.md). It has no part in the product.

use tauri::menu::{Menu, MenuItem};
use tauri::tray::TrayIconBuilder;

fn main() -> tauri::Result<()> {
    let app = tauri::Builder::default()
        .setup(|app| {
            let quit = MenuItem::with_id(app, "quit", "Quit", true, None::<&str>)?;
            let icon = app.default_window_icon().cloned().ok_or("the context has an icon")?;
            TrayIconBuilder::with_id("empty")
                .icon(icon)
                .menu(&Menu::with_items(app, &[&quit])?)
                .on_menu_event(|app, _| app.exit(0))
                .build(app)?;
            Ok(())
        })
        .build(tauri::generate_context!())?;
    app.run(|_, _| {});
    Ok(())
}
