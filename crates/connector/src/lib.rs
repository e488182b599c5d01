//! The connector of one machine: what `teamlamp connect` and the desktop app run. It reports this
//! machine to its teams, holds each team's one stream of events, and shows one value, `Status`.
//!
//! [`Install`] is what a home can do without a running connector: join, leave, speak to a team as its
//! person. [`Connector`] adds the loops, one for each context, and the local door. Everything of the
//! operating system comes in through [`Install`] and [`Config`], so that the simulation runs this code.
//!
//! | module | what |
//! | --- | --- |
//! | [`home`], [`settings`], [`contexts`] | what is kept in the home, without secrets |
//! | [`custody`] | the keyring, or the file that the person chose |
//! | [`claim`] | one connector per home |
//! | [`install`], [`enrollment`] | previewing, joining, enrolling, leaving |
//! | [`state`], `board` | facts, the state that follows, the one value shown |
//! | [`heartbeat`], [`privacy`] | pure: what a report says, when the next one is due, what stays here |
//! | `team` | the loop of one context: credential, reporting, reading |
//! | `link`, [`stream`] | the link, the one upstream stream and its readers |
//! | [`recorder`], [`outbox`] | what happened since the team last heard, and what of it waits while offline |
//! | `clock_watch` | sleep and jumps of the wall clock |
//! | `door` | the local socket |
//! | [`sessions`] | what the coding agents of this machine do |

mod board;
pub mod claim;
mod clock_watch;
mod config;
mod connector;
pub mod contexts;
pub mod custody;
mod door;
pub mod enrollment;
pub mod heartbeat;
pub mod home;
mod incarnations;
pub mod install;
mod journal;
mod link;
pub mod names;
pub mod nearby;
pub mod outbox;
pub mod privacy;
pub mod recorder;
#[cfg(test)]
mod scripted;
pub mod sessions;
pub mod settings;
pub mod state;
pub mod stream;
mod team;

pub use config::{Config, Server, Transports};
pub use connector::{ActFault, Action, Connector, StartFault};
pub use contexts::{Context, Contexts};
pub use custody::{Custody, Keyring, MemoryKeyring, Place};
pub use enrollment::{JoinFault, LeaveFault, Left};
pub use home::Home;
pub use install::Install;
pub use stream::{Events, Told, Unsupported};
