"""Coordinators that are replaced one after the other under writers, as an upgrade does it, and what writers notice.

    python -m tests.faults.rolling_upgrade [ROUNDS]    a round with the leader last, one with the leader first, …

The coordinators have fixed addresses, which is all that the writers know. Each gets SIGTERM, and once it has ended, a
process of another version takes its place. docs/deploy.md has the figures of such a run.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.faults.ledger_writers import in_order
from tests.faults.listened import listened
from tests.faults.running_coordinators import (
    RunningCoordinator,
    RunningCoordinators,
    running_coordinators,
    wait_until_ready,
)
from tests.faults.upgrade_writer import PARTITIONS, TOPIC
from tests.servers.local_server import free_port

NEXT_VERSION = "0.1.0+next"
_PATIENCE_S = 120  # so that a writer that hears nothing fails the test instead of hanging it

Acknowledged = dict[int, dict[int, str]]  # partition -> offset -> the value that is there for ever


@dataclass(frozen=True)
class Heard:
    """An acknowledgement: who heard it, and when."""

    writer: str
    at_s: float


@dataclass(frozen=True)
class Step:
    """A coordinator that was replaced. Times are those of the monotonic clock."""

    address: str
    led: bool
    begun_s: float
    stopped_s: float
    ready_s: float


@dataclass
class UpgradeWriters:
    """Processes that write (`upgrade_writer`), and all that they have heard."""

    acknowledged: Acknowledged = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def running(self, addresses: str, processes: int, threads: int) -> Iterator[UpgradeWriters]:
        """They write inside this block, and all of them have ended after it."""
        self._writers = [f"{process}.{thread}" for process in range(processes) for thread in range(threads)]
        with ExitStack() as started:
            for number in range(processes):
                command = [sys.executable, "-m", "tests.faults.upgrade_writer", addresses, f"{number}", f"{threads}"]
                started.enter_context(listened(command, self._note))
            yield self

    def hear(self, times: int) -> None:
        """Return once every writer has heard of so many acknowledgements since this call."""
        with self._changed:
            before = len(self.heard)

            def all_have() -> bool:
                new = [each.writer for each in self.heard[before:]]
                return bool(self.errors) or all(new.count(writer) >= times for writer in self._writers)

            in_time = self._changed.wait_for(all_have, _PATIENCE_S)
        assert self.errors == []
        assert in_time, f"a writer has not heard of {times} acknowledgements in {_PATIENCE_S} s"

    def _note(self, said: Mapping[str, Any]) -> None:
        with self._changed:
            if "error" in said:
                self.errors.append(f"writer {said['writer']}: {said['error']}")
            else:
                self.heard.append(Heard(said["writer"], said["at_s"]))
                for partition, start, values in said["ranges"]:
                    self.acknowledged.setdefault(partition, {}).update(enumerate(values, start))
            self._changed.notify_all()


@dataclass
class ReplacedCoordinators:
    """Three coordinators at addresses of their own. `steps`: what was replaced so far."""

    running: RunningCoordinators
    next_version: Path
    at: dict[int, RunningCoordinator] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def addresses(self) -> str:
        """What the writers get as the address of the cluster."""
        return ",".join(f"http://127.0.0.1:{port}" for port in self.at)

    def begin(self) -> None:
        """Start three; the first one leads."""
        for _ in range(3):
            port = free_port()
            self.at[port] = self.running.start("--listen", f"127.0.0.1:{port}")
            wait_until_ready(self.at[port].address)

    def leader(self) -> int:
        """The port of the one that leads."""
        with sparklog.connect(self.running.url) as cluster:
            state = cluster.connection.newest_state()
            return int(state.coordinator.address.rpartition(":")[2])

    def replace(self, port: int) -> None:
        """One of them ends and has a successor at its address, which is ready when this returns."""
        led, begun_s = port == self.leader(), time.monotonic()
        self.at[port].send(signal.SIGTERM)
        assert self.at[port].process.wait() == 0
        stopped_s = time.monotonic()
        newer = {"PYTHONPATH": str(self.next_version), "PYTHONSAFEPATH": "1"}  # else the working directory comes first
        self.at[port] = self.running.start("--listen", f"127.0.0.1:{port}", variables=newer)
        wait_until_ready(self.at[port].address)
        self.steps.append(Step(self.at[port].address, led, begun_s, stopped_s, time.monotonic()))

    def versions(self) -> list[str]:
        """Of each coordinator, as it says itself."""
        return [version_at(each.address) for each in self.at.values()]


@contextmanager
def replaced_coordinators(folder: Path) -> Iterator[ReplacedCoordinators]:
    """A cluster below this folder, whose records are not where its metadata is, and three coordinators."""
    url = f"file://{folder}/metadata"
    init_cluster(url, stores={"a": f"{folder}/a"})
    with sparklog.connect(url) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with running_coordinators(url) as running:
        made = ReplacedCoordinators(running, next_version(folder))
        made.begin()
        yield made


def next_version(folder: Path) -> Path:
    """Where Python finds sparklog as it is, under another version."""
    source, target = Path(sparklog.__file__).parent, folder / "next"
    half_written = shutil.ignore_patterns("*.pyc.*")
    shutil.copytree(source, target / "sparklog", ignore=half_written)  # with the byte code: compiling takes seconds
    file = target / "sparklog" / "__init__.py"
    text = file.read_text(encoding="utf-8")
    assert text.count(f'__version__ = "{sparklog.__version__}"') == 1
    file.write_text(text.replace(f'"{sparklog.__version__}"', f'"{NEXT_VERSION}"'), encoding="utf-8")
    return target


def version_at(address: str) -> str:
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as reply:
        return str(reply.read().decode()).partition('build_info{version="')[2].partition('"')[0]


# ---- what must be true ------------------------------------------------------------------------------


def complaints(acknowledged: Acknowledged, url: str) -> list[str]:
    """What is wrong in the log itself, read without a coordinator."""
    found: Acknowledged = {}
    with sparklog.connect(url) as cluster:
        for partition in range(PARTITIONS):
            rows = cluster.read(TOPIC, partition=partition)
            values = [value.decode() for value in rows["value"].to_pylist()]
            found[partition] = dict(zip(rows["offset"].to_pylist(), values, strict=True))
    return differences(acknowledged, found)


def differences(acknowledged: Acknowledged, found: Acknowledged) -> list[str]:
    """Acknowledged records that are lost, records that nobody heard of, doubled ones, and an order that is wrong."""
    wrong = []
    for partition in sorted(acknowledged.keys() | found.keys()):
        wanted, there = acknowledged.get(partition, {}), found.get(partition, {})
        wrong += [
            f"{partition}: offset {offset} was acknowledged as {value}, found {there.get(offset)}"
            for offset, value in wanted.items()
            if there.get(offset) != value
        ]
        values = [there[offset] for offset in sorted(there)]
        wrong += [f"{partition}: {value} was never acknowledged" for value in set(values) - set(wanted.values())]
        if len(set(values)) != len(values):
            wrong.append(f"{partition}: {len(values) - len(set(values))} records are there twice")
        elif not in_order(values):
            wrong.append(f"{partition}: the records of a writer are not in its order")
    return wrong


# ---- what the writers noticed -----------------------------------------------------------------------


def longest_pause_s(times_s: Sequence[float], begun_s: float, end_s: float) -> float:
    """The longest time between two acknowledgements of which a part is between these times; 0 if there are no two."""
    pairs = itertools.pairwise(sorted(times_s))
    return max((after - before for before, after in pairs if after > begun_s and before < end_s), default=0.0)


def report(steps: Sequence[Step], heard: Sequence[Heard]) -> str:
    """A table: how long each step took, and the longest pause of a writer, and of all writers together, meanwhile."""
    of_each: dict[str, list[float]] = {}
    for each in heard:
        of_each.setdefault(each.writer, []).append(each.at_s)
    together = [each.at_s for each in heard]

    def pauses(begun_s: float, end_s: float) -> str:
        of_one = max(longest_pause_s(times_s, begun_s, end_s) for times_s in of_each.values())
        return f"{of_one:.2f} s | {longest_pause_s(together, begun_s, end_s):.2f} s"

    lines = [
        f"{len(of_each)} writers, {len(heard):,} acknowledgements, coordinators replaced: {len(steps)}",
        "",
        "| replaced | stopped after | ready again after | longest pause of a writer | … of all writers |",
        "|---|---:|---:|---:|---:|",
        f"| nothing yet | | | {pauses(min(together), steps[0].begun_s)} |",
    ]
    lines += [
        f"| {'the leader' if step.led else 'a standby'} | {step.stopped_s - step.begun_s:.2f} s"
        f" | {step.ready_s - step.begun_s:.2f} s | {pauses(step.begun_s, step.ready_s)} |"
        for step in steps
    ]
    return "\n".join(lines)


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder, replaced_coordinators(Path(folder)) as three:
        writers = UpgradeWriters()
        with writers.running(three.addresses, processes=2, threads=4):
            writers.hear(20)
            for number in range(rounds):
                upgrade_all(three, writers, leader_first=number % 2 == 1)
        print(report(three.steps, writers.heard))
        wrong = writers.errors + complaints(writers.acknowledged, three.running.url)
        print("\n".join(wrong) or "nothing lost, nothing doubled, every writer's records in its order")
        sys.exit(1 if wrong else 0)


def upgrade_all(three: ReplacedCoordinators, writers: UpgradeWriters, *, leader_first: bool) -> None:
    """Each of them once. Whoever leads at the beginning comes first or last."""
    leader = three.leader()
    for port in sorted(three.at, key=lambda port: (port == leader) != leader_first):
        three.replace(port)
        writers.hear(5)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
