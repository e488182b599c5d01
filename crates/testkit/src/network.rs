//! A network in memory: named hosts, connections between them as pairs of bounded byte pipes, and what
//! can go wrong on the way. It knows bytes and hosts, nothing of HTTP.
//!
//! Every delay follows from the network's seed, the two hosts and the number of the connection between
//! them, never from the order in which unrelated tasks run: so equal seeds give equal networks.

mod pipe;

pub use pipe::SimIo;

use pipe::{Pipe, Way};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use teamlamp_clock::{Chance, Clock, ms};
use tokio::sync::{Notify, mpsc};

/// How long a dial waits for an answer before it gives up.
const CONNECT: Duration = Duration::from_secs(10);
/// How often an unanswered dial is sent again.
const DIAL_AGAIN: Duration = Duration::from_secs(1);
/// Connections that wait to be accepted by one host; with more, dials are refused.
const BACKLOG: usize = 128;
/// Of a hundred connections over a path that was blocked, how many the path has forgotten meanwhile: their
/// bytes vanish from then on, and nobody is told.
const FORGOTTEN_PERCENT: u64 = 40;

/// How long bytes travel from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// At least this long.
    pub latency_ms: i64,
    /// And up to this much longer.
    pub jitter_ms: i64,
}

/// A connection that a host may accept.
#[derive(Debug)]
pub struct Incoming {
    /// The accepting side's end.
    pub io: SimIo,
    /// The address of who dialled.
    pub peer: IpAddr,
}

/// Why a dial did not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialFault {
    /// Nothing listens there.
    Refused,
    /// Nothing came back in time.
    Timeout,
}

/// The network. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Network {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
}

#[derive(Debug)]
struct Inner {
    seed: u64,
    weather: Weather,
    addresses: BTreeMap<String, IpAddr>,
    listeners: BTreeMap<String, mpsc::Sender<Incoming>>,
    blocked: BTreeSet<(String, String)>,
    traps: BTreeMap<String, Arc<Trap>>,
    counts: BTreeMap<(String, String), u64>,
    wires: Vec<Wire>,
}

/// A connection as the network sees it.
#[derive(Debug)]
struct Wire {
    hosts: (String, String),
    /// From the first host to the second, and back.
    pipes: (Weak<Pipe>, Weak<Pipe>),
}

