//! The set of running loops: made those of the saved contexts, one change at a time.

use super::{ActFault, Connector};
use crate::contexts::{Context, Contexts};
use crate::enrollment::JoinFault;
use crate::install::Install;
use crate::journal::Journal;
use crate::outbox::OutboxFault;
use crate::team::{Parts, Team};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use teamlamp_clock::Tasks;

/// How long all teams together may take to be left: 3 s with everything else (spec 06).
const LEAVING: Duration = Duration::from_millis(2_500);

/// One context's loop and its task.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) team: Arc<Team>,
    pub(super) tasks: Tasks,
}

impl Running {
    /// Leaves the team in order; what is stuck ends all the same.
    pub(super) async fn leave(&self) {
        if !self.tasks.shutdown(LEAVING).await.is_empty() {
            self.tasks.kill();
        }
    }
}

impl Connector {
    /// Makes the running loops those of the saved contexts.
    pub(super) async fn reload(&self) -> Result<(), ActFault> {
        let inner = &self.0;
        let _changing = inner.changing.lock().await;
        let running: Vec<_> = self.contexts();
        let saved = match Contexts::of(&inner.install.home).saved()? {
            Some(saved) => saved,
            None if running.is_empty() => inner.install.contexts()?.contexts,
            // A file that broke, or went, is no wish to leave: only a whole one without a team says that.
            None => return Err(ActFault::Unreadable(inner.install.home.path(crate::contexts::FILE))),
        };
        let known: BTreeSet<_> = saved.iter().map(|context| context.id.clone()).collect();
        let wanted: Vec<_> =
            saved.into_iter().filter(|c| inner.only.as_ref().is_none_or(|only| *only == c.id)).collect();
        for old in running.iter().filter(|old| !wanted.contains(old)) {
            self.stop(&old.id).await;
        }
        // Somebody may have left a team while its connector still wrote, or crashed while leaving.
        if let Err(fault) = inner.outbox.keep_only(&known) {
            tracing::warn!(%fault, "what waits for teams that were left is still in the outbox");
        }
        for shown in inner.board.status().contexts.iter().filter(|c| wanted.iter().all(|w| w.id != c.id)) {
            inner.board.remove(&shown.id);
        }
        for context in wanted.into_iter().filter(|context| !running.contains(context)) {
            self.run(context)?;
        }
        Ok(())
    }

    fn run(&self, context: Context) -> Result<(), OutboxFault> {
        let inner = &self.0;
        let install = inner.install.clone();
        let (clock, chance) = (install.clock.clone(), install.chance.fork());
        let journal =
            Journal::open(&context.id, inner.outbox.clone(), inner.hidden.clone(), clock, chance.clone())?;
        let id = context.id.clone();
        let tasks = inner.tasks.child();
        let team = Arc::new(Team::new(Parts {
            quit: tasks.token().clone(),
            install: Install { chance, ..install },
            context,
            board: inner.board.clone(),
            journal,
            sessions: inner.sessions.clone(),
            signals: inner.signals.clone(),
            incarnation: inner.incarnation.clone(),
        }));
        tasks.spawn_to_end("team", team.clone().run());
        self.teams().insert(id, Running { team, tasks });
        Ok(())
    }

    pub(super) async fn stop(&self, context: &str) {
        let running = self.teams().remove(context);
        if let Some(running) = running {
            running.leave().await;
        }
    }

    pub(super) async fn enroll_again(&self, id: &str, as_new: Option<String>) -> Result<(), ActFault> {
        let inner = &self.0;
        let unknown = || ActFault::Unknown(id.to_owned());
        let mut context = self.team(id).ok_or_else(unknown)?.context();
        let name = match (&as_new, &context.machine) {
            (Some(name), _) => teamlamp_wire::name::clean(name)
                .map_err(|fault| JoinFault::Name(fault.sentence("The machine's name")))?,
            (None, Some(machine)) => machine.name.clone(),
            (None, None) => return Err(unknown()),
        };
        let changing = inner.changing.lock().await;
        self.stop(id).await;
        let enrolled = inner.install.enroll(&mut context, &name, as_new.is_some()).await;
        if enrolled.is_ok() {
            Contexts::of(&inner.install.home).update(self.now(), |all| {
                all.iter_mut()
                    .filter(|other| other.id == context.id)
                    .for_each(|other| *other = context.clone());
            })?;
        }
        inner.board.remove(id);
        drop(changing);
        self.reload().await?;
        Ok(enrolled?)
    }
}
