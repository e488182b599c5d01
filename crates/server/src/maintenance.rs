//! Upkeep: one job that removes what is over, a bounded batch of each kind a run. A step that fails is
//! logged, and the others still run (spec 08).

use crate::app::App;
use crate::error::ApiError;
use crate::store::{Tx, upkeep};
use std::time::Duration;
use teamlamp_wire::id::TeamId;

/// Between runs, and while work is left.
const EVERY: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(3);
/// After this a run takes no new work.
const BUDGET: Duration = Duration::from_millis(250);

type OfServer = fn(&Tx<'_>) -> Result<bool, ApiError>;
type OfTeam = fn(&Tx<'_>, &TeamId) -> Result<bool, ApiError>;

/// What is kept for the whole server.
const OF_SERVER: &[(&str, OfServer)] = &[
    ("idempotency", upkeep::idempotency),
    ("credentials", upkeep::credentials),
    ("expired invitations", upkeep::expired_invitations),
    ("ended invitations", upkeep::ended_invitations),
    ("notes", upkeep::old_notes),
    ("audit", upkeep::audit),
];

/// What is kept for each team.
const OF_TEAM: &[(&str, OfTeam)] =
    &[("events", upkeep::events), ("presence events", upkeep::presence_events)];

/// One step of a run.
#[derive(Clone, Debug)]
enum Step {
    OfServer(&'static str, OfServer),
    OfTeam(&'static str, OfTeam, TeamId),
}

impl Step {
    fn name(&self) -> &'static str {
        match self {
            Self::OfServer(name, _) | Self::OfTeam(name, ..) => name,
        }
    }

    async fn run(self, app: &App) -> Result<bool, ApiError> {
        app.store
            .write(move |tx| match self {
                Self::OfServer(_, step) => step(tx),
                Self::OfTeam(_, step, team) => step(tx, &team),
            })
            .await
    }
}

/// The job, which remembers where a run had to stop.
#[derive(Debug, Default)]
pub struct Upkeep {
    position: usize,
}

/// Runs the job for as long as the server does.
pub async fn watch(app: App) {
    let mut upkeep = Upkeep::default();
    loop {
        let backlog = upkeep.run(&app).await;
        app.clock.sleep(if backlog { SOON } else { EVERY }).await;
    }
}

impl Upkeep {
    /// One run; whether work is left.
    pub async fn run(&mut self, app: &App) -> bool {
        let teams = match app.store.read(upkeep::teams).await {
            Ok(teams) => teams,
            Err(fault) => {
                tracing::warn!(%fault, "maintenance could not read the teams");
                Vec::new()
            }
        };
        let mut steps: Vec<Step> = OF_SERVER.iter().map(|(name, step)| Step::OfServer(name, *step)).collect();
        for team in &teams {
            steps.extend(OF_TEAM.iter().map(|(name, step)| Step::OfTeam(name, *step, team.clone())));
        }
        let count = steps.len();
        // Begins where the last run had to stop, so that no step starves behind the others.
        steps.rotate_left(self.position % count);
        let began = app.clock.monotonic();
        let mut backlog = false;
        for (number, step) in steps.into_iter().enumerate() {
            if began.elapsed() >= BUDGET {
                self.position = (self.position + number) % count;
                return true;
            }
            let name = step.name();
            match step.run(app).await {
                Ok(more) => backlog |= more,
                Err(fault) => tracing::warn!(step = name, %fault, "a step of maintenance failed"),
            }
        }
        self.position = 0;
        backlog
    }
}
