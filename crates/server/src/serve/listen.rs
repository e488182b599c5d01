//! Where the server listens: one address, or all of IPv4 and IPv6 with one socket.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A socket that listens at `address`. All addresses of IPv6 are all of IPv4 too; where the system has no
/// IPv6, only those.
///
/// # Errors
/// What the system says.
pub(crate) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !matches!(address.ip(), IpAddr::V6(ip) if ip.is_unspecified()) {
        return TcpListener::bind(address).await;
    }
    match of_both(address) {
        Err(fault) if fault.kind() != io::ErrorKind::AddrInUse => {
            tracing::debug!(%fault, "no IPv6 here: listening on IPv4 alone");
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()))).await
        }
        listener => listener,
    }
}

fn of_both(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_only_v6(false)?;
    // As the standard library does: a restart must not wait for the sockets of the last run.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_addresses_are_those_of_ipv4_too_and_a_taken_port_is_said() {
        let listener = listen("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let taken = listen(SocketAddr::from(([0u16; 8], port))).await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }
}
