//! `POST …/events`: publishing, up to 100 in one transaction, all or none (spec 03). What a machine
//! publishes of its sessions goes through the one decision about turns.

use super::append::{NewEvent, append};
use crate::access::{Caller, guard};
use crate::error::ApiError;
use crate::request::{Call, Reply, one};
use crate::sessions::register::own_source;
use crate::sessions::turns::{Happened, Report, State, next};
use crate::sessions::{self};
use crate::store::Tx;
use crate::store::events as rows;
use crate::store::heartbeats as reports;
use crate::store::sessions::{self as session_rows, Known};
use serde_json::{Map, Value};
use teamlamp_clock::Chance;
use teamlamp_wire::Millis;
use teamlamp_wire::account::{CredentialKind, Role};
use teamlamp_wire::event::{
    CATALOGUE, Kind, KindOf, Publish, PublishEvent, Published, PublishedEvent, Publisher, Resource,
    is_custom_name, kind_of,
};
use teamlamp_wire::id::{EventId, MachineId, SessionId, SourceId, TeamId};
use teamlamp_wire::limits::{EVENT_AT_AHEAD_MS, EVENT_AT_PAST_MS, EVENT_DATA_BYTES, PUBLISH_MAX};
use teamlamp_wire::session::Turn;
use teamlamp_wire::text::visible;

/// Who publishes, as the transaction found it.
enum As {
    Member,
    Machine(MachineId, SourceId),
}

/// Handles `events.publish`.
///
/// # Errors
/// 400 that says which event, 403 for a kind that one may not publish, 404, 409 for another's id.
pub async fn publish(call: Call) -> Result<Reply, ApiError> {
    let Publish { events } = call.json()?;
    if events.is_empty() || events.len() > PUBLISH_MAX {
        return Err(ApiError::invalid(format!("`events` must hold 1 to {PUBLISH_MAX} events.")));
    }
    for (number, event) in events.iter().enumerate() {
        check(event).map_err(|why| ApiError::invalid(format!("Event {number}: {why}")))?;
    }
    let kinds: Vec<String> = events.iter().map(|event| event.kind.clone()).collect();
    let authority = move |tx: &Tx<'_>, call: &Call| {
        let publisher = publisher(tx, call)?;
        kinds.iter().try_for_each(|kind| may_publish(&publisher, kind))?;
        Ok(publisher)
    };
    call.change(authority, move |tx, call, publisher| {
        let (caller, team) = (call.caller()?, call.team());
        let mut published = Vec::with_capacity(events.len());
        for event in &events {
            let writing = Writing { tx, chance: &call.app.chance, caller, team: &team };
            published.push(writing.one(&publisher, event)?);
        }
        if let As::Machine(_, source) = &publisher {
            reports::received(tx, source)?;
        }
        one(call.context(), 201, Published { events: published }, None)
    })
    .await
}

fn publisher(tx: &Tx<'_>, call: &Call) -> Result<As, ApiError> {
    let (caller, team) = (call.caller()?, call.team());
    if caller.kind == CredentialKind::Machine {
        let (machine, source) = own_source(tx, caller, &team)?;
        return Ok(As::Machine(machine, source));
    }
    guard::person(tx, caller, &team, Role::Member).map(|_| As::Member)
}

fn may_publish(publisher: &As, kind: &str) -> Result<(), ApiError> {
    match (kind_of(kind), publisher) {
        (Some(KindOf::Cli(_)), As::Member) => Ok(()),
        (Some(KindOf::Listed(row)), As::Machine(..)) if row.publisher == Publisher::Machine => Ok(()),
        _ => Err(ApiError::forbidden(format!("`{}` is not yours to publish.", shown(kind)))),
    }
}

