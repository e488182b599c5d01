//! Whatever is written to a server passes here first: what looks like a secret stays on this machine.
//! Pure; it knows no credential of ours, only what secrets look like (spec 01).

use regex::{Regex, RegexSet};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// What stands in a secret's place.
pub const PLACEHOLDER: &str = "[redacted]";

/// What secrets look like. Each is specific enough that ids, hashes and prose pass unharmed.
const SHAPES: &[&str] = &[
    // A bearer token of this protocol: the credential's id, a dot, 32 bytes in base64url.
    r"\bcred_[0-9a-f]{32}\.[A-Za-z0-9_-]{43}",
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
    r"(?i:\b(?:proxy-)?authorization)[\x22']?\s*[:=]\s*[\x22']?(?:(?i:bearer|basic|token|digest)\s+)?[^\s\x22',;]{8,}",
    r"\b(?i:bearer)\s+[A-Za-z0-9._~+/-]{20,}=*",
    // Common providers: Anthropic, OpenAI, GitHub, GitLab, Slack, AWS, Google, npm, Stripe, Hugging Face.
    r"\bsk-(?:[a-z]+\d*-)*[A-Za-z0-9_-]{20,}",
    r"\bgh[pousr]_[A-Za-z0-9]{36,}",
    r"\bgithub_pat_[A-Za-z0-9_]{22,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bAIza[0-9A-Za-z_-]{35}",
    r"\bnpm_[A-Za-z0-9]{36}",
    r"\b[srp]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\bhf_[A-Za-z0-9]{30,}",
    // A JSON Web Token.
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}",
];

#[expect(clippy::expect_used, reason = "the patterns are constants, which a test compiles")]
static ANY: LazyLock<RegexSet> = LazyLock::new(|| RegexSet::new(SHAPES).expect("the shapes are valid"));
#[expect(clippy::expect_used, reason = "the patterns are constants, which a test compiles")]
static EACH: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SHAPES.iter().map(|s| Regex::new(s).expect("the shapes are valid")).collect());

/// Whether a path is one whose purpose is to carry a secret, so that nothing is taken out of its body.
pub fn is_exempt(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let Some(rest) = path.strip_prefix("/v1/") else { return false };
    let mut pieces = rest.split('/');
    match pieces.next() {
        Some("login") => true,
        Some("credentials") => true,
        Some("apps") => pieces.next() == Some("token"),
        Some("me") => pieces.next() == Some("identities"),
        Some("invitations") => matches!(pieces.next(), Some("accept" | "preview")),
        // Enrollment: `teams/<team>/machines`, and nothing below it.
        Some("teams") => pieces.nth(1) == Some("machines") && pieces.next().is_none(),
        _ => false,
    }
}

/// `text` without what looks like a secret, or `None` where nothing does.
pub fn text(text: &str) -> Option<String> {
    let found = ANY.matches(text);
    if !found.matched_any() {
        return None;
    }
    let mut out = text.to_owned();
    for index in found.iter() {
        out = EACH[index].replace_all(&out, PLACEHOLDER).into_owned();
    }
    Some(out)
}

/// Takes what looks like a secret out of every string of a value; how many strings changed.
pub fn value(value: &mut Value) -> usize {
    match value {
        Value::String(it) => text(it).map_or(0, |clean| {
            *it = clean;
            1
        }),
        Value::Array(items) => items.iter_mut().map(self::value).sum(),
        Value::Object(fields) => {
            let named = fields.iter_mut().map(|(key, field)| match field {
                Value::String(it) if is_secret_name(key) && !it.is_empty() => {
                    *it = PLACEHOLDER.to_owned();
                    1
                }
                _ => self::value(field),
            });
            named.sum::<usize>() + keys(fields)
        }
        _ => 0,
    }
}

/// Takes what looks like a secret out of the names of fields; how many changed.
fn keys(fields: &mut Map<String, Value>) -> usize {
    let found: Vec<(String, String)> =
        fields.keys().filter_map(|key| Some((key.clone(), text(key)?))).collect();
    for (key, clean) in &found {
        if let Some(field) = fields.remove(key) {
            fields.insert(clean.clone(), field);
        }
    }
    found.len()
}

