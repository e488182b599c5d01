//! `teamlamp leave`: revokes this machine in a team, signs out, and forgets the team's secrets.

use crate::args::Leave;
use crate::fail::Fail;
use crate::out::{Out, agreed};
use crate::setup;
use serde_json::json;
use teamlamp_wire::text::visible;

pub(crate) async fn run(args: &Leave, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let install = setup::install()?;
    let context = setup::context(&install, wish, out)?;
    let team = visible(&context.team_name);
    let machine = context.machine.as_ref().map(|m| format!(", and revoke {} there", visible(&m.name)));
    agreed(args.yes, &format!("Leave {team}{}?", machine.unwrap_or_default()))?;
    let left = install.leave(&context.id).await?;
    // A connector that runs here lets go of the team once it is told; where none runs, none has to.
    let _ = setup::door(&install)?.connect_now().await;
    if out.json {
        return Ok(out.document(&json!({"team": left.team, "untold": left.untold}))?);
    }
    out.line(&format!("Left {team}. Its secrets are gone from this computer."))?;
    if let Some(why) = left.untold {
        out.note(&format!(
            "The server could not be told ({}) An admin can remove this machine from the team's list.",
            visible(&why)
        ));
    }
    Ok(())
}
