//! `teamlamp invitations`: those that are open or ended lately, and taking one back. Codes are shown once,
//! by `teamlamp invite`.

use crate::args::{Invitations, InvitationsCommand};
use crate::fail::Fail;
use crate::out::{Items, Out, Style};
use crate::setup;
use crate::table::{Cell, lines};
use crate::words::length;
use teamlamp_wire::Millis;
use teamlamp_wire::invitation::Invitation;

pub(crate) async fn run(args: Invitations, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let (_, context, client) = setup::person(wish, "invitations", out).await?;
    if let Some(InvitationsCommand::Revoke { invitation }) = args.command {
        client.revoke_invitation(&context.team_id, &invitation.as_str().into()).await?;
        if out.json {
            return Ok(out.document(&serde_json::json!({ "revoked": invitation }))?);
        }
        return Ok(out.line("Nobody can use that invitation any more.")?);
    }
    let invitations = client.invitations(&context.team_id).await?;
    if out.json {
        return Ok(out.document(&Items { items: &invitations })?);
    }
    if invitations.is_empty() {
        out.note("Nobody is invited now. `teamlamp invite` makes an invitation.");
    }
    for line in lines(out, &rows(&invitations, out.clock.now_ms())) {
        out.line(&line)?;
    }
    Ok(())
}

fn rows(invitations: &[Invitation], now: Millis) -> Vec<Vec<Cell>> {
    invitations
        .iter()
        .map(|it| {
            let (style, state) = if it.uses >= it.max_uses {
                (Style::Quiet, "used up".to_owned())
            } else if it.expires_at <= now {
                (Style::Quiet, "expired".to_owned())
            } else {
                (Style::Up, format!("open for {}", length(it.expires_at - now)))
            };
            vec![
                Cell::plain(it.id.as_str()),
                Cell::new(Style::Strong, it.role.as_str()),
                Cell::new(style, &state),
                Cell::quiet(&format!("used {} of {}", it.uses, it.max_uses)),
                Cell::quiet(it.note.as_deref().unwrap_or_default()),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use serde_json::json;

    #[test]
    fn the_table_says_what_is_still_open() {
        let invitation = |id: &str, uses: i64, expires_at: i64, note: Option<&str>| -> Invitation {
            serde_json::from_value(json!({
                "id": id, "role": "member", "expires_at": expires_at, "max_uses": 3, "uses": uses,
                "note": note, "revision": 1, "created_by": "prin_1",
            }))
            .unwrap()
        };
        let hour = 3_600_000;
        let all = [
            invitation("inv_1", 1, 4 * hour, Some("for the\u{1b} interns")),
            invitation("inv_2", 3, 4 * hour, None),
            invitation("inv_3", 0, hour, None),
        ];
        assert_snapshot!(lines(&Out::for_test(false), &rows(&all, 2 * hour)).join("\n"), @"
        inv_1  member  open for 2 h 00  used 1 of 3  for the␛ interns
        inv_2  member  used up          used 3 of 3
        inv_3  member  expired          used 0 of 3
        ");
    }
}
