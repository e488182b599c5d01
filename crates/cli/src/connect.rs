//! `teamlamp connect`: runs the connector in the foreground and says each change of its state.

mod watch;

pub(crate) use watch::sign;

use crate::fail::Fail;
use crate::out::{Out, Style};
use crate::{setup, stop};
use teamlamp_clock::Tasks;
use teamlamp_connector::claim::ClaimFault;
use teamlamp_connector::contexts::choose;
use teamlamp_connector::sessions::{HarnessHomes, Sessions, SessionsConfig};
use teamlamp_connector::{Config, Connector, Context, Install, StartFault};
use teamlamp_wire::text::visible;

pub(crate) async fn run(wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let install = setup::install()?;
    let all = setup::contexts(&install, out)?;
    let only = wish.map(|wish| choose(&all, Some(wish)).cloned()).transpose().map_err(Fail::usage)?;
    let meant = only.as_ref().map_or(&all[..], std::slice::from_ref);
    let reports = reporting(meant)?;
    let stopped = stop::asked()?;
    let watchers = Tasks::new();
    let config = Config {
        sessions: sessions(&install, &watchers)?.subscribe(),
        install,
        only: only.as_ref().map(|context| context.id.clone()),
        door: true,
    };
    let connector = Connector::start(config).await.map_err(told)?;
    if !out.json {
        greet(&reports, out)?;
    }
    let done = tokio::select! {
        biased;
        () = stopped => Ok(()),
        done = watch::tell(connector.watch_status(), out) => done,
    };
    if !out.json && done.is_ok() {
        out.note("Leaving: the team is told that this machine goes.");
    }
    let again = stop::asked()?;
    tokio::select! {
        biased;
        () = connector.shutdown() => {}
        () = again => out.note("Stopped at once: the team sees this machine vanish."),
    }
    watchers.token().cancel();
    done
}

/// The contexts in which this machine is enrolled; without one there is nothing to report.
fn reporting(contexts: &[Context]) -> Result<Vec<Context>, Fail> {
    let reports: Vec<_> = contexts.iter().filter(|context| context.machine.is_some()).cloned().collect();
    match (contexts, &reports[..]) {
        ([], _) => Err(setup::no_context()),
        ([viewer, ..], []) => Err(Fail::failed(format!(
            "You are a viewer in {}: this machine is not enrolled there and has nothing to report. `teamlamp events --follow` reads.",
            viewer.team_name
        ))),
        _ => Ok(reports),
    }
}

fn told(fault: StartFault) -> Fail {
    match fault {
        StartFault::Claim(ClaimFault::Held { pid }) => Fail::failed(format!(
            "The connector of this home already runs (pid {pid}): `teamlamp status` shows how it is."
        )),
        fault => fault.into(),
    }
}

/// Watches the coding agents of this person.
fn sessions(install: &Install, tasks: &Tasks) -> Result<Sessions, Fail> {
    let variable = |name: &str| std::env::var(name).ok();
    let person = std::env::home_dir()
        .ok_or_else(|| Fail::failed("This system names no home folder: set HOME to yours."))?;
    let (claude, codex) = (variable("CLAUDE_CONFIG_DIR"), variable("CODEX_HOME"));
    let homes = HarnessHomes::of(&person, claude.as_deref(), codex.as_deref());
    let root_salt = install
        .home
        .salt(&install.chance)
        .map_err(|fault| Fail::failed(format!("The home can't be written ({fault}): mend its owner.")))?;
    Ok(Sessions::start(SessionsConfig { homes, root_salt }, &install.clock, tasks))
}

fn greet(contexts: &[Context], out: &Out) -> Result<(), Fail> {
    for context in contexts {
        let machine = context.machine.as_ref().map(|m| visible(&m.name)).unwrap_or_default();
        out.line(&format!(
            "{} reports to {} {}",
            out.paint(Style::Strong, &machine),
            out.paint(Style::Strong, &visible(&context.team_name)),
            out.paint(Style::Quiet, &format!("at {}", context.origin)),
        ))?;
    }
    out.line(&out.paint(Style::Quiet, "Claude Code and Codex are watched. Ctrl-C ends it."))?;
    Ok(out.line("")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(machine: bool) -> Context {
        let machine = match machine {
            true => r#"{"id":"mach_1","name":"m","source_id":"src_1","credential_expires_at":1}"#,
            false => "null",
        };
        serde_json::from_str(&format!(
            r#"{{"id":"acme-1","origin":"http://127.0.0.1:1","fingerprint":null,"server_id":"srv_1",
            "server_name":"s","team_id":"team_1","team_name":"Acme","principal_id":"prin_1",
            "principal_name":"Ada","role":"viewer","machine":{machine},"credential_ref":"file"}}"#
        ))
        .unwrap()
    }

    #[test]
    fn without_a_team_it_is_not_connected_and_a_viewer_has_nothing_to_report() {
        assert_eq!(reporting(&[]).unwrap_err().parts().0, 3);
        let viewer = reporting(&[context(false)]).unwrap_err();
        assert!(viewer.parts().0 == 1 && viewer.parts().1.contains("viewer in Acme"), "{viewer:?}");
        assert_eq!(reporting(&[context(false), context(true)]).unwrap().len(), 1);
    }

    #[test]
    fn a_second_connector_is_told_who_the_first_is() {
        let fail = told(StartFault::Claim(ClaimFault::Held { pid: 77 }));
        assert!(fail.parts().0 == 1 && fail.parts().1.contains("pid 77"), "{fail:?}");
    }
}
