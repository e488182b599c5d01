//! `teamlamp machines`: the team's machines, as a table or as the server lists them.

use crate::fail::Fail;
use crate::out::{Items, Out, Style};
use crate::table::{Cell, lines};
use crate::{setup, words};
use std::collections::BTreeMap;
use teamlamp_wire::Millis;
use teamlamp_wire::account::Member;
use teamlamp_wire::id::{MachineId, PrincipalId};
use teamlamp_wire::machine::Machine;
use teamlamp_wire::name::fold;
use teamlamp_wire::session::Session;

pub(crate) async fn run(wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let (_, context, client) = setup::person(wish, "machines", out).await?;
    let machines = client.machines(&context.team_id).await?;
    if out.json {
        return Ok(out.document(&Items { items: &machines })?);
    }
    let live = teamlamp_client::session::SessionQuery { live: Some(true), ..Default::default() };
    let members = client.members(&context.team_id).await?;
    let sessions = client.all_sessions(&context.team_id, &live).await?;
    let here = context.machine.as_ref().map(|machine| &machine.id);
    let rows = rows(&machines, &members, &sessions, here, out, out.clock.now_ms());
    if rows.is_empty() {
        out.note("No machine reports yet. `teamlamp invite` invites someone.");
    }
    for line in lines(out, &rows) {
        out.line(&line)?;
    }
    Ok(())
}

/// The machine of a team that is called so, or has this id.
///
/// # Errors
/// Where there is none.
pub(crate) fn named(machines: Vec<Machine>, wish: &str) -> Result<Machine, Fail> {
    let name = fold(wish);
    machines.into_iter().find(|m| m.id.as_str() == wish || fold(&m.name) == name).ok_or_else(|| {
        Fail::usage("No machine of the team is called like that: `teamlamp machines` lists them.")
    })
}

fn rows(
    machines: &[Machine],
    members: &[Member],
    sessions: &[Session],
    here: Option<&MachineId>,
    out: &Out,
    now: Millis,
) -> Vec<Vec<Cell>> {
    let names: BTreeMap<&PrincipalId, &str> =
        members.iter().map(|m| (&m.principal.id, m.principal.name.as_str())).collect();
    machines
        .iter()
        .map(|machine| {
            let (sign, style) = words::machine_sign(machine.connection);
            let agents = sessions.iter().filter(|s| s.machine_id == machine.id).count();
            let waiting = sessions.iter().filter(|s| s.machine_id == machine.id && s.turn.waits()).count();
            vec![
                Cell::new(style, sign),
                Cell::new(Style::Strong, &machine.name),
                Cell::plain(&words::presence(machine, |at| moment(out, at, now))),
                Cell::plain(&if agents == 0 {
                    String::new()
                } else {
                    words::count(agents, "agent", "agents")
                }),
                Cell::new(
                    Style::Waiting,
                    &if waiting == 0 { String::new() } else { format!("{waiting} waiting") },
                ),
                Cell::quiet(names.get(&machine.custodian_id).copied().unwrap_or_default()),
                Cell::quiet(if here == Some(&machine.id) { "this machine" } else { "" }),
            ]
        })
        .collect()
}

/// A moment of today by its time, another by its date too.
pub(crate) fn moment(out: &Out, at: Millis, now: Millis) -> String {
    let today = out.time(at, "%F") == out.time(now, "%F");
    out.time(at, if today { "%H:%M" } else { "%a %-d %b, %H:%M" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use serde_json::json;

    fn machine(id: &str, name: &str, connection: &str, away: &str) -> Machine {
        serde_json::from_str(&format!(
            r#"{{"id":"{id}","name":"{name}","custodian_id":"prin_1","enrollment":"active",
            "connection":"{connection}","last_seen_at":34000000,"incarnation_id":null,"host_key_id":null,
            "revision":1,"away":{away}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn the_table_tells_who_is_up_and_who_waits() {
        let member: Member = serde_json::from_str(
            r#"{"principal":{"id":"prin_1","name":"Ada","kind":"person"},"role":"owner","active":true,
            "revision":1,"joined_at":1}"#,
        )
        .unwrap();
        let session = |machine: &str, turn: &str| -> Session {
            serde_json::from_value(json!({
                "id": "sess_1", "harness": "codex", "native_id": "n", "machine_id": machine, "root": "r",
                "title": null, "model": null, "turn": turn, "turn_since": 1, "confirmed": true, "live": true,
                "started_at": 1, "updated_at": 1, "visibility": "restricted", "revision": 1,
                "claimed_by": null,
            }))
            .unwrap()
        };
        let machines = [
            machine("mach_1", "ada-laptop", "online", "null"),
            machine("mach_2", "ci", "unlinked", "null"),
            machine("mach_3", "old", "offline", r#"{"reason":"asleep","since":30000000}"#),
        ];
        let sessions = [session("mach_1", "working"), session("mach_1", "waiting_input")];
        let out = Out::for_test(false);
        let here = "mach_1".into();
        let rows = rows(&machines, &[member], &sessions, Some(&here), &out, 99_000_000);
        assert_snapshot!(lines(&out, &rows).join("\n"), @"
        ■  ada-laptop  online                         2 agents  1 waiting  Ada  this machine
        ◧  ci          no live link                                        Ada
        □  old         asleep since Thu 1 Jan, 08:20                       Ada
        ");
    }
}
