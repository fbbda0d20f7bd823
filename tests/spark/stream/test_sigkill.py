"""SIGKILL for driver, JVM or executors at the steps of a micro-batch: after a restart the output is the input, once.

The runs that are killed are drivers of a local-cluster. The last run, in this process, is not killed.
"""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from tests.jar import jar
from tests.spark.kills.deaths import Deaths, Victim
from tests.spark.kills.running_driver import EXECUTORS, running_module
from tests.spark.stream.deadly_planner import python_of
from tests.spark.stream.keyed_stream import KeyedStream
from tests.spark.stream.killed_driver import BY_JAVA, DEADLY, FORGETFUL, run_query

pytestmark = [pytest.mark.spark, pytest.mark.campaign]

KILLS = 30
PLACES = ("latestOffset before", "partitions after", "write after", "commit before", "commit after")


@dataclass
class KilledQuery:
    """Runs of one query, each with a driver of its own."""

    stream: KeyedStream
    folder: Path
    runs: int = 0

    @property
    def checkpoint(self) -> str:
        return f"{self.folder}/checkpoint"

    @property
    def batch_id(self) -> int:
        """The next micro-batch that is not done."""
        done = Path(self.checkpoint, "commits").glob("[0-9]*")
        return max((int(each.name) for each in done), default=-1) + 1

    def run(self, place: str = "", *, master: str = "local[2]", deaths: Deaths | None = None, **more: str) -> bool:
        """Run it. Whether the driver was killed."""
        folder = self.folder / f"run-{self.runs}"
        folder.mkdir()
        self.runs += 1
        module = ("tests.spark.stream.killed_driver", self.stream.cluster.connection.url, self.checkpoint)
        settings = {} if deaths is None else deaths.settings()
        variables = {DEADLY: place, **more}
        jars = [jar()] if BY_JAVA in more else []
        if BY_JAVA in more:
            settings |= {"spark.pyspark.python": str(python_of(folder))}
        with running_module(folder, module, master=master, jars=jars, settings=settings, variables=variables) as driver:
            code = driver.wait()
        assert code in (0, -signal.SIGKILL), (folder / "driver.err").read_text()
        return code != 0

    def run_here(self, spark: SparkSession) -> None:
        """The rest, in this process."""
        run_query(spark, "sparklog", self.stream.cluster.connection.url, self.checkpoint)


@pytest.fixture
def query(cluster: Cluster, tmp_path: Path) -> KilledQuery:
    made = KilledQuery(KeyedStream(cluster), tmp_path)
    made.stream.send(2)
    return made


@pytest.mark.parametrize(
    "place",
    [
        "latestOffset before 3",
        "partitions after 2",
        "write after 0",
        "write after 2",
        "commit before 1",
        "commit after 0",
        "commit after 1",
    ],
)
def test_a_driver_killed_at_any_step_leaves_each_record_once_after_the_next_run(
    spark: SparkSession, query: KilledQuery, place: str
) -> None:
    assert query.run(place)
    query.run_here(spark)
    query.stream.check()


@pytest.mark.parametrize(
    "place", ["latestOffset before 3", "partitions after 2", "commit before 1", "commit after 0", "commit after 1"]
)
def test_the_same_by_java_and_the_next_run_by_either(spark: SparkSession, query: KilledQuery, place: str) -> None:
    """The next run is Python's, or with --columns Java's."""
    assert query.run(place, **{BY_JAVA: "1"})
    query.run_here(spark)
    query.stream.check()


def test_the_same_with_a_sink_that_is_at_least_once_writes_records_twice(
    spark: SparkSession, query: KilledQuery
) -> None:
    """So the test above can see the fault."""
    assert query.run("commit after 1", **{FORGETFUL: "1"})
    query.run_here(spark)
    found = query.stream.output()
    assert found != query.stream.input
    assert {key: sorted(set(numbers)) for key, numbers in found.items()} == query.stream.input
    with pytest.raises(AssertionError):
        query.stream.check()


@pytest.mark.timeout(5_000)
def test_thirty_random_kills_of_drivers_and_executors(spark: SparkSession, query: KilledQuery, tmp_path: Path) -> None:
    dice = random.Random(14)
    deaths = Deaths(tmp_path / "deaths")
    kills = {"driver at a step": 0, "driver while tasks work": 0, "executor": 0}
    while sum(kills.values()) < KILLS:
        query.stream.send(dice.randrange(1, 4))
        match dice.choice(sorted(kills)):
            case "driver at a step":
                place = dice.choice(PLACES)
                first = 1 if place.startswith(("latest", "part")) else query.batch_id
                came = query.run(f"{place} {first + dice.randrange(3)}", master=EXECUTORS)
                kills["driver at a step"] += came
            case kind:
                victim = Victim.EXECUTOR if kind == "executor" else Victim.DRIVER
                with deaths.planned(victim, dice.randrange(12), reads=True) as death:
                    came = query.run(master=EXECUTORS, deaths=deaths)
                    assert came == (death.came() and victim is Victim.DRIVER)
                kills[kind] += death.came()
    print(f"{query.runs} runs, kills: {kills}")
    query.run_here(spark)
    query.stream.check()
