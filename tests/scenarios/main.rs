//! What people see: the real programs with homes of their own, over real sockets, databases and session
//! files. Nothing here reaches into the code; everything is said by the command line.

mod agent;
mod commands;
mod crash;
mod headless;
mod home;
mod keyring;
mod lan;
mod misuse;
mod restart;
mod story;
mod talk;
mod upkeep;
#[path = "../desktop/wait.rs"]
mod wait;
