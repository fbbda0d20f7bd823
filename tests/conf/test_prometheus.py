"""A real Prometheus scrapes a coordinator: every panel of conf/grafana shows something, every alert is evaluated."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparklog
from sparklog.maintenance.space.retention_job import run_retention
from tests.conf.test_monitoring import ALERTS, DASHBOARDS, alerts, targets
from tests.faults.running_coordinators import running_coordinators
from tests.faults.store_folders import StoreFolders
from tests.servers.local_server import free_port

pytestmark = [pytest.mark.slow, pytest.mark.campaign]

SECONDS = 20  # of scrapes, one a second
QUIET = {"sparklog_snapshot_age_seconds"}  # there is no snapshot of so short a chain


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Its address, once it serves."""
    port = free_port()
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{ALERTS}]\n"
        f"scrape_configs: [{{job_name: sparklog, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    command = [
        *("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def asked(address: str, path: str, **query: str) -> Any:
    """The data of an answer. Waits for the server to serve."""
    url = f"{address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    end_s = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        except urllib.error.URLError:
            assert time.monotonic() < end_s
            time.sleep(0.2)


def test_every_panel_shows_something_and_no_alert_fires_on_a_quiet_cluster(tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("this machine has no prometheus (apt-get install --yes prometheus)")
    folders = StoreFolders.create(tmp_path)
    with running_coordinators(folders.url) as coordinators, sparklog.connect(folders.url) as cluster:
        coordinator = coordinators.start("--job-command", "none")
        coordinator.wait_for("leads")
        cluster.create_topic("t", assignment=[["a", "b", "c"]])
        with prometheus(tmp_path, coordinator.address.removeprefix("http://")) as address:
            for number in range(SECONDS):
                cluster.append("t", pa.table({"value": [f"{number}"]}))
                cluster.commit_offsets("g", {("t", 0): number})
                refuse(coordinator.address)
                time.sleep(1)
            run_retention(folders.url)
            time.sleep(3)
            for file in DASHBOARDS:
                for expression, _ in targets(file):
                    query = expression.replace("$__rate_interval", "10s")
                    shown = asked(address, "query", query=query)["result"]
                    assert shown or any(name in expression for name in QUIET), (file.name, expression)
            groups = asked(address, "rules")["groups"]
    rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
    assert rules.keys() == {rule["alert"] for rule in alerts()}
    assert {name: rule["lastError"] for name, rule in rules.items() if rule.get("lastError")} == {}
    assert {name for name, rule in rules.items() if rule["state"] == "firing"} == set()


def refuse(address: str) -> None:
    """A request that is answered with an error."""
    request = urllib.request.Request(f"{address}/v1/plan", b"{}", {"content-type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    refused.value.close()


def test_promtool_takes_the_alerts() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("this machine has no promtool (apt-get install --yes prometheus)")
    checked = subprocess.run(["promtool", "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
