"""conf/prometheus-alerts.yml and conf/grafana: all that they name is in /metrics, and Prometheus itself takes it."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparklog.coordinator.watching.metric_names import METRICS
from sparklog.core.config.cluster_config import effective_cluster
from tests.conf.promql import LABELS, metrics_in, wrong_in
from tests.docs.markdown_pages import ROOT

ALERTS = ROOT / "conf" / "prometheus-alerts.yml"
CLOUDWATCH = ROOT / "terraform" / "modules" / "observability"
DASHBOARDS = sorted((ROOT / "conf" / "grafana").glob("*.json"))
DEFAULTS = effective_cluster({})
COLUMNS = 24  # of Grafana's grid


def alerts() -> list[dict[str, Any]]:
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    return [rule for group in rules["groups"] for rule in group["rules"]]


def dashboard(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def targets(file: Path) -> list[tuple[str, str]]:
    """The expressions of a dashboard with their legends."""
    panels = [panel for panel in dashboard(file)["panels"] if panel["type"] != "row"]
    return [(target["expr"], target["legendFormat"]) for panel in panels for target in panel["targets"]]


def test_alerts_use_metrics_that_exist() -> None:
    assert {
        "SparklogNoCoordinatorLeads",
        "SparklogUnderReplicated",
        "SparklogFailedJobs",
        "SparklogQueueFull",
    } <= {rule["alert"] for rule in alerts()}
    for rule in alerts():
        assert wrong_in(rule["expr"], *rule["annotations"].values()) == [], rule
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in ("critical", "warning")


def cloudwatch_alarms() -> dict[str, tuple[set[str], float, str]]:
    """The metrics, the threshold and the description of each alarm on coordinators, by its name."""
    text = (CLOUDWATCH / "alarms.tf").read_text(encoding="utf-8")
    variables = (CLOUDWATCH / "variables.tf").read_text(encoding="utf-8")
    made = {}
    for name, body in re.findall(r"^    ([a-z-]+) = {\n(.*?)^    }", text, re.DOTALL | re.MULTILINE):
        if not (metrics := set(re.findall(r'\bmetric += "(sparklog_\w+)"', body))):
            continue
        (threshold,) = re.findall(r"^ +threshold += (\S+)", body, re.MULTILINE)
        if threshold.startswith("var."):
            pattern = rf'^variable "{threshold[4:]}" {{\n.*?^  default += (\S+)'
            (threshold,) = re.findall(pattern, variables, re.DOTALL | re.MULTILINE)
        (description,) = re.findall(r'^ +description += "(.*)"$', body, re.MULTILINE)
        made[name] = (metrics, float(threshold), description)
    return made


def advice(text: str) -> str:
    """What both should say: in other letters, and with the names of a log and of charts left out."""
    said = text.replace("${local.logs}", "See their log.")
    return re.sub(r"(See|Compare) the (?:panel|chart).*", "Look at the dashboard.", said).lower()


def test_prometheus_and_cloudwatch_have_the_same_alarms() -> None:
    """The same names, metrics, thresholds and advice, but for full disks."""
    cloudwatch, found = cloudwatch_alarms(), []
    for rule in alerts():
        if rule["alert"] == "SparklogFullStores":
            assert f" < {DEFAULTS.store_free_min_bytes}" in rule["expr"]
            continue
        name = re.sub(r"(?<!^)([A-Z])", r"-\1", rule["alert"].removeprefix("Sparklog")).lower()
        found.append(name)
        metrics, threshold, description = cloudwatch[name]
        assert metrics <= metrics_in(rule["expr"]), name
        assert float(re.findall(r" [<>] ([\d.]+)", rule["expr"])[0]) == threshold, name
        assert advice(rule["annotations"]["description"]) in advice(description), name
    assert sorted(found) == sorted(cloudwatch)


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_use_metrics_that_exist(file: Path) -> None:
    found = targets(file)
    assert found
    for expression, legend in found:
        assert wrong_in(expression, legend) == [], (file.name, expression)
        assert legend or "by" not in expression or "sum(" in expression, f"lines of {expression} have no names"


@pytest.mark.parametrize(
    ("expression", "legend", "wrong"),
    [
        ("max(sparklog_offline_partition)", "", ["sparklog_offline_partition"]),
        ("max by (topic) (sparklog_store_leaders)", "", ["topic"]),
        ('max(sparklog_stores{status="dead"})', "", ["status"]),
        ("max by (store) (sparklog_store_leaders)", "{{zone}}", ["zone"]),
        ("rate(sparklog_submit_duration_seconds_total[5m])", "", ["sparklog_submit_duration_seconds_total"]),
        ("up", "", ["no metric in 'up'"]),
    ],
)
def test_a_wrong_name_is_noticed(expression: str, legend: str, wrong: list[str]) -> None:
    assert wrong_in(expression, legend) == wrong


def test_dashboards_show_every_metric_and_all_that_alerts_watch() -> None:
    shown = {name for file in DASHBOARDS for expression, _ in targets(file) for name in metrics_in(expression)}
    shown |= {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    without = {"process_virtual_memory_bytes"}  # says nothing of a process
    assert {metric.name for metric in METRICS} - shown == without
    watched = {re.sub(r"_(bucket|count|sum)$", "", name) for rule in alerts() for name in metrics_in(rule["expr"])}
    assert watched <= shown


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_can_be_imported(file: Path) -> None:
    """Grafana asks for the data source by a variable, knows the dashboard by its uid, and lays panels on a grid."""
    board = dashboard(file)
    assert re.fullmatch(r"[a-z-]{1,40}", board["uid"])
    assert len({dashboard(each)["uid"] for each in DASHBOARDS}) == len(DASHBOARDS)
    assert board["schemaVersion"] >= 36
    assert board["title"]
    assert "id" not in board  # an id of somebody else's database
    (variable,) = board["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    source = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        if panel["type"] != "row":
            assert panel["datasource"] == source
            assert panel["description"]
            assert [target["datasource"] for target in panel["targets"]] == [source] * len(panel["targets"])
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        assert apart(one, other), (one, other)


def apart(one: dict[str, int], other: dict[str, int]) -> bool:
    """Whether two places of the grid share no cell."""
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    return beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_panels_that_alerts_name_are_there() -> None:
    titles = {panel["title"] for file in DASHBOARDS for panel in dashboard(file)["panels"]}
    advised = " ".join(rule["annotations"]["description"] for rule in alerts())
    named = set(re.findall(r'"([A-Z][^"]+)"', advised))
    assert named
    assert named <= titles


def test_pages_that_the_files_name_are_there() -> None:
    for file in (ALERTS, *DASHBOARDS):
        for page in re.findall(r"docs/\w+\.md", file.read_text(encoding="utf-8")):
            assert (ROOT / page).is_file(), (file, page)
    assert LABELS["sparklog_stores"] == {"state"}
