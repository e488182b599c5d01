//! Which lamp can be seen on this desktop's panel: pure, from what the desktop says of itself.

use super::menu::Lamp;

/// The panel's colour, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Panel {
    /// Dark.
    Dark,
    /// Light.
    Light,
    /// Not known: a lamp of middle tones, which shows on both.
    #[default]
    Any,
    /// The system colours the lamp's shape itself (macOS).
    Template,
}

impl Panel {
    /// The panel of a desktop (`XDG_CURRENT_DESKTOP`) with a colour scheme as the settings portal says it:
    /// 1 prefers dark, 2 prefers light. GNOME's bar is dark whatever the scheme.
    pub(crate) fn of(desktop: &str, scheme: Option<u32>) -> Self {
        if cfg!(target_os = "macos") {
            return Self::Template;
        }
        let is_gnome = desktop.split(':').any(|name| matches!(name, "GNOME" | "Unity" | "Pantheon"));
        match scheme {
            _ if is_gnome => Self::Dark,
            Some(1) => Self::Dark,
            Some(2) => Self::Light,
            _ => Self::Any,
        }
    }
}

macro_rules! lamps {
    ($panel:literal, $lamp:expr) => {
        match $lamp {
            Lamp::Off => include_bytes!(concat!("../../../icons/tray/", $panel, "-off.png")),
            Lamp::Steady => include_bytes!(concat!("../../../icons/tray/", $panel, "-steady.png")),
            Lamp::Working => include_bytes!(concat!("../../../icons/tray/", $panel, "-working.png")),
            Lamp::Waiting => include_bytes!(concat!("../../../icons/tray/", $panel, "-waiting.png")),
            Lamp::Paused => include_bytes!(concat!("../../../icons/tray/", $panel, "-paused.png")),
            Lamp::Broken => include_bytes!(concat!("../../../icons/tray/", $panel, "-broken.png")),
        }
    };
}

/// The lamp's picture for a panel, a PNG.
pub(crate) fn picture(lamp: Lamp, panel: Panel) -> &'static [u8] {
    match panel {
        Panel::Dark => lamps!("dark", lamp),
        Panel::Light => lamps!("light", lamp),
        Panel::Any => lamps!("any", lamp),
        Panel::Template => lamps!("template", lamp),
    }
}

#[cfg(all(test, not(target_os = "macos")))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_panel_is_what_the_desktop_says() {
        let table = [
            ("GNOME", Some(2), Panel::Dark),
            ("ubuntu:GNOME", None, Panel::Dark),
            ("KDE", Some(1), Panel::Dark),
            ("KDE", Some(2), Panel::Light),
            ("XFCE", Some(0), Panel::Any),
            ("", None, Panel::Any),
        ];
        for (desktop, scheme, panel) in table {
            assert_eq!(Panel::of(desktop, scheme), panel, "{desktop}");
        }
    }

    #[test]
    fn no_two_lamps_look_the_same() {
        let lamps = [Lamp::Off, Lamp::Steady, Lamp::Working, Lamp::Waiting, Lamp::Paused, Lamp::Broken];
        for panel in [Panel::Dark, Panel::Light, Panel::Any, Panel::Template] {
            let pictures: BTreeSet<_> = lamps.iter().map(|lamp| picture(*lamp, panel)).collect();
            assert_eq!(pictures.len(), lamps.len());
        }
    }
}
