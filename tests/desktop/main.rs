//! The real app as its person meets it: under a screen of its own (Xvfb), a real session bus, a real
//! keyring daemon and a recorder in place of panel and notification service, driven through WebDriver.
//! `scripts/desktop-test` builds what is needed and runs it; each test brings its own computers.

mod agent;
mod bus;
mod computer;
mod keyring;
mod lifecycle;
mod links;
mod memory;
mod panel;
mod processes;
mod story;
mod trouble;
mod wait;
mod window;
