//! What a command begins with: this install from its environment, and the team that is meant.

use crate::args::LogFormat;
use crate::fail::Fail;
use crate::out::Out;
use std::sync::Arc;
use teamlamp_client::{Client, Door, Http, Transport, Trust};
use teamlamp_clock::{Chance, Clock};
use teamlamp_connector::contexts::choose;
use teamlamp_connector::custody::Kind;
use teamlamp_connector::settings::Settings;
use teamlamp_connector::{Context, Custody, Home, Install, Server, claim};

const PROGRAM: &str = concat!("teamlamp ", env!("CARGO_PKG_VERSION"));

/// Logs to standard error what `TEAMLAMP_LOG` asks for; else what is wrong, but for what a command says itself.
pub(crate) fn log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("TEAMLAMP_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,teamlamp_connector::contexts=off"));
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && teamlamp_wire::words::color_is_allowed(std::env::var_os("NO_COLOR").as_deref());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(ansi).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// The home that the environment names.
pub(crate) fn home() -> Result<Home, Fail> {
    Home::locate(std::env::var_os("TEAMLAMP_HOME").as_deref()).map_err(Fail::failed)
}

/// This install.
pub(crate) fn install() -> Result<Install, Fail> {
    let home = home()?;
    home.prepare().map_err(Fail::failed)?;
    let (clock, chance) = (Clock::system(), Chance::system());
    // A damaged file of settings is no wrong usage.
    Settings::of(&home).load().map_err(Fail::failed)?;
    let wish = std::env::var("TEAMLAMP_CUSTODY").ok();
    let custody = Custody::of(&home, wish.as_deref(), clock.clone(), chance.clone()).map_err(Fail::usage)?;
    let transports = Arc::new(|server: &Server| {
        let trust = Trust { fingerprint: server.fingerprint.clone(), ..Trust::default() };
        let transport: Arc<dyn Transport> = Arc::new(Http::to_server(&server.origin, &trust)?);
        Ok(transport)
    });
    Ok(Install { home, clock, chance, custody, transports, program: PROGRAM.to_owned() })
}

/// The contexts of an install. One file that can't be read was put aside, which is said.
pub(crate) fn contexts(install: &Install, out: &Out) -> Result<Vec<Context>, Fail> {
    let loaded = install.contexts()?;
    if let Some(aside) = loaded.kept_aside {
        out.note(&format!(
            "The saved teams could not be read; that file is kept as {}. Mend it and put it back, or join again.",
            aside.display()
        ));
    }
    Ok(loaded.contexts)
}

/// The context that is meant: the named one, or the only one.
pub(crate) fn context(install: &Install, wish: Option<&str>, out: &Out) -> Result<Context, Fail> {
    let all = contexts(install, out)?;
    if all.is_empty() {
        return Err(no_context());
    }
    choose(&all, wish).cloned().map_err(Fail::usage)
}

/// No team was joined yet.
pub(crate) fn no_context() -> Fail {
    Fail::not_connected(
        "This computer is in no team yet: join one with `teamlamp join` and a link, or start one with `teamlamp serve`.",
    )
}

/// The context that is meant, and its server spoken to as its person.
pub(crate) async fn person(
    wish: Option<&str>,
    site: &str,
    out: &Out,
) -> Result<(Install, Context, Client), Fail> {
    let install = install()?;
    let context = context(&install, wish, out)?;
    let client = install.signed_in(&context, Kind::User).await?.at(site);
    Ok((install, context, client))
}

/// The door did not answer: no connector runs here, or one that runs does not answer, which is told.
pub(crate) fn none_runs(install: &Install) -> Result<(), Fail> {
    match claim::holder(&install.home).map_err(Fail::failed)? {
        None => Ok(()),
        Some(pid) => Err(Fail::failed(format!(
            "A connector runs here (pid {pid}) and does not answer, so that it may go on reporting: try again, or end it."
        ))),
    }
}

/// The door of the connector that may run for an install.
pub(crate) fn door(install: &Install) -> Result<Door, Fail> {
    let socket = install.home.path(claim::SOCKET);
    let (clock, chance) = (install.clock.clone(), install.chance.clone());
    Door::at(&socket, clock, chance, &install.program).map_err(|fault| Fail::failed(fault.sentence()))
}
