//! A world: one server, its team, machines and readers, in one thread, from one seed. Storms, in which
//! people work while things break, alternate with calms, in which everything heals and is compared.

mod calm;
mod compare;
mod fault;
mod work;

use crate::ledger::Ledger;
use crate::machine::Machine;
use crate::network::{Network, Weather};
use crate::person::{Person, Visitor};
use crate::plan::Plan;
use crate::reader::{How, Reader, Truth};
use crate::record::Record;
use crate::server::{ORIGIN, SERVER, SimServer};
use fault::Ending;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use teamlamp_clock::{Chance, Clock, Moment, Tasks, ms};
use teamlamp_wire::Millis;
use teamlamp_wire::account::Role;
use teamlamp_wire::id::TeamId;
use teamlamp_wire::invitation::{CreateInvitation, JoinLink};
use teamlamp_wire::window::{JoinAccept, JoinFrom};
use tempfile::TempDir;

/// When every world begins: a day of 2026, so that times look like times.
const BEGIN_MS: Millis = 1_790_000_000_000;
/// Between two things that happen in a storm, at most.
const BETWEEN_MS: u64 = 12_000;
/// A storm lasts from here to here.
const STORM_MS: (u64, u64) = (120_000, 600_000);
/// What people do ends within this time once everything works again.
const PEOPLE_MS: i64 = 180_000;

/// How a world went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rules that were broken; none in a good world.
    pub faults: Vec<String>,
    /// Everything that happened, by virtual time.
    pub transcript: String,
    /// The longest that a calm took until everything was as it must be.
    pub settled_ms: i64,
    /// Events that the team's history holds in the end.
    pub events: usize,
}

/// A world in the making.
#[derive(Debug)]
pub struct World {
    clock: Clock,
    chance: Chance,
    record: Record,
    network: Network,
    plan: Plan,
    folder: TempDir,
    server: SimServer,
    owner: Person,
    team: TeamId,
    machines: Vec<Machine>,
    readers: Vec<Reader>,
    people: Tasks,
    ledger: Arc<Mutex<Ledger>>,
    truth: Truth,
    /// What ends a fault, and when.
    endings: BTreeMap<(Moment, u64), Ending>,
    trapped: bool,
    count: u64,
    settled_ms: i64,
}

/// Runs the world of a seed for a time, on a runtime of its own; `with_log` puts the log into the
/// transcript. That something panics is a broken rule.
pub fn run(seed: u64, minutes: i64, with_log: bool) -> Outcome {
    std::panic::catch_unwind(|| run_once(seed, minutes, with_log)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
        let faults = vec![format!("panicked: {said}")];
        Outcome { faults, transcript: String::new(), settled_ms: 0, events: 0 }
    })
}

fn run_once(seed: u64, minutes: i64, with_log: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime for one world");
    runtime.block_on(async {
        let clock = Clock::starting_at(BEGIN_MS);
        let record = Record::new(clock.clone(), with_log);
        let _log = tracing::subscriber::set_default(record.subscriber());
        let settled = match World::new(seed, clock, &record).await {
            Some(mut world) => {
                world.live(minutes).await;
                world.end().await;
                (world.settled_ms, world.truth.len())
            }
            None => (0, 0),
        };
        // What is left now is owned by nobody.
        tokio::task::yield_now().await;
        let left = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        record.expect(left == 0, || format!("{left} tasks outlive the world"));
        Outcome {
            faults: record.faults(),
            transcript: record.transcript(),
            settled_ms: settled.0,
            events: settled.1,
        }
    })
}

impl World {
    /// The beginning of a seed's world: the server runs, the team exists, its first machines and readers
    /// are there.
    async fn new(seed: u64, clock: Clock, record: &Record) -> Option<Self> {
        let chance = Chance::seeded(seed);
        let plan = Plan::new(&chance);
        record.note("world", format!("{plan:?}"));
        record.secret(crate::agents::TITLE);
        let folder = scratch();
        let network = Network::new(seed, clock.clone());
        let mut server = SimServer::new(&network, &clock, &chance, record, folder.path());
        server.start().await;
        let people = Tasks::new();
        let visitor = Visitor {
            network: network.clone(),
            clock: clock.clone(),
            chance: chance.fork(),
            record: record.clone(),
            process: people.clone(),
        };
        let link = std::fs::read_to_string(server.data().join("first-owner-link")).unwrap_or_default();
        let code = match JoinLink::parse(&link) {
            Ok(link) => link.code.to_string(),
            Err(fault) => {
                record.broken(format!("a new server leaves no owner's link: {fault}"));
                return None;
            }
        };
        let owner = visitor.join("owner", &code, Some("Acme")).await?;
        let team = owner.client.me().await.ok()?.memberships.first()?.team.id.clone();
        let mut world = Self {
            clock,
            chance,
            record: record.clone(),
            network,
            plan,
            folder,
            server,
            owner,
            team,
            machines: Vec::new(),
            readers: Vec::new(),
            people,
            ledger: Arc::default(),
            truth: Truth::new(),
            endings: BTreeMap::new(),
            trapped: false,
            count: 0,
            settled_ms: 0,
        };
        world.ledger().team_name.settle("Acme");
        for _ in 0..world.plan.machines {
            let code = world.invite(Role::Member).await?;
            let number = world.add_machine();
            world.machines[number].join(&code).await?;
            world.machines[number].start().await;
        }
        for _ in 0..world.plan.readers {
            world.add_reader().await?;
        }
        world.network.set_weather(world.plan.weather);
        Some(world)
    }

