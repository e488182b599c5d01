//! The settings of `teamlamp serve`: flags, the environment and a TOML file have the same names, in this
//! order of strength, and what is wrong is said before anything starts.

use crate::args::Serve;
use crate::fail::Fail;
use crate::setup;
use secrecy::SecretString;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use teamlamp_connector::names::suggested;
use teamlamp_server::access::proxies;
use teamlamp_server::config::{Config, Encryption, PORT};
use teamlamp_wire::invitation::check_origin;

/// The data folder in the home.
const DATA: &str = "server";
/// The shortest token of metrics: what is shorter can be guessed.
const TOKEN_CHARS: usize = 16;
/// The most connections that can be asked for.
const CONNECTIONS_MAX: usize = 1_000_000;

/// What the TOML file may say.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    data: Option<PathBuf>,
    listen: Option<SocketAddr>,
    #[serde(default)]
    lan: bool,
    name: Option<String>,
    origin: Option<String>,
    #[serde(default)]
    hosts: Vec<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    #[serde(default)]
    trusted_proxies: Vec<String>,
    #[serde(default)]
    cors_origins: Vec<String>,
    metrics_token: Option<String>,
    connections: Option<usize>,
    connections_per_address: Option<usize>,
}

/// Where the server's data lies: as flag or environment say, else the file, else the home.
pub(crate) fn data_folder(data: Option<&Path>, config: Option<&Path>) -> Result<PathBuf, Fail> {
    let of_file = config.map(read).transpose()?.and_then(|file| file.data);
    folder(data.map(Path::to_owned).or(of_file))
}

fn folder(named: Option<PathBuf>) -> Result<PathBuf, Fail> {
    match named {
        Some(data) => Ok(data),
        None => Ok(setup::home()?.path(DATA)),
    }
}

/// What flags, environment, file and defaults say, in this order. `token` is the environment's.
pub(super) fn config(args: &Serve, token: Option<String>) -> Result<Config, Fail> {
    let file = match &args.config {
        Some(path) => read(path)?,
        None => File::default(),
    };
    let data = folder(args.data.clone().or(file.data))?;
    let listen = args.listen.or(file.listen);
    let mut config = Config::new(data, listen.unwrap_or_else(|| ([127, 0, 0, 1], PORT).into()));
    let name = args.name.clone().or(file.name).unwrap_or_else(|| suggested().machine);
    config.name =
        teamlamp_wire::name::clean(&name).map_err(|f| Fail::usage(f.sentence("The server's name")))?;
    let origin = args.origin.clone().or(file.origin);
    config.origin = origin.map(|origin| check_origin(&origin)).transpose().map_err(Fail::usage)?;
    config.hosts = stronger(&args.hosts, file.hosts);
    config.encryption =
        encryption(args.tls_cert.clone().or(file.tls_cert), args.tls_key.clone().or(file.tls_key))?;
    let proxies = stronger(&args.trusted_proxies, file.trusted_proxies);
    config.trusted_proxies =
        proxies.iter().map(|text| proxies::network(text)).collect::<Result<_, _>>().map_err(Fail::usage)?;
    config.cors_origins = stronger(&args.cors_origins, file.cors_origins);
    config.metrics_token = token.or(file.metrics_token).map(secret).transpose()?;
    let all = args.connections.or(file.connections);
    let each = args.connections_per_address.or(file.connections_per_address);
    config.connections = number("connections", all, config.connections)?;
    config.connections_per_address =
        number("connections_per_address", each, config.connections_per_address.min(config.connections))?;
    if config.connections_per_address > config.connections {
        return Err(Fail::usage("`connections_per_address` is more than all `connections`: lower it."));
    }
    if args.lan || file.lan {
        config = config.open_to_lan(PORT, &suggested().machine);
        config.listen = listen.or(config.listen);
    }
    reachable(&config)?;
    Ok(config)
}

