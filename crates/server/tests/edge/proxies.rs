//! Behind a proxy: whose requests they are, by whom that is believed, and what each may.

use crate::world::{World, logged};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn behind(proxies: &[&str]) -> World {
    let trusted = proxies.iter().map(|net| net.parse().unwrap()).collect();
    World::with(|config| (config.trusted_proxies, config.connections_per_address) = (trusted, 2)).await
}

async fn status(world: &World, from: &str, header: (&str, &str)) -> u16 {
    world.get("/v1/capabilities").from(from).header(header.0, header.1).send().await.status
}

#[tokio::test]
async fn each_client_behind_a_trusted_proxy_has_its_own_rate() {
    let world = behind(&["10.0.0.0/8"]).await;
    let mut refused = None;
    for number in 0..200 {
        if status(&world, "10.0.0.1", ("x-forwarded-for", "203.0.113.5")).await == 429 {
            refused = Some(number);
            break;
        }
    }
    assert!(refused.is_some_and(|number| number >= 60), "{refused:?}");
    // Another of its clients is not concerned, by either header, through whichever of the proxies.
    assert_eq!(status(&world, "10.0.0.1", ("x-forwarded-for", "203.0.113.6")).await, 200);
    assert_eq!(status(&world, "10.9.9.9", ("forwarded", "for=203.0.113.7;proto=https")).await, 200);
    // What a client writes before its own address changes nothing.
    assert_eq!(status(&world, "10.0.0.1", ("x-forwarded-for", "1.2.3.4, 203.0.113.5")).await, 429);
    assert_eq!(status(&world, "203.0.113.5", ("accept", "*/*")).await, 429, "it is the same without a proxy");
    assert!(logged().contains("address=203.0.113.7"));
}

#[tokio::test]
async fn who_is_no_proxy_invents_no_address() {
    let world = behind(&["10.0.0.0/8"]).await;
    let mut refused = false;
    for number in 0..200 {
        let invented = format!("203.0.113.{number}");
        refused |= status(&world, "192.0.2.9", ("x-forwarded-for", &invented)).await == 429;
    }
    assert!(refused);
}

/// A stream that a client holds open through the proxy; its status.
async fn hold(world: &World, token: &str, team: &str, client: &str) -> (TcpStream, String) {
    let mut socket = TcpStream::connect(world.server.local_addr().unwrap()).await.unwrap();
    let head = format!(
        "GET /v1/teams/{team}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         accept: text/event-stream\r\nx-forwarded-for: {client}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    socket.read_exact(&mut first).await.unwrap();
    (socket, String::from_utf8_lossy(&first[9..]).into_owned())
}

#[tokio::test]
async fn each_client_behind_a_trusted_proxy_has_its_own_bound_of_open_requests() {
    let world = behind(&["127.0.0.1/32"]).await;
    let owner = world.owner().await;
    let open = async |client: &str| hold(&world, &owner.token, &owner.team, client).await;
    let mut held = vec![open("203.0.113.5").await, open("203.0.113.5").await];
    assert!(held.iter().all(|(_, status)| status == "200"), "{held:?}");
    assert_eq!(open("203.0.113.5").await.1, "429");
    let other = open("203.0.113.6").await;
    assert_eq!(other.1, "200");
    // IPv6 goes by the network.
    let v6 = [open("2001:db8::1").await, open("2001:db8::2").await];
    assert!(v6.iter().all(|(_, status)| status == "200"));
    assert_eq!(open("2001:db8::3").await.1, "429");
    // A place comes back with the end of the stream.
    held.pop();
    for _ in 0..300 {
        if open("203.0.113.5").await.1 == "200" {
            return;
        }
        world.clock.sleep(Duration::from_millis(50)).await;
    }
    panic!("the place did not come back");
}
