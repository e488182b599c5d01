//! The program `teamlamp`: reads its arguments and hands over to the command. Nothing is decided here.

mod args;
mod connect;
mod events;
mod fail;
mod generate;
mod invitations;
mod invite;
mod join;
mod leave;
mod machines;
mod members;
mod note;
mod out;
mod pause;
mod publish;
mod serve;
mod server;
mod sessions;
mod setup;
mod status;
mod stop;
mod table;
mod words;

use args::{Args, Command, EventsCommand, LogFormat};
use clap::Parser;
use fail::Fail;
use out::Out;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let args = Args::parse();
    let log_format = match &args.command {
        Command::Serve(serve) => serve.log_format.unwrap_or_default(),
        _ => LogFormat::Text,
    };
    setup::log(log_format);
    let out = Out::new(args.json);
    let done = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|fault| Fail::failed(format!("The system gives no threads ({fault}).")))
        .and_then(|runtime| {
            let done = runtime.block_on(run(args, &out));
            // A keyring that hangs must not keep the program from ending.
            runtime.shutdown_timeout(Duration::from_millis(100));
            done
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => fail.tell(&out),
    }
}

async fn run(args: Args, out: &Out) -> Result<(), Fail> {
    let context = args.context.as_deref();
    match args.command {
        Command::Serve(it) => serve::run(*it, out).await,
        Command::Join(it) => join::run(it, out).await,
        Command::Connect => connect::run(context, out).await,
        Command::Status => status::run(context, out).await,
        Command::Machines => machines::run(context, out).await,
        Command::Sessions(it) => sessions::run(&it, context, out).await,
        Command::Events(it) => match it.command {
            Some(EventsCommand::Publish(it)) => publish::run(&it, context, out).await,
            None => events::run(&it, context, out).await,
        },
        Command::Invite(it) => invite::run(&it, context, out).await,
        Command::Invitations(it) => invitations::run(it, context, out).await,
        Command::Members(it) => members::run(it, context, out).await,
        Command::Note(it) => note::run(it, context, out).await,
        Command::Pause(it) => pause::pause(&it, context, out).await,
        Command::Resume => pause::resume(context, out).await,
        Command::Leave(it) => leave::run(&it, context, out).await,
        Command::Server(it) => server::run(&it, out).await,
        Command::Generate(it) => generate::run(&it, out),
    }
}
