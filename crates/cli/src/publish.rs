//! `teamlamp events publish`: an event of a member's script.

use crate::args::Publish;
use crate::fail::Fail;
use crate::out::Out;
use crate::setup;
use serde_json::{Map, Value};
use std::io::Read;
use teamlamp_wire::event::{KindOf, PublishEvent, Resource, kind_of};
use teamlamp_wire::id::EventId;

/// How often a publication whose answer was lost is sent again.
const TRIES: usize = 3;

pub(crate) async fn run(args: &Publish, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    let text = match args.data.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text)?;
            text
        }
        text => text.to_owned(),
    };
    let mut event = event(args, &text)?;
    let (install, context, client) = setup::person(wish, "publish", out).await?;
    // The id is chosen here, so that a lost answer makes no second event.
    event.id = Some(EventId::new(install.clock.now_ms(), install.chance.bits()));
    let kind = event.kind.clone();
    let publish = teamlamp_wire::event::Publish { events: vec![event] };
    let client = client.with_key(client.new_key());
    let mut tries = 1;
    let published = loop {
        match client.publish(&context.team_id, &publish).await {
            Err(fault) if fault.may_pass() && tries < TRIES => tries += 1,
            done => break done?,
        }
    };
    if out.json {
        return Ok(out.document(&published)?);
    }
    match published.events.first() {
        Some(event) => Ok(out.line(&format!("Published {kind} as {}.", event.sequence))?),
        None => Err(Fail::failed("The server answered without an event.")),
    }
}

/// The event that is meant.
fn event(args: &Publish, data: &str) -> Result<PublishEvent, Fail> {
    let kind = match kind_of(&args.kind) {
        None if !args.kind.starts_with("custom.") => format!("custom.cli.{}", args.kind),
        _ => args.kind.clone(),
    };
    if !matches!(kind_of(&kind), Some(KindOf::Cli(_))) {
        return Err(Fail::usage(
            "A script publishes custom.cli.<name>: 1 to 64 of a-z, 0-9, _, . and - after the second dot.",
        ));
    }
    let data: Map<String, Value> = serde_json::from_str(data)
        .map_err(|fault| Fail::usage(format!("--data must be a JSON object ({fault}).")))?;
    let resource = match &args.resource {
        None => None,
        Some(text) => match text.split_once(':') {
            Some((kind, id)) if !kind.is_empty() && !id.is_empty() => {
                Some(Resource { kind: kind.to_owned(), id: id.to_owned() })
            }
            _ => return Err(Fail::usage("--resource is KIND:ID, build:4f2a91c for instance.")),
        },
    };
    Ok(PublishEvent { id: None, kind, resource, data, at: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(kind: &str, data: &str, resource: Option<&str>) -> Result<PublishEvent, Fail> {
        let resource = resource.map(str::to_owned);
        event(&Publish { kind: kind.into(), data: String::new(), resource }, data)
    }

    #[test]
    fn a_short_kind_is_a_scripts_own() {
        assert_eq!(meant("deploy", "{}", None).unwrap().kind, "custom.cli.deploy");
        assert_eq!(meant("deploy.done", "{}", None).unwrap().kind, "custom.cli.deploy.done");
        let it = meant("custom.cli.a.b", r#"{"n":1}"#, Some("build:a:b")).unwrap();
        assert_eq!((it.kind.as_str(), it.resource.unwrap().id.as_str()), ("custom.cli.a.b", "a:b"));
    }

    #[test]
    fn what_can_not_be_meant_is_told_before_anything_is_sent() {
        for (kind, data, resource) in [
            ("session.turn", "{}", None),
            ("custom.bot.x", "{}", None),
            ("Deploy!", "{}", None),
            ("deploy", "[1]", None),
            ("deploy", "{", None),
            ("deploy", "{}", Some("build")),
            ("deploy", "{}", Some(":x")),
        ] {
            assert_eq!(meant(kind, data, resource).unwrap_err().parts().0, 2, "{kind} {data} {resource:?}");
        }
    }
}
