//! The server's life: everything that must hold before it answers, and its orderly end.

use crate::access::hosts::Hosts;
use crate::access::origins::Origins;
use crate::announce::announce;
use crate::app::{App, Parts};
use crate::config::{Config, Encryption};
use crate::dispatch::Peer;
use crate::folder::{DATABASE, Held, HoldFault, network_file_system};
use crate::forever::forever;
use crate::hub::Hub;
use crate::invitations::first_owner;
use crate::keys::Keys;
use crate::reach::{self, default_origin};
use crate::serve;
use crate::store::{OpenError, Store, meta};
use crate::tls::{Tls, TlsFault};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use teamlamp_clock::{Chance, Tasks};
use teamlamp_wire::id::ServerId;
use teamlamp_wire::invitation::{JoinLink, check_origin};
use teamlamp_wire::nearby::host_name;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

/// Why a server does not start. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder can't be made or written.
    #[error("the data folder {path} can't be written ({cause}): name another, or mend its permissions")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// Another server has the same data.
    #[error("another server is running with the data in {path}: stop that one, or name another folder")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A restore was cut off between the old files and the new ones.
    #[error(
        "a restore into {path} was cut off: run `teamlamp server restore --force` again, with the same file and data folder"
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
    },
    /// The file with the server's keys can't be used.
    #[error(
        "the server's keys in {path} can't be read or written ({cause}): restore that file from a backup, or remove it (open invitations and stream positions are lost then)"
    )]
    Keys {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: std::io::Error,
    },
    /// The database can't be used.
    #[error(transparent)]
    Database(#[from] OpenError),
    /// Another program listens there.
    #[error("the address {address} is in use by another program: stop that one, or choose another port")]
    PortInUse {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// It can't listen there.
    #[error("the server can't listen at {address} ({cause}): choose an address of this computer")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system says.
        cause: std::io::Error,
    },
    /// Links with this origin would be refused by everyone.
    #[error("the server's origin {origin} can't stand in links: {why} Set `origin`, or listen elsewhere")]
    Origin {
        /// The origin.
        origin: String,
        /// Why, in a sentence.
        why: String,
    },
    /// Connections can't be encrypted as asked.
    #[error("the server can't encrypt: {0}")]
    Tls(#[from] TlsFault),
    /// A setting means nothing.
    #[error("{0}")]
    Setting(String),
    /// What belongs to a first start could not be written.
    #[error(
        "the server's first entries could not be written ({0}): make room in its data folder, and start it again"
    )]
    First(String),
}

/// A running server. [`Server::shutdown`] ends it in order; dropping it ends it too, without waiting.
#[derive(Debug)]
pub struct Server {
    app: App,
    writer: Tasks,
    address: Option<SocketAddr>,
    _folder: Held,
}

