"""make demo-cluster: a whole cluster on this machine, whose leading coordinator is killed while a client writes.

    three stores -> three coordinators, three agents -> a topic with three replicas -> flights are written and read
    -> roll and retention run by themselves -> kill -9 the leading coordinator, during writes -> another one leads,
    the next commit is acknowledged -> every flight is there once, on each store -> all processes stop

python examples/demo_cluster.py [--keep DIR] [--flights N] [--stay]
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flights import unpack
from steps import CheckFailed, Steps, environment
from three_stores import Row, as_records

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.core.state import ClusterState
from sparklog.host.deadline import Deadline, tries

TOPIC = "flights"
STORES = ("a", "b", "c")
PARTITIONS = 3
SESSION_MS = 3_000  # shorter than the default of 9 s, to keep the demo short
JOBS_EVERY_MS = 5_000
MOST_FLIGHTS = 60_000
FIRST = 0.5  # this share of the flights is written before the jobs run; the others during the failover
COMMIT = 500  # minimum of flights in one commit of the writer
LEAST_FLIGHTS = 3_000
MORE_COMMITS = 5  # minimum of commits after the failover
PATIENCE_S = 120.0


@dataclass
class Process:
    """A coordinator or agent of the demo. Its output goes to the file `log`; a coordinator writes JSON lines."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    address: str = ""

    def events(self) -> list[dict[str, Any]]:
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.events() if line["event"] == event]


@dataclass
class Writer:
    """Commits the batches of flights one after the other. Halfway it waits for `go_on`, for PATIENCE_S at most.

    `acknowledged`: the time of each acknowledgement, in seconds of the monotonic clock. `error`: the error that ended
    `run`, if any.
    """

    cluster: Cluster
    batches: Sequence[Sequence[Row]]
    acknowledged: list[float] = field(default_factory=list)
    error: Exception | None = None
    go_on: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            for number, batch in enumerate(self.batches):
                if number >= len(self.batches) // 2:  # the rest is for the next leader
                    self.go_on.wait(PATIENCE_S)
                self.cluster.append(TOPIC, as_records(batch), timeout_ms=60_000)
                self.acknowledged.append(time.monotonic())
        except Exception as error:
            self.error = error


