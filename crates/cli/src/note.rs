//! `teamlamp note`: a short message to whoever sits at a machine.

use crate::args::Note;
use crate::fail::Fail;
use crate::machines;
use crate::out::Out;
use crate::setup;
use std::io::Read;
use teamlamp_wire::limits::NOTE_CHARS;
use teamlamp_wire::machine::SendNote;
use teamlamp_wire::text::visible;

pub(crate) async fn run(args: Note, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let text = if args.text == "-" { piped()? } else { args.text };
    let (_, context, client) = setup::person(wish, "note", out).await?;
    let machine = machines::named(client.machines(&context.team_id).await?, &args.machine)?;
    let sent = client.send_note(&context.team_id, &machine.id, &SendNote { text }).await?;
    if out.json {
        return Ok(out.document(&sent)?);
    }
    Ok(out.line(&format!("Sent to {}: it waits there for 7 days.", visible(&machine.name)))?)
}

/// The text of standard input, as far as a note may be long: more is refused by the server, not cut.
fn piped() -> Result<String, Fail> {
    let mut text = String::new();
    let most = u64::try_from(NOTE_CHARS).unwrap_or(u64::MAX).saturating_mul(4) + 1;
    std::io::stdin()
        .take(most)
        .read_to_string(&mut text)
        .map_err(|fault| Fail::usage(format!("The note can't be read from standard input ({fault}).")))?;
    Ok(text)
}
