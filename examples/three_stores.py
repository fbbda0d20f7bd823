"""The third act of make demo-full: a topic on three stores, one of which is lost during a job and comes back empty.

    three agents -> acks=1 to the leaders only, followers fetch -> jobs/produce.py, store b is lost, the job continues
    -> everything is read -> a write without b -> b is back, empty: its agent refills it -> it leads again
    -> the replicas are the same, byte for byte -> a picture

Stores a and b are folders. The chain and store c are folders too or, with STORE, at that address.
"""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from flights import ABSENT
from replica_picture import Moment, draw_replicas, history

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.lookup import topic_of
from sparklog.core.placement.held_objects import all_held
from sparklog.core.replication.partition import Replication
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId, TopicPartition
from sparklog.host.deadline import Deadline, tries
from sparklog.spark.write.partitioning import partitions_of
from sparklog.storage.keys import data_key, index_key

if TYPE_CHECKING:
    from demo import Demo

TOPIC = "flights"
A, B, C = STORES = (StoreId("a"), StoreId("b"), StoreId("c"))
MOST_FLIGHTS = 90_000  # about January to March: the act shows faults, not speed
LEAST_FLIGHTS = 200
FILES = 10  # files for the produce job, each read by one task, so that tasks write one after the other
PATIENCE_S = 300.0
Row = dict[str, str]


def third_act(demo: Demo, spark: Any, flights: Path) -> None:
    """Run the act with the first MOST_FLIGHTS rows of the file `flights`. Raises CheckFailed.

    If the file has fewer than LEAST_FLIGHTS rows, only prints that there is no third act.
    """
    with flights.open(encoding="utf-8", newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(MOST_FLIGHTS), strict=False)]
    if len(rows) < LEAST_FLIGHTS:
        demo.say(f"no third act: it needs at least {LEAST_FLIGHTS} flights")
        return
    _ThirdAct(demo, spark).run(rows)