class ClusterDemo(Steps):
    """One run of the demo. All its files, the stores among them, are in `folder`."""

    def __init__(self, folder: Path, started: float) -> None:
        super().__init__(started)
        self.folder = folder
        self.url = f"file://{folder / 'chain'}"
        self.environment = environment()
        self.coordinators: list[Process] = []
        self.agents: list[Process] = []

    def run(self, at_most: int, stay: Callable[[], None] | None) -> None:
        """Run all steps with at most `at_most` flights. Raises CheckFailed if a step gives a wrong result.

        `stay`, if given, is called before the processes are stopped. It returns when the user has seen enough.
        """
        rows = self.flights(at_most)
        try:
            self.start()
            leader = self.leader()
            other = next(coordinator for coordinator in self.coordinators if coordinator is not leader)
            self.say(f"a client connects to {other.address}, which stands by; commits go to the one that leads")
            with sparklog.connect(other.address) as cluster:
                self.topic(cluster)
                first = int(len(rows) * FIRST)
                self.write_and_read(cluster, rows[:first])
                self.jobs(cluster)
                self.show_page(leader)
                self.lose_the_leader(cluster, leader, rows[first:])
                self.everything_is_there(cluster, rows)
            if stay is not None:
                self.show_page(self.leader())
                self.say("it stays up until Ctrl-C")
                self.detail(f"export SPARKLOG_CLUSTER={self.url}")
                stay()
            self.stop()
        finally:
            for started in (*self.coordinators, *self.agents):
                started.process.kill()
                started.process.wait()

    # ---- the steps ------------------------------------------------------------------------------

    def flights(self, at_most: int) -> list[Row]:
        path = unpack(self.folder, at_most).path
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.say(f"{len(rows):,} flights from New York in 2013 unpacked")
        return rows

    def start(self) -> None:
        stores = {store: f"file://{self.folder / store}" for store in STORES}
        config = {"broker.session.timeout.ms": SESSION_MS, "log.retention.check.interval.ms": JOBS_EVERY_MS}
        init_cluster(self.url, stores=stores, config=config)
        self.say(f"new cluster at {self.url}, with a store in each of three folders")
        for number in (1, 2, 3):
            self.coordinators.append(self.process(f"coordinator-{number}", "--format", "json", "coordinator"))
        for store in STORES:
            self.agents.append(self.process(f"agent-{store}", "agent", "--store", store))
        for coordinator in self.coordinators:
            coordinator.address = self.wait_for(f"{coordinator.name} serves", coordinator, "serving")["text"]

    def leader(self) -> Process:
        """Wait until a coordinator is in force, and return its process. Raises CheckFailed after PATIENCE_S."""
        with sparklog.connect(self.url) as cluster:
            self.wait(cluster, "a coordinator leads", lambda state: state.coordinator.in_force)
            known = cluster.connection.follower.state.coordinator
        leader = next(coordinator for coordinator in self.coordinators if coordinator.address == known.address)
        self.say(f"{leader.name} at {known.address} leads with epoch {known.epoch}, the others stand by")
        return leader

    def topic(self, cluster: Cluster) -> None:
        self.wait(cluster, "agents up", lambda state: all(store.agent_up for store in state.stores.values()))
        cluster.create_topic(
            TOPIC,
            partitions=PARTITIONS,
            replication_factor=3,
            config={"min.insync.replicas": 2, "segment.bytes": 200_000, "retention.ms": -1},
        )
        self.say(f"three agents are up; topic {TOPIC}: {PARTITIONS} partitions, RF 3, min.insync.replicas=2")

    def write_and_read(self, cluster: Cluster, rows: Sequence[Row]) -> None:
        commits = _batches(rows, 10)
        for batch in commits:
            cluster.append(TOPIC, as_records(batch))
        self.say(f"{len(rows):,} flights written with acks=all in {counted(len(commits), 'commit')}")
        self.check("flights read", _read(cluster), _values(rows))
        self.say(f"read from another connection: the same {len(rows):,} flights")

    def jobs(self, cluster: Cluster) -> None:
        self.wait(cluster, "roll and retention ran", lambda state: {"roll", "retention"} <= set(state.jobs))
        self.say(f"roll and retention come by themselves, here every {JOBS_EVERY_MS / 1000:.0f} s")
        self.command("job", "status")

    def lose_the_leader(self, cluster: Cluster, leader: Process, rows: Sequence[Row]) -> None:
        batches = _batches(rows, max(2 * MORE_COMMITS, len(rows) // COMMIT))
        writer = Writer(cluster, batches)
        thread = threading.Thread(target=writer.run)
        thread.start()
        try:
            for _ in self.tries("the writer has begun"):
                if len(writer.acknowledged) >= 2 or writer.error:
                    break
            leader.process.kill()
            killed, killed_ms = time.monotonic(), time.time_ns() // 1_000_000
            leader.process.wait()
            before = len(writer.acknowledged)
            self.say(f"kill -9 {leader.name}, which leads, after {counted(before, 'commit')} of a writer")
            writer.go_on.set()
            for _ in self.tries("a commit was acknowledged after the kill"):
                if len(writer.acknowledged) > before or writer.error:
                    break
            acknowledged = writer.acknowledged[before:]
        finally:
            writer.go_on.set()
            thread.join()
        self.check("errors of the writer", writer.error, None)
        after = self.leader()
        self.check("another coordinator leads", after is leader, False)
        leads_ms = after.said("leads")[-1]["time_ms"] - killed_ms
        self.say(
            f"failover: {after.name} led {leads_ms / 1000:.1f} s after the kill (session {SESSION_MS / 1000:.0f} s); "
            f"the writer's next commit was acknowledged after {acknowledged[0] - killed:.1f} s"
        )
        self.check("commits acknowledged", len(writer.acknowledged), len(batches))
        self.detail(f"all of its {len(batches)} commits were acknowledged, none needed its author to do anything")

    def everything_is_there(self, cluster: Cluster, rows: Sequence[Row]) -> None:
        self.check("flights read", _read(cluster), _values(rows))
        self.say(f"nothing is lost and nothing is there twice: {len(rows):,} flights, each once")
        self.wait(
            cluster,
            "all replicas have everything",
            lambda state: all(
                set(replication.log_ends) == {replication.high_watermark} and len(replication.isr) == 3
                for replication in (partition.replication for partition in state.partitions.values())
            ),
        )
        self.command("replica", "list")

    def show_page(self, leader: Process) -> None:
        self.detail(f"its page: {leader.address}/    jobs: {leader.address}/v1/jobs")

    def stop(self) -> None:
        running = [started for started in (*self.agents, *self.coordinators) if started.process.poll() is None]
        self.check("processes that run", len(running), len(STORES) + len(self.coordinators) - 1)
        for started in running:
            started.process.send_signal(signal.SIGTERM)
        codes = {started.name: started.process.wait(PATIENCE_S) for started in running}
        self.check("exit codes", codes, dict.fromkeys(codes, 0))
        with sparklog.connect(self.url) as cluster:
            self.check("a coordinator is in force", cluster.connection.follower.state.coordinator.in_force, False)

    # ---- processes and waiting ------------------------------------------------------------------

    def process(self, name: str, *arguments: str) -> Process:
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                self.sparklog(*arguments),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes only to the demo, which stops its processes in order
            )
        self.detail(f"$ sparklog {' '.join(arguments)}    # {log.name}")
        return Process(name, process, log)

    def command(self, *arguments: str) -> None:
        """Run a command and print its output. Raises CheckFailed if it fails."""
        self.detail(f"$ sparklog {' '.join(arguments)}")
        done = subprocess.run(
            self.sparklog(*arguments), env=self.environment, capture_output=True, text=True, check=False
        )
        for line in (done.stdout + done.stderr).splitlines():
            self.detail(line)
        self.check(f"exit code of sparklog {arguments[0]}", done.returncode, 0)

    def sparklog(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sparklog", "--cluster", self.url, *arguments]

    def wait_for(self, what: str, process: Process, event: str) -> dict[str, Any]:
        for _ in self.tries(what):
            if said := process.said(event):
                return said[0]
        raise AssertionError("tries ends with an error")

    def wait(self, cluster: Cluster, what: str, is_so: Callable[[ClusterState], bool]) -> None:
        for _ in self.tries(what):
            if is_so(cluster.connection.follower.catch_up().state):
                return

    def tries(self, what: str) -> Any:
        """Yield once for each try, with pauses. Raises CheckFailed if the loop has not been left after PATIENCE_S.

        `what`: the awaited state, for the message.
        """
        yield from tries(Deadline(int(PATIENCE_S * 1000)))
        self.check(f"{what} within {PATIENCE_S:.0f} s (logs are in {self.folder})", False, True)


def _batches(rows: Sequence[Row], count: int) -> list[Sequence[Row]]:
    return [rows[len(rows) * number // count : len(rows) * (number + 1) // count] for number in range(count)]


def _values(rows: Sequence[Row]) -> Counter[bytes]:
    return Counter(value.encode() for value in as_records(rows)["value"].to_pylist())


def _read(cluster: Cluster) -> Counter[bytes]:
    values: Counter[bytes] = Counter()
    for partition in range(PARTITIONS):
        values.update(cluster.read(TOPIC, partition=partition, columns=["value"])["value"].to_pylist())
    return values


def main() -> int:
    """Run the demo and return the exit code: 0, or 1 if a check fails."""
    parser = argparse.ArgumentParser(
        prog="make demo-cluster", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keep", metavar="DIR", type=Path, help="work in this new folder (default: a temporary one)")
    parser.add_argument("--flights", metavar="N", type=int, default=MOST_FLIGHTS, help="at most N flights")
    parser.add_argument("--stay", action="store_true", help="keep the cluster running at the end, until Ctrl-C")
    given = parser.parse_args()
    if given.keep is not None and given.keep.exists() and any(given.keep.iterdir()):
        print(f"--keep {given.keep}: wanted a new or empty folder, found files in it.", file=sys.stderr)
        return 2
    if given.flights < LEAST_FLIGHTS:
        print(f"--flights: wanted a number from {LEAST_FLIGHTS:,} on, found {given.flights}.", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="sparklog-cluster-")) if given.keep is None else given.keep.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"sparklog {sparklog.__version__}, demo of a cluster in {folder}", flush=True)
    demo = ClusterDemo(folder, time.monotonic())
    try:
        demo.run(given.flights, _until_interrupted if given.stay else None)
    except (CheckFailed, SparklogError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # its processes have been killed
    demo.say(f"all checks passed, all processes have stopped; everything is kept in {folder}")
    return 0


def _until_interrupted() -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    stopped.wait()


if __name__ == "__main__":
    sys.exit(main())
