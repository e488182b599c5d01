//! `GET /metrics`, as Prometheus and others see it.

use crate::world::World;
use secrecy::SecretString;
use std::collections::BTreeMap;
use teamlamp_server::maintenance::Upkeep;

/// Reads the text format strictly: each sample belongs to the family before it, no family comes twice.
fn read(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut families) = (BTreeMap::new(), BTreeMap::new());
    let mut family = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap().to_owned();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(name == family && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        assert!(name == family || base == Some(family.as_str()), "{line} stands in {family}");
        let value: f64 = value.parse().unwrap();
        assert!(samples.insert(sample.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

#[tokio::test]
async fn the_page_counts_what_happened_and_names_nobody() {
    let world = World::new().await;
    let owner = world.owner().await;
    let machine = world.enroll(&owner, "a-secret-laptop").await;
    for _ in 0..3 {
        assert_eq!(world.get("/v1/me").by(&owner.token).send().await.status, 200);
    }
    assert_eq!(world.get("/v1/me").send().await.status, 401);
    assert_eq!(world.get("/v1/nothing").by(&owner.token).send().await.status, 404);
    Upkeep::default().run(world.server.app()).await;
    let answer = world.get("/metrics").send().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let samples = read(&answer.text);
    let value = |name: &str| *samples.get(name).unwrap_or_else(|| panic!("no {name} in {}", answer.text));
    assert_eq!(value(r#"teamlamp_requests_total{operation="me.read",status="2xx"}"#), 3.0);
    assert_eq!(value(r#"teamlamp_requests_total{operation="me.read",status="4xx"}"#), 1.0);
    assert_eq!(value(r#"teamlamp_requests_total{operation="unknown",status="4xx"}"#), 1.0);
    assert_eq!(value(r#"teamlamp_request_seconds_count{operation="me.read"}"#), 4.0);
    assert_eq!(value(r#"teamlamp_request_seconds_bucket{operation="me.read",le="+Inf"}"#), 4.0);
    // The team, its owner, the machine.
    assert_eq!(value("teamlamp_events_total"), 3.0);
    assert!(value("teamlamp_store_commits_total") >= 3.0 && value("teamlamp_store_rows_total") > 5.0);
    assert_eq!(value("teamlamp_store_commit_seconds_count"), value("teamlamp_store_commits_total"));
    assert!(value("teamlamp_store_database_bytes") > 0.0 && value("teamlamp_store_log_bytes") > 0.0);
    assert!(value("teamlamp_connections") >= 1.0);
    for reason in ["disk_full", "read_only", "corrupt", "locked", "io"] {
        assert_eq!(value(&format!("teamlamp_store_fault{{reason=\"{reason}\"}}")), 0.0);
    }
    assert!(value(r#"teamlamp_maintenance_step_runs_total{step="idempotency"}"#) >= 1.0);
    assert_eq!(value(r#"teamlamp_maintenance_backlog{step="events"}"#), 0.0);
    for secret in [&owner.id, &owner.token, &owner.team, &machine.id, &machine.token] {
        assert!(!answer.text.contains(secret.as_str()));
    }
    for name in ["Acme", "Olga", "a-secret-laptop"] {
        assert!(!answer.text.contains(name), "{name}");
    }
}

#[tokio::test]
async fn others_need_the_token_and_a_page_on_the_internet_gets_nothing() {
    let world =
        World::with(|config| config.metrics_token = Some(SecretString::from("0123456789abcdef"))).await;
    let far = || world.get("/metrics").from("192.0.2.7");
    far().send().await.refused(401, "authentication_required");
    far().by("0123456789abcdee").send().await.refused(401, "authentication_required");
    assert_eq!(far().by("0123456789abcdef").send().await.status, 200);
    let proxied = || world.get("/metrics").header("x-forwarded-for", "192.0.2.7");
    proxied().send().await.refused(401, "authentication_required");
    assert_eq!(proxied().by("0123456789abcdef").send().await.status, 200);
    let rebound = world.get("/metrics").header("host", "evil.example").send().await;
    rebound.refused(421, "misdirected");
    assert!(!format!("{:?}", world.server.app().config).contains("0123456789abcdef"));
    let none = World::new().await;
    none.get("/metrics").from("192.0.2.7").send().await.refused(404, "not_found");
}
