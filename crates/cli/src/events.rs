//! `teamlamp events`: the feed of a team, from its history or live.

mod feed;
mod history;
mod line;
mod live;

use crate::args::Events;
use crate::fail::Fail;
use crate::out::Out;
use crate::setup;
use line::Names;
use std::collections::BTreeMap;
use teamlamp_client::Client;
use teamlamp_connector::Context;
use teamlamp_wire::event::{Event, KindFilter};
use teamlamp_wire::id::MachineId;

/// How far back without a wish.
const DAY_S: i64 = 86_400;

pub(crate) async fn run(args: &Events, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    if args.follow && args.since.is_some() && out.json {
        return Err(Fail::usage(
            "Frames begin with a snapshot: leave --since out, or read the past without --follow.",
        ));
    }
    let kinds = args.kinds.as_deref().map(KindFilter::parse).transpose().map_err(Fail::usage)?;
    let (install, context, client) = setup::person(wish, "events", out).await?;
    let filter = filter(args, kinds.unwrap_or_default(), &context, &client, out.json).await?;
    if args.follow {
        let door = setup::door(&install)?;
        return live::run(args, &filter, live::Sources { context, client, door }, out).await;
    }
    let since = out.clock.now_ms() - args.since.unwrap_or(DAY_S) * 1_000;
    history::run(&client, &context.team_id, &filter, since, out).await
}

/// Which events are shown, and what is known of names.
#[derive(Debug, Default)]
struct Filter {
    kinds: KindFilter,
    machine: Option<MachineId>,
    names: Names,
}

impl Filter {
    /// Whether an event is shown: of a kind and about a machine that was asked for.
    fn admits(&self, event: &Event) -> bool {
        self.kinds.admits(&event.kind)
            && self.machine.as_ref().is_none_or(|machine| {
                let about = event.data.get("machine_id").and_then(serde_json::Value::as_str);
                event.resource.id == machine.as_str() || about == Some(machine.as_str())
            })
    }
}

async fn filter(
    args: &Events,
    kinds: KindFilter,
    context: &Context,
    client: &Client,
    json: bool,
) -> Result<Filter, Fail> {
    // JSON bears ids; only people need names.
    let machines = match (&args.machine, json) {
        (None, true) => Vec::new(),
        _ => client.machines(&context.team_id).await?,
    };
    let machine = match &args.machine {
        None => None,
        Some(wish) => Some(crate::machines::named(machines.clone(), wish)?.id),
    };
    let names: BTreeMap<_, _> = machines.into_iter().map(|m| (m.id.0, m.name)).collect();
    Ok(Filter { kinds, machine, names: Names::of(names) })
}
