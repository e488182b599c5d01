//! The loop of one context: stays signed in, reports, and reads. Three futures of one task, which share
//! the sign-in and the journal; facts go to the board, events to the hub.

mod beats;
mod flush;
mod reading;
mod reporting;
mod sign_in;

use crate::board::Board;
use crate::contexts::Context;
use crate::install::Install;
use crate::journal::Journal;
use crate::sessions::Found;
use crate::state::{Channel, Facts};
use crate::stream::Hub;
use reporting::Reporter;
use sign_in::SignIn;
use std::sync::{Arc, Mutex, PoisonError};
use teamlamp_client::Client;
use teamlamp_wire::local::Pause;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What moves every context's loop. Each number rises.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Every wait is skipped: a person wants it, or the computer woke up.
    pub(crate) nudge: watch::Sender<u64>,
    /// A person wants it: also what was refused is tried again.
    pub(crate) person: watch::Sender<u64>,
    /// The computer woke up: also what seems to live is dialled again.
    pub(crate) redial: watch::Sender<u64>,
    /// The person's pause.
    pub(crate) pause: watch::Sender<Option<Pause>>,
}

impl Signals {
    pub(crate) fn new(pause: Option<Pause>) -> Self {
        let number = || watch::Sender::new(0);
        Self { nudge: number(), person: number(), redial: number(), pause: watch::Sender::new(pause) }
    }

    /// A person wants everything tried now.
    pub(crate) fn by_person(&self) {
        self.person.send_modify(|n| *n += 1);
        self.nudge.send_modify(|n| *n += 1);
    }

    /// The computer woke up, or its clock was set.
    pub(crate) fn woke(&self) {
        self.redial.send_modify(|n| *n += 1);
        self.nudge.send_modify(|n| *n += 1);
    }
}

/// One context's loop and what it shares.
#[derive(Debug)]
pub(crate) struct Team {
    id: String,
    install: Install,
    context: Mutex<Context>,
    board: Arc<Board>,
    hub: Arc<Hub>,
    journal: Journal,
    sessions: watch::Receiver<Arc<Found>>,
    signals: Arc<Signals>,
    sign_in: SignIn,
    reporter: Reporter,
    /// Rises where one of the three connections works after it had failed.
    recovered: watch::Sender<u64>,
    quit: CancellationToken,
}

/// What a loop is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) install: Install,
    pub(crate) context: Context,
    pub(crate) board: Arc<Board>,
    pub(crate) journal: Journal,
    pub(crate) sessions: watch::Receiver<Arc<Found>>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) incarnation: String,
    /// Asks the loop to leave its team in order, and to end.
    pub(crate) quit: CancellationToken,
}

impl Team {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { install, context, board, journal, sessions, signals, incarnation, quit } = parts;
        board.show(&context);
        // Before anything is found: nothing of a pause is kept, also over a restart.
        journal.pause(signals.pause.borrow().is_some());
        Self {
            id: context.id.clone(),
            hub: Arc::new(Hub::new(install.clock.clone())),
            context: Mutex::new(context),
            sign_in: SignIn::default(),
            reporter: Reporter::new(incarnation),
            recovered: watch::Sender::new(0),
            quit,
            install,
            board,
            journal,
            sessions,
            signals,
        }
    }

    /// Runs until it is asked to leave, and has left.
    pub(crate) async fn run(self: Arc<Self>) {
        tokio::select! {
            biased;
            ((), (), ()) = async { tokio::join!(self.stay_signed_in(), self.record(), self.read()) } => {}
            () = self.report() => {}
        }
    }

    /// Its kept frames.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Its context as it is now.
    pub(crate) fn context(&self) -> Context {
        self.context.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The client that it is signed in with now.
    pub(crate) fn client(&self) -> Option<Client> {
        self.sign_in.now()
    }

    fn set_context(&self, context: Context) {
        self.board.show(&context);
        *self.context.lock().unwrap_or_else(PoisonError::into_inner) = context;
    }

    fn change(&self, change: impl FnOnce(&mut Facts)) {
        self.board.change(&self.id, change);
    }

    /// One of the three connections works. Where it had failed, what stood between this machine and its
    /// server is gone, so the other two wait no longer either.
    fn works(&self, channel: impl Fn(&mut Facts) -> &mut Channel, also: impl FnOnce(&mut Facts)) {
        let mut recovered = false;
        self.change(|facts| {
            let before = std::mem::replace(channel(facts), Channel::Up);
            recovered = matches!(before, Channel::Down { .. });
            also(facts);
        });
        if recovered {
            self.recovered.send_modify(|n| *n += 1);
        }
    }

    fn now(&self) -> teamlamp_wire::Millis {
        self.install.clock.now_ms()
    }

    /// Keeps the journal up with what the watchers find.
    async fn record(&self) {
        let mut sessions = self.sessions.clone();
        loop {
            let found = sessions.borrow_and_update().clone();
            self.journal.found(&found);
            if sessions.changed().await.is_err() {
                // Nobody watches any more: what was found last stays.
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
