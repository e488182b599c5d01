//! Upkeep: one job that removes what is over, a bounded batch of each kind a run. A step costs what it removes
//! and never the size of the store; one that fails is logged, and the others still run (spec 08). What deletes
//! comes before what inserts, so that a full disk can mend itself.

use crate::app::App;
use crate::error::ApiError;
use crate::folder::{DATABASE, Held, HoldFault};
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::presence::reconcile::reconcile;
use crate::store::{OpenError, Run, Store, Tx, backfill, copy, upkeep};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use teamlamp_clock::{Clock, Moment, Tasks};
use teamlamp_wire::Millis;
use teamlamp_wire::id::TeamId;

/// Between runs, and while work is left.
const EVERY: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(3);
/// After this a run takes no new work.
const BUDGET: Duration = Duration::from_millis(250);
/// How often SQLite is let look whether its statistics are still true.
const OPTIMIZE: Duration = Duration::from_secs(24 * 3600);

type OfServer = fn(&Tx<'_>) -> Result<bool, ApiError>;
type OfTeam = fn(&Tx<'_>, &TeamId) -> Result<bool, ApiError>;
/// The teams for which a step has something to do.
type Teams = fn(&rusqlite::Connection, Millis) -> Result<Vec<TeamId>, ApiError>;

/// What is done for the whole server, and by what it is asked whether there is anything to do: the writer is
/// left alone where there is not.
const OF_SERVER: &[(&str, OfServer, &str)] = &[
    ("idempotency", upkeep::idempotency, upkeep::IDEMPOTENCY_DUE),
    ("credentials", upkeep::credentials, upkeep::CREDENTIALS_DUE),
    ("expired_invitations", upkeep::expired_invitations, upkeep::EXPIRED_INVITATIONS_DUE),
    ("ended_invitations", upkeep::ended_invitations, upkeep::ENDED_INVITATIONS_DUE),
    ("notes", upkeep::old_notes, upkeep::NOTES_DUE),
    ("audit", upkeep::audit, upkeep::AUDIT_DUE),
];

/// What is kept for each team.
const OF_TEAM: &[(&str, OfTeam, Teams)] = &[
    ("events", upkeep::events, upkeep::teams_with_old_events),
    ("presence_events", upkeep::presence_events, upkeep::teams_with_old_transitions),
];

/// What a run works on: the parts of a server that runs, or of a database that none holds.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    store: &'a Store,
    clock: &'a Clock,
    metrics: &'a Metrics,
    /// Only a server that runs knows who is there.
    app: Option<&'a App>,
}

impl<'a> From<&'a App> for Site<'a> {
    fn from(app: &'a App) -> Self {
        Self { store: &app.store, clock: &app.clock, metrics: &app.metrics, app: Some(app) }
    }
}

/// One step of a run.
#[derive(Clone, Debug)]
enum Work {
    OfServer(OfServer),
    OfTeam(OfTeam, TeamId),
    Reconcile,
    Backfill,
    Damage,
    Checkpoint,
    Optimize,
}

#[derive(Clone, Debug)]
struct Step {
    name: &'static str,
    work: Work,
}

impl Step {
    fn team(&self) -> Option<&TeamId> {
        match &self.work {
            Work::OfTeam(_, team) => Some(team),
            _ => None,
        }
    }

