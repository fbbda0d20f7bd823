"""Metrics in CloudWatch's embedded metric format: the rules of the format, the values, and what Terraform counts on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.applications import Starlette

from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.watching.emf import CLUSTER, EXPORTED, MetricTarget, metric_lines
from sparklog.coordinator.watching.metric_names import GAUGE, HISTOGRAM, METRICS
from sparklog.coordinator.watching.metrics import families
from sparklog.coordinator.watching.observation import observe
from sparklog.core.commands import CreateTopic
from sparklog.core.errors import InvalidInput
from sparklog.core.groups.membership import ConsumerGroup
from sparklog.core.records import JobRan
from sparklog.wire.messages import SUBMIT
from tests.chain.chain_kit import Member, append, new_chain
from tests.coordinator.asgi import request
from tests.coordinator.http.test_app import served, submit_request
from tests.coordinator.looks import wait_for_looks

ROOT = Path(__file__).parents[3]
MOST_METRICS = 100  # in a line, as the format allows
UNITS = {"Count", "Seconds", "Bytes"}  # those of MetricDatum that are used
Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def chain() -> Member:
    return new_chain()


def metrics_of(texts: list[str]) -> Found:
    """The value of each metric by name and dimensions, as CloudWatch takes them. Checks the rules of the format."""
    found: Found = {}
    for text in texts:
        assert "\n" not in text
        assert len(text) < 256 * 1024
        document = json.loads(text)
        meta = document["_aws"]
        assert isinstance(meta["Timestamp"], int)
        assert set(meta) == {"Timestamp", "CloudWatchMetrics"}
        (directive,) = meta["CloudWatchMetrics"]
        assert set(directive) == {"Namespace", "Dimensions", "Metrics"}
        assert 1 <= len(directive["Metrics"]) <= MOST_METRICS
        assert directive["Dimensions"]
        for keys in directive["Dimensions"]:
            assert len(keys) == len(set(keys)) <= 30
            values = [document[key] for key in keys]
            assert all(isinstance(value, str) and 1 <= len(value) <= 1024 and value.isprintable() for value in values)
            assert all(value.isascii() and value.strip() for value in values)
        for metric in directive["Metrics"]:
            assert metric["Unit"] in UNITS
            value = document[metric["Name"]]
            assert isinstance(value, int | float)
            for keys in directive["Dimensions"]:
                key = metric["Name"], frozenset((key, document[key]) for key in keys)
                # The same name and dimensions in two lines: those of a label's values, over all of them.
                found[key] = max(found.get(key, value), value)
    return found


def of(found: Found, metric: str, /, **dimensions: str) -> float:
    (cluster,) = {value for _, keys in found for key, value in keys if key == CLUSTER}
    return found[metric, frozenset({CLUSTER: cluster, **dimensions}.items())]


def test_every_exported_metric_is_one_of_the_list_with_its_label() -> None:
    known: dict[str, set[str]] = {}
    for metric in METRICS:
        for name in [metric.name] if metric.kind != HISTOGRAM else [f"{metric.name}_count", f"{metric.name}_sum"]:
            known[name] = set(metric.labels)
    for name, export in EXPORTED.items():
        assert {export.label} - {None} <= known[name], name


# M: F-02
def test_lines_say_what_metrics_say(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> tuple[list[str], list[str]]:
        service.follower.state.jobs["roll"] = JobRan("roll", 1_000, 3_000, 2, "{}")
        for number, name in enumerate(("a", "b")):
            service.follower.state.groups[name] = ConsumerGroup(name, number)
        service.look_at_stores()
        wait_for_looks()
        texts, totals = metric_lines(families(observe(service, 5_000)), "acme", service.metadata, 5_000, {})
        for _ in range(3):
            await request(app, "POST", SUBMIT, [submit_request(chain, append())])
        await request(app, "POST", SUBMIT, [submit_request(chain, CreateTopic("orders"))])
        await request(app, "GET", "/no/such/path")
        return texts, metric_lines(families(observe(service, 65_000)), "acme", service.metadata, 65_000, totals)[0]

    first, second = (metrics_of(texts) for texts in served(chain, work))
    assert {name for name, _ in first} | {name for name, _ in second} == set(EXPORTED)
    assert of(first, "sparklog_active_controller") == of(second, "sparklog_active_controller") == 1
    assert of(first, "sparklog_partitions") == 2
    assert of(first, "sparklog_commits_total") == 1  # the claim
    assert of(second, "sparklog_commits_total") == 3  # since the first lines
    assert of(second, "sparklog_submit_duration_seconds_count") == 3
    assert of(second, "sparklog_appended_records_total") > 0
    assert of(second, "sparklog_group_lag_seconds") == 0
    assert of(second, "sparklog_refused_requests_total") == 1  # of any code
    assert of(second, "sparklog_requests_total", status="2xx") == 4  # on any route
    assert of(second, "sparklog_requests_total", status="4xx") == 1
    assert of(first, "sparklog_stores", state="new") == 1
    assert of(first, "sparklog_store_up", store="a") == 0  # nobody has marked it
    assert of(first, "sparklog_job_last_run_failed_partitions", name="roll") == 2
    assert of(first, "sparklog_job_last_run_failed_partitions") == 2


def test_a_counter_is_what_it_grew_by_and_begins_again_at_zero() -> None:
    def commits(total: float, before: Any) -> tuple[float, Any]:
        family = CounterMetricFamily("sparklog_commits", "", value=total)
        texts, totals = metric_lines([family], "acme", "s3://a/log", 0, before)
        return of(metrics_of(texts), "sparklog_commits_total"), totals

    grew, totals = commits(7, {})
    assert grew == 7
    grew, totals = commits(9, totals)
    assert grew == 2
    grew, totals = commits(9, totals)
    assert grew == 0
    grew, totals = commits(4, totals)  # another coordinator led meanwhile, and this one leads anew
    assert grew == 4


def test_of_groups_the_one_furthest_behind_is_printed() -> None:
    family = GaugeMetricFamily("sparklog_group_lag_seconds", "", labels=["consumergroup"])
    for name, seconds in (("a", 5), ("b", 7), ("c", 0)):
        family.add_metric([name], seconds)
    texts, _ = metric_lines([family], "acme", "s3://a/log", 0, {})
    assert of(metrics_of(texts), "sparklog_group_lag_seconds") == 7


def test_names_that_are_no_dimensions_are_made_so() -> None:
    family = GaugeMetricFamily("sparklog_job_last_run_failed_partitions", "", labels=["name"])
    names = ["roll", "rüll\n", " ", "x" * 5_000, '"}\n{"_aws"']
    for name in names:
        family.add_metric([name], 1)
    texts, _ = metric_lines([family], "acme", "s3://a/lög", 0, {})
    found = metrics_of(texts)
    shown = {value for _, keys in found for key, value in keys if key == "name"}
    assert shown == {"roll", "r?ll?", "?", "x" * 1_024, '"}?{"_aws"'}


def test_what_is_not_exported_makes_no_line() -> None:
    nothing: list[Metric] = [GaugeMetricFamily("sparklog_build_info", "", value=1)]
    assert metric_lines(nothing, "acme", "s3://a/log", 0, {}) == ([], {})


@pytest.mark.parametrize("namespace", ["", "AWS/ECS", ":x", "a b", "ä", "x" * 256, "a\n"])
def test_a_namespace_that_cloudwatch_refuses_is_refused(namespace: str) -> None:
    with pytest.raises(InvalidInput, match="--emf-namespace: wanted"):
        MetricTarget(namespace, print)


def test_a_coordinator_prints_them_if_it_is_told_so(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/log"
    command = [sys.executable, "-m", "sparklog", "--cluster", url]
    subprocess.run([*command, "cluster", "init"], check=True, stdout=subprocess.DEVNULL)
    environment = os.environ | {"SPARKLOG_EMF_NAMESPACE": "acme", "SPARKLOG_JOB_COMMAND": "none"}
    with subprocess.Popen([*command, "coordinator"], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            texts = first_lines(iter(process.stdout))
        finally:
            process.terminate()
    found = metrics_of(texts)
    assert of(found, "sparklog_stores", state="new") == 1
    assert {value for _, keys in found for key, value in keys if key == CLUSTER} == {url}
    assert {json.loads(text)["_aws"]["CloudWatchMetrics"][0]["Namespace"] for text in texts} == {"acme"}


def first_lines(said: Iterator[str]) -> list[str]:
    """The lines of metrics that come first, among what the coordinator says."""
    texts: list[str] = []
    for line in said:
        if line.startswith("{"):
            texts.append(line.rstrip("\n"))
        if '"state":"new"' in line:  # lines are sorted: this is the last one
            return texts
    raise AssertionError(f"it ended without metrics; it printed {texts}")


def test_alarms_and_dashboards_use_metrics_that_are_printed() -> None:
    named: dict[str, set[str]] = {}
    for file in (ROOT / "terraform" / "modules" / "observability").glob("*.tf"):
        for name in re.findall(r'"(sparklog_[a-z_]+)"', file.read_text(encoding="utf-8")):
            named.setdefault(name, set()).add(file.name)
    assert set(named) <= set(EXPORTED)
    assert {name for name, files in named.items() if "alarms.tf" in files} >= {
        "sparklog_active_controller",
        "sparklog_offline_partitions",
        "sparklog_under_min_isr_partitions",
        "sparklog_under_replicated_partitions",
        "sparklog_stores",
        "sparklog_store_max_lag_records",
        "sparklog_group_lag_seconds",
        "sparklog_job_last_run_failed_partitions",
        "sparklog_requests_total",
    }
    assert set(EXPORTED) == set(named), "each costs money in CloudWatch: what nothing shows is not printed"


def test_alarms_take_the_statistic_that_is_right_for_the_kind_of_metric() -> None:
    kinds = {
        name: metric.kind for metric in METRICS for name in (metric.name, f"{metric.name}_sum", f"{metric.name}_count")
    }
    text = (ROOT / "terraform" / "modules" / "observability" / "alarms.tf").read_text(encoding="utf-8")
    pairs = re.findall(r'metric\s+= "(sparklog_\w+)"\n\s+dimensions .*\n\s+statistic\s+= "(\w+)"', text)
    pairs += re.findall(r'metric = "(sparklog_\w+)", statistic = "(\w+)"', text)
    assert len(pairs) == len(re.findall(r'"sparklog_\w+"', text))
    for name, statistic in pairs:
        assert (statistic in ("Maximum", "Minimum")) == (kinds[name] == GAUGE), name
