//! Which web pages may call the server from a browser: its own origin and those that its owner lists. A
//! browser says with `Origin` for which page it asks; other programs send none.

use crate::error::ApiError;
use crate::router::Found;
use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use std::collections::BTreeSet;

/// The headers that a page may send.
const TAKEN: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, if-match, idempotency-key, last-event-id, x-supercode-caller, x-supercode-machine",
);
/// The headers that a page may read.
const TOLD: HeaderValue = HeaderValue::from_static("etag, retry-after, x-request-id");
/// How long a browser may go by such an answer, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The listed origins and the server's own.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    own: String,
    listed: BTreeSet<String>,
}

impl Origins {
    /// Those of a configuration.
    ///
    /// # Errors
    /// A sentence about an entry that is no origin.
    pub fn new(own: &str, listed: &[String]) -> Result<Self, String> {
        let listed = listed.iter().map(|origin| read(origin).ok_or_else(|| {
            let shown = teamlamp_wire::text::visible(origin);
            format!("`cors_origins` lists {shown}, which is no origin: write each as https://host or https://host:port.")
        }));
        Ok(Self { own: read(own).unwrap_or_default(), listed: listed.collect::<Result<_, _>>()? })
    }

    /// Refuses what a page elsewhere asks for, unless its origin is listed. A page of this server's own
    /// is one whose host is that of the request, which was found to be ours.
    ///
    /// # Errors
    /// 403 with the setting's name.
    pub fn check(&self, parts: &Parts) -> Result<(), ApiError> {
        let Some(origin) = origin(&parts.headers) else { return Ok(()) };
        let known = origin.ok().and_then(read).is_some_and(|origin| {
            self.listed.contains(&origin) || origin == self.own || is_of_host(&origin, parts)
        });
        if known {
            return Ok(());
        }
        Err(ApiError::forbidden(
            "Web pages of that origin may not call this server: its owner can add it to the setting `cors_origins`.",
        ))
    }

    /// The listed origin that a request comes from.
    pub(crate) fn listed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let named = origin(headers)?.ok()?;
        let known = self.listed.contains(&read(named)?);
        known.then(|| HeaderValue::from_str(named).ok()).flatten()
    }

    /// Says in an answer what a browser may do with it.
    pub(crate) fn mark(&self, response: &mut Response, listed: Option<HeaderValue>) {
        if self.listed.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = listed {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, TOLD);
        }
    }
}

/// The answer to a browser that asks beforehand what a page may do; `None` where this is no such request.
pub(crate) fn preflight(parts: &Parts, found: Option<&Found>) -> Option<Response> {
    let asks = parts.method == Method::OPTIONS
        && parts.headers.contains_key(ORIGIN)
        && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let methods = HeaderValue::from_str(&found.filter(|_| asks)?.methods()).ok()?;
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = http::StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, TAKEN);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    headers.append(VARY, HeaderValue::from_static("Access-Control-Request-Method"));
    Some(response)
}

/// What a request says of its page; an error where it says two things, or nothing that can be read.
fn origin(headers: &HeaderMap) -> Option<Result<&str, ()>> {
    let mut all = headers.get_all(ORIGIN).iter();
    let first = all.next()?;
    Some(match all.next() {
        None => first.to_str().map_err(|_| ()),
        Some(_) => Err(()),
    })
}

/// An origin in its one spelling: lower case, without the port that its scheme has anyway. `null`, which
/// is nobody's, is none.
fn read(origin: &str) -> Option<String> {
    let origin = origin.trim_end_matches('/').to_ascii_lowercase();
    let (scheme, rest) = origin.split_once("://")?;
    let port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let uri: http::Uri = origin.parse().ok()?;
    let authority = uri.authority()?.as_str();
    let plain = authority == rest && !rest.contains(['@', '*']) && !uri.host()?.is_empty();
    plain.then(|| format!("{scheme}://{}", rest.strip_suffix(port).unwrap_or(rest)))
}

/// Whether an origin is of the host that the request itself names. Which scheme it was asked by is not
/// known behind a proxy, and either would be ours.
fn is_of_host(origin: &str, parts: &Parts) -> bool {
    let header = parts.headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
    let host = parts.uri.authority().map(http::uri::Authority::as_str).or(header);
    let scheme = origin.split_once("://").map(|(scheme, _)| scheme);
    host.zip(scheme).and_then(|(host, scheme)| read(&format!("{scheme}://{host}"))).as_deref() == Some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(origins: &Origins, origin: &[&str]) -> u16 {
        let mut request = http::Request::builder().uri("/v1/me").header("host", "127.0.0.1:8720");
        for origin in origin {
            request = request.header("origin", *origin);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        origins.check(&parts).map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn own_and_listed_pages_may_and_others_may_not() {
        let listed = ["https://App.example:443/".to_owned(), "http://localhost:5173".to_owned()];
        let origins = Origins::new("https://teams.example.org", &listed).unwrap();
        for good in [
            "https://app.example",
            "https://app.example:443",
            "http://localhost:5173",
            "https://teams.example.org",
            "http://127.0.0.1:8720",
        ] {
            assert_eq!(status(&origins, &[good]), 200, "{good}");
        }
        assert_eq!(status(&origins, &[]), 200, "who is no browser sends none");
        for bad in [
            &["null"][..],
            &["http://app.example"],
            &["https://app.example:8443"],
            &["https://app.example.evil.example"],
            &["http://localhost:5174"],
            &["http://127.0.0.1"],
            &["file://"],
            &[""],
            &["https://app.example", "https://evil.example"],
        ] {
            assert_eq!(status(&origins, bad), 403, "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_origin_can_not_be_listed() {
        for bad in
            ["*", "app.example", "https://*.example", "https://app.example/path", "null", "https://a@b"]
        {
            let sentence = Origins::new("http://127.0.0.1:8720", &[bad.to_owned()]).unwrap_err();
            assert!(sentence.contains("cors_origins") && sentence.ends_with('.'), "{sentence}");
        }
    }
}
