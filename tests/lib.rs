//! The wider tests of Teamlamp: each folder is one test program.
//!
//! | folder | what it shows |
//! | --- | --- |
//! | `architecture` | which crate may use what, and the rules of style that a machine can check |
//! | `scenarios` | what two people see: real programs, sockets, databases and session files |
//! | `simulation` | the real server, connectors and readers in one thread, on a network and clock of a seed |
//! | `desktop` | the real app under a screen, with a real bus, keyring and tray |
//! | `ui` | the window's views in a browser, with a recorded store |
//! | `conformance` | other people's clients, proxies and checkers against the real server (`pytest`) |
