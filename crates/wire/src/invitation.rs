//! Invitation codes, invitations and the deep link that carries them (spec 01).

use crate::Millis;
use crate::account::{IssuedCredential, Membership, Principal, Role, TeamRef};
use crate::id::{InvitationId, PrincipalId, ServerId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// An invitation's code: 10 characters of Crockford base32, 50 bits, written in two groups.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    /// The code of 50 random bits.
    pub fn from_random(random: u64) -> Self {
        Self((0..10).map(|i| ALPHABET[(random >> (i * 5) & 31) as usize] as char).collect())
    }

    /// Reads a code as people type it: any case, with or without the dash, `O` as 0, `I` and `L` as 1;
    /// `U` is refused. `None` where it can be no code.
    pub fn parse(typed: &str) -> Option<Self> {
        if typed.len() > 64 {
            return None;
        }
        let code: Option<String> = typed
            .chars()
            .filter(|c| !matches!(c, '-' | ' ' | '\u{2010}'..='\u{2015}'))
            .map(|c| match c.to_ascii_uppercase() {
                'O' => Some('0'),
                'I' | 'L' => Some('1'),
                c if c.is_ascii() && ALPHABET.contains(&(c as u8)) => Some(c),
                _ => None,
            })
            .collect();
        code.filter(|c| c.len() == 10).map(Self)
    }

    /// The ten characters without a dash, from which the server makes its HMAC.
    pub fn canonical(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", &self.0[..5], &self.0[5..])
    }
}

/// A code is a short-lived secret: it prints itself only where a person asked for it.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(***)")
    }
}

/// `POST …/invitations`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateInvitation {
    /// What who accepts will be.
    pub role: Role,
    /// 60 to 604800; 86400 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<i64>,
    /// 1 to 100; 1 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<i64>,
    /// For the list, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An invitation without its code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Invitation {
    /// Which.
    pub id: InvitationId,
    /// What who accepts will be.
    pub role: Role,
    /// When it ends.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub expires_at: Millis,
    /// How often it may be used.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub max_uses: i64,
    /// How often it was.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub uses: i64,
    /// For the list.
    pub note: Option<String>,
    /// Rises with every change of it.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub revision: i64,
    /// Who made it; null for the owner's code of a new server.
    pub created_by: Option<PrincipalId>,
}

/// The answer to `POST …/invitations`: the code and link are shown once.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedInvitation {
    /// The invitation.
    pub invitation: Invitation,
    /// Its code; null in a stored answer.
    pub code: Option<String>,
    /// Its deep link; null in a stored answer.
    pub link: Option<String>,
    /// True where the secrets were taken out of a stored answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

impl fmt::Debug for CreatedInvitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedInvitation").field("invitation", &self.invitation).finish_non_exhaustive()
    }
}

/// `POST /v1/invitations/preview`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PreviewInvitation {
    /// The code as it was typed.
    pub code: String,
}

impl fmt::Debug for PreviewInvitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreviewInvitation").finish_non_exhaustive()
    }
}

/// What the confirm dialog shows, as the server itself says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InvitationPreview {
    /// The team; null for the owner's code of a new server, which makes one.
    pub team: Option<TeamRef>,
    /// The server.
    pub server: ServerRef,
    /// Who invites; null for the owner's code.
    pub inviter: Option<Named>,
    /// What who accepts will be.
    pub role: Role,
    /// When it ends.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub expires_at: Millis,
}

/// A server by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerRef {
    /// Which.
    pub id: ServerId,
    /// Its name.
    pub name: String,
}

/// Somebody by name alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Named {
    /// The name.
    pub name: String,
}

/// `POST /v1/invitations/accept`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcceptInvitation {
    /// The code as it was typed.
    pub code: String,
    /// The person's name.
    pub name: String,
    /// The new team's name: with an owner's code, and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_name: Option<String>,
}

impl fmt::Debug for AcceptInvitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptInvitation").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The answer to `POST /v1/invitations/accept`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accepted {
    /// Who joined.
    pub principal: Principal,
    /// The team.
    pub team: TeamRef,
    /// What they may do there.
    pub membership: Membership,
    /// Their user credential.
    pub credential: IssuedCredential,
}

/// `teamlamp://join?server=…&code=…&fp=…&team=…`: what an invitation's link says. Nothing acts on one
/// before a person confirmed what the *server* says of it.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinLink {
    /// The server's origin, `scheme://host[:port]`.
    pub server: String,
    /// The code.
    pub code: Code,
    /// The SHA-256 of the server key's SubjectPublicKeyInfo, in lower-case hex, where it is pinned.
    pub fingerprint: Option<String>,
    /// The team's name, for display only.
    pub team: Option<String>,
}

