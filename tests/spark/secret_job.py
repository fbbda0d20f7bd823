"""A user's program in a process of its own: Spark on S3, with keys given in each way, right and wrong, all logs on.

`python -m tests.spark.secret_job < scenario.json`: `Scenario` says what the file holds. What the program was shown
goes to `said`; stdout, stderr, event log and executors' logs are the caller's to read.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.cli.main import run
from sparklog.client.bootstrap import init_cluster
from sparklog.core.config.storage import storage_settings
from sparklog.core.errors import SparklogError
from sparklog.log.cluster_stores import Stores
from sparklog.spark.source import SparklogDataSource
from tests.client.shared_connections import forget_shared

LARGE = 20_000  # bytes of a value: batches above 16 KiB are compressed
INCOMPRESSIBLE = 900_000  # so that its object goes by the client for bulk


class Scenario(msgspec.Struct):
    """`right` and `wrong` are keys as storage settings of a store.

    `bad_places` maps a name to (url, endpoint, what of Spark is tried there: "read", "write").
    """

    work: str
    url: str
    config_file: str
    right: dict[str, str]
    wrong: dict[str, str]
    never_used: dict[str, str]  # Spark options
    in_statement: str  # the value of such an option, in the text of SQL
    bad_places: dict[str, tuple[str, str, tuple[str, ...]]]


class Program:
    """Runs the steps, and keeps all that a user is shown, by where."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.said: dict[str, str] = {}
        self.spark = _session(Path(scenario.work))

    def say(self, where: str, text: object) -> None:
        assert where not in self.said
        self.said[where] = str(text)

    # ---- right keys -----------------------------------------------------------------------------

    def all_ways(self) -> None:
        scenario = self.scenario
        with mock.patch(
            "sparklog.client.bootstrap.check_store"
        ):  # hundreds of requests; tests/cli/test_secrets.py has it
            init_cluster(scenario.url)
        with sparklog.connect(scenario.url) as cluster:
            cluster.create_topic("t", partitions=2)
        self.read_and_write("environment", {})
        as_metadata = {f"metadata.{key}": value for key, value in scenario.right.items()}
        options = {f"storage.{name}": value for name, value in as_metadata.items()} | scenario.never_used
        self.read_and_write("options", options)
        with self.config(scenario.right):
            self.read_and_write("config", {})
        with sparklog.connect(scenario.url, storage=as_metadata) as cluster:
            cluster.append("t", pa.table({"value": [os.urandom(INCOMPRESSIBLE)]}))
            assert cluster.describe("t").records == 10
            connection = cluster.connection
            state = connection.newest_state()
            opened, addresses = connection.stores(state), connection.addresses(state)
            store = opened.get(next(iter(state.stores)))
            task = Stores(addresses)
            self.say("what travels", [addresses, msgspec.msgpack.encode(addresses), pickle.dumps(addresses), task])
            shown = [cluster, connection, opened, store, storage_settings(as_metadata), connection.follower.store]
            self.say("objects", [*shown, *map(str, shown), *map(vars, (cluster, connection, opened, store))])
            self.say("settings", [vars(store)["_bucket"].settings, storage_settings(as_metadata, "x")])
        for arguments in (
            ["chain", "snapshot"],
            ["chain", "tail", "-n", "99"],
            ["chain", "state"],
            ["cluster", "info"],
        ):
            assert run(["--cluster", scenario.url, *arguments]) == 0
        self.sources(options)

    def read_and_write(self, way: str, options: dict[str, str]) -> None:
        df = self.spark.range(0, 3, 1, 2).selectExpr(f"repeat(cast(id as string), {LARGE}) as value")
        self.write(df, options)
        found = self.read(options)
        assert found.count() >= 3
        with contextlib.redirect_stdout(io.StringIO()) as explained:
            for mode in ("extended", "formatted", "codegen"):
                found.explain(mode)
        self.say(f"{way}: explain", explained.getvalue())
        jdf: Any = found._jdf
        self.say(f"{way}: frame", [repr(found), found, found.schema.json(), jdf.toString(), vars(found)])
        self.say(f"{way}: query execution", jdf.queryExecution().toString())
        self.say(f"{way}: debug", jdf.queryExecution().stringWithStats())
        found.createOrReplaceTempView("v")
        self.say(f"{way}: SQL explain", self.spark.sql("explain extended select count(*) from v").collect())
        self.say(f"{way}: SQL describe", self.spark.sql("describe extended v").collect())

    def sources(self, options: dict[str, str]) -> None:
        """What Spark pickles and sends to tasks, and what a misspelt name leads to."""
        given = {"cluster": self.scenario.url, "subscribe": "t", **options}
        source = SparklogDataSource(given)
        reader: Any = source.reader(source.schema())
        partitions = reader.partitions()
        self.say("reader", [repr(reader), vars(reader), pickle.dumps((reader, source, partitions)), partitions])
        for name in ("storage.metadata.secret_key", "secret_access_key"):
            with_typo = {name: self.scenario.right["secret_access_key"]}
            self.fails(f"misspelt {name}", partial(lambda given: self.read(given).collect(), with_typo))
        self.spark.sql(
            f"create temporary view w using sparklog options "
            f"(cluster '{self.scenario.url}', subscribe 't', `storage.other.password` '{self.scenario.in_statement}')"
        )
        self.say("statement: explain", self.spark.sql("explain extended select count(*) from w").collect())
        self.say("statement: view", self.spark.sql("describe extended w").collect())
        assert self.spark.sql("select count(*) from w").collect()

    # ---- wrong keys, and places that are none ---------------------------------------------------

    def all_failures(self) -> None:
        scenario = self.scenario
        wrong = {f"metadata.{key}": value for key, value in scenario.wrong.items()}
        self.each_fails("wrong keys", scenario.url, wrong, ("write",))
        assert self.read({f"storage.{key}": value for key, value in wrong.items()}).collect()  # its keys: elsewhere
        frame = self.read({})
        assert frame.collect()
        right = {f"storage.metadata.{key}": value for key, value in scenario.right.items()}
        with self.config(scenario.wrong):
            self.each_fails("wrong config", scenario.url, {})
            # Planned with right keys; the tasks meet others.
            self.fails("tasks: read", frame.collect)
            self.fails("tasks: write", lambda: self.write(self.spark.range(3).selectExpr("'x' as value"), right))
        for name, (url, endpoint, ways) in scenario.bad_places.items():
            place = {"metadata.endpoint_url": endpoint, "metadata.timeout_ms": "600"}
            self.each_fails(name, url, {**{f"metadata.{k}": v for k, v in scenario.right.items()}, **place}, ways)

    def each_fails(
        self, name: str, url: str, storage: dict[str, str], ways: tuple[str, ...] = ("read", "write")
    ) -> None:
        options = {"cluster": url, **{f"storage.{key}": value for key, value in storage.items()}}
        rows = self.spark.range(3).selectExpr("'x' as value")
        calls = {"read": lambda: self.read(options).collect(), "write": lambda: self.write(rows, options)}
        self.fails(f"{name}: connect", lambda: sparklog.connect(url, storage=storage))
        for way in ways:
            self.fails(f"{name}: Spark {way}", calls[way])

    def fails(self, where: str, call: Callable[[], object]) -> None:
        forget_shared()
        try:
            call()
        except (SparklogError, PySparkException, Py4JJavaError) as error:
            self.say(where, "".join([*traceback.format_exception(error), repr(error), str(error), str(vars(error))]))
            return
        raise AssertionError(f"{where}: it went well")

    # ---- by means of --------------------------------------------------------------------------------

    def read(self, options: dict[str, str]) -> DataFrame:
        given = {"cluster": self.scenario.url, "subscribe": "t", **options}
        return self.spark.read.format("sparklog").options(**given).load()

    def write(self, df: DataFrame, options: dict[str, str]) -> None:
        given = {"cluster": self.scenario.url, "topic": "t", **options}
        df.write.format("sparklog").mode("append").options(**given).save()

    @contextlib.contextmanager
    def config(self, keys: dict[str, str]) -> Iterator[None]:
        """The config file, which driver and executors are told of from the start, holds these keys meanwhile."""
        file = Path(self.scenario.config_file)
        file.write_text("[storage.metadata]\n" + "\n".join(f"{key} = {json.dumps(keys[key])}" for key in keys))
        forget_shared()
        try:
            yield
        finally:
            file.write_text("")
            forget_shared()


def _session(work: Path) -> SparkSession:
    """Spark with an executor in a JVM of its own, which logs plans as they change, and its events."""
    builder = SparkSession.builder.master("local-cluster[1,1,1024]").appName("secrets")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "768m",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={work}",
        "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
        "spark.local.dir": str(work),
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.task.maxFailures": "1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(work / "events"),
        "spark.eventLog.compress": "false",
        "spark.eventLog.logBlockUpdates.enabled": "true",
        "spark.sql.planChangeLog.level": "INFO",
        # Spark logs whole events whose listeners were slow, here (1 ns) each. Keys in spark.executorEnv would be among
        # them: executors have theirs from the environment that they inherit.
        "spark.scheduler.listenerbus.logSlowEvent.threshold": "1",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    logging.getLogger("py4j").setLevel(logging.INFO)
    program = Program(msgspec.json.decode(sys.stdin.buffer.read(), type=Scenario))
    program.all_ways()
    program.all_failures()
    program.spark.stop()
    Path(program.scenario.work, "said.json").write_text(json.dumps(program.said))


if __name__ == "__main__":
    main()
