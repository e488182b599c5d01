//! `teamlamp serve`: hosts the team server until it is asked to stop, and with `--init-team` makes the
//! first team on it.

use crate::args::Serve;
use crate::fail::Fail;
use crate::out::{Out, Style};
use crate::{setup, stop};
use serde::{Deserialize, Serialize};
use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use teamlamp_connector::names::suggested;
use teamlamp_server::config::Config;
use teamlamp_server::{Server, StartError};
use teamlamp_wire::invitation::check_origin;
use teamlamp_wire::text::visible;
use teamlamp_wire::window::{JoinAccept, JoinFrom, Joined};

/// The port that nobody has to name.
const PORT: u16 = 8720;
/// The data folder in the home.
const DATA: &str = "server";

/// What the TOML file may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    data: Option<PathBuf>,
    listen: Option<SocketAddr>,
    name: Option<String>,
    origin: Option<String>,
    #[serde(default)]
    hosts: Vec<String>,
}

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
    let config = config(&args)?;
    let (data, name) = (config.data.clone(), config.name.clone());
    let stopped = stop::asked()?;
    let server = Server::start(config).await.map_err(told)?;
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

/// What flags, environment, file and defaults say, in this order.
fn config(args: &Serve) -> Result<Config, Fail> {
    let file = match &args.config {
        Some(path) => read(path)?,
        None => File::default(),
    };
    let data = match args.data.clone().or(file.data) {
        Some(data) => data,
        None => setup::home()?.path(DATA),
    };
    let listen = args.listen.or(file.listen).unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
    let mut config = Config::new(data, listen);
    let name = args.name.clone().or(file.name).unwrap_or_else(|| suggested().machine);
    config.name =
        teamlamp_wire::name::clean(&name).map_err(|f| Fail::usage(f.sentence("The server's name")))?;
    let origin = args.origin.clone().or(file.origin);
    config.origin = origin.map(|origin| check_origin(&origin)).transpose().map_err(Fail::usage)?;
    config.hosts = if args.hosts.is_empty() { file.hosts } else { args.hosts.clone() };
    Ok(config)
}

fn read(path: &Path) -> Result<File, Fail> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|fault| Fail::usage(format!("The settings in {shown} can't be read ({fault}).")))?;
    toml::from_str(&text)
        .map_err(|fault| Fail::usage(format!("The settings in {shown} are wrong: {}.", fault.message())))
}

/// A start that failed, with what to do about it here.
fn told(fault: StartError) -> Fail {
    match fault {
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
        if let Some(joined) = install.resume(server.origin(), server.server_id(), &machine).await? {
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
        out.document(&Ready { ready: true, origin, server_id, fingerprint: None, data })?;
    } else {
        let row = |label: &str, text: &str| {
            out.line(&format!("  {}  {}", out.paint(Style::Quiet, &format!("{label:<8}")), visible(text)))
        };
        let title = out.paint(Style::Strong, &format!("The team server {} runs", visible(name)));
        out.line(&format!("{} {title}", out.paint(Style::Up, "■")))?;
        row("address", server.origin())?;
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
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn args(line: &str) -> Serve {
        let args = Args::try_parse_from(line.split(' ').filter(|w| !w.is_empty())).unwrap();
        let Command::Serve(serve) = args.command else { panic!("{args:?}") };
        serve
    }

    #[test]
    fn a_flag_is_stronger_than_the_file_and_the_file_than_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("teamlamp.toml");
        std::fs::write(&file, "data = \"/srv/tl\"\nlisten = \"0.0.0.0:1\"\nhosts = [\"a.example\"]\n")
            .unwrap();
        let config =
            config(&args(&format!("teamlamp serve --listen 127.0.0.1:2 --config {}", file.display())));
        let config = config.unwrap();
        assert_eq!(config.data, Path::new("/srv/tl"));
        assert_eq!(config.listen.unwrap().to_string(), "127.0.0.1:2");
        assert_eq!(config.hosts, ["a.example"]);
        let config = super::config(&args("teamlamp serve --data /d --name Office")).unwrap();
        assert_eq!(config.listen.unwrap().to_string(), "127.0.0.1:8720");
        assert_eq!((config.name.as_str(), config.origin), ("Office", None));
    }

    #[test]
    fn wrong_settings_say_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("teamlamp.toml");
        let line = format!("teamlamp serve --data /d --config {}", file.display());
        let told = |line: &str| config(&args(line)).unwrap_err();
        assert!(told(&line).parts().1.contains("can't be read"));
        std::fs::write(&file, "colour = 1").unwrap();
        let fail = told(&line);
        assert!(fail.parts().0 == 2 && fail.parts().1.contains("colour"), "{fail:?}");
        assert_eq!(told("teamlamp serve --data /d --origin http://example.com").parts().0, 2);
    }
}
