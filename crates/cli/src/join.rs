//! `teamlamp join`: shows what an invitation is, as its server says it, and joins after one confirmation.

mod nearby;

use crate::args::Join;
use crate::fail::Fail;
use crate::out::{Out, Style, ask, can_ask, confirm, read_line};
use crate::{setup, words};
use teamlamp_connector::JoinFault;
use teamlamp_connector::names::suggested;
use teamlamp_wire::account::Role;
use teamlamp_wire::envelope::ErrorCode;
use teamlamp_wire::text::visible;
use teamlamp_wire::window::{JoinAccept, JoinFrom, JoinPreview, Joined};

const SCHEME: &str = "teamlamp:";

pub(crate) async fn run(args: Join, out: &Out) -> Result<(), Fail> {
    let install = setup::install()?;
    // Saved teams that can't be read are put aside, which is said.
    setup::contexts(&install, out)?;
    let invitations = match args.nearby {
        true => match nearby::invitations(&args, &install, out).await? {
            Some(invitations) => invitations,
            None => return Ok(()),
        },
        false => vec![invitation(&args)?],
    };
    let asks = !args.yes;
    if asks && !can_ask() {
        return Err(Fail::usage("Nobody can be asked here: say --yes to join without a question."));
    }
    let (invitation, asked) = nearby::first_that_answers(&install, invitations).await?;
    let preview = match asked {
        Ok(preview) => Some(preview),
        // A code that was spent from here, by a try that did not come to its end, is gone to the server's
        // eyes and still good: what stopped half-way goes on.
        Err(JoinFault::Server(fault)) if fault.code() == Some(ErrorCode::Gone) => {
            if asks && !confirm(&format!("{} Was it used from here, and is to go on?", fault.sentence()))? {
                return Err(fault.into());
            }
            None
        }
        Err(fault) => return Err(fault.into()),
    };
    if let Some(preview) = preview.as_ref().filter(|_| asks) {
        for line in shown(preview, install.clock.now_ms(), out) {
            out.note(&line);
        }
    }
    let accept = accept(&args, invitation, preview.as_ref(), asks)?;
    if let Some(preview) = preview.as_ref().filter(|_| asks)
        && !confirm(&question(&accept, preview))?
    {
        return Err(Fail::failed("Not joined."));
    }
    let joined = install.join(accept).await?;
    // A connector that runs already connects to the new team by itself once it is told.
    let connects = setup::door(&install)?.connect_now().await.is_ok();
    if out.json {
        return Ok(out.document(&joined)?);
    }
    for line in done(&joined, connects, out) {
        out.line(&line)?;
    }
    Ok(())
}

/// What was given as an invitation, or is asked for.
fn given(args: &Join, question: &str) -> Result<String, Fail> {
    match args.invitation.as_deref() {
        Some("-") => Ok(read_line()?),
        Some(given) => Ok(given.trim().to_owned()),
        None if can_ask() => Ok(ask(question, "")?),
        None => Err(Fail::usage("Give the invitation's link or code, or - to read it from standard input.")),
    }
}

/// The invitation as it was given.
fn invitation(args: &Join) -> Result<JoinFrom, Fail> {
    let given = given(args, "The invitation's link or code")?;
    if given.to_ascii_lowercase().starts_with(SCHEME) {
        if args.server.is_some() {
            return Err(Fail::usage("A link names its server: leave --server out."));
        }
        return Ok(JoinFrom::Link { link: given });
    }
    match &args.server {
        Some(server) => Ok(JoinFrom::Code { code: given, server: server.clone() }),
        None => Err(Fail::usage(
            "A code needs its server beside it: --server https://…, as whoever invited you sees it.",
        )),
    }
}

/// Who joins with which machine: as the arguments say, else asked for, else as this computer knows it.
fn accept(
    args: &Join,
    invitation: JoinFrom,
    preview: Option<&JoinPreview>,
    asks: bool,
) -> Result<JoinAccept, Fail> {
    let names = suggested();
    let named = |given: &Option<String>, question: &str, default: &str| match given {
        Some(name) => Ok(name.clone()),
        None if asks => ask(question, default),
        None => Ok(default.to_owned()),
    };
    let makes_team = preview.map_or(args.team.is_some(), |it| it.invitation.team.is_none());
    if !makes_team && args.team.is_some() {
        return Err(Fail::usage("This invitation is to a team that exists: leave --team out."));
    }
    let team_name = makes_team.then(|| named(&args.team, "The new team's name", &names.team)).transpose()?;
    let person = named(&args.person, "Your name", &names.person)?;
    let machine = match preview.map(|it| it.invitation.role) {
        Some(Role::Viewer) => args.machine.clone().unwrap_or(names.machine),
        _ => named(&args.machine, "This machine's name", &names.machine)?,
    };
    Ok(JoinAccept { invitation, person, machine, team_name })
}

