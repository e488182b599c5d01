//! How a server is set: one struct per concern, a doc for each field.

use crate::store::Run;
use ipnet::IpNet;
use secrecy::SecretString;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use teamlamp_clock::{Chance, Clock};

/// The port that a server listens at where nobody names one.
pub const PORT: u16 = 8720;

/// Whether and how connections are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// Plain HTTP: for this computer alone, or behind a proxy that encrypts.
    #[default]
    Plain,
    /// TLS with a key and certificate of the server's own, kept in its data folder. Clients pin the key.
    OwnKey,
    /// TLS with a certificate of the owner's; both files are read again when they change. Clients go by
    /// their platform's trust store.
    Files {
        /// The certificate and those that vouch for it, in PEM.
        certificate: PathBuf,
        /// Its private key, in PEM.
        key: PathBuf,
    },
}

/// Everything that a server is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data folder: database, keys, the first owner's link. Made with mode 0700 where it is missing.
    pub data: PathBuf,
    /// Where to listen; port 0 lets the system choose. `None`: no socket, connections come through
    /// [`crate::Server::serve_io`].
    pub listen: Option<SocketAddr>,
    /// The server's name for people; `None`: the computer's name is used by the host program.
    pub name: String,
    /// Whether connections are encrypted.
    pub encryption: Encryption,
    /// Whether it is there for the local network: links then name this computer's first private address,
    /// and capabilities say so. [`Config::open_to_lan`] sets all that belongs to it.
    pub lan: bool,
    /// Whether it says by multicast DNS on the local network that it is there.
    pub announce: bool,
    /// The origin in links; `None`: the listen address, or with `lan` this computer's first private one.
    pub origin: Option<String>,
    /// Host names that the server answers to besides its own addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The networks of proxies in front: what they say of whom they speak for is believed
    /// (`X-Forwarded-For`, `Forwarded`); of anyone else it is ignored.
    pub trusted_proxies: Vec<IpNet>,
    /// The origins of web pages elsewhere that may call this server from a browser
    /// ([`crate::access::origins::Origins::new`] checks them). Empty: none.
    pub cors_origins: Vec<String>,
    /// The token with which metrics are read from elsewhere than this computer; `None`: from nowhere else.
    pub metrics_token: Option<SecretString>,
    /// Whether owners of a team may make more teams here.
    pub owners_make_teams: bool,
    /// How many connections may be open.
    pub connections: usize,
    /// How many of them from one address other than this computer's own (IPv6: from one /64); behind a
    /// trusted proxy, how many requests at once from one client's.
    pub connections_per_address: usize,
    /// Time, for everything that the server decides.
    pub clock: Clock,
    /// Randomness, for ids, tokens and codes.
    pub chance: Chance,
    /// Where the store's transactions run.
    pub run: Run,
}

impl Config {
    /// A server on loopback with its data in `data`.
    pub fn new(data: impl Into<PathBuf>, listen: SocketAddr) -> Self {
        Self {
            data: data.into(),
            listen: Some(listen),
            name: "Teamlamp".into(),
            encryption: Encryption::Plain,
            lan: false,
            announce: false,
            origin: None,
            hosts: Vec::new(),
            trusted_proxies: Vec::new(),
            cors_origins: Vec::new(),
            metrics_token: None,
            owners_make_teams: true,
            connections: 20_000,
            connections_per_address: 1_000,
            clock: Clock::system(),
            chance: Chance::system(),
            run: Run::Blocking,
        }
    }
    /// Opens the server to the local network: it listens at `port` of every address, encrypts with its own
    /// key unless a certificate was named, answers to the computer's own name there (`computer`, such as
    /// `ada-laptop`), and says by multicast that it is there.
    #[must_use]
    pub fn open_to_lan(mut self, port: u16, computer: &str) -> Self {
        self.listen = Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        if self.encryption == Encryption::Plain {
            self.encryption = Encryption::OwnKey;
        }
        let computer = computer.to_ascii_lowercase();
        // What people call a computer need not be what the network does.
        if computer.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            self.hosts.extend([format!("{computer}.local"), computer]);
        }
        (self.lan, self.announce) = (true, true);
        self
    }
}
