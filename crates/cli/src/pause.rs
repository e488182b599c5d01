//! `teamlamp pause` and `resume`: the person at the machine is heard at once, whether or not a connector
//! runs; where none does, the decision is remembered for the next one.

use crate::args::Pause;
use crate::fail::Fail;
use crate::out::Out;
use crate::{setup, words};
use serde_json::json;
use teamlamp_client::ClientError;
use teamlamp_connector::Install;
use teamlamp_connector::settings::Settings;
use teamlamp_wire::local::{Pause as Kept, PauseRequest};

pub(crate) async fn pause(args: &Pause, wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    of_all(wish)?;
    let request = PauseRequest { paused: true, for_seconds: args.time };
    let runs = decide(&setup::install()?, request).await?;
    let time = args.time.map(|seconds| format!("for {}", words::length(seconds * 1_000)));
    let time = time.unwrap_or_else(|| "until you resume it".into());
    tell(out, true, runs, &format!("Reporting is paused {time}."))
}

pub(crate) async fn resume(wish: Option<&str>, out: &Out) -> Result<(), Fail> {
    of_all(wish)?;
    let runs = decide(&setup::install()?, PauseRequest { paused: false, for_seconds: None }).await?;
    tell(out, false, runs, "Reporting goes on.")
}

/// A pause is of this machine, in all of its teams: to name one would promise what is not done. What the
/// environment says for all commands is no such wish.
fn of_all(wish: Option<&str>) -> Result<(), Fail> {
    match wish {
        Some(wish) if std::env::var("TEAMLAMP_CONTEXT").as_deref() != Ok(wish) => {
            Err(Fail::usage("A pause is of this machine, in all of its teams: leave --context out."))
        }
        _ => Ok(()),
    }
}

/// Has the connector do it, or remembers it for the next one; whether a connector runs.
async fn decide(install: &Install, request: PauseRequest) -> Result<bool, Fail> {
    match setup::door(install)?.pause(&request).await {
        Ok(_) => Ok(true),
        Err(ClientError::Unreachable(_)) => {
            setup::none_runs(install)?;
            let until = request.for_seconds.map(|seconds| install.clock.now_ms() + seconds * 1_000);
            let pause = request.paused.then_some(Kept { until });
            Settings::of(&install.home).change(|chosen| chosen.pause = pause).map_err(Fail::failed)?;
            Ok(false)
        }
        Err(fault) => Err(fault.into()),
    }
}

fn tell(out: &Out, paused: bool, runs: bool, sentence: &str) -> Result<(), Fail> {
    if out.json {
        return Ok(out.document(&json!({"paused": paused, "connector_runs": runs}))?);
    }
    out.line(sentence)?;
    if !runs {
        out.note("No connector runs here now; the next one begins so.");
    }
    Ok(())
}
