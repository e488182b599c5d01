//! Which `Host` names the server answers to: a page on the internet that resolves its own name to this
//! computer (DNS rebinding) gets nothing.

use crate::error::ApiError;
use http::request::Parts;
use std::collections::BTreeSet;
use std::net::IpAddr;
use teamlamp_wire::envelope::ErrorCode;

/// The names that the server answers to besides the address of the connection itself.
#[derive(Clone, Debug, Default)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// `localhost`, the loopback addresses, the origin's host and the configured names.
    pub fn new(origin: &str, configured: &[String]) -> Self {
        let mut names: BTreeSet<String> =
            ["localhost", "127.0.0.1", "::1"].into_iter().map(str::to_owned).collect();
        let own = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        names.extend(name_of(own.trim_end_matches('/')));
        names.extend(configured.iter().filter_map(|name| name_of(name)));
        Self(names)
    }

    /// Looks at the host of a request that came to the address `local`.
    ///
    /// # Errors
    /// 421 with the setting's name; 400 where there is no host.
    pub fn check(&self, parts: &Parts, local: Option<IpAddr>) -> Result<(), ApiError> {
        let mut headers = parts.headers.get_all(http::header::HOST).iter();
        let header = headers.next().and_then(|value| value.to_str().ok());
        let host = parts.uri.authority().map(http::uri::Authority::as_str).or(header);
        let Some(name) = host.and_then(name_of).filter(|_| headers.next().is_none()) else {
            return Err(ApiError::invalid("The request names no Host, or none that can be read."));
        };
        let own =
            local.is_some_and(|ip| name.parse::<IpAddr>().is_ok_and(|named| named == ip.to_canonical()));
        if own || self.0.contains(&name) {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorCode::Misdirected,
            "This server does not answer to that host name: its owner can add it to the setting `hosts`.",
        ))
    }
}

/// The host of `host[:port]`, lower case, without brackets or a final dot.
fn name_of(authority: &str) -> Option<String> {
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?.0,
        // An IPv6 address that somebody wrote without brackets has more than one colon.
        None if authority.matches(':').count() > 1 => authority,
        None => authority.split(':').next()?,
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    (!host.is_empty() && !host.contains(['/', '@', ' '])).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(hosts: &Hosts, host: &str, local: Option<&str>) -> u16 {
        let request = http::Request::builder().uri("/v1/me").header("host", host).body(()).unwrap();
        let local = local.map(|ip| ip.parse().unwrap());
        hosts.check(&request.into_parts().0, local).map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn known_names_pass_and_others_are_misdirected() {
        let hosts = Hosts::new("https://teams.example.org:8443", &["Lamp.local".into(), "10.0.0.7".into()]);
        for good in [
            "localhost:8720",
            "127.0.0.1",
            "[::1]:8720",
            "teams.example.org",
            "TEAMS.example.org.:99",
            "lamp.local",
            "10.0.0.7:1",
            "192.168.1.5:8720",
        ] {
            assert_eq!(status(&hosts, good, Some("192.168.1.5")), 200, "{good}");
        }
        assert_eq!(status(&hosts, "192.168.1.5", Some("::ffff:192.168.1.5")), 200);
        for bad in ["evil.example", "localhost.evil.example", "192.168.1.6", "127.0.0.1.nip.io"] {
            assert_eq!(status(&hosts, bad, Some("192.168.1.5")), 421, "{bad}");
        }
        for bad in ["", "user@localhost"] {
            assert_eq!(status(&hosts, bad, None), 400, "{bad}");
        }
    }
}
