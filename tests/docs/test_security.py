"""docs/security.md: its snippets lead from nothing to a secured coordinator, which lets in whom it should."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

import sparklog
from sparklog.coordinator.access.access_file import parse_access
from tests.docs.clean_shell import in_clean_shell
from tests.docs.test_replication import NO_AGENT_IS_LEFT
from tests.servers.local_server import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


JOBS = ("roll", "compaction", "retention", "replication", "recovery", "verify", "vacuum")
OF_JOBS = ("report-job", "move-recovery-point")
# A coordinator that soon runs its jobs, and a program that waits until each of them has run once.
SOON = "--cluster-config log.retention.check.interval.ms=5000 --cluster-config vacuum.interval.ms=5000"
RUN = """
python -c '
import sys, time, sparklog
with sparklog.connect(sys.argv[1]) as cluster:
    while not {"roll", "compaction", "retention", "vacuum"} <= cluster.connection.newest_state().jobs.keys():
        time.sleep(0.1)
' $SPARKLOG_CLUSTER
"""


# M: N-05
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine")
def test_the_snippets_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = "\n".join(SNIPPETS).replace("/tmp/sparklog-secured", f"{tmp_path}/secured").replace("7400", str(free_port()))
    text = text.replace("sparklog cluster init", f"sparklog cluster init {SOON}").replace("kill %1", f"{RUN}\nkill %1")
    printed = in_clean_shell(tmp_path, f'export PATH="$PWD/.venv/bin:$PATH"\n{NO_AGENT_IS_LEFT}\n{text}')
    assert "loader has no right to alter topic 'orders'" in printed
    assert "refused, as it should be" in printed
    folder = tmp_path / "secured"
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    commands = [(line["principal"], line["kind"], line.get("error")) for line in lines if "kind" in line]
    assert [command for command in commands if command[1] not in OF_JOBS] == [
        ("loader", "append", None),
        ("loader", "delete-topic", "TOPIC_AUTHORIZATION_FAILED"),
        ("operator", "add-partitions", None),
    ]
    with sparklog.connect(str(folder / "cluster")) as cluster:
        assert cluster.read("orders", partition=0)["value"].to_pylist() == [b"1 tea"]
        assert cluster.describe("orders").partitions
        jobs = cluster.connection.follower.state.jobs
        assert {name: run.failed_partitions for name, run in jobs.items()} == dict.fromkeys(JOBS, 0)
    of_jobs = {(principal, error) for principal, kind, error in commands if kind in OF_JOBS}
    assert of_jobs == {("sparklog-jobs", None), ("operator", None)}
    assert "error:" not in (folder / "coordinator.log").read_text()


def test_the_files_that_it_shows_are_legal() -> None:
    config, access = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert set(tomllib.loads(config)["cluster"]) == {"url", "token", "ca"}
    assert [principal.name for principal, _ in parse_access(access.encode()).principals] == ["loader"]
