"""Real processes: what was sent before a clean end is there, and what was acknowledged before a kill."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.kit.log import values

PARTITIONS = 3
RECORDS = 300


def new_cluster(folder: Path) -> str:
    """A cluster on two stores, so that uploads have threads of their own."""
    url = f"file://{folder}/cluster"
    init_cluster(url, stores={"a": f"file://{folder}/a", "b": f"file://{folder}/b"})
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, replication_factor=2)
    return url


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.client.producer.sending_process", url, *arguments]


def there(url: str) -> list[str]:
    """The values of all partitions. Within each, numbers ascend: their process sent them so."""
    found: list[str] = []
    with sparklog.connect(url) as cluster:
        for partition in range(PARTITIONS):
            of_partition = values(cluster, partition)
            numbers = [int(value) for value in of_partition if value.isdigit()]
            assert numbers == sorted(numbers)
            found += of_partition
    return found


@pytest.mark.parametrize(("what", "code", "records"), [("fails", 1, RECORDS), ("leaves", 0, 2 * RECORDS)])
def test_what_was_sent_before_a_program_ends_is_there(tmp_path: Path, what: str, code: int, records: int) -> None:
    url = new_cluster(tmp_path)
    done = subprocess.run(command(url, what, str(RECORDS)), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Exception ignored" not in done.stderr
    assert sorted(there(url)) == sorted(f"{n}" for n in range(records))


def test_a_forked_child_sends_nothing_of_its_parent_and_makes_a_producer_of_its_own(tmp_path: Path) -> None:
    url = new_cluster(tmp_path)
    done = subprocess.run(command(url, "forks", "5"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "this producer belongs to the process that was forked" in done.stdout
    assert done.stdout.endswith("True\n"), "whoever waits for a record there is told so"
    assert sorted(there(url)) == ["0", "1", "2", "3", "4", "child", "parent"]


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    _kill(tmp_path, 700)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(20))
def test_many_kills(tmp_path: Path, seed: int) -> None:
    _kill(tmp_path, random.Random(seed).randrange(1, 3_000))


def _kill(folder: Path, after: int) -> None:
    """Kill the process once so many records are acknowledged."""
    url = new_cluster(folder)
    acknowledged: list[str] = []
    with subprocess.Popen(command(url, "sends"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged.append(line.strip())
            if len(acknowledged) == after:
                process.kill()
    if not acknowledged[-1].isdigit():
        acknowledged.pop()  # cut by the kill
    values = there(url)
    assert len(set(values)) == len(values)
    assert set(acknowledged) <= set(values)
