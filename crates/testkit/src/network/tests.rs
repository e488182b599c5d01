//! What two programs see of the simulated network.

use super::*;
use std::io::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct Pair {
    network: Network,
    clock: Clock,
    near: SimIo,
    far: SimIo,
    incoming: mpsc::Receiver<Incoming>,
}

async fn pair(seed: u64) -> Pair {
    let clock = Clock::starting_at(0);
    let network = Network::new(seed, clock.clone());
    network.set_weather(Weather { latency_ms: 20, jitter_ms: 30 });
    let mut incoming = network.listen("server");
    let near = network.dial("laptop", "server").await.unwrap();
    let far = incoming.recv().await.unwrap().io;
    Pair { network, clock, near, far, incoming }
}

async fn hears(io: &mut SimIo, clock: &Clock, within_ms: i64) -> Option<Result<String, ErrorKind>> {
    let mut buffer = [0; 4096];
    let read = clock.within(ms(within_ms), io.read(&mut buffer)).await?;
    Some(read.map(|n| String::from_utf8_lossy(&buffer[..n]).into_owned()).map_err(|e| e.kind()))
}

fn said(text: &str) -> Option<Result<String, ErrorKind>> {
    Some(Ok(text.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_in_order_after_a_while_and_an_end_after_them() {
    let Pair { clock, mut near, mut far, .. } = pair(1).await;
    near.write_all(b"one").await.unwrap();
    assert_eq!(hears(&mut far, &clock, 19).await, None, "nothing is faster than the latency");
    near.write_all(b"two").await.unwrap();
    drop(near);
    let mut all = String::new();
    far.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "onetwo");
    assert!(clock.now_ms() < 200);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_path_tells_nobody_and_may_forget_the_connection() {
    let (mut resumed, mut forgotten) = (0, 0);
    for seed in 0..40 {
        let Pair { network, clock, mut near, mut far, .. } = pair(seed).await;
        network.block("laptop", "server");
        near.write_all(b"held").await.unwrap();
        far.write_all(b"through").await.unwrap();
        assert_eq!(hears(&mut near, &clock, 100).await, said("through"), "the other way is open");
        assert_eq!(hears(&mut far, &clock, 60_000).await, None);
        network.unblock("laptop", "server");
        match hears(&mut far, &clock, 60_000).await {
            None => forgotten += 1,
            heard => {
                assert_eq!(heard, said("held"));
                resumed += 1;
            }
        }
    }
    assert!(resumed > 5 && forgotten > 5, "{resumed} resumed, {forgotten} forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_cut_breaks_both_ends_in_the_middle() {
    let Pair { network, clock, mut near, mut far, .. } = pair(7).await;
    near.write_all(&[b'x'; 1000]).await.unwrap();
    network.cut("server", "laptop");
    let mut got = Vec::new();
    assert_eq!(far.read_to_end(&mut got).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(got.len() < 1000, "{}", got.len());
    assert_eq!(hears(&mut near, &clock, 0).await, Some(Err(ErrorKind::ConnectionReset)));
    assert_eq!(near.write(b"more").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn peers_hear_of_a_process_that_ended_and_not_of_a_host_that_vanished() {
    let Pair { network, clock, near: _near, mut far, .. } = pair(1).await;
    network.process_ended("laptop");
    assert_eq!(hears(&mut far, &clock, 100).await, Some(Err(ErrorKind::ConnectionReset)));

    let Pair { network, clock, near: _near, mut far, .. } = pair(1).await;
    network.vanish("laptop");
    assert_eq!(hears(&mut far, &clock, 3_600_000).await, None);
}

#[tokio::test(start_paused = true)]
async fn who_writes_to_a_host_that_vanished_is_told_after_a_quarter_of_an_hour() {
    let Pair { network, clock, near: _near, mut far, .. } = pair(1).await;
    network.vanish("laptop");
    for _ in 0..60 {
        far.write_all(b": comment\n").await.unwrap();
        clock.sleep(ms(15_000)).await;
    }
    clock.sleep(ms(60_000)).await;
    assert_eq!(far.write(b": comment\n").await.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_dial_is_refused_where_nothing_listens_and_given_up_where_nothing_comes_back() {
    let Pair { network, clock, incoming, .. } = pair(1).await;
    assert_eq!(network.dial("laptop", "nowhere").await.unwrap_err(), DialFault::Refused);
    drop(incoming);
    assert_eq!(network.dial("laptop", "server").await.unwrap_err(), DialFault::Refused);
    let _incoming = network.listen("server");
    network.block("server", "laptop");
    let before = clock.now_ms();
    assert_eq!(network.dial("laptop", "server").await.unwrap_err(), DialFault::Timeout);
    assert_eq!(clock.now_ms() - before, 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_nobody_reads_waits() {
    let Pair { clock, mut near, mut far, .. } = pair(1).await;
    let big = vec![b'x'; 1 << 20];
    assert!(clock.within(ms(60_000), near.write_all(&big)).await.is_none());
    let mut got = vec![0; 1 << 16];
    far.read_exact(&mut got).await.unwrap();
    assert!(clock.within(ms(60_000), near.write(b"x")).await.is_some(), "room again");
}

#[tokio::test(start_paused = true)]
async fn a_trap_swallows_the_next_answer_and_all_after_it() {
    let Pair { network, clock, mut near, mut far, .. } = pair(1).await;
    network.set_trap("server");
    far.write_all(b": comment\n").await.unwrap();
    assert_eq!(hears(&mut near, &clock, 100).await, said(": comment\n"));
    far.write_all(b"HTTP/1.1 201 Created\r\n").await.unwrap();
    network.sprung("server").await;
    far.write_all(b"more").await.unwrap();
    assert_eq!(hears(&mut near, &clock, 60_000).await, None);
    network.process_ended("server");
    assert_eq!(hears(&mut near, &clock, 100).await, Some(Err(ErrorKind::ConnectionReset)));
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_are_equal_networks_whatever_else_happens() {
    async fn times(others: usize) -> Vec<i64> {
        let Pair { network, clock, mut near, mut far, incoming: _incoming } = pair(5).await;
        for _ in 0..others {
            let mut other = network.dial("desk", "server").await.unwrap();
            other.write_all(b"noise").await.unwrap();
        }
        let start = clock.now_ms();
        let mut times = Vec::new();
        for _ in 0..20 {
            near.write_all(b"x").await.unwrap();
            assert_eq!(hears(&mut far, &clock, 1_000).await, said("x"));
            times.push(clock.now_ms() - start);
        }
        times
    }
    assert_eq!(times(0).await, times(7).await);
}
