//! How many connections there may be: in all, links included, and from one address.

use crate::world::World;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Opens a connection and asks; the answer's first bytes, or none where it was closed.
async fn ask(address: SocketAddr) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(address).await.ok()?;
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut first = [0; 12];
    socket.read_exact(&mut first).await.ok()?;
    assert_eq!(&first, b"HTTP/1.1 200");
    Some(socket)
}

#[tokio::test]
async fn an_open_link_takes_a_place() {
    let world = World::with(|config| config.connections = 2).await;
    let owner = world.owner().await;
    let laptop = world.enroll(&owner, "laptop").await;
    let address = world.server.local_addr().unwrap();
    let mut link = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /v1/teams/{}/machines/{}/link HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        owner.team, laptop.id, laptop.token
    );
    link.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    link.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 101");
    // The earlier requests' connections may still be on their way out.
    let mut held = None;
    while held.is_none() {
        held = ask(address).await;
    }
    assert!(ask(address).await.is_none(), "two places: the link has one of them");
}

/// An address of this computer that is not its loopback, where it has one.
fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}

#[tokio::test]
async fn one_address_has_a_bound_unless_it_is_a_trusted_proxys() {
    let Some(ip) = own_address() else {
        eprintln!("not tried: this computer has no address besides its loopback");
        return;
    };
    for trusted in [false, true] {
        let world = World::with(|config| {
            config.listen = Some(SocketAddr::new(ip, 0));
            config.origin = Some("http://127.0.0.1:8720".into());
            config.connections_per_address = 2;
            config.trusted_proxies = if trusted { vec![ip.into()] } else { Vec::new() };
        })
        .await;
        let address = world.server.local_addr().unwrap();
        let held = [ask(address).await, ask(address).await, ask(address).await];
        assert!(held[0].is_some() && held[1].is_some());
        assert_eq!(held[2].is_some(), trusted);
    }
}
