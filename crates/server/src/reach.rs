//! How others reach this server: the origin in links, and the names and addresses behind it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The origin where none was set: the listen address; one that means every address is, on a server for the
/// local network, this computer's first private address, and else its own.
pub(crate) fn default_origin(address: Option<SocketAddr>, encrypted: bool, lan: bool) -> String {
    let scheme = if encrypted { "https" } else { "http" };
    let Some(mut address) = address else { return format!("{scheme}://127.0.0.1") };
    address.set_ip(address.ip().to_canonical());
    if address.ip().is_unspecified() {
        let mut near = if lan { addresses() } else { Vec::new() };
        // A socket of IPv6 takes both; one of IPv4 does not.
        near.retain(|ip| address.is_ipv6() || ip.is_ipv4());
        let near = first(&near);
        address.set_ip(near.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
    format!("{scheme}://{address}")
}

/// This computer's addresses on networks that are up, but for loopback and those of one link.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let interfaces = match if_addrs::get_if_addrs() {
        Ok(interfaces) => interfaces,
        Err(fault) => {
            tracing::warn!(%fault, "this computer's addresses can't be listed: set `origin`");
            return Vec::new();
        }
    };
    let up = interfaces.iter().filter(|interface| interface.is_oper_up() && !interface.is_loopback());
    up.map(if_addrs::Interface::ip).filter(|ip| !is_of_one_link(*ip)).collect()
}

/// The address that links name: the first private one, IPv4 before IPv6, since most networks route that;
/// without a private one, the first of all.
fn first(addresses: &[IpAddr]) -> Option<IpAddr> {
    let private_v4 = |ip: &&IpAddr| matches!(ip, IpAddr::V4(v4) if v4.is_private());
    let private_v6 = |ip: &&IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unique_local());
    let find = |which: &dyn Fn(&&IpAddr) -> bool| addresses.iter().find(which).copied();
    find(&private_v4).or_else(|| find(&private_v6)).or_else(|| addresses.first().copied())
}

/// Such an address means nothing without its interface, which no link can name.
fn is_of_one_link(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// What an own certificate is for: the origin's host, the names that are answered to, and this computer's
/// own. Clients that pin the key do not look at it; browsers do.
pub(crate) fn names(origin: &str, hosts: &[String]) -> Vec<String> {
    let own = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    let own = match own.strip_prefix('[') {
        Some(v6) => v6.split_once(']').map_or(own, |(ip, _)| ip),
        None => own.split(':').next().unwrap_or(own),
    };
    let loopback = [Ipv4Addr::LOCALHOST.to_string(), Ipv6Addr::LOCALHOST.to_string()];
    let mut names = vec![own.to_owned(), "localhost".to_owned()];
    names.extend(hosts.iter().cloned().chain(loopback));
    names.retain(|name| name.is_ascii() && !name.is_empty());
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_the_first_private_address() {
        let all = |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<IpAddr>>();
        let first = |texts: &[&str]| super::first(&all(texts)).map(|ip| ip.to_string());
        assert_eq!(first(&["203.0.113.4", "fd00::2", "192.168.1.4", "10.0.0.1"]).unwrap(), "192.168.1.4");
        assert_eq!(first(&["203.0.113.4", "fd00::2"]).unwrap(), "fd00::2");
        assert_eq!(first(&["203.0.113.4", "2001:db8::1"]).unwrap(), "203.0.113.4");
        assert_eq!(first(&[]), None);
    }

    #[test]
    fn the_default_origin_is_where_it_listens() {
        let origin = |text: &str, encrypted| default_origin(Some(text.parse().unwrap()), encrypted, false);
        assert_eq!(origin("127.0.0.1:8720", false), "http://127.0.0.1:8720");
        assert_eq!(origin("[::]:8720", true), "https://127.0.0.1:8720");
        let on_ipv4 = default_origin(Some("0.0.0.0:1".parse().unwrap()), true, true);
        assert!(!on_ipv4.contains('['), "{on_ipv4}");
        assert_eq!(origin("[::ffff:10.0.0.1]:1", true), "https://10.0.0.1:1");
        assert_eq!(origin("[fd00::2]:1", true), "https://[fd00::2]:1");
    }

    #[test]
    fn an_own_certificate_is_for_every_name_once() {
        let names = names("https://[fd00::2]:8720", &["ada.local".into(), "localhost".into(), "é".into()]);
        assert_eq!(names, ["127.0.0.1", "::1", "ada.local", "fd00::2", "localhost"]);
        assert!(super::names("https://10.0.0.1:1", &[]).contains(&"10.0.0.1".to_owned()));
    }
}
