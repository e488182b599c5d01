//! What a server counts of itself, and `GET /metrics`, which writes it in Prometheus' text format. Labels are
//! words of this program alone: operations, classes of status, steps, reasons; never a name, an id or a token.

pub mod text;

use crate::app::App;
use crate::error::ApiError;
use crate::request::{Call, Reply};
use crate::router::ROUTES;
use crate::store::Fault;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;
use text::Page;

/// Bounds of the histograms of requests, in seconds.
const SECONDS: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// What a request is counted under whose path or method the table does not know.
const UNKNOWN: &str = "unknown";
/// Headers by which a proxy says that the request is another's.
const FORWARDED: [&str; 3] = ["forwarded", "x-real-ip", "via"];

/// A number that rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts some more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Observations by the smallest bound that is not below them.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds: what is above the last.
    counts: Vec<Counter>,
    sum_micros: Counter,
}

impl Histogram {
    /// An empty one with rising bounds.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| Counter::default()).collect();
        Self { bounds, counts, sum_micros: Counter::default() }
    }

    /// Counts an observation, which is not negative.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds and counts are far below"
    )]
    pub fn observe(&self, value: f64) {
        let place = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get(place) {
            count.add(1);
        }
        self.sum_micros.add((value * 1e6) as u64);
    }
}

/// What is counted of the requests of one operation.
#[derive(Debug)]
struct Requests {
    /// By class of status, 1xx to 5xx.
    classes: [Counter; 5],
    seconds: Histogram,
}

/// What is counted of one step of maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCount {
    /// How often it ran.
    pub runs: u64,
    /// How often it failed.
    pub failures: u64,
    /// For how long, in all.
    pub took: Duration,
    /// Whether it left work at its last run.
    pub backlog: bool,
}

/// What a server counts of itself.
#[derive(Debug)]
pub struct Metrics {
    /// In the order of the route table; the last is of what it does not know.
    requests: Vec<(&'static str, Requests)>,
    /// Requests that were refused for coming too often.
    pub rate_limited: Counter,
    /// Messages that were given to readers of streams.
    pub deliveries: Counter,
    /// Streams that were ended since their reader took nothing.
    pub slow_readers: Counter,
    /// Runs of maintenance.
    pub maintenance_runs: Counter,
    steps: Mutex<BTreeMap<&'static str, StepCount>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let names = ROUTES.iter().map(|route| route.operation).chain([UNKNOWN]);
        let requests = names
            .map(|name| (name, Requests { classes: Default::default(), seconds: Histogram::new(SECONDS) }));
        Self {
            requests: requests.collect(),
            rate_limited: Counter::default(),
            deliveries: Counter::default(),
            slow_readers: Counter::default(),
            maintenance_runs: Counter::default(),
            steps: Mutex::default(),
        }
    }
}

impl Metrics {
    /// Counts a request whose answer began.
    pub fn request(&self, operation: Option<&'static str>, status: u16, took: Duration) {
        let known = self.requests.iter().find(|(name, _)| Some(*name) == operation);
        let Some((_, requests)) = known.or(self.requests.last()) else { return };
        if let Some(class) = requests.classes.get(usize::from(status / 100).saturating_sub(1)) {
            class.add(1);
        }
        requests.seconds.observe(took.as_secs_f64());
        if status == 429 {
            self.rate_limited.add(1);
        }
    }

    /// Counts a run of a step of maintenance; `None` where it failed.
    pub fn step(&self, name: &'static str, backlog: Option<bool>, took: Duration) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let step = steps.entry(name).or_default();
        step.runs += 1;
        step.took += took;
        match backlog {
            Some(backlog) => step.backlog = backlog,
            None => step.failures += 1,
        }
    }