/// A field that holds a secret whatever its value looks like.
fn is_secret_name(key: &str) -> bool {
    ["authorization", "proxy-authorization", "password", "private_key", "client_secret", "api_key"]
        .iter()
        .any(|name| key.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn redacted(input: &str) -> String {
        text(input).unwrap_or_else(|| input.to_owned())
    }

    #[test]
    fn secrets_of_each_shape_are_taken_out_and_the_rest_stays() {
        let token = format!("cred_{}.{}", "0".repeat(32), "A".repeat(43));
        let pem = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----";
        for secret in [
            token.as_str(),
            pem,
            "-----BEGIN PRIVATE KEY-----\ncut off",
            "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAA",
            "sk-proj-AAAAAAAAAAAAAAAAAAAAAAAA",
            &format!("ghp_{}", "a".repeat(36)),
            "github_pat_AAAAAAAAAAAAAAAAAAAAAA",
            "glpat-AAAAAAAAAAAAAAAAAAAA",
            "xoxb-1234567890-abc",
            "AKIAIOSFODNN7EXAMPLE",
            &format!("AIza{}", "b".repeat(35)),
            &format!("npm_{}", "c".repeat(36)),
            "sk_live_0123456789abcdef",
            &format!("hf_{}", "d".repeat(34)),
            "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJlLWhlcmU",
            "Bearer abcdefghijklmnopqrstuvwxyz",
            "Authorization: Basic dXNlcjpwYXNz",
            "authorization=\"Bearer x.y.z.1234567\"",
        ] {
            let out = redacted(&format!("before {secret} after"));
            assert!(out.contains(PLACEHOLDER), "{secret}");
            assert!(out.starts_with("before "), "{out}");
            assert!(!out.contains(&secret[secret.len() - 6..]), "{out}");
        }
    }

    #[test]
    fn ids_names_and_prose_pass_unharmed() {
        for plain in [
            "cred_0198aabbccddeeff0011223344556677",
            "evt_0198aabbccddeeff0011223344556677 on 0123456789abcdef0123456789abcdef01234567",
            "the bearer of bad news",
            "authorization changed",
            "sk-2024 is a road, ask-me-anything-about-longer-words",
            "task-force-of-twenty-one-people",
            "/home/ada/projects/key_store",
        ] {
            assert_eq!(text(plain), None, "{plain}");
        }
    }

    #[test]
    fn values_are_searched_at_any_depth_and_secret_fields_go_whole() {
        let mut body =
            json!({"a": [{"t": "glpat-AAAAAAAAAAAAAAAAAAAA"}], "Password": "x", "n": 1, "b": "ok"});
        let key = "glpat-BBBBBBBBBBBBBBBBBBBB";
        let mut named = json!({ "as": { key: 1 } });
        assert_eq!((value(&mut named), named), (1, json!({ "as": { PLACEHOLDER: 1 } })));
        assert_eq!(value(&mut body), 2);
        assert_eq!(body, json!({"a": [{"t": PLACEHOLDER}], "Password": PLACEHOLDER, "n": 1, "b": "ok"}));
    }

    #[test]
    fn only_the_routes_that_carry_secrets_are_exempt() {
        for path in [
            "/v1/login",
            "/v1/apps/token",
            "/v1/invitations/accept",
            "/v1/invitations/preview",
            "/v1/credentials/rotate",
            "/v1/me/identities",
            "/v1/teams/team_1/machines",
        ] {
            assert!(is_exempt(path), "{path}");
        }
        for path in [
            "/v1/teams",
            "/v1/teams/team_1/events",
            "/v1/teams/team_1/machines/mach_1/heartbeat",
            "/v1/teams/team_1/machines/mach_1",
            "/v1/teams/team_1/invitations",
            "/v1/teams/machines/events",
        ] {
            assert!(!is_exempt(path), "{path}");
        }
    }
}
