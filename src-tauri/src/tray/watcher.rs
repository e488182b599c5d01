//! Whether this desktop shows the tray at all, looked at on the session bus: making an icon succeeds on a
//! desktop without a tray, too. It reads the bus and changes nothing there.

use super::panel::Panel;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::time::Duration;
use teamlamp_clock::Clock;
use zbus::fdo::DBusProxy;
use zbus::names::{BusName, WellKnownName};
use zbus::zvariant::OwnedValue;
use zbus::{Connection, Proxy};

/// Who shows trays on Linux: the panel, or a service for it.
const WATCHER: &str = "org.kde.StatusNotifierWatcher";
const PORTAL: &str = "org.freedesktop.portal.Desktop";
const APPEARANCE: &str = "org.freedesktop.appearance";
const SCHEME: &str = "color-scheme";
/// A panel may come up seconds after the app, at login, and needs a moment to take an icon.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(250);
/// A bus that does not answer must not hold anything up.
const ANSWER: Duration = Duration::from_secs(3);

/// The session bus as far as the tray needs it.
#[derive(Clone, Debug)]
pub(crate) struct Bus {
    connection: Connection,
    clock: Clock,
}

impl Bus {
    /// Connects; `None` where there is no session bus, and so no tray.
    pub(crate) async fn connect(clock: Clock) -> Option<Self> {
        match clock.within(ANSWER, Connection::session()).await {
            Some(Ok(connection)) => Some(Self { connection, clock }),
            Some(Err(fault)) => {
                tracing::info!(%fault, "there is no session bus");
                None
            }
            None => None,
        }
    }

    /// Whether the tray shows this process's icon, given a few seconds to take it.
    pub(crate) async fn shows_our_icon(&self) -> bool {
        let end = self.clock.monotonic() + PATIENCE;
        loop {
            let registered = self.clock.within(ANSWER, self.icon_is_registered()).await;
            if matches!(registered, Some(Ok(true))) {
                return true;
            }
            if self.clock.monotonic() >= end {
                return false;
            }
            self.clock.sleep(LOOK).await;
        }
    }

    /// Says each time when a panel comes or goes; nothing where the bus does not say it.
    pub(crate) async fn panel_changes(&self) -> BoxStream<'static, ()> {
        self.told(async {
            let bus = DBusProxy::new(&self.connection).await?;
            let changes = bus.receive_name_owner_changed_with_args(&[(0, WATCHER)]).await?;
            Ok(changes.map(|_| ()).boxed())
        })
        .await
    }

    /// What is told from now on; nothing where it can't be had, in time.
    async fn told<T: 'static + Send>(
        &self,
        asked: impl Future<Output = zbus::Result<BoxStream<'static, T>>>,
    ) -> BoxStream<'static, T> {
        match self.clock.within(ANSWER, asked).await {
            Some(Ok(told)) => told,
            failed => {
                tracing::info!(fault = ?failed.and_then(Result::err), "the session bus tells less");
                futures_util::stream::empty().boxed()
            }
        }
    }

    /// The colour scheme that the desktop's portal says, where one runs.
    pub(crate) async fn colour_scheme(&self) -> Option<u32> {
        // Asking a portal that does not run would start it, and wait for it.
        if !self.runs(PORTAL).await {
            return None;
        }
        let settings = self.clock.within(ANSWER, settings(&self.connection)).await?.ok()?;
        let read = settings.call::<_, _, OwnedValue>("Read", &(APPEARANCE, SCHEME));
        scheme_in(self.clock.within(ANSWER, read).await?.ok()?)
    }

    /// Each new colour scheme that the desktop's portal says; nothing where there is none.
    pub(crate) async fn colour_schemes(&self) -> BoxStream<'static, Option<u32>> {
        let scheme = |change: zbus::Message| async move {
            match change.body().deserialize::<(&str, &str, OwnedValue)>() {
                Ok((APPEARANCE, SCHEME, value)) => Some(scheme_in(value)),
                _ => None,
            }
        };
        self.told(async {
            let changes = settings(&self.connection).await?.receive_signal("SettingChanged").await?;
            Ok(changes.filter_map(scheme).boxed())
        })
        .await
    }

    async fn icon_is_registered(&self) -> zbus::Result<bool> {
        if !self.runs(WATCHER).await {
            return Ok(false);
        }
        let watcher = Proxy::new(&self.connection, WATCHER, "/StatusNotifierWatcher", WATCHER).await?;
        let items: Vec<String> = watcher.get_property("RegisteredStatusNotifierItems").await?;
        let bus = DBusProxy::new(&self.connection).await?;
        for item in items {
            let owner = item.split('/').next().unwrap_or_default();
            let Ok(name) = BusName::try_from(owner) else { continue };
            if bus.get_connection_unix_process_id(name).await.is_ok_and(|pid| pid == std::process::id()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn runs(&self, name: &'static str) -> bool {
        let name = WellKnownName::from_static_str_unchecked(name);
        let asked = async { DBusProxy::new(&self.connection).await?.name_has_owner(name.into()).await };
        let asked = self.clock.within(ANSWER, asked).await;
        asked.is_some_and(|answer| answer.unwrap_or(false))
    }
}

async fn settings(connection: &Connection) -> zbus::Result<Proxy<'static>> {
    Proxy::new(connection, PORTAL, "/org/freedesktop/portal/desktop", "org.freedesktop.portal.Settings").await
}

/// The number in a setting's value, which old portals wrap once more.
fn scheme_in(value: OwnedValue) -> Option<u32> {
    let value = zbus::zvariant::Value::from(value);
    match value {
        zbus::zvariant::Value::Value(inner) => inner.downcast_ref::<u32>().ok(),
        value => value.downcast_ref::<u32>().ok(),
    }
}

/// The panel of this desktop with a colour scheme.
pub(crate) fn panel(scheme: Option<u32>) -> Panel {
    Panel::of(&std::env::var("XDG_CURRENT_DESKTOP").unwrap_or_default(), scheme)
}
