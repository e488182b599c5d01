//! Teamlamp on the desktop: a lamp in the tray, its menu, a window when it is needed, notifications. This
//! shell owns those alone; all else it asks of the connector and server libraries.

#![cfg_attr(windows, windows_subsystem = "windows")]

mod arguments;
mod attention;
mod commands;
mod desktop;
mod failure;
mod launch;
mod local_server;
mod model;
mod notifications;
mod parts;
mod platform;
mod qr;
mod react;
mod shell;
mod teams;
mod tray;
mod updates;
mod windows;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    launch::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
