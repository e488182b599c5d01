//! What a server says of itself by multicast DNS on its local network, and how that is read. Anyone there
//! can say anything, so what is read is checked and bounded, and proves nothing before the server itself
//! was asked.

use crate::id::ServerId;
use crate::invitation::check_origin;
use crate::name;
use std::net::IpAddr;

/// The type of the service.
pub const SERVICE: &str = "_teamlamp._tcp.local.";
/// The version of the properties.
const VERSION: &str = "1";
/// The most bytes of a label in the domain name system, less what the id takes.
const INSTANCE_BYTES: usize = 48;
/// The most bytes of a property's value: key and value together have at most 255.
const VALUE_BYTES: usize = 240;
/// The most addresses of one server that are kept.
const ADDRESSES_MAX: usize = 8;

/// What a server announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its id.
    pub server_id: ServerId,
    /// Its name for people.
    pub name: String,
    /// The fingerprint of its own key, to be pinned; none where its certificate is one that platforms
    /// believe.
    pub fingerprint: Option<String>,
    /// Its origin, where its certificate is for a name.
    pub origin: Option<String>,
}

impl Announced {
    /// Its properties: keys and values of the TXT record.
    pub fn properties(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![("v", VERSION.to_owned()), ("id", self.server_id.0.clone())];
        all.push(("name", cut(&self.name, VALUE_BYTES).to_owned()));
        all.extend(self.fingerprint.clone().map(|fp| ("fp", fp)));
        all.extend(self.origin.clone().filter(|it| it.len() <= VALUE_BYTES).map(|it| ("origin", it)));
        all
    }

    /// The instance's name: the server's, with the end of its id, so that two of one name are two.
    pub fn instance(&self) -> String {
        format!("{} ({})", cut(&self.name, INSTANCE_BYTES), tail(&self.server_id))
    }

    /// The host's name, of this server alone.
    pub fn host(&self) -> String {
        format!("{}.", host_name(&self.server_id))
    }
}

/// The beginning of a text that fits.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim_end()
}

/// The name by which a server is reached on its local network while it is announced.
pub fn host_name(server: &ServerId) -> String {
    format!("teamlamp-{}.local", tail(server))
}

/// The end of an id, which is its random part.
fn tail(server: &ServerId) -> &str {
    let id = server.as_str();
    id.get(id.len().saturating_sub(10)..).unwrap_or(id)
}

/// A server that was found on the local network. Nothing of it is proven.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Found {
    /// Its name for people.
    pub name: String,
    /// Its id, as the announcement says.
    pub server_id: ServerId,
    /// Where it may be reached, likeliest first; never empty.
    pub origins: Vec<String>,
    /// The key to pin.
    pub fingerprint: Option<String>,
}

impl Found {
    /// Reads an announcement. `None` where it is none that this version can use.
    pub fn read<'a>(
        property: impl Fn(&str) -> Option<&'a str>,
        addresses: impl IntoIterator<Item = IpAddr>,
        port: u16,
    ) -> Option<Self> {
        if property("v")? != VERSION || port == 0 {
            return None;
        }
        let id = property("id")?;
        let fine = id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !fine || id.is_empty() {
            return None;
        }
        let fingerprint = match property("fp") {
            Some(fp) if fp.len() == 64 && fp.bytes().all(|b| b.is_ascii_hexdigit()) => {
                Some(fp.to_ascii_lowercase())
            }
            Some(_) => return None,
            None => None,
        };
        let origins = match &fingerprint {
            Some(_) => origins(addresses, port),
            // Without a key to pin its certificate is for a name, which only it can tell.
            None => vec![check_origin(property("origin")?).ok().filter(|o| o.starts_with("https://"))?],
        };
        let name = name::clean(property("name")?).ok()?;
        (!origins.is_empty()).then(|| Self { name, server_id: id.into(), origins, fingerprint })
    }
}

/// Addresses as origins: IPv4 before IPv6, others than this computer's own first; those of one link,
/// which no origin can name, are left out.
fn origins(addresses: impl IntoIterator<Item = IpAddr>, port: u16) -> Vec<String> {
    let of_one_link = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let mut all: Vec<IpAddr> = addresses.into_iter().map(|ip| ip.to_canonical()).collect();
    all.retain(|ip| !of_one_link(ip) && !ip.is_unspecified() && !ip.is_multicast());
    all.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6(), *ip));
    all.dedup();
    all.truncate(ADDRESSES_MAX);
    let origin = |ip| format!("https://{}", std::net::SocketAddr::new(ip, port));
    all.into_iter().map(origin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn announced() -> Announced {
        Announced {
            server_id: "srv_0123456789abcdef0123456789abcdef".into(),
            name: "Büro ".repeat(12).trim_end().to_owned(),
            fingerprint: Some("0a".repeat(32)),
            origin: None,
        }
    }

    fn found(said: &Announced, change: &[(&'static str, &str)]) -> Option<Found> {
        let mut all: BTreeMap<&str, String> = said.properties().into_iter().collect();
        all.extend(change.iter().map(|(key, value)| (*key, (*value).to_owned())));
        let ips = ["fe80::1", "127.0.0.1", "fd00::2", "192.168.1.4", "192.168.1.4"];
        let ips = ips.map(|ip| ip.parse::<IpAddr>().unwrap());
        Found::read(|key| all.get(key).map(String::as_str), ips, 8720)
    }

    #[test]
    fn what_is_announced_is_found() {
        let said = announced();
        let it = found(&said, &[]).unwrap();
        assert_eq!((&it.server_id, &it.fingerprint), (&said.server_id, &said.fingerprint));
        let origins = ["https://192.168.1.4:8720", "https://[fd00::2]:8720", "https://127.0.0.1:8720"];
        assert_eq!(it.origins, origins);
        assert!(said.instance().len() <= 63 && said.instance().ends_with("(6789abcdef)"));
        assert_eq!(said.host(), "teamlamp-6789abcdef.local.");
        let origin = "https://teams.example.org".to_owned();
        let named = Announced { fingerprint: None, origin: Some(origin.clone()), ..said };
        assert_eq!(found(&named, &[]).unwrap().origins, [origin]);
    }

    #[test]
    fn what_is_damaged_or_unsafe_is_passed_over() {
        let said = announced();
        for change in [
            ("v", "2"),
            ("id", ""),
            ("id", "srv 1"),
            ("fp", "abc"),
            ("name", ""),
            ("name", "a\u{202e}b\u{1b}"),
        ] {
            assert_eq!(found(&said, &[change]), None, "{change:?}");
        }
        let named = Announced { fingerprint: None, ..said };
        for origin in ["http://192.168.1.4", "https://a@b", "file:///x"] {
            assert_eq!(found(&named, &[("origin", origin)]), None, "{origin}");
        }
        assert_eq!(found(&named, &[]), None);
    }
}
