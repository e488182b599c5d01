//! How many connections there may be, in all and from one address, and behind a trusted proxy how many
//! requests of one client at once.

use crate::access::rate_limit::neighbourhood;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// What is open, by address. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    all: usize,
    from: BTreeMap<IpAddr, usize>,
}

/// One open connection; dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Connected {
    connections: Connections,
    address: IpAddr,
}

/// The places that a request takes: that of its connection, and behind a trusted proxy its client's.
/// What goes on after the request, as a link does, keeps a clone.
#[derive(Clone, Debug, Default)]
#[expect(dead_code, reason = "what is held here is given back when it is dropped")]
pub(crate) struct Place {
    pub(crate) connection: Option<Arc<Connected>>,
    pub(crate) client: Option<Arc<Connected>>,
}

impl Connections {
    /// Takes a place; `None` where all, or all of this address (IPv6: its /64), are taken. This computer's
    /// own address has no bound of its own: a proxy in front speaks from there.
    pub(crate) fn take(&self, address: IpAddr, most: usize, most_per_address: usize) -> Option<Connected> {
        let address = neighbourhood(address);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = open.from.get(&address).copied().unwrap_or(0);
        let crowded = !is_this_computer(address) && here >= most_per_address;
        if crowded || open.all >= most {
            return None;
        }
        open.from.insert(address, here + 1);
        open.all += 1;
        Some(Connected { connections: self.clone(), address })
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

/// Whether an address is this computer's own. `::1` has lost its last bits in its /64.
fn is_this_computer(address: IpAddr) -> bool {
    address.is_loopback() || address == neighbourhood(std::net::Ipv6Addr::LOCALHOST.into())
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut open = self.connections.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        if let Some(count) = open.from.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.from.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_bounded_in_all_and_by_address() {
        let connections = Connections::default();
        let far: IpAddr = [192, 0, 2, 1].into();
        let first = connections.take(far, 6, 2).unwrap();
        let _second = connections.take(far, 6, 2).unwrap();
        assert!(connections.take(far, 6, 2).is_none());
        let here = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let _others = here.map(|ip| connections.take(ip, 6, 1).unwrap());
        assert!(connections.take(here[0], 6, 1).is_none());
        drop(first);
        assert!(connections.take(far, 6, 2).is_some());
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let connections = Connections::default();
        let take = |ip: &str| connections.take(ip.parse().unwrap(), 10, 1);
        let _first = take("2001:db8::1").unwrap();
        assert!(take("2001:db8::2").is_none());
        assert!(take("2001:db8:0:1::2").is_some());
    }
}