/// What can be told of an event without asking the store.
fn check(event: &PublishEvent) -> Result<(), String> {
    let kind = shown(&event.kind);
    let Some(of) = kind_of(&event.kind) else {
        return Err(format!("`{kind}` is no kind of event: GET /v1/openapi.json lists them."));
    };
    if let Some(id) = &event.id
        && !is_event_id(id)
    {
        return Err("`id` must be evt_ and 1 to 64 of A-Z, a-z, 0-9, _ and -.".into());
    }
    let size = serde_json::to_string(&event.data).map_or(usize::MAX, |text| text.len());
    if size > EVENT_DATA_BYTES {
        return Err(format!("`data` has {size} bytes: at most {EVENT_DATA_BYTES} are kept."));
    }
    match (of, &event.resource) {
        (KindOf::Listed(row), Some(resource)) if resource.kind == row.resource => fields(row, &event.data),
        (KindOf::Listed(row), _) => Err(format!("`{kind}` is about a resource of kind `{}`.", row.resource)),
        (_, Some(resource)) => own_resource(resource),
        (_, None) => Ok(()),
    }
}

fn shown(text: &str) -> String {
    visible(&text.chars().take(80).collect::<String>())
}

fn is_event_id(id: &EventId) -> bool {
    id.as_str().strip_prefix("evt_").is_some_and(|rest| {
        (1..=64).contains(&rest.len())
            && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    })
}

/// The resource of a custom event: a kind of its own, and any id.
fn own_resource(resource: &Resource) -> Result<(), String> {
    if !is_custom_name(&resource.kind) {
        return Err("The resource's `kind` must be 1 to 64 of a-z, 0-9, _, . and -.".into());
    }
    if CATALOGUE.iter().any(|row| row.resource == resource.kind) {
        return Err(format!(
            "A custom event can't be about a `{}`: choose a kind of your own.",
            resource.kind
        ));
    }
    if !(1..=256).contains(&resource.id.chars().count()) || resource.id.chars().any(char::is_control) {
        return Err("The resource's `id` must be 1 to 256 characters without control characters.".into());
    }
    Ok(())
}

/// The fields of a listed kind's `data`: those of the catalogue, each of its type.
fn fields(row: &Kind, data: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in data {
        let listed = row.data.iter().find(|(field, _, _)| field == name);
        let fits = listed.is_some_and(|(_, kind, _)| match *kind {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_null(),
            "boolean" => value.is_boolean(),
            _ => value.is_object(),
        });
        if !fits {
            return Err(format!(
                "`data.{}` does not belong in a `{}`, or is of another type.",
                shown(name),
                row.name
            ));
        }
    }
    Ok(())
}

/// A moment as told, where it is believed; else the server's.
fn believed(at: Option<Millis>, now: Millis) -> Millis {
    at.filter(|at| (now - EVENT_AT_PAST_MS..=now + EVENT_AT_AHEAD_MS).contains(at)).unwrap_or(now)
}

/// One publication's transaction.
struct Writing<'a> {
    tx: &'a Tx<'a>,
    chance: &'a Chance,
    caller: &'a Caller,
    team: &'a TeamId,
}