    /// The code of a new invitation, while everything works.
    async fn invite(&self, role: Role) -> Option<String> {
        let wish = CreateInvitation { role, expires_in_seconds: None, max_uses: None, note: None };
        match self.owner.client.invite(&self.team, &wish).await {
            Ok(made) => {
                let code = made.code?;
                self.record.secret(&code);
                Some(code)
            }
            Err(fault) => {
                self.record.broken(format!("the owner can't invite: {fault}"));
                None
            }
        }
    }

    /// A machine that is not in the team yet.
    fn add_machine(&mut self) -> usize {
        let number = self.machines.len() + 1;
        let skew_ms = i64::try_from(self.chance.below(20_000)).unwrap_or(0) - 10_000;
        let parts = (&self.network, &self.clock, &self.chance, &self.record);
        let (name, person) = (format!("machine-{number}"), format!("person-{number}"));
        self.machines.push(Machine::new(parts, self.folder.path(), &name, &person, skew_ms));
        number - 1
    }

    /// One more reader, who reads at once. Somebody without a machine: mostly a viewer.
    async fn add_reader(&mut self) -> Option<()> {
        let number = self.readers.len() + 1;
        let role = if number.is_multiple_of(3) { Role::Admin } else { Role::Viewer };
        let code = self.invite(role).await?;
        let visitor = Visitor {
            network: self.network.clone(),
            clock: self.clock.clone(),
            chance: self.chance.fork(),
            record: self.record.clone(),
            process: self.people.clone(),
        };
        let person = visitor.join(&format!("reader-{number}"), &code, None).await?;
        let how = [How::Follow, How::Presence, How::Raw][(number - 1) % 3];
        let reader = Reader::new((person, role == Role::Admin), how, &self.team, &self.clock, &self.record);
        reader.start(true);
        self.readers.push(reader);
        Some(())
    }

    async fn live(&mut self, minutes: i64) {
        let end = self.clock.monotonic() + ms(minutes * 60_000);
        while self.clock.monotonic() < end && self.is_good() {
            let lasts = STORM_MS.0 + self.chance.below(STORM_MS.1 - STORM_MS.0);
            let until = (self.clock.monotonic() + Duration::from_millis(lasts)).min(end);
            self.record.note("world", "a storm begins");
            self.storm(until).await;
            self.heal().await;
            self.calm().await;
        }
    }

    async fn storm(&mut self, until: Moment) {
        while self.clock.monotonic() < until && self.is_good() {
            let next = self.clock.monotonic() + Duration::from_millis(self.chance.below(BETWEEN_MS));
            loop {
                let first = self.endings.keys().next().map_or(next, |(at, _)| *at);
                let trapped = self.trapped;
                let sprung = tokio::select! {
                    biased;
                    () = self.network.sprung(SERVER), if trapped => true,
                    () = self.clock.sleep_until(first.min(next)) => false,
                };
                if sprung {
                    self.server_dies();
                }
                self.end_due(self.clock.monotonic()).await;
                if self.clock.monotonic() >= next {
                    break;
                }
            }
            self.welcome().await;
            self.happen().await;
        }
    }

    fn is_good(&self) -> bool {
        self.record.faults().is_empty()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything ends in order, and leaves no secret behind.
    async fn end(&mut self) {
        self.network.set_weather(Weather { latency_ms: 1, jitter_ms: 0 });
        for machine in &mut self.machines {
            machine.shutdown().await;
        }
        for reader in &self.readers {
            reader.stop();
        }
        self.server.shutdown().await;
        self.people.kill();
        self.record.search(self.folder.path());
        self.clock.sleep(ms(1_000)).await;
        let open = self.network.open_connections();
        self.record.expect(open == 0, || format!("{open} connections outlive their programs"));
    }
}

impl Machine {
    /// Its person joins with a code, however often the answer is lost.
    pub(crate) async fn join(&self, code: &str) -> Option<()> {
        let install = self.install();
        let joined = join(&install, &self.record, (&self.name, &self.person), code).await;
        self.record.expect(joined, || format!("{} can't join", self.name));
        joined.then_some(())
    }
}

/// Joins until it worked or was refused for good.
async fn join(
    install: &teamlamp_connector::Install,
    record: &Record,
    (machine, person): (&str, &str),
    code: &str,
) -> bool {
    let accept = JoinAccept {
        invitation: JoinFrom::Code { code: code.to_owned(), server: ORIGIN.to_owned() },
        person: person.to_owned(),
        machine: machine.to_owned(),
        team_name: None,
    };
    for _ in 0..100 {
        match install.join(accept.clone()).await {
            Ok(_) => {
                record.note(machine, "has joined");
                return true;
            }
            Err(fault) => {
                record.note(machine, format!("joins again: {fault}"));
                if !matches!(
                    fault.code().as_str(),
                    "unreachable" | "unavailable" | "rate_limited" | "conflict"
                ) {
                    return false;
                }
            }
        }
        install.clock.sleep(ms(3_000)).await;
    }
    record.broken(format!("{machine} could not join in a hundred tries"));
    false
}

/// A scratch folder, in memory where the system has such a place.
fn scratch() -> TempDir {
    let shm = std::path::Path::new("/dev/shm");
    let made = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    made.expect("a scratch folder")
}
