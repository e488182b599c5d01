//! The tray: draws the lamp, its words and its menu where they changed, and hands on what is chosen. What
//! they are is decided in [`menu`]; whether the desktop shows them is looked at in [`watcher`].

pub(crate) mod menu;
pub(crate) mod panel;
#[cfg(target_os = "linux")]
pub(crate) mod watcher;

use menu::{Choice, Item, Lamp, has_shape_of};
use panel::Panel;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tauri::image::Image;
use tauri::menu::{Menu, MenuBuilder, MenuItemBuilder};
use tauri::tray::{TrayIcon, TrayIconBuilder};
use tauri::{AppHandle, Wry};

/// The tray icon's id.
pub(crate) const ID: &str = "teamlamp";

/// The tray as it is drawn.
pub(crate) struct Tray {
    icon: TrayIcon,
    drawn: Mutex<Option<Drawn>>,
    /// The menu that stands there; changed on the main thread alone.
    menu: Arc<Mutex<Option<Menu<Wry>>>>,
}

/// Everything that can be seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// The lamp.
    pub lamp: Lamp,
    /// For which panel.
    pub panel: Panel,
    /// The tooltip.
    pub words: String,
    /// The menu.
    pub items: Vec<Item>,
}

impl Tray {
    /// Makes the tray icon; `choose` is called with what a person chooses. The pictures that the panel
    /// loads are written to `pictures`, a folder of this install alone. Main thread only.
    ///
    /// # Errors
    /// A sentence, where this system can't make one.
    pub(crate) fn make(
        app: &AppHandle,
        pictures: &Path,
        choose: fn(&AppHandle, Choice),
    ) -> Result<Self, String> {
        // The system's library for trays is loaded here, and panics where it is not installed.
        let made = catch_unwind(AssertUnwindSafe(|| {
            TrayIconBuilder::with_id(ID)
                .temp_dir_path(pictures)
                .icon(picture(Lamp::Off, Panel::default())?)
                .menu(&MenuBuilder::new(app).build()?)
                .on_menu_event(move |app, event| match Choice::of_id(event.id().as_ref()) {
                    Some(choice) => choose(app, choice),
                    None => tracing::warn!("an entry was chosen that the menu does not have"),
                })
                .build(app)
        }));
        match made {
            Ok(Ok(icon)) => Ok(Self { icon, drawn: Mutex::default(), menu: Arc::default() }),
            Ok(Err(fault)) => Err(format!("The tray icon can't be made: {fault}.")),
            Err(_) => Err("The tray icon can't be made: install libayatana-appindicator3-1.".into()),
        }
    }

    /// Draws the tray where it differs from what is drawn.
    pub(crate) fn draw(&self, app: &AppHandle, to: Drawn) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.as_ref() == Some(&to) {
            return;
        }
        let before = drawn.replace(to.clone());
        drop(drawn);
        let (icon, app_handle, menu) = (self.icon.clone(), app.clone(), self.menu.clone());
        let shown = app.run_on_main_thread(move || {
            let mut menu = menu.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(fault) = show(&icon, &app_handle, &mut menu, before.as_ref(), &to) {
                tracing::warn!(%fault, "the tray could not be drawn");
            }
        });
        if let Err(fault) = shown {
            tracing::debug!(%fault, "the app ends, the tray stays as it is");
        }
    }
}

fn show(
    icon: &TrayIcon,
    app: &AppHandle,
    menu: &mut Option<Menu<Wry>>,
    before: Option<&Drawn>,
    to: &Drawn,
) -> tauri::Result<()> {
    if before.is_none_or(|b| (b.lamp, b.panel) != (to.lamp, to.panel)) {
        icon.set_icon_with_as_template(Some(picture(to.lamp, to.panel)?), to.panel == Panel::Template)?;
    }
    if before.is_none_or(|b| b.words != to.words) {
        icon.set_tooltip(Some(&to.words))?;
    }
    match (before, &menu) {
        (Some(before), Some(menu)) if has_shape_of(&before.items, &to.items) => {
            reword(menu, &before.items, &to.items)?;
        }
        _ => {
            let new = built(app, &to.items)?;
            icon.set_menu(Some(new.clone()))?;
            *menu = Some(new);
        }
    }
    Ok(())
}

/// Changes the words of entries and leaves the entries: a menu that is built anew takes itself away from
/// under the pointer of whoever has it open, and their click with it.
fn reword(menu: &Menu<Wry>, before: &[Item], to: &[Item]) -> tauri::Result<()> {
    for (entry, (before, to)) in menu.items()?.iter().zip(before.iter().zip(to)) {
        if let (Some(entry), Item::Line(text) | Item::Choice(_, text)) = (entry.as_menuitem(), to)
            && before != to
        {
            entry.set_text(text)?;
        }
    }
    Ok(())
}

fn built(app: &AppHandle, items: &[Item]) -> tauri::Result<tauri::menu::Menu<Wry>> {
    let mut menu = MenuBuilder::new(app);
    for item in items {
        menu = match item {
            Item::Line(text) => menu.item(&MenuItemBuilder::new(text).enabled(false).build(app)?),
            Item::Choice(choice, text) => menu.item(&MenuItemBuilder::with_id(choice.id(), text).build(app)?),
            Item::Separator => menu.separator(),
        };
    }
    menu.build()
}

fn picture(lamp: Lamp, panel: Panel) -> tauri::Result<Image<'static>> {
    Image::from_bytes(panel::picture(lamp, panel))
}
