//! A session bus of the computer's own, which starts nothing by itself, and on it the two services that a
//! desktop would have: the tray's watcher and the notification service. They record what comes, and click.

use crate::processes::Running;
use crate::wait::until;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::zvariant::OwnedValue;
use zbus::{Connection, interface};

const WATCHER: &str = "org.kde.StatusNotifierWatcher";
const WATCHER_PATH: &str = "/StatusNotifierWatcher";
const NOTIFICATIONS: &str = "org.freedesktop.Notifications";
const NOTIFICATIONS_PATH: &str = "/org/freedesktop/Notifications";

/// A notification as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub id: u32,
    pub title: String,
    pub body: String,
}

#[derive(Default)]
struct Record {
    items: Vec<String>,
    shown: Vec<Shown>,
    closed: Vec<u32>,
}

/// The bus, its services, and what they recorded.
pub(crate) struct Bus {
    pub address: String,
    pub connection: Connection,
    record: Arc<Mutex<Record>>,
    _daemon: Running,
}

impl Bus {
    /// Starts a bus in a folder, with a tray or without.
    pub(crate) async fn start(folder: &Path, with_tray: bool, log: &Path) -> Self {
        let socket = folder.join("bus");
        let address = format!("unix:path={}", socket.display());
        let config = config(folder, &address);
        let daemon = Running::start(
            Command::new("dbus-daemon").arg("--nofork").arg(format!("--config-file={}", config.display())),
            log,
        );
        until("the session bus listens", async || socket.exists()).await;
        let builder = zbus::connection::Builder::address(address.as_str()).expect("the address is one");
        let connection = builder.build().await.expect("the bus takes us");
        let record: Arc<Mutex<Record>> = Arc::default();
        let bus = Self { address, connection, record, _daemon: daemon };
        let server = bus.connection.object_server();
        server.at(NOTIFICATIONS_PATH, Notifications(bus.record.clone())).await.expect("the path is free");
        bus.connection.request_name(NOTIFICATIONS).await.expect("the name is free");
        if with_tray {
            bus.show_panel().await;
        }
        bus
    }

    /// The desktop's panel comes up.
    pub(crate) async fn show_panel(&self) {
        let server = self.connection.object_server();
        server.at(WATCHER_PATH, Watcher(self.record.clone())).await.expect("the path is free");
        self.connection.request_name(WATCHER).await.expect("the name is free");
    }

    /// The desktop's panel ends.
    pub(crate) async fn hide_panel(&self) {
        self.connection.release_name(WATCHER).await.expect("the name is ours");
    }

    /// The tray icons that registered: bus name and path.
    pub(crate) fn icons(&self) -> Vec<(String, String)> {
        let items = self.record().items.clone();
        items
            .iter()
            .filter_map(|item| item.split_once('/'))
            .map(|(n, p)| (n.to_owned(), format!("/{p}")))
            .collect()
    }

    /// The notifications that came and were not taken away, oldest first.
    pub(crate) fn notifications(&self) -> Vec<Shown> {
        let record = self.record();
        record.shown.iter().filter(|shown| !record.closed.contains(&shown.id)).cloned().collect()
    }

    /// The person clicks a notification.
    pub(crate) async fn click(&self, notification: &Shown) {
        let service = self.connection.object_server();
        let service = service.interface::<_, Notifications>(NOTIFICATIONS_PATH).await.expect("it is served");
        let emitter = service.signal_emitter();
        Notifications::action_invoked(emitter, notification.id, "default")
            .await
            .expect("the signal goes out");
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no test panicked here")
    }
}

/// A bus that takes everybody of this user and starts no service.
fn config(folder: &Path, address: &str) -> PathBuf {
    let path = folder.join("bus.conf");
    let text = format!(
        r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>{address}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>"#
    );
    std::fs::write(&path, text).expect("the folder can be written");
    path
}

struct Watcher(Arc<Mutex<Record>>);

#[interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, service: &str, #[zbus(header)] header: Header<'_>) {
        let sender = header.sender().map(ToString::to_string).unwrap_or_default();
        let item = if service.starts_with('/') {
            format!("{sender}{service}")
        } else {
            format!("{service}/StatusNotifierItem")
        };
        self.0.lock().expect("no test panicked here").items.push(item);
    }

    fn register_status_notifier_host(&self, _service: &str) {}

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        self.0.lock().expect("no test panicked here").items.clone()
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

struct Notifications(Arc<Mutex<Record>>);

#[interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    #[expect(clippy::too_many_arguments, reason = "the specification's signature")]
    fn notify(
        &self,
        _app: &str,
        _replaces: u32,
        _icon: &str,
        summary: String,
        body: String,
        actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _timeout: i32,
    ) -> u32 {
        assert!(actions.contains(&"default".to_owned()), "a click on the notification is asked for");
        let mut record = self.0.lock().expect("no test panicked here");
        let id = u32::try_from(record.shown.len()).expect("few") + 1;
        record.shown.push(Shown { id, title: summary, body });
        id
    }

    fn close_notification(&self, id: u32) {
        self.0.lock().expect("no test panicked here").closed.push(id);
    }

    fn get_capabilities(&self) -> Vec<String> {
        ["body", "actions", "body-markup"].map(str::to_owned).to_vec()
    }

    fn get_server_information(&self) -> (String, String, String, String) {
        ("recorder".into(), "tests".into(), "1".into(), "1.2".into())
    }

    #[zbus(signal)]
    async fn action_invoked(emitter: &SignalEmitter<'_>, id: u32, action: &str) -> zbus::Result<()>;
}