    /// Does one bounded piece; whether more is left.
    async fn run(self, site: Site<'_>, until: Moment) -> Result<bool, ApiError> {
        let store = site.store;
        match self.work {
            Work::OfServer(step) => store.write(step).await,
            Work::OfTeam(step, team) => store.write(move |tx| step(tx, &team)).await,
            Work::Reconcile => match site.app {
                Some(app) => reconcile(app).await.map(|()| false),
                None => Ok(false),
            },
            Work::Backfill => {
                // With the time that is left, and at least one batch.
                while store.write(backfill::step).await? {
                    if site.clock.monotonic() >= until {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            // What is damaged is no work that a run could finish.
            Work::Damage => store.look_for_damage().await.map(|_| false),
            Work::Checkpoint => store.checkpoint().await.map(|()| false),
            Work::Optimize => store.write(upkeep::optimize).await.map(|()| false),
        }
    }
}

/// What one run found of a step.
#[derive(Debug, Default)]
struct Found {
    took: Duration,
    backlog: bool,
    failed: bool,
}

/// The job, which remembers where a run had to stop.
#[derive(Debug, Default)]
pub struct Upkeep {
    /// The step, and its team, with which the next run begins.
    next: Option<(&'static str, Option<TeamId>)>,
    optimized: Option<Moment>,
}

/// Runs the job for as long as the server does. The first run is at its start: before the grace of links ends.
pub async fn watch(app: App) {
    let mut upkeep = Upkeep::default();
    loop {
        let backlog = upkeep.run(&app).await;
        app.clock.sleep(if backlog { SOON } else { EVERY }).await;
    }
}

impl Upkeep {
    /// One run; whether work is left.
    pub async fn run<'a>(&mut self, site: impl Into<Site<'a>>) -> bool {
        let site = site.into();
        let began = site.clock.monotonic();
        site.metrics.maintenance_runs.add(1);
        let mut steps = self.steps(site).await;
        let place = self.next.take().map_or(0, |(name, team)| place_of(&steps, name, team.as_ref()));
        // Begins where the last run had to stop, so that no step starves behind the others.
        steps.rotate_left(place);
        let mut found: BTreeMap<&'static str, Found> = BTreeMap::new();
        let mut backlog = false;
        // A step that has nothing to do was looked at too.
        let looked = OF_SERVER.iter().map(|(name, ..)| *name).chain(OF_TEAM.iter().map(|(name, ..)| *name));
        for name in looked.chain(["backfill"]).filter(|name| !steps.iter().any(|step| step.name == *name)) {
            found.entry(name).or_default();
        }
        // What it learned is kept at the server's end too, so a start needs none.
        self.optimized.get_or_insert(began);
        for step in steps {
            let begun = site.clock.monotonic();
            if begun.duration_since(began) >= BUDGET {
                self.next = Some((step.name, step.team().cloned()));
                backlog = true;
                break;
            }
            let name = step.name;
            if matches!(step.work, Work::Optimize) {
                self.optimized = Some(begun);
            }
            let of = found.entry(name).or_default();
            match step.run(site, began + BUDGET).await {
                Ok(more) => of.backlog |= more,
                Err(fault) => {
                    of.failed = true;
                    tracing::warn!(step = name, %fault, "a step of maintenance failed");
                }
            }
            of.took += begun.elapsed();
        }
        for (name, of) in found {
            backlog |= of.backlog;
            site.metrics.step(name, (!of.failed).then_some(of.backlog), of.took);
        }
        backlog
    }

    /// What there is to do, in order: deletes, then what may insert, then the database's own upkeep.
    async fn steps(&self, site: Site<'_>) -> Vec<Step> {
        let now = site.clock.now_ms();
        let asked = site.store.read(move |db| {
            let all = OF_SERVER.iter().map(|(.., due)| *due).chain([upkeep::BACKFILL_DUE]);
            // What can't be asked is tried, so that its fault is that step's own.
            Ok(all.map(|due| upkeep::is_due(db, due, now).unwrap_or(true)).collect::<Vec<bool>>())
        });
        let due = asked.await.unwrap_or_else(|fault| {
            tracing::warn!(%fault, "maintenance could not look for what is due");
            vec![true; OF_SERVER.len() + 1]
        });
        let of_server = OF_SERVER.iter().zip(&due).filter(|(_, due)| **due);
        let mut steps: Vec<Step> =
            of_server.map(|((name, step, _), _)| Step { name, work: Work::OfServer(*step) }).collect();
        for (name, step, teams) in OF_TEAM {
            match site.store.read(move |db| teams(db, now)).await {
                Ok(teams) => {
                    steps
                        .extend(teams.into_iter().map(|team| Step { name, work: Work::OfTeam(*step, team) }));
                }
                Err(fault) => tracing::warn!(step = name, %fault, "maintenance could not read the teams"),
            }
        }
        let mut then = |name, work| steps.push(Step { name, work });
        then("presence", Work::Reconcile);
        if due.last() == Some(&true) {
            then("backfill", Work::Backfill);
        }
        then("damage", Work::Damage);
        then("checkpoint", Work::Checkpoint);
        if self.optimized.is_some_and(|at| at.elapsed() >= OPTIMIZE) {
            then("optimize", Work::Optimize);
        }
        steps
    }
}

fn place_of(steps: &[Step], name: &str, team: Option<&TeamId>) -> usize {
    let is_there = |step: &Step| step.name == name && step.team() >= team;
    steps.iter().position(is_there).or_else(|| steps.iter().position(|step| step.name == name)).unwrap_or(0)
}

/// Why a database that no server holds can't be kept up.
#[derive(Debug, thiserror::Error)]
pub enum KeepFault {
    /// A server runs on it.
    #[error(
        "a server is running with the data in {}: it keeps its data up by itself; stop it first, or look for damage beside it with --check",
        .0.display()
    )]
    Running(std::path::PathBuf),
    /// The folder can't be used.
    #[error(transparent)]
    Folder(HoldFault),
    /// The database can't be used.
    #[error(transparent)]
    Database(#[from] OpenError),
}

/// What [`keep_up`] did.
#[derive(Debug)]
pub struct Kept {
    /// How many runs it took.
    pub runs: usize,
    /// Steps that failed, with their names.
    pub failed: Vec<&'static str>,
    /// What the integrity check found; empty where the database is sound.
    pub complaints: Vec<String>,
}

/// Runs maintenance to its end on a data folder that no server holds, then looks for damage.
///
/// # Errors
/// A server runs there; a folder or database that can't be used.
pub async fn keep_up(data: &Path, clock: &Clock) -> Result<Kept, KeepFault> {
    let held = Held::take(data).map_err(|fault| match fault {
        HoldFault::InUse => KeepFault::Running(data.to_owned()),
        fault => KeepFault::Folder(fault),
    })?;
    let database = held.path().join(DATABASE);
    let (tasks, metrics) = (Tasks::new(), Metrics::default());
    let store = Store::open(&database, Run::Blocking, clock.clone(), Hub::default(), &tasks)?;
    let site = Site { store: &store, clock, metrics: &metrics, app: None };
    let (mut upkeep, mut runs) = (Upkeep::default(), 1);
    while upkeep.run(site).await {
        runs += 1;
    }
    drop(store);
    tasks.shutdown(crate::serve::GRACE).await;
    let steps = metrics.steps();
    let failed = steps.iter().filter(|(_, count)| count.failures > 0).map(|(name, _)| *name).collect();
    let fault =
        |cause: rusqlite::Error| OpenError::Damaged { path: database.clone(), cause: cause.to_string() };
    copy::tidy(&database).map_err(fault)?;
    Ok(Kept { runs, failed, complaints: copy::complaints(&database).map_err(fault)? })
}
