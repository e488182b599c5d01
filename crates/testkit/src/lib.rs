//! The simulated world of Teamlamp: the real server, connectors and readers in one thread, on a network,
//! a clock and randomness that follow from one seed. Nothing here models the programs; what is simulated
//! is what lies around them.
//!
//! | module | what |
//! | --- | --- |
//! | [`network`], [`transport`] | hosts, connections and what goes wrong on the way; HTTP over it |
//! | [`server`], [`machine`] | the one server; a machine with its connector, and what befalls them |
//! | [`agents`], [`keyring`] | what runs and what is kept on a machine |
//! | [`person`], [`reader`] | who speaks to the server; who reads its streams, and what they saw |
//! | [`plan`], [`ledger`] | what a seed decides; what was asked for and acknowledged |
//! | [`world`] | all of it together: storms and calms |
//! | [`record`] | the transcript, the broken rules, the secrets that may appear nowhere |

pub mod agents;
pub mod keyring;
pub mod ledger;
pub mod machine;
pub mod network;
pub mod person;
pub mod plan;
pub mod reader;
pub mod record;
pub mod server;
pub mod transport;
pub mod world;
