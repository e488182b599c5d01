//! `teamlamp serve`: hosts the team server until it is asked to stop, and with `--init-team` makes the
//! first team on it.

pub(crate) mod settings;

use crate::args::Serve;
use crate::fail::Fail;
use crate::out::{Out, Style};
use crate::{setup, stop, words};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;
use teamlamp_connector::Server as At;
use teamlamp_connector::names::suggested;
use teamlamp_server::config::Encryption;
use teamlamp_server::{Server, StartError};
use teamlamp_wire::invitation::is_in_clear;
use teamlamp_wire::text::visible;
use teamlamp_wire::window::{JoinAccept, JoinFrom, Joined};

/// The first line with `--json`.
#[derive(Serialize)]
struct Ready<'a> {
    ready: bool,
    origin: &'a str,
    server_id: &'a str,
    fingerprint: Option<&'a str>,
    data: &'a Path,
}

pub(crate) async fn run(args: Serve, out: &Out) -> Result<(), Fail> {
    let config = settings::config(&args, std::env::var("TEAMLAMP_METRICS_TOKEN").ok())?;
    let (data, name) = (config.data.clone(), config.name.clone());
    let owners_files = matches!(config.encryption, Encryption::Files { .. });
    let stopped = stop::asked()?;
    let server = Server::start(config).await.map_err(|fault| told(fault, owners_files))?;
    let done = async {
        let made = match &args.init_team {
            Some(team) => Some(first_team(&server, team, &args, out).await?),
            None => None,
        };
        announce(&server, &data, &name, made.as_ref(), out)?;
        stopped.await;
        Ok(())
    }
    .await;
    if !out.json && done.is_ok() {
        out.note("Stopping: open streams are told to come back.");
    }
    let again = stop::asked()?;
    tokio::select! {
        biased;
        () = server.shutdown() => {}
        () = again => out.note("Stopped at once."),
    }
    done
}

/// A start that failed, with what to do about it here.
fn told(fault: StartError, owners_files: bool) -> Fail {
    match fault {
        StartError::Setting(_) | StartError::Origin { .. } => Fail::usage(fault),
        StartError::Tls(fault) if owners_files => {
            Fail::usage(format!("The certificate can't be used: {fault}."))
        }
        StartError::PortInUse { address } => Fail::failed(format!(
            "Port {} of {} is taken by another program: stop that one, or choose another with --listen {}:0.",
            address.port(),
            address.ip(),
            address.ip()
        )),
        fault => Fail::failed(fault),
    }
}

/// Makes the first team and its owner, and enrolls this machine: the owner's code is accepted here.
async fn first_team(server: &Server, team: &str, args: &Serve, out: &Out) -> Result<Joined, Fail> {
    let install = setup::install()?;
    setup::contexts(&install, out)?;
    let names = suggested();
    let machine = args.machine.clone().unwrap_or(names.machine);
    let Some(link) = server.owner_link() else {
        // An earlier start may have been cut off between the owner's code and the saved team.
        let here =
            At { origin: server.origin().to_owned(), fingerprint: server.fingerprint().map(str::to_owned) };
        if let Some(joined) = install.resume(&here, server.server_id(), &machine).await? {
            return Ok(joined);
        }
        return Err(Fail::failed(
            "This server has a team already: --init-team is for an empty data folder. Start it without, or name another --data.",
        ));
    };
    let accept = JoinAccept {
        invitation: JoinFrom::Link { link: link.to_string() },
        person: args.person.clone().unwrap_or(names.person),
        machine,
        team_name: Some(team.to_owned()),
    };
    Ok(install.join(accept).await?)
}

fn announce(server: &Server, data: &Path, name: &str, made: Option<&Joined>, out: &Out) -> Result<(), Fail> {
    if out.json {
        let origin = server.origin();
        let server_id = server.server_id().as_str();
        let fingerprint = server.fingerprint();
        out.document(&Ready { ready: true, origin, server_id, fingerprint, data })?;
    } else {
        let row = |label: &str, text: &str| {
            out.line(&format!("  {}  {}", out.paint(Style::Quiet, &format!("{label:<8}")), visible(text)))
        };
        let title = out.paint(Style::Strong, &format!("The team server {} runs", visible(name)));
        out.line(&format!("{} {title}", out.paint(Style::Up, "■")))?;
        row("address", server.origin())?;
        if let Some(fingerprint) = server.fingerprint() {
            row("key", &words::fingerprint(fingerprint))?;
        }
        row("data", &data.display().to_string())?;
        if let Some(joined) = made {
            row("team", &joined.team)?;
            row("machine", joined.machine.as_deref().unwrap_or_default())?;
        }
        out.line("")?;
        for hint in hints(server, made.is_some()) {
            out.line(&format!("  {}", out.paint(Style::Quiet, &hint)))?;
        }
    }
    let Some(link) = server.owner_link() else { return Ok(()) };
    // The link makes its bearer the owner: it is shown to a person, and to no log.
    if !out.json && std::io::stdout().is_terminal() {
        out.line("")?;
        out.line("  This server has no team yet. Whoever opens this link first makes one and owns it:")?;
        out.line(&format!("  {}", out.paint(Style::Strong, &link.to_string())))?;
    } else {
        let path = data.join(teamlamp_server::invitations::first_owner::FILE);
        out.note(&format!("No team yet: the owner's link is in {}.", path.display()));
    }
    Ok(())
}

fn hints(server: &Server, has_made: bool) -> Vec<String> {
    let mut hints = Vec::new();
    if has_made {
        hints.push("Report this machine:  teamlamp connect".to_owned());
        hints.push("Invite someone:       teamlamp invite".to_owned());
    }
    if server.local_addr().is_some_and(|address| address.ip().is_loopback()) {
        hints.push("Only this computer can reach it. Ctrl-C stops it.".to_owned());
    } else {
        hints.push("Ctrl-C stops it.".to_owned());
        if is_in_clear(server.origin()) {
            hints.push(
                "Links name plain http: tokens can be read on the way, unless a proxy encrypts.".to_owned(),
            );
        }
    }
    hints
}
