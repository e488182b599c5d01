//! `teamlamp invite`: makes an invitation and shows its code and link, once.

use crate::args::Invite;
use crate::fail::Fail;
use crate::out::{Out, Style};
use crate::{setup, words};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use teamlamp_wire::invitation::{CreateInvitation, CreatedInvitation, is_in_clear};

pub(crate) async fn run(args: &Invite, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let (install, context, client) = setup::person(wish, "invite", out).await?;
    let invitation = CreateInvitation {
        role: args.role.into(),
        expires_in_seconds: args.expires,
        max_uses: Some(args.max_uses),
        note: args.note.clone(),
    };
    let created = client.invite(&context.team_id, &invitation).await?;
    if out.json {
        return Ok(out.document(&created)?);
    }
    for line in lines(&created, &context.origin, install.clock.now_ms(), out) {
        out.line(&line)?;
    }
    if let Some(link) = created.link.as_deref().filter(|_| args.qr) {
        out.line("")?;
        for line in qr(link, out)? {
            out.line(&line)?;
        }
    }
    if is_loopback(&context.origin) {
        out.note("Only this computer can reach that server, so only someone here can use it.");
    } else if is_in_clear(&context.origin) {
        out.note("That server uses plain http: what travels there can be read by others on the network.");
    }
    Ok(())
}

fn lines(created: &CreatedInvitation, origin: &str, now: teamlamp_wire::Millis, out: &Out) -> Vec<String> {
    let row =
        |label: &str, text: &str| format!("  {}  {text}", out.paint(Style::Quiet, &format!("{label:<6}")));
    let it = &created.invitation;
    let uses = match it.max_uses {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    // Half a minute is neither here nor there.
    let ends = words::length(it.expires_at - now + 30_000);
    vec![
        format!("An invitation as {}, good {uses}, for {ends}:", it.role.as_str()),
        row("code", &out.paint(Style::Strong, created.code.as_deref().unwrap_or_default())),
        row("server", origin),
        row("link", created.link.as_deref().unwrap_or_default()),
        out.paint(Style::Quiet, "  On the other computer:  teamlamp join -   (and paste the link)"),
    ]
}

fn is_loopback(origin: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    ["127.", "localhost", "[::1]"].iter().any(|start| host.starts_with(start))
}

/// The link as a QR code of half blocks: dark on light where there is colour, else as a dark terminal
/// shows it.
fn qr(link: &str, out: &Out) -> Result<Vec<String>, Fail> {
    let code =
        QrCode::new(link).map_err(|fault| Fail::failed(format!("The link fits no QR code ({fault}).")))?;
    let (dark, light) = match out.has_color() {
        true => (Dense1x2::Dark, Dense1x2::Light),
        false => (Dense1x2::Light, Dense1x2::Dark),
    };
    let drawn = code.render::<Dense1x2>().dark_color(dark).light_color(light).build();
    Ok(drawn.lines().map(|line| out.paint(Style::Paper, line)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use serde_json::json;

    #[test]
    fn an_invitation_is_shown_with_what_it_takes_to_use_it() {
        let created: CreatedInvitation = serde_json::from_value(json!({
            "invitation": {"id": "inv_1", "role": "member", "expires_at": 86_400_000, "max_uses": 1, "uses": 0,
                           "note": null, "revision": 1, "created_by": "prin_1"},
            "code": "7K3QF-9XW2M", "link": "teamlamp://join?server=x&code=7K3QF-9XW2M",
        }))
        .unwrap();
        let shown = lines(&created, "http://10.0.0.7:8720", 0, &Out::for_test(false));
        assert_snapshot!(shown.join("\n"), @"
        An invitation as member, good once, for 1 d:
          code    7K3QF-9XW2M
          server  http://10.0.0.7:8720
          link    teamlamp://join?server=x&code=7K3QF-9XW2M
          On the other computer:  teamlamp join -   (and paste the link)
        ");
    }

    #[test]
    fn a_link_is_drawn_whole() {
        let link = "teamlamp://join?server=http%3A%2F%2F10.0.0.7%3A8720&code=7K3QF-9XW2M";
        let lines = qr(link, &Out::for_test(false)).unwrap();
        assert!(
            lines.len() > 15 && lines.iter().all(|line| line.chars().count() == lines[0].chars().count())
        );
        assert!(lines[0].chars().all(|c| c == '█'), "the margin is light: {}", lines[0]);
    }
}