impl Writing<'_> {
    fn one(&self, publisher: &As, event: &PublishEvent) -> Result<PublishedEvent, ApiError> {
        let identity = match publisher {
            As::Member => self.caller.principal_id.as_str(),
            As::Machine(machine, _) => machine.as_str(),
        };
        if let Some(id) = &event.id
            && let Some((sequence, by)) = rows::published(self.tx, self.team, id)?
        {
            if by.as_deref() == Some(identity) {
                return Ok(PublishedEvent { id: id.clone(), sequence });
            }
            return Err(ApiError::conflict(format!(
                "The id `{id}` is another publisher's event: choose another."
            )));
        }
        match publisher {
            As::Member => self.custom(event, identity),
            As::Machine(machine, _) => self.of_session(machine, event, identity),
        }
    }

    fn custom(&self, event: &PublishEvent, identity: &str) -> Result<PublishedEvent, ApiError> {
        let default = || Resource { kind: "custom".into(), id: event.kind.clone() };
        let resource = event.resource.clone().unwrap_or_else(default);
        let data = Value::Object(event.data.clone());
        let new = NewEvent::new(self.caller.actor(), &event.kind, &resource.kind, &resource.id, data);
        self.append(new, event, identity)
    }

    fn append(
        &self,
        mut new: NewEvent,
        event: &PublishEvent,
        identity: &str,
    ) -> Result<PublishedEvent, ApiError> {
        new.id.clone_from(&event.id);
        new.at = Some(believed(event.at, self.tx.now_ms));
        new.publisher = Some(identity.to_owned());
        let (id, sequence) = append(self.tx, self.chance, self.team, new)?;
        Ok(PublishedEvent { id, sequence })
    }

    fn of_session(
        &self,
        machine: &MachineId,
        event: &PublishEvent,
        identity: &str,
    ) -> Result<PublishedEvent, ApiError> {
        let id = SessionId(event.resource.as_ref().map_or_else(String::new, |r| r.id.clone()));
        let known = session_rows::known(self.tx, &id)?.filter(|known| known.team_id == *self.team);
        let known = known.ok_or_else(|| ApiError::not_found("session"))?;
        if known.machine_id != *machine {
            return Err(ApiError::forbidden("A machine publishes events of its own sessions only."));
        }
        let told = Told::of(event, believed(event.at, self.tx.now_ms))?;
        if known.state.since.is_some_and(|since| told.moment < since) {
            // Overtaken by what a newer report has said: kept in the history, and nothing else changes.
            let mut new = told.as_told(self, &known);
            new.overtaken = true;
            return self.append(new, event, identity);
        }
        let (state, happened) = next(&known.state, &told.report, self.tx.now_ms);
        if state != known.state {
            session_rows::set_state(self.tx, &id, &state)?;
            if state.bound != known.state.bound {
                reports::forget_bindings(self.tx, machine)?;
            }
        }
        let Some((last, before)) = happened.split_last() else {
            return self.already_told(&known, told, event, identity);
        };
        for what in before {
            append(self.tx, self.chance, self.team, self.event(&known, &state, what))?;
        }
        self.append(self.event(&known, &state, last), event, identity)
    }

    fn event(&self, known: &Known, state: &State, what: &Happened) -> NewEvent {
        sessions::event(&self.caller.actor(), known, state, what)
    }

    /// The store knows this already, by a heartbeat: the event that told it is the answer. A session that
    /// began and ended unheard of may have ended in the store alone: its end is still told.
    fn already_told(
        &self,
        known: &Known,
        mut told: Told,
        event: &PublishEvent,
        identity: &str,
    ) -> Result<PublishedEvent, ApiError> {
        if let Some((sequence, told_as, kind)) =
            rows::told_of(self.tx, self.team, &known.source_id, &known.id)?
            && (kind == "session.ended" || event.kind != "session.ended")
        {
            let Some(id) = &event.id else { return Ok(PublishedEvent { id: told_as, sequence }) };
            // Sent again under another key, after the turn moved on, it is still this event.
            rows::add_alias(self.tx, self.team, id, identity, sequence)?;
            return Ok(PublishedEvent { id: id.clone(), sequence });
        }
        if let Happened::Ended { ended } = &mut told.what {
            *ended = known.state.turn == Turn::Ended.as_str();
        }
        let new = told.as_told(self, known);
        self.append(new, event, identity)
    }
}

/// What a published `session.*` event says.
struct Told {
    what: Happened,
    turn: Option<String>,
    since: Option<Millis>,
    /// What it is as old as: the turn's own moment, else the event's.
    moment: Millis,
    report: Report,
}