impl Server {
    /// Starts a server: once this returns, all of it is on disk and answering.
    ///
    /// # Errors
    /// A folder, port or database that can't be used.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let folder = Held::take(&config.data).map_err(|fault| match fault {
            HoldFault::InUse => StartError::InUse { path: config.data.clone() },
            HoldFault::Unwritable(cause) => StartError::Folder { path: config.data.clone(), cause },
            HoldFault::Unfinished => StartError::Unfinished { path: config.data.clone() },
        })?;
        if let Some(kind) = network_file_system(folder.path()) {
            tracing::warn!(
                kind,
                data = %folder.path().display(),
                "the data folder is on a network file system, where a database may be locked or damaged: \
                 move it to a disk of this computer"
            );
        }
        let keys = Keys::open(folder.path(), &config.chance)
            .map_err(|cause| StartError::Keys { path: folder.path().join(crate::keys::FILE), cause })?;
        // Listening comes before the database: a port in use must not cost a migration.
        let listener = listen(&config).await?;
        let address = listener.as_ref().and_then(|l| l.local_addr().ok());
        let encrypted = config.encryption != Encryption::Plain;
        let origin = config.origin.clone().unwrap_or_else(|| default_origin(address, encrypted, config.lan));
        let origin = check_origin(&origin).map_err(|why| StartError::Origin { origin, why })?;
        let origins = Origins::new(&origin, &config.cors_origins).map_err(StartError::Setting)?;
        let tls = Tls::open(&config, folder.path(), reach::names(&origin, &config.hosts))?;
        let (writer, hub) = (Tasks::new(), Hub::default());
        let path = folder.path().join(DATABASE);
        let store = Store::open(&path, config.run, config.clock.clone(), hub.clone(), &writer)?;
        let identity = Identity::establish(&store, &config.chance, keys.mark().to_owned()).await?;
        let app = App::new(Parts {
            hosts: Hosts::new(&origin, &hosts(&config, &identity.server_id)),
            origins,
            fingerprint: tls.as_ref().and_then(|tls| tls.fingerprint.clone()),
            tls,
            clock: config.clock.clone(),
            chance: config.chance.clone(),
            store,
            followed: crate::sessions::followed::Followed::new(hub.clone()),
            hub,
            keys,
            server_id: identity.server_id,
            history_id: identity.history_id,
            origin,
            tasks: Tasks::new(),
            limits: crate::access::rate_limit::Limits::default(),
            known: crate::access::auth::Known::default(),
            flights: crate::access::idempotency::Flights::default(),
            metrics: crate::metrics::Metrics::default(),
            ready: crate::health::Ready::default(),
            streams: crate::events::places::Places::default(),
            tails: crate::events::tail::Tails::default(),
            trust: crate::presence::trust::Trust::new(&config.clock),
            connections: serve::Connections::default(),
            clients: serve::Connections::default(),
            config,
        });
        first_owner::prepare(&app).await.map_err(|fault| StartError::First(fault.to_string()))?;
        keep(&app, "clock watch", crate::presence::trust::watch);
        keep(&app, "presence timer", crate::presence::watch);
        keep(&app, "attention timer", crate::sessions::attention::watch);
        keep(&app, "maintenance", crate::maintenance::watch);
        if let Some(tls) = app.tls.clone() {
            app.tasks.spawn("certificate", tls.watch(app.clock.clone()));
        }
        if let Some(address) = address.filter(|_| app.config.announce) {
            app.tasks.spawn_to_end("announcement", announce(app.clone(), address.port()));
        }
        if let Some(listener) = listener {
            app.tasks.spawn_to_end("listener", serve::accept(app.clone(), listener));
        }
        Ok(Self { app, writer, address, _folder: folder })
    }

    /// The origin that links name.
    pub fn origin(&self) -> &str {
        &self.app.origin
    }

    /// The fingerprint of the server's own key, which links name and clients pin; `None` where it encrypts
    /// with its owner's certificate, or not at all.
    pub fn fingerprint(&self) -> Option<&str> {
        self.app.fingerprint.as_deref()
    }

    /// The server's id.
    pub fn server_id(&self) -> &ServerId {
        &self.app.server_id
    }

    /// The link with the owner's code, while the server has no team: for who starts the first one.
    pub fn owner_link(&self) -> Option<JoinLink> {
        first_owner::link(&self.app)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The server's parts, for a host in the same process.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Serves one connection that came by another way than the listener: the simulation's network.
    pub fn serve_io<IO>(&self, io: IO, peer: IpAddr)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        serve::start(&self.app, io, Peer { remote: peer, local: None });
    }

    /// Ends the server: nothing new is accepted, streams end cleanly, what runs is finished within 10 s,
    /// and the database is closed.
    pub async fn shutdown(self) {
        self.app.tasks.shutdown(serve::GRACE + Duration::from_secs(1)).await;
        self.writer.shutdown(serve::GRACE).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.app.tasks.token().cancel();
        self.writer.token().cancel();
    }
}

/// Runs a task of the server's for as long as it lives.
fn keep<F>(app: &App, name: &'static str, work: fn(App) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (own, clock) = (app.clone(), app.clock.clone());
    app.tasks.spawn(name, forever(name, clock, move || work(own.clone())));
}

async fn listen(config: &Config) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = config.listen else { return Ok(None) };
    serve::raise_file_limit();
    match serve::listen(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(cause) if cause.kind() == std::io::ErrorKind::AddrInUse => Err(StartError::PortInUse { address }),
        Err(cause) => Err(StartError::Listen { address, cause }),
    }
}

/// The host names that are answered to besides those that the server knows of itself.
fn hosts(config: &Config, server: &ServerId) -> Vec<String> {
    let announced = config.announce.then(|| host_name(server));
    config.hosts.iter().cloned().chain(announced).collect()
}

/// Who the server is, as its database says.
struct Identity {
    server_id: ServerId,
    history_id: String,
}

impl Identity {
    /// Reads it, or makes it on a first start. A database that carries another folder's mark was copied
    /// here by hand: its history may have lost its end, so cursors of the old one must not fit it.
    async fn establish(store: &Store, chance: &Chance, mark: String) -> Result<Self, StartError> {
        let (bits, fresh) = (chance.bits(), format!("{:032x}", chance.bits()));
        let established = store.write(move |tx| {
            let server_id = match meta::get(tx, "server_id")? {
                Some(id) => ServerId(id),
                None => {
                    let id = ServerId::new(tx.now_ms, bits);
                    meta::set(tx, "server_id", id.as_str())?;
                    id
                }
            };
            let kept = meta::get(tx, "mark")?;
            let same_folder = kept.as_ref().is_some_and(|kept| *kept == mark);
            if kept.is_some() && !same_folder {
                tracing::warn!("this database was copied here: its readers begin again with a snapshot");
            }
            let history_id = match meta::get(tx, "history_id")?.filter(|_| same_folder) {
                Some(id) => id,
                None => {
                    meta::set(tx, "history_id", &fresh)?;
                    meta::set(tx, "mark", &mark)?;
                    fresh
                }
            };
            Ok(Self { server_id, history_id })
        });
        established.await.map_err(|fault| StartError::First(fault.to_string()))
    }
}
