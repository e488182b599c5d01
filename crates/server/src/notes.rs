//! `POST …/machines/{machine}/notes`: a teammate's short note to whoever sits at a machine. It travels
//! over the machine's link; the event tells that one was sent, never what it says.

use crate::access::guard;
use crate::error::ApiError;
use crate::events::append::{NewEvent, append};
use crate::request::{Call, Reply, one};
use crate::store::{Tx, notes, streams};
use serde_json::json;
use teamlamp_wire::Millis;
use teamlamp_wire::account::Role;
use teamlamp_wire::id::NoteId;
use teamlamp_wire::limits::NOTE_CHARS;
use teamlamp_wire::machine::{NoteRef, SendNote, SentNote};

const HOUR_MS: Millis = 3_600_000;
const PER_HOUR: usize = 20;

/// Handles `machines.notes.send`.
///
/// # Errors
/// 400, 403 for viewers and machines, 404, 429 after 20 notes in an hour.
pub async fn send(call: Call) -> Result<Reply, ApiError> {
    let SendNote { text } = call.json()?;
    let text = text.trim().to_owned();
    let chars = text.chars().count();
    if !(1..=NOTE_CHARS).contains(&chars) {
        return Err(ApiError::invalid(format!(
            "A note has 1 to {NOTE_CHARS} characters; this one has {chars}."
        )));
    }
    call.change(authority, move |tx, call, ()| {
        let (caller, team, machine) = (call.caller()?, call.team(), call.machine());
        let sent = notes::sent_since(tx, &team, &caller.principal_id, tx.now_ms - HOUR_MS)?;
        // The next is free when the oldest of the last twenty is an hour old.
        if let Some(oldest) = sent.len().checked_sub(PER_HOUR).and_then(|i| sent.get(i)) {
            let seconds = u64::try_from(oldest + HOUR_MS - tx.now_ms).unwrap_or(1).div_ceil(1_000).max(1);
            let message = format!("At most {PER_HOUR} notes an hour: wait a little.");
            return Err(ApiError::rate_limited(message, seconds, json!({})));
        }
        // Links go through the notes by id: a later one must have a later id, whatever the clock did.
        let random = call.app.chance.bits();
        let mut id = NoteId::new(tx.now_ms, random);
        if let Some(last) = notes::last(tx)?.filter(|last| *last >= id) {
            id = NoteId::new(last.made_at_ms() + 1, random);
        }
        notes::insert(tx, &id, &machine, (&caller.principal_id, &caller.name), &text)?;
        let data = json!({ "from": caller.name });
        let event = NewEvent::new(caller.actor(), "note.sent", "machine", machine.as_str(), data);
        append(tx, &call.app.chance, &team, event.of_machine(&machine))?;
        tx.after_commit(|effects| {
            effects.tell_links.insert(machine.clone());
        });
        one(call.context(), 201, SentNote { note: NoteRef { id, at: tx.now_ms } }, None)
    })
    .await
}

fn authority(tx: &Tx<'_>, call: &Call) -> Result<(), ApiError> {
    guard::person(tx, call.caller()?, &call.team(), Role::Member)?;
    if streams::machine_is_active(tx, &call.team(), &call.machine())? {
        return Ok(());
    }
    Err(ApiError::not_found("machine"))
}