impl Told {
    fn of(event: &PublishEvent, at: Millis) -> Result<Self, ApiError> {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).map(str::to_owned);
        let since = event.data.get("since").and_then(Value::as_i64);
        let turn_field = if event.kind == "session.turn" { "to" } else { "turn" };
        let turn = text(turn_field).filter(|turn| (1..=32).contains(&turn.chars().count()));
        if event.kind == "session.ended" {
            let reason = text("reason");
            if reason.as_deref().is_some_and(|r| r != "ended" && r != "reporter_left") {
                return Err(ApiError::invalid("`data.reason` must be ended or reporter_left."));
            }
            let ended = reason.as_deref() == Some("ended");
            let report = Report { bound: Some(false), turn: None };
            let what = Happened::Ended { ended };
            return Ok(Self { what, turn: None, since: None, moment: at, report });
        }
        let Some(turn) = turn else {
            return Err(ApiError::invalid(format!(
                "`data.{turn_field}` must be a turn of 1 to 32 characters."
            )));
        };
        let report = Report {
            bound: (event.kind == "session.started").then_some(true),
            turn: Some((turn.clone(), since.or(Some(at)))),
        };
        let what = match event.kind.as_str() {
            "session.started" => Happened::Started,
            _ => Happened::Turned { from: text("from").unwrap_or_else(|| "unknown".into()) },
        };
        Ok(Self { what, turn: Some(turn), since, moment: since.unwrap_or(at), report })
    }

    /// The event as its publisher told it, in the shape that every such event has.
    fn as_told(&self, writing: &Writing<'_>, known: &Known) -> NewEvent {
        let state = State {
            bound: known.state.bound,
            turn: self.turn.clone().unwrap_or_else(|| known.state.turn.clone()),
            since: self.since,
        };
        writing.event(known, &state, &self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(value: Value) -> PublishEvent {
        serde_json::from_value(value).unwrap()
    }
    fn refused(value: Value) -> String {
        check(&event(value)).unwrap_err()
    }

    #[test]
    fn what_can_not_be_an_event_says_why() {
        assert!(refused(json!({"kind": "session.sang"})).contains("no kind"));
        assert!(refused(json!({"kind": "custom.cli.x", "id": "event_1"})).contains("evt_"));
        assert!(refused(json!({"kind": "custom.cli.x", "data": {"t": "x".repeat(17_000)}})).contains("data"));
        assert!(refused(json!({"kind": "session.turn"})).contains("session"));
        let elsewhere = json!({"kind": "session.turn", "resource": {"kind": "machine", "id": "mach_1"}});
        assert!(refused(elsewhere).contains("session"));
        let session = json!({"kind": "session", "id": "sess_1"});
        let strange = json!({"kind": "session.turn", "resource": session, "data": {"prompt": "secret"}});
        assert!(refused(strange).contains("data.prompt"));
        let wrong = json!({"kind": "session.turn", "resource": session, "data": {"to": 5}});
        assert!(refused(wrong).contains("data.to"));
    }

    #[test]
    fn a_custom_resource_is_none_of_the_catalogue() {
        let with = |kind: &str, id: &str| {
            check(&event(json!({"kind": "custom.cli.x", "resource": {"kind": kind, "id": id}})))
        };
        assert_eq!(with("deploy", "prod/eu"), Ok(()));
        for (kind, id) in
            [("session", "a"), ("team", "a"), ("Deploy", "a"), ("", "a"), ("d", ""), ("d", "a\nb")]
        {
            assert!(with(kind, id).is_err(), "{kind} {id:?}");
        }
        assert!(with("d", &"x".repeat(257)).is_err());
    }

    #[test]
    fn a_moment_is_believed_within_a_week_and_a_minute() {
        let now = 10 * EVENT_AT_PAST_MS;
        for at in [now - EVENT_AT_PAST_MS, now, now + EVENT_AT_AHEAD_MS] {
            assert_eq!(believed(Some(at), now), at);
        }
        for at in [now - EVENT_AT_PAST_MS - 1, now + EVENT_AT_AHEAD_MS + 1] {
            assert_eq!(believed(Some(at), now), now);
        }
        assert_eq!(believed(None, now), now);
    }
}