/// What ends a host in the moment in which it answers.
#[derive(Debug, Default)]
pub(crate) struct Trap {
    state: Mutex<TrapState>,
    sprung: Notify,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum TrapState {
    #[default]
    Open,
    Set,
    Sprung,
}

impl Trap {
    /// Whether bytes of this host still leave it; an answer to a change springs a trap that is set.
    fn lets_through(&self, bytes: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == TrapState::Set
            && (bytes.starts_with(b"HTTP/1.1 200") || bytes.starts_with(b"HTTP/1.1 201"))
        {
            *state = TrapState::Sprung;
            self.sprung.notify_one();
        }
        *state != TrapState::Sprung
    }
}

impl Network {
    /// A network without hosts.
    pub fn new(seed: u64, clock: Clock) -> Self {
        let inner = Inner {
            seed,
            weather: Weather { latency_ms: 1, jitter_ms: 0 },
            addresses: BTreeMap::new(),
            listeners: BTreeMap::new(),
            blocked: BTreeSet::new(),
            traps: BTreeMap::new(),
            counts: BTreeMap::new(),
            wires: Vec::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)), clock }
    }

    /// Makes a host reachable; what it listened to before ends. Dropping the receiver refuses dials.
    pub fn listen(&self, host: &str) -> mpsc::Receiver<Incoming> {
        let (sender, incoming) = mpsc::channel(BACKLOG);
        let mut inner = self.lock();
        inner.address(host);
        inner.traps.remove(host);
        inner.listeners.insert(host.to_owned(), sender);
        incoming
    }

    /// Connects one host to another.
    ///
    /// # Errors
    /// Where nothing listens, or the path is blocked for longer than dialling may take.
    pub async fn dial(&self, from: &str, to: &str) -> Result<SimIo, DialFault> {
        let connecting = async {
            loop {
                if !self.is_blocked(from, to) && !self.is_blocked(to, from) {
                    return self.connect(from, to);
                }
                self.clock.sleep(DIAL_AGAIN).await;
            }
        };
        let (io, travels_ms) =
            self.clock.within(CONNECT, connecting).await.unwrap_or(Err(DialFault::Timeout))?;
        self.clock.sleep(ms(travels_ms)).await;
        Ok(io)
    }

    fn connect(&self, from: &str, to: &str) -> Result<(SimIo, i64), DialFault> {
        let mut inner = self.lock();
        let peer = inner.address(from);
        let count = inner.counts.entry((from.to_owned(), to.to_owned())).or_default();
        *count += 1;
        let number = *count;
        let chance = Chance::seeded(inner.seed ^ mixed(&[from, to], number));
        let listener = inner.listeners.get(to).cloned().ok_or(DialFault::Refused)?;
        let weather = inner.weather;
        let mut pipe = |from: &str, to: &str| {
            let way = Way { weather, chance: chance.fork(), trap: inner.trap(from) };
            Arc::new(Pipe::new(
                self.clock.clone(),
                way,
                inner.blocked.contains(&(from.to_owned(), to.to_owned())),
            ))
        };
        let (out, back) = (pipe(from, to), pipe(to, from));
        inner.wires.retain(Wire::is_open);
        inner.wires.push(Wire {
            hosts: (from.to_owned(), to.to_owned()),
            pipes: (Arc::downgrade(&out), Arc::downgrade(&back)),
        });
        drop(inner);
        let accepted = Incoming { io: SimIo::new(back.clone(), out.clone(), self.clock.clone()), peer };
        listener.try_send(accepted).map_err(|_| DialFault::Refused)?;
        Ok((SimIo::new(out, back, self.clock.clone()), 2 * weather.latency_ms))
    }

    /// How long bytes of connections made from now on travel.
    pub fn set_weather(&self, weather: Weather) {
        self.lock().weather = weather;
    }

    /// Holds back everything from one host to another: nobody is told, and what is sent waits.
    pub fn block(&self, from: &str, to: &str) {
        let mut inner = self.lock();
        inner.blocked.insert((from.to_owned(), to.to_owned()));
        inner.pipes(from, Some(to)).for_each(|pipe| pipe.hold());
    }

    /// Lets a blocked path go on: what waited arrives, but for the connections that the path forgot.
    pub fn unblock(&self, from: &str, to: &str) {
        let mut inner = self.lock();
        if inner.blocked.remove(&(from.to_owned(), to.to_owned())) {
            inner.pipes(from, Some(to)).for_each(|pipe| pipe.release(FORGOTTEN_PERCENT));
        }
    }

    /// Whether bytes from one host to another are held back.
    pub fn is_blocked(&self, from: &str, to: &str) -> bool {
        self.lock().blocked.contains(&(from.to_owned(), to.to_owned()))
    }

    /// Breaks every connection between two hosts in the middle of what is on its way; both are told.
    pub fn cut(&self, one: &str, other: &str) {
        let inner = self.lock();
        inner.pipes(one, Some(other)).chain(inner.pipes(other, Some(one))).for_each(|pipe| pipe.cut());
    }

    /// The process of a host ended: its peers are told as soon as the way to them is open.
    pub fn process_ended(&self, host: &str) {
        let mut inner = self.lock();
        inner.listeners.remove(host);
        inner.pipes(host, None).for_each(|pipe| pipe.reset());
        inner.pipes_to(host).for_each(|pipe| pipe.abandon());
    }

    /// The host lost its power or its way out: its connections are half open, and nobody is told.
    pub fn vanish(&self, host: &str) {
        let mut inner = self.lock();
        inner.listeners.remove(host);
        inner.pipes(host, None).for_each(|pipe| pipe.lose());
        inner.pipes_to(host).for_each(|pipe| pipe.lose());
    }

    /// Sets a trap: the next answer to a request that this host would send is swallowed, and everything
    /// after it. [`Network::sprung`] tells.
    pub fn set_trap(&self, host: &str) {
        *self.lock().trap(host).state.lock().unwrap_or_else(PoisonError::into_inner) = TrapState::Set;
    }

    /// Takes a trap away that was not sprung.
    pub fn unset_trap(&self, host: &str) {
        let trap = self.lock().trap(host);
        let mut state = trap.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == TrapState::Set {
            *state = TrapState::Open;
        }
    }

    /// Waits until the trap of a host is sprung.
    pub async fn sprung(&self, host: &str) {
        let trap = self.lock().trap(host);
        trap.sprung.notified().await;
    }

    /// Open connections, for the bound on them.
    pub fn open_connections(&self) -> usize {
        let mut inner = self.lock();
        inner.wires.retain(Wire::is_open);
        inner.wires.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn address(&mut self, host: &str) -> IpAddr {
        let next = u8::try_from(self.addresses.len() + 1).unwrap_or(u8::MAX);
        *self.addresses.entry(host.to_owned()).or_insert(IpAddr::V4(Ipv4Addr::new(10, 0, 0, next)))
    }

    fn trap(&mut self, host: &str) -> Arc<Trap> {
        self.traps.entry(host.to_owned()).or_default().clone()
    }

    /// The pipes that lead away from a host, to one other or to all.
    fn pipes<'a>(&'a self, from: &'a str, to: Option<&'a str>) -> impl Iterator<Item = Arc<Pipe>> + 'a {
        self.wires.iter().flat_map(move |wire| {
            let (a, b) = (wire.hosts.0.as_str(), wire.hosts.1.as_str());
            let there = (a == from && to.is_none_or(|to| to == b)).then(|| wire.pipes.0.upgrade()).flatten();
            let back = (b == from && to.is_none_or(|to| to == a)).then(|| wire.pipes.1.upgrade()).flatten();
            there.into_iter().chain(back)
        })
    }

    fn pipes_to<'a>(&'a self, to: &'a str) -> impl Iterator<Item = Arc<Pipe>> + 'a {
        let others = self.addresses.keys().filter(move |host| *host != to);
        others.flat_map(move |from| self.pipes(from, Some(to)))
    }
}

impl Wire {
    fn is_open(&self) -> bool {
        self.pipes.0.strong_count() > 0 && self.pipes.1.strong_count() > 0
    }
}

/// A number that is the same in every process for the same words (FNV-1a).
fn mixed(words: &[&str], number: u64) -> u64 {
    let bytes = words.iter().flat_map(|w| w.bytes().chain([0])).chain(number.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