/// What the person confirms.
fn shown(preview: &JoinPreview, now: teamlamp_wire::Millis, out: &Out) -> Vec<String> {
    let row = |label: &str, text: String| format!("  {label:<8}  {}", visible(&text));
    let it = &preview.invitation;
    let mut lines = vec![String::from("This invitation, as its server says:")];
    lines.push(match &it.team {
        Some(team) => row("team", team.name.clone()),
        None => row("team", "a new one, which you will own".into()),
    });
    lines.push(row("server", format!("{} at {}", it.server.name, preview.origin)));
    if let Some(inviter) = &it.inviter {
        lines.push(row("from", inviter.name.clone()));
    }
    lines.push(row("you", format!("will be {}", it.role.as_str())));
    lines.push(row("ends", format!("in {}", words::length(it.expires_at - now + 30_000))));
    if preview.pinned {
        lines.push("  The server proved to hold the key that the link names.".into());
    }
    if preview.in_clear {
        let warning = "What you send there can be read by others on the network: it uses plain http.";
        lines.push(format!("  {}", out.paint(Style::Waiting, warning)));
    }
    lines
}

fn question(accept: &JoinAccept, preview: &JoinPreview) -> String {
    let team = preview.invitation.team.as_ref().map(|team| team.name.as_str());
    let team = visible(team.or(accept.team_name.as_deref()).unwrap_or_default());
    let person = visible(&accept.person);
    match preview.invitation.role {
        Role::Viewer => format!("Join {team} as {person}?"),
        _ => format!("Join {team} as {person}, with this machine as {}?", visible(&accept.machine)),
    }
}

fn done(joined: &Joined, connects: bool, out: &Out) -> Vec<String> {
    let team = out.paint(Style::Strong, &visible(&joined.team));
    let mut lines = vec![format!("{} Joined {team}.", out.paint(Style::Up, "■"))];
    match &joined.machine {
        None => {
            lines.push("  You read as a viewer: this machine is not enrolled and reports nothing.".into())
        }
        Some(machine) => {
            lines.push(format!("  This machine is {} there.", out.paint(Style::Strong, &visible(machine))));
            lines.push(match connects {
                true => "  The connector that runs here reports it from now on.".into(),
                false => "  Report it with:  teamlamp connect".into(),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use teamlamp_wire::account::TeamRef;
    use teamlamp_wire::invitation::{InvitationPreview, Named, ServerRef};

    fn args(invitation: &str) -> Join {
        let invitation = Some(invitation.to_owned());
        Join { invitation, server: None, nearby: false, person: None, machine: None, team: None, yes: true }
    }

    fn preview(team: Option<&str>, role: Role) -> JoinPreview {
        JoinPreview {
            origin: "http://192.168.0.7:8720".into(),
            pinned: false,
            in_clear: true,
            invitation: InvitationPreview {
                team: team.map(|name| TeamRef { id: "team_1".into(), name: name.into() }),
                server: ServerRef { id: "srv_1".into(), name: "Office\u{1b}[2J".into() },
                inviter: team.map(|_| Named { name: "Ada".into() }),
                role,
                expires_at: 3_900_000,
            },
        }
    }

    #[test]
    fn a_link_names_its_server_and_a_code_needs_one() {
        assert!(matches!(invitation(&args(" teamlamp://join?x ")), Ok(JoinFrom::Link { .. })));
        let told = invitation(&args("7K3QF-9XW2M")).unwrap_err();
        assert!(told.parts().0 == 2 && told.parts().1.contains("--server"), "{told:?}");
        let with_server = Join { server: Some("https://x".into()), ..args("7K3QF-9XW2M") };
        assert!(matches!(invitation(&with_server), Ok(JoinFrom::Code { .. })));
        let both = Join { server: Some("https://x".into()), ..args("teamlamp://join?x") };
        assert_eq!(invitation(&both).unwrap_err().parts().0, 2);
    }

    #[test]
    fn what_is_confirmed_is_what_the_server_says() {
        let out = Out::for_test(false);
        assert_snapshot!(shown(&preview(Some("Acme"), Role::Member), 0, &out).join("\n"), @"
        This invitation, as its server says:
          team      Acme
          server    Office␛[2J at http://192.168.0.7:8720
          from      Ada
          you       will be member
          ends      in 1 h 05
          What you send there can be read by others on the network: it uses plain http.
        ");
        assert!(shown(&preview(None, Role::Owner), 0, &out).join("\n").contains("which you will own"));
    }

    #[test]
    fn an_owners_code_makes_a_team_and_another_takes_no_name_for_one() {
        let link = || JoinFrom::Link { link: "teamlamp://join?x".into() };
        let named = Join { team: Some("Acme".into()), person: Some("Ada".into()), ..args("-") };
        let made = accept(&named, link(), Some(&preview(None, Role::Owner)), false).unwrap();
        assert_eq!((made.team_name.as_deref(), made.person.as_str()), (Some("Acme"), "Ada"));
        assert_eq!(
            accept(&named, link(), Some(&preview(Some("Acme"), Role::Member)), false).unwrap_err().parts().0,
            2
        );
        let joined = accept(&args("-"), link(), Some(&preview(Some("Acme"), Role::Member)), false).unwrap();
        assert!(joined.team_name.is_none() && !joined.machine.is_empty());
    }
}