/// Where a server listens must fit how it encrypts.
fn reachable(config: &Config) -> Result<(), Fail> {
    let Some(listen) = config.listen else { return Ok(()) };
    let here_only = listen.ip().to_canonical().is_loopback();
    if config.lan && here_only {
        return Err(Fail::usage(format!(
            "--lan is for other computers, and {} is this one alone: leave `listen` out, or name another address.",
            listen.ip()
        )));
    }
    let plain = config.encryption == Encryption::Plain;
    if plain && !here_only && config.trusted_proxies.is_empty() {
        return Err(Fail::usage(format!(
            "At {} sign-ins would travel in plain http, for anyone on the way to read: encrypt with --lan or a certificate (`tls_cert`, `tls_key`), or name the proxy that does in `trusted_proxies`.",
            listen.ip()
        )));
    }
    let encrypts_itself = config.trusted_proxies.is_empty();
    let fits = |origin: &String| plain || origin.starts_with("https://") || !encrypts_itself;
    if !config.origin.as_ref().is_none_or(fits) {
        return Err(Fail::usage("This server encrypts, so its `origin` begins with https://."));
    }
    Ok(())
}

fn encryption(certificate: Option<PathBuf>, key: Option<PathBuf>) -> Result<Encryption, Fail> {
    match (certificate, key) {
        (None, None) => Ok(Encryption::Plain),
        (Some(certificate), Some(key)) => Ok(Encryption::Files { certificate, key }),
        (Some(_), None) => Err(Fail::usage("A certificate needs its key beside it: name it with `tls_key`.")),
        (None, Some(_)) => {
            Err(Fail::usage("A key needs its certificate beside it: name it with `tls_cert`."))
        }
    }
}

/// A list of flags and environment replaces that of the file.
fn stronger(given: &[String], file: Vec<String>) -> Vec<String> {
    if given.is_empty() { file } else { given.to_vec() }
}

fn secret(token: String) -> Result<SecretString, Fail> {
    let fine = token.len() >= TOKEN_CHARS && token.bytes().all(|b| b.is_ascii_graphic());
    fine.then(|| SecretString::from(token)).ok_or_else(|| {
        Fail::usage(format!(
            "`metrics_token` is too easily guessed: give at least {TOKEN_CHARS} letters, digits or signs, without spaces."
        ))
    })
}

fn number(name: &str, asked: Option<usize>, default: usize) -> Result<usize, Fail> {
    let number = asked.unwrap_or(default);
    (1..=CONNECTIONS_MAX)
        .contains(&number)
        .then_some(number)
        .ok_or_else(|| Fail::usage(format!("`{name}` must be from 1 to {CONNECTIONS_MAX}.")))
}

