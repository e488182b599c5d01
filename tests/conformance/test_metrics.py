"""Prometheus' own parser reads `/metrics`, and what it reads can be kept: no series twice, few labels, no names."""

import math

import httpx
from prometheus_client.parser import text_string_to_metric_families
from team import KIND, Server

# A series costs memory in Prometheus for as long as it is kept: what can take any value is no label.
LABELS = {"operation", "status", "le", "reason", "step"}
SERIES = 2_000
# Ours, and those that Prometheus itself names for every process.
PREFIXES = ("teamlamp_", "process_")
# What a sample's name may end in, by the type of its family.
ENDS = {"counter": {"_total"}, "gauge": {""}, "histogram": {"_bucket", "_sum", "_count"}}


def test_prometheus_reads_it_and_can_keep_it(server: Server):
    path = f"/v1/teams/{server.team}"
    key = {"name": "a-secret-laptop", "enrollment_key": "0123456789abcdef"}
    assert server.call("POST", f"{path}/machines", json=key).status_code == 201
    for number in range(3):
        event = {"kind": KIND, "data": {"n": number}}
        assert server.call("POST", f"{path}/events", json={"events": [event]}).status_code == 201
        assert httpx.get(f"{server.direct}/v1/{number}/not-there").status_code in (401, 404)
    answer = httpx.get(f"{server.direct}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answer.text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)) and len(names) > 10, "each family once"
    seen, values = set(), {}
    for family in families:
        assert family.type in ENDS and family.documentation and family.name.startswith(PREFIXES), family
        for sample in family.samples:
            assert sample.name.removeprefix(family.name) in ENDS[family.type], sample
            assert math.isfinite(sample.value) and sample.value >= 0, sample
            assert set(sample.labels) <= LABELS, sample
            series = (sample.name, *sorted(sample.labels.items()))
            assert series not in seen, f"twice: {series}"
            seen.add(series)
            values[series] = sample.value
    assert len(seen) < SERIES, len(seen)
    published = ("teamlamp_requests_total", ("operation", "events.publish"), ("status", "2xx"))
    assert values[published] == 3
    for secret in (server.token, server.team, "a-secret-laptop", "Acme", "not-there"):
        assert secret not in answer.text
    whole_histograms(families)


def whole_histograms(families: list) -> None:
    """Buckets rise with their limit, and the last holds all of them."""
    for family in (each for each in families if each.type == "histogram"):
        by_series: dict[tuple, dict] = {}
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "le"}
            found = by_series.setdefault(tuple(sorted(labels.items())), {"buckets": []})
            if "le" in sample.labels:
                found["buckets"].append((float(sample.labels["le"]), sample.value))
            else:
                found[sample.name.removeprefix(family.name)] = sample.value
        for series, found in by_series.items():
            limits, counts = zip(*found["buckets"])
            assert list(limits) == sorted(limits) and limits[-1] == math.inf, (family.name, series)
            assert list(counts) == sorted(counts) and counts[-1] == found["_count"], (family.name, series)
