"""A mirror that is killed at any point loses and doubles nothing: the next run continues where the log ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.errors import OutcomeUnknown
from sparklog.spark.mirror import mirror_job
from sparklog.spark.mirror.mirror_job import Source
from sparklog.spark.mirror.verify_mirror import run_verify_mirror
from tests.jar import jar
from tests.servers.kafka_broker import KafkaBroker, kafka_jars
from tests.spark.kills.running_driver import EXECUTORS, running_module
from tests.spark.mirror.conftest import CLEANER
from tests.spark.mirror.kafka_topics import KafkaTopics
from tests.spark.mirror.test_mirror_job import FAR_MS, Mirror, ends, here, some
from tests.spark.mirror.test_mirror_job import mirror as mirror

PARTITIONS = 6
RECORDS = 5_000_000
KILLS = 20
APPENDED = 5_000  # records of a partition in one append
OVER_S = 600  # a run that lasts longer hangs


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("lands", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize("error", [Killed("now"), OutcomeUnknown("no answer")], ids=["killed", "no answer"])
def test_a_run_that_ends_around_its_commit_is_continued(
    lands: bool,
    error: Exception,
    mirror: Mirror,
    cluster: Cluster,
    kafka: KafkaTopics,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = kafka.create(2)
    kafka.write(topic, [{**each, "partition": at % 2} for at, each in enumerate(some(40))], transactional=True)
    kafka.abort(topic, some(5, partition=0))
    kafka.write(topic, [{**each, "partition": at % 2} for at, each in enumerate(some(40, 40))])
    commit, calls = mirror_job.commit_append, iter(range(1_000))

    def dying(*args: Any, **given: Any) -> Any:
        if next(calls) != 2:
            return commit(*args, **given)
        if lands:
            commit(*args, **given)
        raise error

    monkeypatch.setattr(mirror_job, "commit_append", dying)
    if isinstance(error, Killed):
        with pytest.raises(Killed):
            mirror(topic, max_records=10)
        assert 0 < sum(ends(cluster, topic)) < 80
    mirror(topic, max_records=10)
    assert here(cluster, topic) == kafka.read(topic)


@pytest.fixture
def broker_to_kill(tmp_path: Path) -> Iterator[KafkaBroker]:
    (tmp_path / "kafka").mkdir()
    with KafkaBroker(tmp_path / "kafka", settings=CLEANER) as started:
        yield started


def fill(kafka: KafkaTopics) -> str:
    """A topic with all that Kafka has: gaps of compaction, transactions, headers, nulls, far times."""
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(20 << 20),
        "min.cleanable.dirty.ratio": "0.01",
        "message.timestamp.after.max.ms": str((1 << 63) - 1),
    }
    topic = kafka.create(PARTITIONS, config)

    def records(first: int, number: int) -> Iterator[Mapping[str, Any]]:
        for at in range(first, first + number):
            record: dict[str, Any] = {"partition": at % PARTITIONS, "key": b"%d" % (at % (RECORDS // 10 * 9))}
            record["value"] = None if at % 97 == 0 else b"value %d" % at
            if at % 31 == 0:
                record["headers"] = [("h", b"%d" % at), ("none", None)]
            if at % 1_001 == 0:
                record["timestamp"] = FAR_MS if at % 2 else 1
            yield record

    part = RECORDS // 10
    for number in range(10):
        kafka.write(topic, records(number * part, part), transactional=number % 2 == 0)
        kafka.abort(topic, records(0, 1_000))
    return topic


def processes(driver: psutil.Process, *words: str) -> list[psutil.Process]:
    """The processes below the driver that have one of these words in their command line."""
    found = []
    for process in driver.children(recursive=True):
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if any(word in command for word in words):
            found.append(process)
    return found


def kill_one(what: str, driver: psutil.Process, broker: KafkaBroker, dice: random.Random) -> bool:
    """Kill something. False if there is none."""
    if what == "broker":
        broker.kill()
        broker.start_again()
        return True
    of_kind = {
        "driver": [driver],
        "JVM of the driver": processes(driver, "SparkSubmit"),
        "executor": processes(driver, "CoarseGrainedExecutorBackend"),
        "planner": processes(driver, "sparklog.spark.planner"),
    }[what]
    if not of_kind:
        return False
    dice.choice(of_kind).kill()
    return True


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
def test_five_million_records_are_copied_once_though_everything_is_killed(
    broker_to_kill: KafkaBroker, kafka_spark: SparkSession, tmp_path: Path
) -> None:
    dice = random.Random(45)
    kafka = KafkaTopics(broker_to_kill.bootstrap)
    topic = fill(kafka)
    url = f"file://{tmp_path}/cluster"
    init_cluster(url)
    clients = [file for file in kafka_jars() if file.name.startswith("kafka-clients")]
    command = ["sparklog", "job", "mirror", "--cluster", url, "--bootstrap-servers", broker_to_kill.bootstrap]
    command += ["--topic", topic, "--max-records", str(APPENDED)]
    kinds = ["driver", "JVM of the driver", "executor", "planner", "broker"] * (KILLS // 5)
    (tmp_path / "run").mkdir()
    with sparklog.connect(url) as cluster:
        while run_once(
            tmp_path / "run", command, clients, lambda: reached(cluster, topic), kinds, broker_to_kill, dice
        ):
            pass
        assert not kinds
        for partition in range(PARTITIONS):
            compare(cluster, kafka, topic, partition)
        source = Source({"bootstrap.servers": broker_to_kill.bootstrap}, (topic,))
        report = run_verify_mirror(url, source, lambda: kafka_spark)
        assert (report.failed, report.exit_code) == (0, 0)


def reached(cluster: Cluster, topic: str) -> int:
    return sum(ends(cluster, topic)) if topic in cluster.topics() else 0


def run_once(
    folder: Path,
    command: list[str],
    clients: list[Path],
    offsets: Callable[[], int],
    kinds: list[str],
    broker: KafkaBroker,
    dice: random.Random,
) -> bool:
    """Run the mirror until it ends, and kill something after each step, as long as there is a kind to kill.

    Returns True if something was killed.
    """
    seen, killed = offsets(), False
    until = time.monotonic() + OVER_S
    with running_module(folder, command, master=EXECUTORS, jars=[*clients, jar()]) as driver:
        process = psutil.Process(driver.pid)
        while driver.poll() is None:
            assert time.monotonic() < until, "the run hangs"
            if kinds and offsets() > seen:
                time.sleep(dice.random())
                if driver.poll() is None and kill_one(kinds[0], process, broker, dice):
                    seen, killed = offsets(), True
                    print(f"killed {kinds.pop(0)}, {len(kinds)} kills left, {seen:,} offsets", flush=True)
            time.sleep(0.05)
    return killed


def compare(cluster: Cluster, kafka: KafkaTopics, topic: str, partition: int) -> None:
    """All records of a partition here are those of Kafka."""
    wanted = kafka.read(topic, partition=partition)
    assert len(wanted) > RECORDS // PARTITIONS // 2
    assert here(cluster, topic, partition) == wanted
