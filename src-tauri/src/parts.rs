//! Puts together what the connector is started with from this system: the home, the keyring, the network,
//! the coding agents' files. What can't be used is a notice in the window, never a silent end.

use crate::desktop::Desktop;
use std::sync::Arc;
use teamlamp_client::{Http, Transport, Trust};
use teamlamp_clock::{Chance, Clock, Tasks};
use teamlamp_connector::custody::OsKeyring;
use teamlamp_connector::sessions::{HarnessHomes, Sessions, SessionsConfig};
use teamlamp_connector::{Config, Custody, Home, Install, Server};
use teamlamp_wire::window::Notice;

const PROGRAM: &str = concat!("teamlamp-desktop ", env!("CARGO_PKG_VERSION"));

/// What the connector is started with. Nothing of the home is made or read here but what is asked of it.
pub(crate) fn make(home: &Home, clock: &Clock, desktop: &Desktop, tasks: &Tasks) -> Config {
    let chance = Chance::system();
    if let Err(fault) = home.prepare() {
        problem(desktop, fault.to_string());
    }
    let wish = std::env::var("TEAMLAMP_CUSTODY").ok();
    let custody = Custody::of(home, wish.as_deref(), clock.clone(), chance.clone());
    let custody = custody.unwrap_or_else(|why| {
        problem(desktop, why);
        Custody::with(Arc::new(OsKeyring), clock.clone(), chance.clone())
    });
    let install = Install {
        home: home.clone(),
        clock: clock.clone(),
        chance: chance.clone(),
        custody,
        transports: Arc::new(|server: &Server| {
            let trust = Trust { fingerprint: server.fingerprint.clone(), ..Trust::default() };
            let transport: Arc<dyn Transport> = Arc::new(Http::to_server(&server.origin, &trust)?);
            Ok(transport)
        }),
        program: PROGRAM.to_owned(),
    };
    Config { sessions: sessions(&install, tasks), install, only: None, door: true }
}

/// Watches the coding agents of this person.
fn sessions(
    install: &Install,
    tasks: &Tasks,
) -> tokio::sync::watch::Receiver<Arc<teamlamp_connector::sessions::Found>> {
    let variable = |name: &str| std::env::var(name).ok();
    let person = std::env::home_dir().unwrap_or_default();
    let (claude, codex) = (variable("CLAUDE_CONFIG_DIR"), variable("CODEX_HOME"));
    let homes = HarnessHomes::of(&person, claude.as_deref(), codex.as_deref());
    let root_salt = install.home.salt(&install.chance).unwrap_or_else(|fault| {
        // The connector can't start in such a home either, and says why.
        tracing::warn!(%fault, "the home can't be written");
        format!("{:032x}", install.chance.bits())
    });
    Sessions::start(SessionsConfig { homes, root_salt }, &install.clock, tasks).subscribe()
}

/// Tells the person of something that does not work.
pub(crate) fn problem(desktop: &Desktop, what: String) {
    tracing::error!(%what, "something does not work");
    desktop.change(|model| model.notice(Notice::Problem { what }, true));
}