@dataclass
class _Agent:
    """The process of a store's agent. Its output goes to the file `log`."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, event: str) -> list[str]:
        """Return the lines of the log that report `event`, without their times."""
        lines = [line.partition("  ")[2] for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if line.startswith(f"{event}:")]


class _ThirdAct:
    """One run of the act. The stores a and b are folders in `folder`; the chain and store c are below `base`."""

    def __init__(self, demo: Demo, spark: Any) -> None:
        self.demo, self.spark = demo, spark
        self.folder = demo.folder / "three-stores"
        self.base = f"file://{self.folder}" if demo.url.startswith("file:") else f"{demo.url}-three-stores"
        self.url = f"{self.base}/chain"
        self.agents: dict[StoreId, _Agent] = {}
        self.moments: list[Moment] = []

    def run(self, rows: Sequence[Row]) -> None:
        first, later = len(rows) * 3 // 10, len(rows) * 9 // 10
        urls: dict[str, str] = {A: f"file://{self.folder / A}", B: f"file://{self.folder / B}", C: f"{self.base}/{C}"}
        init_cluster(self.url, stores=urls)
        with sparklog.connect(self.url) as cluster, self.all_agents():
            self.three_stores(cluster, urls)
            self.followers_fetch(cluster, rows[:first])
            self.lose_a_store(cluster, rows[first:later])
            self.read_everything(cluster, rows[:later])
            self.write_without_it(cluster, rows[later:])
            self.refill(cluster)
            self.same_bytes(cluster)
            self.read_everything(cluster, rows)
            self.picture(cluster)
        self.demo.check("exit codes of the agents", self.exit_codes(), dict.fromkeys(STORES, 0))

    # ---- the steps ------------------------------------------------------------------------------

    def three_stores(self, cluster: Cluster, urls: dict[str, str]) -> None:
        self.demo.say("third act: a topic with a replica on each of three stores; agents copy what a store lacks")
        for store, url in urls.items():
            self.demo.detail(f"store {store}: {url}")
        for store in STORES:
            self.start_agent(store)
        self.wait(cluster, "agents up", lambda state: all(store.agent_up for store in state.stores.values()))
        cluster.create_topic(TOPIC, partitions=3, replication_factor=3, config={"min.insync.replicas": 2})
        leaders = self.replicas(cluster, lambda value: value.leader)
        self.demo.check("stores that lead a partition", sorted(map(str, leaders)), list(STORES))
        self.demo.say("3 partitions, RF 3, min.insync.replicas=2; each store leads one partition")

    def followers_fetch(self, cluster: Cluster, rows: Sequence[Row]) -> None:
        table = as_records(rows)
        partitions = partitions_of(3)(table["key"].combine_chunks())
        table = table.append_column("partition", pa.array(partitions, pa.int32()))
        for partition in range(3):
            of_partition = table.filter(pa.compute.equal(table["partition"], partition))
            if of_partition.num_rows:
                cluster.append(TOPIC, of_partition, acks=1, replication="pull")
        self.demo.say(f"{len(rows):,} flights written with acks=1, to the leaders' stores alone")
        self.wait_for_all(cluster, len(rows))
        self.demo.say("the agents have copied them to the followers: the high watermarks rose, and readers see them")

    def lose_a_store(self, cluster: Cluster, rows: Sequence[Row]) -> None:
        source = self.folder / "produce"
        source.mkdir()
        for number in range(FILES):
            _write_csv(source / f"{number}.csv", rows[len(rows) * number // FILES : len(rows) * (number + 1) // FILES])
        led = self.replicas(cluster, lambda value: value.leader).index(B)
        self.demo.say("produce with acks=all; store b and its agent die while the tasks upload to it")
        stop = threading.Event()
        loss = threading.Thread(target=self.lose_when_written_to, args=(stop,))
        loss.start()
        try:
            report = self.demo.job(
                "produce",
                *("--topic", TOPIC, "--key-expr", "coalesce(tailnum, concat(carrier, flight))"),
                *("--option", "inferSchema=true", "--option", "nullValue=NA", str(source)),
                url=self.url,
                settings=[f"spark.sql.files.minPartitionNum={FILES}"],
            )
        finally:
            stop.set()
            loss.join()
        self.demo.check("stores lost under the job", [moment.label for moment in self.moments], ["b lost"])
        self.demo.check("records produced", report["records"], len(rows))
        self.show_replicas()
        self.catch_up(cluster)
        self.demo.check("ISRs", self.replicas(cluster, lambda value: set(value.isr)), [{A, C}] * 3)
        epochs = self.replicas(cluster, lambda value: int(value.leader_epoch))
        self.demo.check("leader epochs", epochs, [int(partition == led) for partition in range(3)])
        leader = self.replicas(cluster, lambda value: value.leader)[led]
        self.demo.say(
            f"the job continued without b: its commit took b out of every ISR; {leader} leads {TOPIC}-{led} (epoch 1)"
        )

    def lose_when_written_to(self, stop: threading.Event) -> None:
        """Kill the agent of b and remove its folder as soon as an upload to it begins."""
        uploads = self.folder / B / ".tmp"
        while not stop.wait(0.0005):
            if uploads.is_dir() and any(uploads.iterdir()):
                self.agents[B].process.kill()
                (self.folder / B).rename(self.folder / "b-lost")
                self.mark("b lost")
                return

    def read_everything(self, cluster: Cluster, rows: Sequence[Row]) -> None:
        """Read the topic with Spark. Check that no offset is missing, and that the flights are those of `rows`."""
        frame = self.spark.read.format("sparklog").option("cluster", self.url).option("subscribe", TOPIC).load()
        frame.createOrReplaceTempView("replicated")
        offsets = self.spark.sql("select partition, count(distinct offset), max(offset) + 1 from replicated group by 1")
        ends = dict(enumerate(self.replicas(cluster, lambda value: int(value.high_watermark))))
        read = {row[0]: (row[1], row[2]) for row in offsets.collect()}
        self.demo.check("offsets", read, {index: (end, end) for index, end in ends.items() if end})
        delays = self.spark.sql(
            "select flight.carrier, count(*), sum(flight.dep_delay) from (select from_json(string(value), "
            "'carrier string, dep_delay int') as flight from replicated) group by 1"
        )
        wanted: dict[str, tuple[int, int | None]] = {}
        for row in rows:
            count, minutes = wanted.get(row["carrier"], (0, None))
            if row["dep_delay"] != ABSENT:
                minutes = (minutes or 0) + int(row["dep_delay"])
            wanted[row["carrier"]] = (count + 1, minutes)
        self.demo.check("flights and delays by carrier", {row[0]: (row[1], row[2]) for row in delays.collect()}, wanted)
        self.demo.say(
            f"read in Spark: {len(rows):,} flights at {len(rows):,} offsets, counts and delays as in the file"
        )

    def write_without_it(self, cluster: Cluster, rows: Sequence[Row]) -> None:
        cluster.append(TOPIC, as_records(rows))
        self.demo.say(
            f"{len(rows):,} more flights with acks=all: two stores in sync are enough for min.insync.replicas=2"
        )

    def refill(self, cluster: Cluster) -> None:
        if (self.folder / B).exists():  # a write that had already begun may have created it again
            shutil.rmtree(self.folder / B)
        (self.folder / B).mkdir()
        self.mark("b back, empty")
        self.demo.say("store b is back with an empty disk; its agent starts")
        self.start_agent(B)
        self.wait(cluster, "b in sync", lambda state: all(B in value.isr for value in _replications(state)))
        self.mark("b in sync")
        self.demo.check("losses that the agent saw", len(self.agents[B].said("loss")) > 0, True)
        for line in self.agents[B].said("loss"):
            self.demo.detail(line)
        self.demo.say("the agent reported the loss and copied everything: b is in every ISR again")
        self.command("replica", "elect", TOPIC)
        self.catch_up(cluster)
        leaders = self.replicas(cluster, lambda value: value.leader)
        self.demo.check("leaders", leaders, self.replicas(cluster, lambda value: value.replicas[0]))
        self.show_replicas()

    def same_bytes(self, cluster: Cluster) -> None:
        state = cluster.connection.follower.state
        stores = cluster.connection.stores(state)
        hashes: dict[StoreId, dict[str, str]] = {store: {} for store in STORES}
        size_bytes = 0
        for store in STORES:
            for partition in state.partitions.values():
                place = TopicPartition(partition.topic_id, partition.partition)
                for held in all_held(state, store, place):
                    data = data_key(held.object, held.topic)
                    for key in (data, index_key(data)):
                        if key not in hashes[store]:
                            body = stores.get(store).get(key)
                            hashes[store][key] = sha256(body).hexdigest()
                            size_bytes += len(body)
        self.demo.check("objects of b", hashes[B], hashes[A])
        self.demo.check("objects of c", hashes[C], hashes[A])
        self.demo.say(
            f"the replicas are the same, byte for byte: {len(hashes[A])} objects and indexes on each of three stores, "
            f"{size_bytes / 2**20:.1f} MiB in all"
        )

    def picture(self, cluster: Cluster) -> None:
        path = self.demo.folder / "replicas.png"
        draw_replicas(history(cluster, TOPIC), self.moments, path, f"Topic {TOPIC} on three stores, one of them lost")
        self.demo.say(f"a picture of the replicas over time: {path}")

    # ---- agents, commands and waiting -----------------------------------------------------------

    @contextmanager
    def all_agents(self) -> Iterator[None]:
        """Stop the agents after the block: by SIGTERM, or by SIGKILL if the block raised an error."""
        try:
            yield
            for agent in self.agents.values():
                agent.process.send_signal(signal.SIGTERM)
                agent.process.wait(PATIENCE_S)
        finally:
            for agent in self.agents.values():
                agent.process.kill()
                agent.process.wait()

    def exit_codes(self) -> dict[StoreId, int | None]:
        return {store: agent.process.returncode for store, agent in self.agents.items()}

    def start_agent(self, store: StoreId) -> None:
        log = self.folder / f"agent-{store}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as file:
            process = subprocess.Popen(
                self.sparklog("agent", "--store", store),
                env=self.demo.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.agents[store] = _Agent(process, log)
        self.demo.detail(f"$ sparklog agent --store {store}    # {log.relative_to(self.demo.folder)}")

    def command(self, *arguments: str) -> None:
        """Run a command and print its output. Raises CheckFailed if it fails."""
        self.demo.detail(f"$ sparklog {' '.join(arguments)}")
        done = subprocess.run(
            self.sparklog(*arguments),
            env=self.demo.environment | {"COLUMNS": "120"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            self.demo.detail(line)
        self.demo.check(f"exit code of sparklog {arguments[0]}", done.returncode, 0)

    def show_replicas(self) -> None:
        self.command("replica", "list", "--topic", TOPIC)

    def sparklog(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sparklog", "--cluster", self.url, *arguments]

    def mark(self, label: str) -> None:
        """Record that the event `label` happened now, for the picture."""
        self.moments.append(Moment(time.time_ns() // 1_000_000, label))

    def wait(self, cluster: Cluster, what: str, is_so: Callable[[ClusterState], bool]) -> None:
        """Follow the chain until `is_so` is true. Raises CheckFailed after PATIENCE_S, or if an agent has ended."""
        for _ in tries(Deadline(int(PATIENCE_S * 1000))):
            if is_so(self.catch_up(cluster)):
                return
            ended = {store: code for store, code in self.running().items() if code is not None}
            self.demo.check(f"agents that ended (their logs are in {self.folder})", ended, {})
        self.demo.check(f"{what} within {PATIENCE_S:.0f} s", False, True)

    def running(self) -> dict[StoreId, int | None]:
        return {store: agent.process.poll() for store, agent in self.agents.items()}

    def wait_for_all(self, cluster: Cluster, records: int) -> None:
        self.wait(
            cluster,
            "everything on all replicas",
            lambda state: (
                sum(value.high_watermark for value in _replications(state)) == records
                and all(set(value.log_ends) == {value.high_watermark} for value in _replications(state))
            ),
        )

    def catch_up(self, cluster: Cluster) -> ClusterState:
        return cluster.connection.follower.catch_up().state

    def replicas(self, cluster: Cluster, of: Callable[[Replication], Any]) -> list[Any]:
        """Return `of` applied to each partition's replication, in the newest state that was read."""
        return [of(value) for value in _replications(cluster.connection.follower.state)]


def _replications(state: ClusterState) -> list[Replication]:
    topic = topic_of(state, TOPIC)
    return [partition.replication for partition in state.partitions_of(topic)]


def as_records(rows: Sequence[Row]) -> pa.Table:
    """Return flights as records with the demo's keys (tail number, else carrier and flight number) and JSON values."""
    return pa.table(
        {
            "key": [(_present(row["tailnum"]) or row["carrier"] + row["flight"]).encode() for row in rows],
            "value": [json.dumps({name: _json_value(value) for name, value in row.items()}) for row in rows],
        }
    )


def _present(field: str) -> str | None:
    return None if field == ABSENT else field


def _json_value(field: str) -> str | int | None:
    return int(field) if field.lstrip("-").isdigit() else _present(field)


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
