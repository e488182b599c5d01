//! The tray as a panel reads it: the lamp's picture and the menu, over the bus; and a click on an entry.

use crate::bus::Bus;
use crate::wait::{eventually, until};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use zbus::Proxy;
use zbus::zvariant::{OwnedValue, Value};

const ITEM: &str = "org.kde.StatusNotifierItem";
const MENU: &str = "com.canonical.dbusmenu";

/// What a panel shows of the tray.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tray {
    /// `off`, `steady`, `working`, `waiting`, `paused`, `broken`: the committed picture that is the same.
    pub lamp: String,
    /// The menu's lines that are not separators.
    pub lines: Vec<String>,
}

type Node = (i32, HashMap<String, OwnedValue>, Vec<OwnedValue>);

/// Waits until the tray shows something.
pub(crate) async fn tray_shows(bus: &Bus, what: &str, fits: impl Fn(&Tray) -> bool) -> Tray {
    let seen = Seen { wanted: what, last: Mutex::default() };
    eventually(&seen, async || {
        let tray = read(bus).await;
        *seen.last.lock().expect("no test panicked here") = tray.clone();
        tray.filter(|tray| fits(tray))
    })
    .await
}

/// What is waited for, and what is there instead, for a test that fails.
struct Seen<'a> {
    wanted: &'a str,
    last: Mutex<Option<Tray>>,
}

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.lock().expect("no test panicked here");
        write!(f, "the tray shows {}; it shows {last:?}", self.wanted)
    }
}

/// The tray as it is now, where there is one.
pub(crate) async fn read(bus: &Bus) -> Option<Tray> {
    let (name, path) = bus.icons().pop()?;
    let item = Proxy::new(&bus.connection, name.clone(), path, ITEM).await.ok()?;
    let picture: String = item.get_property("IconName").await.ok()?;
    let lines = nodes(bus).await?.into_iter().map(|(_, label)| label).collect();
    Some(Tray { lamp: lamp_of(Path::new(&picture))?, lines })
}

/// Chooses the entry of the menu that begins with `label`.
pub(crate) async fn choose(bus: &Bus, label: &str) {
    // The menu may be built anew between reading and clicking; a panel then shows the new one.
    until(format!("the menu takes a click on {label}"), async || {
        let Some(entries) = nodes(bus).await else { return false };
        let Some((id, _)) = entries.into_iter().find(|(_, text)| text.starts_with(label)) else {
            return false;
        };
        let Some(menu) = menu(bus).await else { return false };
        menu.call::<_, _, ()>("Event", &(id, "clicked", Value::from(0i32), 0u32)).await.is_ok()
    })
    .await;
}

/// The numbers by which an open menu's entries are chosen.
pub(crate) async fn entries(bus: &Bus) -> Vec<i32> {
    nodes(bus).await.into_iter().flatten().map(|(id, _)| id).collect()
}

async fn menu(bus: &Bus) -> Option<Proxy<'static>> {
    let (name, path) = bus.icons().pop()?;
    let item = Proxy::new(&bus.connection, name.clone(), path, ITEM).await.ok()?;
    let menu: zbus::zvariant::OwnedObjectPath = item.get_property("Menu").await.ok()?;
    Proxy::new(&bus.connection, name, menu, MENU).await.ok()
}

/// Ids and labels, in order.
async fn nodes(bus: &Bus) -> Option<Vec<(i32, String)>> {
    let menu = menu(bus).await?;
    let layout: (u32, Node) = menu.call("GetLayout", &(0i32, -1i32, Vec::<&str>::new())).await.ok()?;
    let children = layout.1.2.into_iter().filter_map(|child| Node::try_from(Value::from(child)).ok());
    Some(children.filter_map(|(id, properties, _)| Some((id, label(&properties)?))).collect())
}

/// A label without the mark of its key; none for a separator.
fn label(properties: &HashMap<String, OwnedValue>) -> Option<String> {
    let label = properties.get("label")?.downcast_ref::<&str>().ok()?;
    (!label.is_empty()).then(|| label.replace("__", "\0").replace('_', "").replace('\0', "_"))
}

/// Which lamp a picture is.
fn lamp_of(picture: &Path) -> Option<String> {
    let shown = pixels(picture)?;
    let icons = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../icons/tray"));
    let states = ["off", "steady", "working", "waiting", "paused", "broken"];
    let same = |state: &&&str| {
        let panels = ["any", "dark", "light"].map(|panel| icons.join(format!("{panel}-{state}.png")));
        panels.iter().any(|path| pixels(path).as_ref() == Some(&shown))
    };
    states.iter().find(same).map(|state| (*state).to_owned())
}

/// A picture's colours; none while it is being written.
fn pixels(path: &Path) -> Option<Vec<u8>> {
    let file = std::io::BufReader::new(std::fs::File::open(path).ok()?);
    let mut reader = png::Decoder::new(file).read_info().ok()?;
    let mut pixels = vec![0; reader.output_buffer_size()?];
    reader.next_frame(&mut pixels).ok()?;
    Some(pixels)
}
