//! For whom a request is made: the connection's other side, or behind a trusted proxy the client that it
//! names. What anyone else says of that is ignored.

use http::HeaderMap;
use ipnet::IpNet;
use std::net::IpAddr;

/// How many hops are followed.
const HOPS: usize = 32;
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of the client of a request that came from `peer`.
///
/// The list of hops is read from its end, where the nearest proxy wrote: the first address that is no
/// trusted proxy's is the client. `X-Forwarded-For` and `Forwarded` count alike; where both are there and
/// disagree, one of them may be the client's own invention, so neither is believed.
pub fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = peer.to_canonical();
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let listed =
        values(headers, FORWARDED_FOR).map(|all| furthest(peer, all.rsplit(',').map(address), trusted));
    let forwarded = values(headers, http::header::FORWARDED.as_str())
        .map(|all| furthest(peer, split(&all, ',').into_iter().rev().map(for_of), trusted));
    match (listed, forwarded) {
        (Some(client), None) | (None, Some(client)) => client,
        (Some(one), Some(other)) if one == other => one,
        (Some(_), Some(_)) | (None, None) => peer,
    }
}

/// A network as a setting names it: `10.0.0.0/8`, or one address.
///
/// # Errors
/// A sentence about what is neither.
pub fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let one = text.parse::<IpAddr>().map(|ip| IpNet::from(ip.to_canonical()));
    one.or_else(|_| text.parse::<IpNet>().map(|network| network.trunc())).map_err(|_| {
        let shown = teamlamp_wire::text::visible(text);
        format!("`trusted_proxies` lists {shown}, which is no address and no network such as 10.0.0.0/8.")
    })
}

/// Whether an address is in one of the networks.
pub fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    let address = address.to_canonical();
    trusted.iter().any(|network| network.contains(&address))
}

/// The values of a header as one list, as if they were in one line.
fn values(headers: &HeaderMap, name: &str) -> Option<String> {
    let all: Vec<&str> = headers.get_all(name).iter().map(|v| v.to_str().unwrap_or_default()).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// Walks from the nearest hop outward, as far as trusted proxies vouch for it.
fn furthest(peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>, trusted: &[IpNet]) -> IpAddr {
    let mut known = peer;
    for hop in hops.take(HOPS) {
        // `unknown`, or a name instead of an address: nobody nearer than this proxy is known.
        let Some(hop) = hop else { return known };
        known = hop;
        if !is_trusted(hop, trusted) {
            break;
        }
    }
    known
}

/// The address of one hop, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = match text.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?.0,
        None if text.matches(':').count() == 1 => text.split_once(':')?.0,
        None => text,
    };
    bare.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

/// The `for` of one element of `Forwarded` (RFC 7239).
fn for_of(element: &str) -> Option<IpAddr> {
    split(element, ';')
        .into_iter()
        .find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.trim().eq_ignore_ascii_case("for").then_some(value)
        })
        .and_then(address)
}

/// Splits where the separator stands outside of quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut begun, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted {
            parts.push(&text[begun..at]);
            begun = at + c.len_utf8();
        }
    }
    parts.push(&text[begun..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, headers: &[(&str, &str)]) -> String {
        let trusted = ["127.0.0.1/32", "10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        client(peer.parse().unwrap(), &map, &trusted).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_is_believed_and_only_as_far_as_it_saw() {
        let xff = |value| [("x-forwarded-for", value)];
        for (peer, headers, client) in [
            ("192.0.2.9", xff("203.0.113.5"), "192.0.2.9"),
            ("127.0.0.1", xff("203.0.113.5"), "203.0.113.5"),
            ("::ffff:127.0.0.1", xff("203.0.113.5"), "203.0.113.5"),
            // What stands before the first untrusted one is its own invention.
            ("127.0.0.1", xff("1.2.3.4, 203.0.113.5, 10.0.0.3"), "203.0.113.5"),
            ("127.0.0.1", xff("10.0.0.4, 10.0.0.3"), "10.0.0.4"),
            ("fd00::1", xff("2001:db8::7"), "2001:db8::7"),
            ("127.0.0.1", xff("[2001:db8::7]:4711"), "2001:db8::7"),
            ("127.0.0.1", xff("203.0.113.5:99"), "203.0.113.5"),
            ("127.0.0.1", xff("::ffff:203.0.113.5"), "203.0.113.5"),
            ("127.0.0.1", xff("203.0.113.5, unknown"), "127.0.0.1"),
            ("127.0.0.1", xff("203.0.113.5, nonsense, 10.0.0.3"), "10.0.0.3"),
            ("127.0.0.1", xff(""), "127.0.0.1"),
            ("127.0.0.1", [("forwarded", "for=192.0.2.60;proto=http")], "192.0.2.60"),
            (
                "127.0.0.1",
                [("forwarded", "for=\"_a,b\", For=\"[2001:db8:cafe::17]:4711\";by=x, for=10.0.0.2")],
                "2001:db8:cafe::17",
            ),
            ("127.0.0.1", [("forwarded", "proto=https")], "127.0.0.1"),
        ] {
            assert_eq!(seen(peer, &headers), client, "{peer} {headers:?}");
        }
        let lines = [("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "203.0.113.5")];
        assert_eq!(seen("127.0.0.1", &lines), "203.0.113.5", "several lines are one list");
    }

    #[test]
    fn two_headers_that_disagree_are_both_disbelieved() {
        let both = |one, other| seen("127.0.0.1", &[("x-forwarded-for", one), ("forwarded", other)]);
        assert_eq!(both("203.0.113.5", "for=203.0.113.5"), "203.0.113.5");
        assert_eq!(both("203.0.113.5", "for=203.0.113.6"), "127.0.0.1");
    }

    #[test]
    fn a_network_is_an_address_or_a_prefix() {
        for (text, read) in [
            ("10.1.2.3", "10.1.2.3/32"),
            (" ::1 ", "::1/128"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("fd00::/8", "fd00::/8"),
            ("::ffff:10.0.0.1", "10.0.0.1/32"),
        ] {
            assert_eq!(network(text).unwrap().to_string(), read);
        }
        for bad in ["", "proxy.example", "10.0.0.0/33", "*"] {
            assert!(network(bad).unwrap_err().contains("trusted_proxies"), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_header_panics(text in "[ -~]{0,200}") {
            seen("127.0.0.1", &[("x-forwarded-for", &text), ("forwarded", &text)]);
            seen("127.0.0.1", &[("forwarded", &text)]);
        }
    }
}