    /// What was counted of each step of maintenance.
    pub fn steps(&self) -> BTreeMap<&'static str, StepCount> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether a request may read the metrics: from this computer itself, or with the token of the setting.
///
/// # Errors
/// 404 where there is no token, since then nobody else may; 401 for a wrong one.
fn admit(peer: IpAddr, headers: &HeaderMap, token: Option<&SecretString>) -> Result<(), ApiError> {
    let is_forwarded = |name: &str| FORWARDED.contains(&name) || name.starts_with("x-forwarded-");
    if peer.to_canonical().is_loopback() && !headers.keys().any(|name| is_forwarded(name.as_str())) {
        return Ok(());
    }
    let Some(token) = token else { return Err(ApiError::not_found("page")) };
    let mut values = headers.get_all(http::header::AUTHORIZATION).iter();
    let (value, more) = (values.next().and_then(|value| value.to_str().ok()), values.next());
    let given = value.and_then(|value| value.split_once(' ')).filter(|_| more.is_none());
    let given =
        given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map_or("", |(_, token)| token);
    let expected = token.expose_secret();
    let same = bool::from(given.trim_start_matches(' ').as_bytes().ct_eq(expected.as_bytes()));
    if same && !expected.is_empty() { Ok(()) } else { Err(ApiError::unauthenticated()) }
}

/// Handles `metrics.read`.
///
/// # Errors
/// 404, 401.
pub async fn read(call: Call) -> Result<Reply, ApiError> {
    admit(call.peer, &call.parts.headers, call.app.config.metrics_token.as_ref())?;
    let mut response = Response::new(Body::from(page(&call.app)));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    Ok(Reply::Raw(response))
}

/// Everything, in Prometheus' text format.
pub fn page(app: &App) -> String {
    let mut page = Page::default();
    of_requests(&mut page, &app.metrics);
    of_streams(&mut page, app);
    of_store(&mut page, app);
    of_maintenance(&mut page, &app.metrics);
    of_process(&mut page);
    page.finish()
}

fn of_requests(page: &mut Page, metrics: &Metrics) {
    let asked = || {
        let was_asked = |requests: &Requests| requests.classes.iter().any(|class| class.get() > 0);
        metrics.requests.iter().filter(move |(_, requests)| was_asked(requests))
    };
    page.family("teamlamp_requests_total", "counter", "Requests, by operation and class of status.");
    for (operation, requests) in asked() {
        for (class, count) in (1..).zip(&requests.classes).filter(|(_, count)| count.get() > 0) {
            let labels = [("operation", *operation), ("status", &format!("{class}xx"))];
            page.sample("teamlamp_requests_total", &labels, count.get());
        }
    }
    let name = "teamlamp_request_seconds";
    page.family(name, "histogram", "Seconds until an answer began, by operation.");
    for (operation, requests) in asked() {
        histogram(page, name, &[("operation", operation)], &requests.seconds);
    }
    page.single(
        "teamlamp_rate_limited_total",
        "counter",
        "Requests that were refused for coming too often.",
        metrics.rate_limited.get(),
    );
}

fn of_streams(page: &mut Page, app: &App) {
    let gauges = [
        ("teamlamp_streams", "Open streams of events, presence and long polls.", app.streams.open()),
        ("teamlamp_links", "Machines whose link is open.", app.hub.held().len()),
        ("teamlamp_connections", "Open connections.", app.connections.open()),
    ];
    for (name, help, value) in gauges {
        page.single(name, "gauge", help, value as u64);
    }
    let deliveries = app.metrics.deliveries.get();
    page.single("teamlamp_deliveries_total", "counter", "Messages given to readers of streams.", deliveries);
    let help = "Streams that were ended since their reader took nothing for ten seconds.";
    page.single("teamlamp_slow_readers_total", "counter", help, app.metrics.slow_readers.get());
}

fn of_store(page: &mut Page, app: &App) {
    let (store, written) = (&app.store, app.store.written());
    let counters = [
        ("teamlamp_store_commits_total", "Transactions that were committed.", &written.commits),
        ("teamlamp_store_failures_total", "Transactions that could not be committed.", &written.failures),
        ("teamlamp_store_rows_total", "Rows inserted, changed or deleted.", &written.rows),
        ("teamlamp_events_total", "Events that were appended.", &written.events),
    ];
    for (name, help, counter) in counters {
        page.single(name, "counter", help, counter.get());
    }
    let histograms = [
        ("teamlamp_store_commit_seconds", "Seconds of a transaction with its fsync.", &written.seconds),
        ("teamlamp_store_commit_changes", "Changes that one transaction carried.", &written.batch),
    ];
    for (name, help, values) in histograms {
        page.family(name, "histogram", help);
        histogram(page, name, &[], values);
    }
    let database_bytes = std::fs::metadata(store.path()).map_or(0, |file| file.len());
    let gauges = [
        ("teamlamp_store_waiting", "Changes that wait for the writer.", store.waiting() as u64),
        ("teamlamp_store_log_bytes", "Bytes of the write-ahead log.", store.log_bytes()),
        ("teamlamp_store_database_bytes", "Bytes of the database's file.", database_bytes),
    ];
    for (name, help, value) in gauges {
        page.single(name, "gauge", help, value);
    }
    page.family("teamlamp_store_fault", "gauge", "1 for what keeps the store from working now, else 0.");
    for fault in Fault::ALL {
        let is = u64::from(store.fault() == Some(fault));
        page.sample("teamlamp_store_fault", &[("reason", fault.word())], is);
    }
}

/// Name, kind and help of a family, and its value of a step.
type Column = (&'static str, &'static str, &'static str, fn(&StepCount) -> u64);

fn of_maintenance(page: &mut Page, metrics: &Metrics) {
    let runs = metrics.maintenance_runs.get();
    page.single("teamlamp_maintenance_runs_total", "counter", "Runs of maintenance.", runs);
    let steps = metrics.steps();
    let columns: [Column; 3] = [
        ("teamlamp_maintenance_step_runs_total", "counter", "Runs of a step of maintenance.", |s| s.runs),
        ("teamlamp_maintenance_step_failures_total", "counter", "Runs of a step that failed.", |s| {
            s.failures
        }),
        ("teamlamp_maintenance_backlog", "gauge", "1 where a step left work at its last run.", |s| {
            u64::from(s.backlog)
        }),
    ];
    for (name, kind, help, value) in columns {
        page.family(name, kind, help);
        for (step, count) in &steps {
            page.sample(name, &[("step", *step)], value(count));
        }
    }
    let name = "teamlamp_maintenance_step_seconds_total";
    page.family(name, "counter", "Seconds that a step took.");
    for (step, count) in &steps {
        page.sample(name, &[("step", *step)], count.took.as_secs_f64());
    }
}

fn histogram(page: &mut Page, name: &str, labels: &[(&str, &str)], values: &Histogram) {
    let mut below = 0;
    let bounds = values.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(&values.counts) {
        below += count.get();
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
        page.sample(&format!("{name}_bucket"), &labels, below);
    }
    page.sample(&format!("{name}_sum"), labels, Duration::from_micros(values.sum_micros.get()).as_secs_f64());
    page.sample(&format!("{name}_count"), labels, below);
}

/// The process, under the names that every Prometheus client has for it; where the system tells.
fn of_process(page: &mut Page) {
    if let Some(bytes) = resident_bytes() {
        page.single("process_resident_memory_bytes", "gauge", "Resident memory in bytes.", bytes);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        page.single("process_open_fds", "gauge", "Open file descriptors.", open.count() as u64);
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(peer: &str, headers: &[(&'static str, &str)], token: Option<&str>) -> u16 {
        let map = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let token = token.map(|token| SecretString::from(token.to_owned()));
        let result = admit(peer.parse().unwrap(), &map.collect(), token.as_ref());
        result.map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn this_computer_reads_and_others_need_the_token() {
        assert_eq!(status("127.0.0.1", &[], None), 200);
        assert_eq!(status("::ffff:127.0.0.1", &[], None), 200);
        for header in ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "via"] {
            assert_eq!(
                status("127.0.0.1", &[(header, "x")], None),
                404,
                "{header}: a proxy's client is not here"
            );
        }
        assert_eq!(status("192.0.2.1", &[], None), 404);
        assert_eq!(status("192.0.2.1", &[], Some("secret-token")), 401);
        let with = |value: &str| status("192.0.2.1", &[("authorization", value)], Some("secret-token"));
        assert_eq!(with("Bearer secret-token"), 200);
        for wrong in
            ["Bearer secret-tokem", "Bearer secret-token2", "Bearer ", "Basic secret-token", "secret-token"]
        {
            assert_eq!(with(wrong), 401, "{wrong}");
        }
        assert_eq!(status("192.0.2.1", &[("authorization", "Bearer ")], Some("")), 401, "no token is no key");
    }

    #[test]
    fn an_observation_is_counted_in_every_bucket_that_holds_it() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 7.0] {
            histogram.observe(value);
        }
        let mut page = Page::default();
        page.family("t", "histogram", "Test.");
        super::histogram(&mut page, "t", &[("operation", "a")], &histogram);
        let lines: Vec<String> = page.finish().lines().skip(2).map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                r#"t_bucket{operation="a",le="1"} 2"#,
                r#"t_bucket{operation="a",le="2"} 3"#,
                r#"t_bucket{operation="a",le="+Inf"} 4"#,
                r#"t_sum{operation="a"} 10"#,
                r#"t_count{operation="a"} 4"#,
            ]
        );
    }
}
