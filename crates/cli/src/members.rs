//! `teamlamp members`: who is in the team, and changing what they may do.

use crate::args::{Members, MembersCommand};
use crate::fail::Fail;
use crate::machines::moment;
use crate::out::{Items, Out, Style, agreed};
use crate::setup;
use crate::table::{Cell, lines};
use teamlamp_client::Client;
use teamlamp_wire::Millis;
use teamlamp_wire::account::{ChangeMember, Member, Role};
use teamlamp_wire::id::TeamId;
use teamlamp_wire::name::fold;
use teamlamp_wire::text::visible;

pub(crate) async fn run(args: Members, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let (_, context, client) = setup::person(wish, "members", out).await?;
    let (client, team) = (&client, &context.team_id);
    match args.command {
        None => list(client, team, out).await,
        Some(MembersCommand::Role { member, role }) => {
            let change = ChangeMember { role: Some(role.into()), active: None };
            changed(client, team, &member, &change, out).await
        }
        Some(MembersCommand::Deactivate { member, yes }) => {
            agreed(
                yes,
                &format!("End what {} may do in the team, and revoke their machines?", visible(&member)),
            )?;
            changed(client, team, &member, &ChangeMember { role: None, active: Some(false) }, out).await
        }
        Some(MembersCommand::Reactivate { member }) => {
            changed(client, team, &member, &ChangeMember { role: None, active: Some(true) }, out).await
        }
        Some(MembersCommand::Remove { member, yes }) => {
            agreed(yes, &format!("Remove {} from the team, and revoke their machines?", visible(&member)))?;
            let seen = meant(client.members(team).await?, &member)?;
            client.remove_member(team, &seen).await?;
            if out.json {
                return Ok(out.document(&seen)?);
            }
            Ok(out.line(&format!("{} is out of the team.", visible(&seen.principal.name)))?)
        }
    }
}

async fn list(client: &Client, team: &TeamId, out: &Out) -> Result<(), Fail> {
    let members = client.members(team).await?;
    if out.json {
        return Ok(out.document(&Items { items: &members })?);
    }
    for line in lines(out, &rows(&members, out, out.clock.now_ms())) {
        out.line(&line)?;
    }
    Ok(())
}

async fn changed(
    client: &Client,
    team: &TeamId,
    wish: &str,
    change: &ChangeMember,
    out: &Out,
) -> Result<(), Fail> {
    let seen = meant(client.members(team).await?, wish)?;
    let now = client.change_member(team, &seen, change).await?;
    if out.json {
        return Ok(out.document(&now)?);
    }
    let name = visible(&now.principal.name);
    let state = if now.active { "" } else { ", not active" };
    Ok(out.line(&format!("{name}: {}{state}.", now.role.as_str()))?)
}

/// The one member who is called so, or has this id.
fn meant(members: Vec<Member>, wish: &str) -> Result<Member, Fail> {
    let named = fold(wish.trim());
    let is = |member: &Member| member.principal.id.as_str() == wish || fold(&member.principal.name) == named;
    let mut found: Vec<Member> = members.into_iter().filter(is).collect();
    match (found.pop(), found.is_empty()) {
        (Some(member), true) => Ok(member),
        (Some(_), false) => Err(Fail::usage(
            "Several members are called so: name one by the id that `teamlamp members --json` shows.",
        )),
        (None, _) => Err(Fail::usage("No member of the team is called so: `teamlamp members` lists them.")),
    }
}

fn rows(members: &[Member], out: &Out, now: Millis) -> Vec<Vec<Cell>> {
    members
        .iter()
        .map(|member| {
            let role = if member.role == Role::Owner { Style::Strong } else { Style::Plain };
            vec![
                Cell::new(Style::Strong, &member.principal.name),
                Cell::new(role, member.role.as_str()),
                Cell::quiet(&format!("since {}", moment(out, member.joined_at, now))),
                Cell::new(Style::Broken, if member.active { "" } else { "not active" }),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use serde_json::json;

    fn member(id: &str, name: &str, role: &str, active: bool) -> Member {
        serde_json::from_value(json!({
            "principal": {"id": id, "name": name, "kind": "person"}, "role": role, "active": active,
            "revision": 1, "joined_at": 0,
        }))
        .unwrap()
    }

    #[test]
    fn one_is_meant_by_a_name_that_is_theirs_alone_or_by_the_id() {
        let all = || {
            let two = [("prin_1", "Ada"), ("prin_2", "Ben"), ("prin_3", "ben")];
            two.map(|(id, name)| member(id, name, "member", true)).to_vec()
        };
        assert_eq!(meant(all(), "ADA").unwrap().principal.id.as_str(), "prin_1");
        assert_eq!(meant(all(), "prin_3").unwrap().principal.name, "ben");
        assert!(meant(all(), "Ben").unwrap_err().parts().1.contains("Several"));
        assert_eq!(meant(all(), "Cy").unwrap_err().parts().0, 2);
    }

    #[test]
    fn the_table_says_who_may_do_what() {
        let all = [member("prin_1", "Ada", "owner", true), member("prin_2", "B\u{1b}en", "viewer", false)];
        let out = Out::for_test(false);
        assert_snapshot!(lines(&out, &rows(&all, &out, 0)).join("\n"), @"
        Ada   owner   since 00:00
        B␛en  viewer  since 00:00  not active
        ");
    }
}
