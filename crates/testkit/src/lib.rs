//! The simulated world of Teamlamp: the real server, connectors and readers in one thread, on a network,
//! a clock and randomness that follow from one seed. Nothing here models the programs; what is simulated
//! is what lies around them.
//!
//! | module | what |
//! | --- | --- |
//! | [`network`] | hosts, connections, delays, partitions, cuts, half-open ends |
//! | [`transport`] | the client's transport over that network |

pub mod network;
pub mod transport;