impl fmt::Debug for JoinLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinLink").field("server", &self.server).finish_non_exhaustive()
    }
}

impl fmt::Display for JoinLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "teamlamp://join?server={}&code={}", escape(&self.server), self.code)?;
        if let Some(fp) = &self.fingerprint {
            write!(f, "&fp={fp}")?;
        }
        if let Some(team) = &self.team {
            write!(f, "&team={}", escape(team))?;
        }
        Ok(())
    }
}

impl JoinLink {
    /// Reads a link, or says in one sentence why it is refused.
    pub fn parse(link: &str) -> Result<Self, String> {
        let link = link.trim();
        if link.len() > 2048 {
            return Err("The link is too long to be an invitation.".into());
        }
        let query = ["teamlamp://join?", "teamlamp://join/?"]
            .iter()
            .find_map(|head| link.strip_prefix(head))
            .ok_or("This is not an invitation link: it begins with teamlamp://join?.")?;
        let (mut server, mut code, mut fp, mut team) = (None, None, None, None);
        for pair in query.split('&') {
            let (key, value) =
                pair.split_once('=').ok_or("The link is incomplete: copy it again as a whole.")?;
            let value = unescape(value).ok_or("The link is damaged: copy it again as a whole.")?;
            let place = match key {
                "server" => &mut server,
                "code" => &mut code,
                "fp" => &mut fp,
                "team" => &mut team,
                _ => return Err("The link holds something that this version does not know.".into()),
            };
            if place.replace(value).is_some() {
                return Err("The link names something twice, so it can't be trusted.".into());
            }
        }
        let server = server.ok_or("The link names no server: copy it again as a whole.")?;
        let code = code.ok_or("The link holds no code: copy it again as a whole.")?;
        let fingerprint = fp
            .map(|fp| {
                let ok = fp.len() == 64 && fp.bytes().all(|b| b.is_ascii_hexdigit());
                ok.then(|| fp.to_ascii_lowercase())
                    .ok_or("The link's key fingerprint is damaged: copy it again as a whole.")
            })
            .transpose()?;
        if fingerprint.is_some() && !server.starts_with("https://") {
            return Err("The link pins a key but its server has none: ask for a new link.".into());
        }
        let team = team
            .map(|t| crate::name::clean(&t).map_err(|f| f.sentence("The team's name in the link")))
            .transpose()?;
        Ok(Self {
            server: check_origin(&server)?,
            code: Code::parse(&code).ok_or("The code in the link is not complete.")?,
            fingerprint,
            team,
        })
    }

    /// Whether what travels to the server is readable on the way: `http` beyond this computer.
    pub fn is_in_clear(&self) -> bool {
        is_in_clear(&self.server)
    }
}

/// Whether an origin is plain `http` to another computer than this one.
pub fn is_in_clear(origin: &str) -> bool {
    origin.strip_prefix("http://").is_some_and(|rest| {
        let host = split_host(rest).map(|(host, _)| host).unwrap_or_default();
        host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}

/// The origin that a client may talk to: `https`, or `http` to a literal loopback or private address or
/// `localhost`. The sentence says why another is refused.
pub fn check_origin(origin: &str) -> Result<String, String> {
    let origin = origin.trim_end_matches('/');
    let (scheme, rest) = origin
        .split_once("://")
        .ok_or("The server's address must begin with https:// (or http:// on this network).")?;
    let (host, port) = split_host(rest).ok_or("The server's address is not a plain host and port.")?;
    let plain_host = match scheme {
        "https" => !host.is_empty(),
        "http" => host == "localhost" || host.parse::<IpAddr>().is_ok_and(is_private),
        _ => return Err("The server's address must begin with https:// or http://.".into()),
    };
    if !plain_host {
        return Err("Plain http is only allowed to this computer or a private address: use https.".into());
    }
    if port == Some(0) {
        return Err("The server's address names port 0, which no server has.".into());
    }
    Ok(format!("{scheme}://{}", rest.to_ascii_lowercase()))
}

/// Host (without brackets) and port of an authority; `None` for user info, paths, queries and the like.
fn split_host(authority: &str) -> Option<(String, Option<u16>)> {
    if authority.is_empty() || authority.len() > 300 {
        return None;
    }
    let (host, rest) = if let Some(v6) = authority.strip_prefix('[') {
        let (host, rest) = v6.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        (host, rest)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        let host = &authority[..end];
        let fine = host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
        (fine && !host.is_empty()).then_some(())?;
        (host, &authority[end..])
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        None => return None,
        Some(p) if (1..=5).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()) => {
            Some(p.parse().ok()?)
        }
        Some(_) => return None,
    };
    Some((host.to_ascii_lowercase(), port))
}

/// Loopback, RFC 1918, link-local, unique-local (RFC 4193) and their IPv4-mapped forms.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_private(IpAddr::V4(v4)),
            None => {
                v6.is_loopback()
                    || (v6.segments()[0] & 0xfe00) == 0xfc00
                    || (v6.segments()[0] & 0xffc0) == 0xfe80
            }
        },
    }
}

