//! The connector of one machine: what `teamlamp connect` and the desktop app run.

pub mod sessions;
