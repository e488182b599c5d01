//! The arguments: what can be asked of the program, and how each command explains itself.

use clap::{Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use teamlamp_wire::account::Role;

/// See live which machines of your team are up, which coding agents run there, and which of them waits
/// for a person.
#[derive(Debug, Parser)]
#[command(name = "teamlamp", version, propagate_version = true, after_help = AFTER)]
pub(crate) struct Args {
    /// Print JSON: one document, or one line for each item of a stream.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Which team, where there are several: its name, or the context's id.
    #[arg(long, global = true, value_name = "NAME", env = "TEAMLAMP_CONTEXT")]
    pub(crate) context: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Environment:
  TEAMLAMP_HOME     the folder of this install (default: the system's folder for data)
  TEAMLAMP_CUSTODY  where secrets are kept: keyring (default) or file
  TEAMLAMP_CONTEXT  which team, as --context
  TEAMLAMP_LOG      what is logged to standard error (default: warn)
  NO_COLOR          no colour, whatever the terminal can

Exit status: 0 done, 1 failed, 2 wrong usage, 3 not connected.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a team server on this computer.
    Serve(Box<Serve>),
    /// Join a team with an invitation, and enroll this machine.
    Join(Join),
    /// Report this machine to its teams until stopped: the connector, without a desktop.
    Connect,
    /// How this computer's connection is, and why.
    Status,
    /// The team's machines.
    Machines,
    /// The coding agents that run on them.
    Sessions(Sessions),
    /// What happened: the last day, or live with --follow.
    Events(Events),
    /// Make an invitation to the team.
    Invite(Invite),
    /// The invitations of the team.
    Invitations(Invitations),
    /// The members of the team.
    Members(Members),
    /// Send a short message to whoever sits at a machine.
    Note(Note),
    /// Stop reporting, here and at once.
    Pause(Pause),
    /// Report again.
    Resume,
    /// Leave a team: revoke this machine there, and forget its secrets.
    Leave(Leave),
    /// The team server's data: backups, numbers, upkeep.
    #[command(subcommand)]
    Server(Server),
    /// Write shell completions or the manual page to standard output.
    #[command(hide = true)]
    Generate(Generate),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where the server keeps its data (default: `server` in this install's home).
    #[arg(long, value_name = "DIR", env = "TEAMLAMP_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Where to listen; port 0 lets the system choose [default: 127.0.0.1:8720, with --lan `[::]:8720`].
    #[arg(long, value_name = "ADDR:PORT", env = "TEAMLAMP_LISTEN")]
    pub(crate) listen: Option<SocketAddr>,
    /// Be there for the local network: listen at every address, with TLS, and say there that it is.
    #[arg(long, env = "TEAMLAMP_LAN", value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) lan: bool,
    /// What people see as the server's name (default: this computer's).
    #[arg(long, value_name = "NAME", env = "TEAMLAMP_NAME")]
    pub(crate) name: Option<String>,
    /// The address that links name, where it is another than the listening one: behind a proxy.
    #[arg(long, value_name = "ORIGIN", env = "TEAMLAMP_ORIGIN")]
    pub(crate) origin: Option<String>,
    /// A host name that the server answers to besides its own; may be repeated.
    #[arg(long, alias = "host", value_name = "NAME", env = "TEAMLAMP_HOSTS", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,
    /// A certificate of your own, in PEM with those that vouch for it; read again when it changes.
    #[arg(long, value_name = "FILE", env = "TEAMLAMP_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, in PEM.
    #[arg(long, value_name = "FILE", env = "TEAMLAMP_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A proxy in front, by address or network (10.0.0.0/8): whom it asks for is believed; may be repeated.
    #[arg(long, value_name = "NETWORK", env = "TEAMLAMP_TRUSTED_PROXIES", value_delimiter = ',')]
    pub(crate) trusted_proxies: Vec<String>,
    /// The origin of a web page elsewhere that may call the server from a browser; may be repeated.
    #[arg(long, value_name = "ORIGIN", env = "TEAMLAMP_CORS_ORIGINS", value_delimiter = ',')]
    pub(crate) cors_origins: Vec<String>,
    /// How many connections may be open [default: 20000].
    #[arg(long, value_name = "NUMBER", env = "TEAMLAMP_CONNECTIONS")]
    pub(crate) connections: Option<usize>,
    /// How many of them from one address other than this computer's [default: 1000].
    #[arg(long, value_name = "NUMBER", env = "TEAMLAMP_CONNECTIONS_PER_ADDRESS")]
    pub(crate) connections_per_address: Option<usize>,
    /// How the log on standard error is written; TEAMLAMP_LOG says what is logged [default: text].
    #[arg(long, value_name = "FORMAT", env = "TEAMLAMP_LOG_FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// A TOML file with the settings above under the same names (tls_cert, trusted_proxies, …), and
    /// metrics_token, which is no argument since it is a secret (or TEAMLAMP_METRICS_TOKEN).
    #[arg(long, value_name = "FILE", env = "TEAMLAMP_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// On an empty data folder: make this team, its owner (--as), and enroll this machine in it.
    #[arg(long, value_name = "NAME", requires = "person")]
    pub(crate) init_team: Option<String>,
    /// The owner of the team that --init-team makes.
    #[arg(long = "as", value_name = "PERSON", requires = "init_team")]
    pub(crate) person: Option<String>,
    /// What this machine is called in that team (default: the computer's name).
    #[arg(long, value_name = "NAME", requires = "init_team")]
    pub(crate) machine: Option<String>,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Where a server's data lies.
#[derive(Debug, clap::Args)]
pub(crate) struct Data {
    /// The server's data folder (default: `server` in this install's home).
    #[arg(long, value_name = "DIR", env = "TEAMLAMP_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// The server's TOML file, which may name the folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Server {
    /// Copy the database and its keys into one file, whether the server runs or not. The file is a secret.
    Backup {
        /// The new file; its folder must be there.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Overwrite a file that is there.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        at: Data,
    },
    /// Put a backup in place, while no server runs. Clients begin again with a snapshot.
    Restore {
        /// The backup.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Replace the data that is there; it is kept aside in the same folder.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        at: Data,
    },
    /// What is stored: sizes, rows, teams, and what maintenance has left to do.
    Stats {
        #[command(flatten)]
        at: Data,
    },
    /// Run maintenance to its end and look for damage, while no server runs.
    Maintain {
        /// Only look for damage; also beside a server that runs.
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        at: Data,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Join {
    /// The invitation: a link, a code, or - to read either from standard input.
    #[arg(value_name = "LINK or CODE or -")]
    pub(crate) invitation: Option<String>,
    /// The server's address, which a code needs beside it.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) server: Option<String>,
    /// Look for servers on the local network; the code is needed beside it. With several, --server says
    /// which: its name, id or address.
    #[arg(long)]
    pub(crate) nearby: bool,
    /// Your name in the team (default: asked for, or your name on this computer).
    #[arg(long = "as", value_name = "PERSON")]
    pub(crate) person: Option<String>,
    /// What this machine is called in the team (default: the computer's name).
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
    /// The name of the team that an owner's code makes.
    #[arg(long, value_name = "NAME")]
    pub(crate) team: Option<String>,
    /// Join without asking.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sessions {
    /// Only those that wait for a person.
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Also those that no longer run.
    #[arg(long, conflicts_with = "waiting")]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Events {
    #[command(subcommand)]
    pub(crate) command: Option<EventsCommand>,
    /// Go on as things happen, across drops and restarts.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Go on after this cursor (of a frame) rather than from a snapshot.
    #[arg(long, value_name = "CURSOR", requires = "follow", conflicts_with = "since")]
    pub(crate) after: Option<String>,
    /// Only these kinds, `session.turn,custom.cli.*` for instance.
    #[arg(long, value_name = "a,b")]
    pub(crate) kinds: Option<String>,
    /// Only what is about this machine (its name or id) and its sessions.
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// How far back: 30m, 2h, 7d [default: 1d].
    #[arg(long, value_name = "TIME", value_parser = crate::words::duration)]
    pub(crate) since: Option<i64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    #[command(about = "Publish an event of your own: custom.cli.<name>")]
    Publish(Publish),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Publish {
    /// The kind: custom.cli.deploy, or deploy for short.
    pub(crate) kind: String,
    /// More of it, a JSON object; - reads it from standard input.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) data: String,
    #[arg(long, value_name = "KIND:ID", help = "What it is about [default: custom:<the kind>]")]
    pub(crate) resource: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArg {
    /// Reads only; their machine is not enrolled.
    Viewer,
    /// Enrolls machines and publishes.
    Member,
    /// Manages members, invitations and machines.
    Admin,
    /// Also makes and removes owners.
    Owner,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Viewer => Self::Viewer,
            RoleArg::Member => Self::Member,
            RoleArg::Admin => Self::Admin,
            RoleArg::Owner => Self::Owner,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Invite {
    /// What who accepts will be.
    #[arg(long, value_enum, default_value = "member")]
    pub(crate) role: RoleArg,
    /// How long the invitation holds: 1m to 7d [default: 1d].
    #[arg(long, value_name = "TIME", value_parser = crate::words::duration)]
    pub(crate) expires: Option<i64>,
    /// How many may use it, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) max_uses: i64,
    /// A word for the list of invitations.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Also draw the link as a QR code.
    #[arg(long)]
    pub(crate) qr: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Invitations {
    #[command(subcommand)]
    pub(crate) command: Option<InvitationsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InvitationsCommand {
    /// Take an invitation back.
    Revoke {
        /// Its id, as the list shows it.
        invitation: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Members {
    #[command(subcommand)]
    pub(crate) command: Option<MembersCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MembersCommand {
    /// Give a member another role.
    Role {
        /// Their name or id.
        member: String,
        /// What they may do from now on.
        #[arg(value_enum)]
        role: RoleArg,
    },
    /// End what a member may do; their machines are revoked.
    Deactivate {
        /// Their name or id.
        member: String,
        /// Do it without asking.
        #[arg(long)]
        yes: bool,
    },
    /// Let a deactivated member in again; their machines enroll anew.
    Reactivate {
        /// Their name or id.
        member: String,
    },
    /// Remove a member; their machines are revoked.
    Remove {
        /// Their name or id.
        member: String,
        /// Do it without asking.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Note {
    /// The machine's name or id.
    pub(crate) machine: String,
    /// What to say, up to 2,000 characters; - reads it from standard input.
    pub(crate) text: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    /// For how long: 30m, 1h, at most ten years [default: until resumed].
    #[arg(long = "for", value_name = "TIME", value_parser = crate::words::pause)]
    pub(crate) time: Option<i64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Leave {
    /// Leave without asking.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Generate {
    /// What to write.
    #[arg(value_enum)]
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum What {
    Bash,
    Elvish,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Zsh,
    Man,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_agree_with_themselves_and_each_command_explains_itself() {
        let mut command = Args::command();
        command.clone().debug_assert();
        assert!(command.render_long_help().to_string().contains("Exit status"));
        for sub in command.get_subcommands() {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            for arg in sub.get_arguments() {
                assert!(arg.get_help().is_some(), "{} {}", sub.get_name(), arg.get_id());
            }
        }
    }

    #[test]
    fn wrong_usage_is_told_before_anything_is_done() {
        for bad in [
            "teamlamp",
            "teamlamp sing",
            "teamlamp events --after c",
            "teamlamp events --since soon",
            "teamlamp events --follow --after c --since 1d",
            "teamlamp pause --for 4000d",
            "teamlamp serve --init-team Acme",
            "teamlamp serve --as Ada",
            "teamlamp serve --listen nowhere",
            "teamlamp invite --role king",
            "teamlamp sessions --all --waiting",
        ] {
            let fault = Args::try_parse_from(bad.split(' ')).unwrap_err();
            assert_eq!(fault.exit_code(), 2, "{bad}");
        }
        let publish = "teamlamp events publish deploy --data {} --json";
        assert!(Args::try_parse_from(publish.split(' ')).unwrap().json);
    }
}
