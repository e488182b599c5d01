//! `teamlamp join --nearby`: which servers the local network has, which of them is meant, and by which of
//! its addresses it answers.

use super::given;
use crate::args::Join;
use crate::fail::Fail;
use crate::out::{Items, Out, Style, ask, can_ask};
use crate::words;
use teamlamp_connector::nearby::{Found, LOOK, discover};
use teamlamp_connector::{Install, JoinFault};
use teamlamp_wire::invitation::{Code, JoinLink, check_origin};
use teamlamp_wire::text::visible;
use teamlamp_wire::window::{JoinFrom, JoinPreview};

/// How many of a server's addresses are tried.
const TRIES: usize = 4;

/// Looks for servers and makes an invitation for each address of the one that is meant; `None` where they
/// were only to be listed.
pub(super) async fn invitations(
    args: &Join,
    install: &Install,
    out: &Out,
) -> Result<Option<Vec<JoinFrom>>, Fail> {
    let found = discover(&install.clock, LOOK).await.map_err(Fail::failed)?;
    if out.json && args.invitation.is_none() {
        out.document(&Items { items: &found })?;
        return Ok(None);
    }
    if found.is_empty() {
        return Err(Fail::not_connected(
            "No server says on this network that it is there. It may be in another network, or a firewall keeps multicast away (on Windows: a network that is marked public). An invitation's link works all the same.",
        ));
    }
    if args.server.is_none() {
        for line in listed(&found, out) {
            out.note(&line);
        }
    }
    let chosen = chosen(&found, args.server.as_deref())?;
    let code = given(args, "The invitation's code")?;
    let incomplete = "The code is not complete: it has ten letters and digits, like 7K3QF-9XW2M. A link names its server itself: leave --nearby out with it.";
    let code = Code::parse(&code).ok_or_else(|| Fail::usage(incomplete))?;
    let link = |server: &String| {
        let (server, fingerprint) = (server.clone(), chosen.fingerprint.clone());
        JoinFrom::Link { link: JoinLink { server, code: code.clone(), fingerprint, team: None }.to_string() }
    };
    Ok(Some(chosen.origins.iter().take(TRIES).map(link).collect()))
}

/// Asks for what the invitation is, at one address after the other until something answers there.
pub(super) async fn first_that_answers(
    install: &Install,
    invitations: Vec<JoinFrom>,
) -> Result<(JoinFrom, Result<JoinPreview, JoinFault>), Fail> {
    let mut last = None;
    for invitation in invitations {
        let asked = install.preview(&invitation).await;
        let nobody = matches!(&asked, Err(JoinFault::Server(teamlamp_client::ClientError::Unreachable(_))));
        last = Some((invitation, asked));
        if !nobody {
            break;
        }
    }
    last.ok_or_else(|| Fail::not_connected("The server names no address at which it can be reached."))
}

/// The one that is meant: the named one, the only one, or as the person says.
fn chosen<'a>(found: &'a [Found], wish: Option<&str>) -> Result<&'a Found, Fail> {
    if let Some(wish) = wish {
        let origin = check_origin(wish.trim()).ok();
        let meant = |it: &&Found| {
            it.name == wish
                || it.server_id.as_str() == wish
                || origin.as_ref().is_some_and(|o| it.origins.contains(o))
        };
        return match found.iter().filter(meant).collect::<Vec<_>>()[..] {
            [one] => Ok(one),
            [] => Err(Fail::not_connected(format!("No server near here is {}.", visible(wish)))),
            _ => Err(Fail::usage(format!("Several servers near here are {}: name its id.", visible(wish)))),
        };
    }
    match found {
        [one] => Ok(one),
        _ if !can_ask() => {
            Err(Fail::usage("Several servers are near: say with --server which, by name, id or address."))
        }
        _ => {
            let answer = ask("Which one, by its number", "")?;
            let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let sentence = || Fail::usage(format!("Answer with a number from 1 to {}.", found.len()));
            number.and_then(|at| found.get(at)).ok_or_else(sentence)
        }
    }
}

/// The servers as lines for a person.
fn listed(found: &[Found], out: &Out) -> Vec<String> {
    let mut lines = vec!["Servers on this network, as they say themselves:".to_owned()];
    for (at, it) in found.iter().enumerate() {
        let key = match &it.fingerprint {
            Some(fingerprint) => format!("key {}", words::fingerprint(fingerprint)),
            None => "a certificate of its owner's".to_owned(),
        };
        let origin = it.origins.first().map(String::as_str).unwrap_or_default();
        let about = out.paint(Style::Quiet, &format!("{}  {key}", visible(origin)));
        lines.push(format!("  {}  {}  {about}", at + 1, out.paint(Style::Strong, &visible(&it.name))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, id: &str, origin: &str) -> Found {
        Found {
            name: name.into(),
            server_id: id.into(),
            origins: vec![origin.into()],
            fingerprint: Some("0a1b2c3d".repeat(8)),
        }
    }

    #[test]
    fn one_is_taken_and_of_several_the_named_one() {
        let two = [
            found("Office", "srv_1", "https://10.0.0.1:8720"),
            found("Office", "srv_2", "https://10.0.0.2:8720"),
        ];
        assert_eq!(chosen(&two[..1], None).unwrap(), &two[0]);
        for wish in ["srv_2", "https://10.0.0.2:8720"] {
            assert_eq!(chosen(&two, Some(wish)).unwrap(), &two[1], "{wish}");
        }
        assert_eq!(chosen(&two, Some("Office")).unwrap_err().parts().0, 2);
        assert_eq!(chosen(&two, Some("Home")).unwrap_err().parts().0, 3);
    }

    #[test]
    fn the_list_is_text_without_power() {
        let list =
            listed(&[found("O\u{1b}[2Jffice", "srv_1", "https://10.0.0.1:8720")], &Out::for_test(false));
        assert_eq!(
            list[1],
            "  1  O␛[2Jffice  https://10.0.0.1:8720  key 0a1b 2c3d 0a1b 2c3d 0a1b 2c3d 0a1b 2c3d"
        );
    }
}
