//! The wish to end: Ctrl-C, a terminal that closes, or what a service manager sends.

use crate::fail::Fail;
use tokio::signal;

/// Ends when the program is asked to; ready from the call on, so that an early signal is not lost.
pub(crate) fn asked() -> Result<impl Future<Output = ()>, Fail> {
    let fault = |fault| Fail::failed(format!("The system lets no signal be heard ({fault})."));
    #[cfg(unix)]
    let mut end = signal::unix::signal(signal::unix::SignalKind::terminate()).map_err(fault)?;
    #[cfg(unix)]
    let mut interrupt = signal::unix::signal(signal::unix::SignalKind::interrupt()).map_err(fault)?;
    // A terminal that is closed, a connection to a server that breaks off.
    #[cfg(unix)]
    let mut hangup = signal::unix::signal(signal::unix::SignalKind::hangup()).map_err(fault)?;
    #[cfg(windows)]
    let mut end = signal::windows::ctrl_shutdown().map_err(fault)?;
    #[cfg(windows)]
    let mut hangup = signal::windows::ctrl_close().map_err(fault)?;
    #[cfg(windows)]
    let mut logoff = signal::windows::ctrl_logoff().map_err(fault)?;
    #[cfg(windows)]
    let mut interrupt = signal::windows::ctrl_c().map_err(fault)?;
    Ok(async move {
        #[cfg(unix)]
        let logoff = std::future::pending::<()>();
        #[cfg(windows)]
        let logoff = logoff.recv();
        tokio::select! {
            biased;
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            _ = logoff => {}
        }
    })
}