fn escape(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (b as char).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

fn unescape(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' => {
                let hex = bytes.get(i + 1..i + 3).filter(|h| h.iter().all(u8::is_ascii_hexdigit))?;
                out.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
                i += 3;
            }
            b'+' => {
                out.push(b' ');
                i += 1;
            }
            b => {
                out.push(b);
                i += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_are_read_as_people_type_them() {
        let code = Code::parse("7K3QF-9XW2M").unwrap();
        assert_eq!(code.to_string(), "7K3QF-9XW2M");
        assert_eq!(Code::parse("7k3qf9xw2m"), Some(code));
        assert_eq!(Code::parse("oIl00-00000").unwrap().canonical(), "0110000000");
        for bad in ["7K3QF-9XW2U", "7K3QF-9XW2", "7K3QF-9XW2MM", "", "Ⅶ3QF-9XW2M"] {
            assert_eq!(Code::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_code_reads_back(bits in 0u64..1 << 50) {
            let code = Code::from_random(bits);
            prop_assert_eq!(Code::parse(&code.to_string()), Some(code));
        }

        #[test]
        fn every_link_reads_back(team in "[a-zA-Zäöü &=%+#]{1,40}", port in 1u16..) {
            prop_assume!(!team.trim().is_empty());
            let link = JoinLink {
                server: format!("http://127.0.0.1:{port}"), code: Code::from_random(77),
                fingerprint: None, team: Some(team.trim().to_owned()),
            };
            let read = JoinLink::parse(&link.to_string()).map_err(TestCaseError::fail)?;
            prop_assert_eq!(read, link);
        }

        #[test]
        fn no_input_panics(text in ".{0,200}") {
            let _ = JoinLink::parse(&format!("teamlamp://join?{text}"));
            let _ = Code::parse(&text);
            let _ = check_origin(&text);
        }
    }

    #[test]
    fn a_link_is_refused_with_a_sentence() {
        let good = "teamlamp://join?server=http%3A%2F%2F127.0.0.1%3A8720&code=7K3QF-9XW2M";
        assert!(JoinLink::parse(good).is_ok());
        let https = "teamlamp://join?server=https://a.example&code=7K3QF-9XW2M";
        let pinned = JoinLink::parse(&format!("{https}&fp={}", "A".repeat(64))).unwrap();
        assert_eq!(pinned.fingerprint, Some("a".repeat(64)));
        for bad in [
            "https://join?server=x&code=7K3QF-9XW2M",
            "teamlamp://leave?server=http://127.0.0.1&code=7K3QF-9XW2M",
            &format!("{good}&code=7K3QF-9XW2M"),
            &format!("{good}&run=rm"),
            &format!("{good}&fp=abcd"),
            // A key can be pinned only where there is one.
            &format!("{good}&fp={}", "a".repeat(64)),
            &format!("{https}&fp={}", "g".repeat(64)),
            &format!("{https}&fp={0}&fp={0}", "a".repeat(64)),
            &format!("{https}&server=https://b.example"),
            &format!("{https}&team=a&team=b"),
            &format!("{https}&team=a%E2%80%AEb"),
            &format!("{https}#code=7K3QF-9XW2M"),
            "teamlamp://join?server=http://example.org&code=7K3QF-9XW2M",
            "teamlamp://join?server=http://user@127.0.0.1&code=7K3QF-9XW2M",
            "teamlamp://join?server=http://127.0.0.1/path&code=7K3QF-9XW2M",
            "teamlamp://join?server=file:///etc/passwd&code=7K3QF-9XW2M",
            "teamlamp://join?code=7K3QF-9XW2M",
            "teamlamp://join?server=http://127.0.0.1:8720",
            "teamlamp://join?server=http://8.8.8.8&code=7K3QF-9XW2M",
            "teamlamp://join?server=%zz&code=7K3QF-9XW2M",
        ] {
            let sentence = JoinLink::parse(bad).unwrap_err();
            assert!(sentence.ends_with('.'), "{bad}: {sentence}");
        }
    }

    #[test]
    fn private_addresses_may_be_plain_and_are_called_in_clear() {
        for (origin, clear) in [
            ("http://localhost:1", false),
            ("http://[::1]:8720", false),
            ("http://192.168.1.4:8720", true),
            ("http://[fd00::1]:80", true),
            ("https://teams.example.org", false),
        ] {
            assert_eq!(check_origin(origin).as_deref(), Ok(origin));
            assert_eq!(is_in_clear(origin), clear, "{origin}");
        }
    }
}