fn read(path: &Path) -> Result<File, Fail> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|fault| Fail::usage(format!("The settings in {shown} can't be read ({fault}).")))?;
    toml::from_str(&text)
        .map_err(|fault| Fail::usage(format!("The settings in {shown} are wrong: {}.", fault.message())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;
    use secrecy::ExposeSecret;

    fn args(line: &str) -> Serve {
        let args = Args::try_parse_from(line.split(' ').filter(|w| !w.is_empty())).unwrap();
        let Command::Serve(serve) = args.command else { panic!("{args:?}") };
        *serve
    }

    fn config(line: &str) -> Result<Config, Fail> {
        super::config(&args(&format!("teamlamp serve --data /d {line}")), None)
    }

    #[track_caller]
    fn refused(line: &str, words: &str) {
        let fail = config(line).unwrap_err();
        let (status, sentence) = fail.parts();
        assert!(status == 2 && sentence.contains(words), "{line}: {fail:?}");
    }

    #[test]
    fn a_flag_is_stronger_than_the_file_and_the_file_than_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("teamlamp.toml");
        std::fs::write(
            &file,
            "data = \"/srv/tl\"\nlisten = \"127.0.0.1:1\"\nhosts = [\"a.example\"]\nlan = false\n\
             tls_cert = \"/c\"\ntls_key = \"/k\"\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]\n\
             cors_origins = [\"https://app.example\"]\nmetrics_token = \"0123456789abcdef\"\n\
             connections = 50\nconnections_per_address = 5\n",
        )
        .unwrap();
        let line = format!("--listen 127.0.0.1:2 --config {}", file.display());
        let read = super::config(&args(&format!("teamlamp serve {line}")), None).unwrap();
        assert_eq!(read.data, Path::new("/srv/tl"));
        assert_eq!(read.listen.unwrap().to_string(), "127.0.0.1:2");
        assert_eq!(
            (&read.hosts[..], &read.cors_origins[..]),
            (&["a.example".into()][..], &["https://app.example".into()][..])
        );
        let pair = Encryption::Files { certificate: "/c".into(), key: "/k".into() };
        assert_eq!((read.encryption, read.lan, read.announce), (pair, false, false));
        assert_eq!(read.trusted_proxies.len(), 2);
        assert_eq!((read.connections, read.connections_per_address), (50, 5));
        assert_eq!(read.metrics_token.as_ref().unwrap().expose_secret(), "0123456789abcdef");
        let line =
            format!("{line} --cors-origins https://x.example,https://y.example --hosts b,c --connections 7");
        let read =
            super::config(&args(&format!("teamlamp serve {line}")), Some("from-the-environment".into()));
        let read = read.unwrap();
        assert_eq!((read.cors_origins.len(), read.hosts.len(), read.connections), (2, 2, 7));
        assert_eq!(read.metrics_token.unwrap().expose_secret(), "from-the-environment");

        let read = config("--name Office").unwrap();
        assert_eq!(read.listen.unwrap().to_string(), "127.0.0.1:8720");
        assert_eq!((read.name.as_str(), read.origin, read.encryption), ("Office", None, Encryption::Plain));
    }

    #[test]
    fn the_example_names_every_setting() {
        let example = include_str!("../../../../packaging/teamlamp.toml");
        let shown =
            |line: &'static str| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line);
        let all: Vec<&str> = example.lines().map(shown).collect();
        let file: File = toml::from_str(&all.join("\n")).unwrap();
        let set = [
            file.data.is_some(),
            file.listen.is_some(),
            file.lan,
            file.name.is_some(),
            file.origin.is_some(),
        ];
        let files = [file.tls_cert.is_some(), file.tls_key.is_some(), file.metrics_token.is_some()];
        let lists = [&file.hosts, &file.trusted_proxies, &file.cors_origins].map(|list| !list.is_empty());
        let bounds = [file.connections.is_some(), file.connections_per_address.is_some()];
        assert!([&set[..], &files, &lists, &bounds].concat().iter().all(|it| *it), "{all:?}");
    }

    #[test]
    fn for_the_local_network_it_listens_everywhere_and_encrypts() {
        let read = config("--lan").unwrap();
        assert_eq!(read.listen.unwrap().to_string(), "[::]:8720");
        assert_eq!((read.encryption, read.lan, read.announce), (Encryption::OwnKey, true, true));
        let read = config("--lan --listen 10.0.0.4:99 --tls-cert /c --tls-key /k").unwrap();
        assert_eq!(read.listen.unwrap().to_string(), "10.0.0.4:99");
        assert!(matches!(read.encryption, Encryption::Files { .. }));
        refused("--lan --listen 127.0.0.1:8720", "this one alone");
        refused("--lan --origin http://10.0.0.4:8720", "https://");
    }

    #[test]
    fn nobody_listens_in_clear_to_others_by_mistake() {
        refused("--listen 0.0.0.0:8720", "plain http");
        refused("--listen 10.0.0.4:8720", "trusted_proxies");
        config("--listen 0.0.0.0:8720 --trusted-proxies 10.0.0.1").unwrap();
        config("--listen [::1]:8720").unwrap();
    }

    #[test]
    fn wrong_settings_say_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("teamlamp.toml");
        let line = format!("--config {}", file.display());
        refused(&line, "can't be read");
        for (text, words) in [
            ("colour = 1", "colour"),
            ("metrics_token = \"short\"", "metrics_token"),
            ("trusted_proxies = [\"proxy\"]", "trusted_proxies"),
            ("connections = 0", "connections"),
            ("connections = 10\nconnections_per_address = 11", "connections_per_address"),
            ("tls_cert = \"/c\"", "tls_key"),
            ("tls_key = \"/k\"", "tls_cert"),
        ] {
            std::fs::write(&file, text).unwrap();
            refused(&line, words);
        }
        refused("--origin http://example.com", "https");
        let secret = super::config(&args("teamlamp serve --data /d"), Some("a secret one too short".into()));
        assert!(!secret.unwrap_err().parts().1.contains("secret one"), "no secret in a sentence");
        assert!(Args::try_parse_from(["teamlamp", "serve", "--metrics-token", "x"]).is_err());
    }
}
