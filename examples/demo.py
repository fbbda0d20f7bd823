"""make demo: sends a year of flights through a log, and checks each step against counts made without Spark.

    unpack -> cluster -> jobs/produce.py -> jobs/roll.py -> read by offset and by time -> Spark SQL
    -> list the store -> jobs/retention.py (planned, then done) -> a picture

With --full (`make demo-full`), two further acts follow:

    -> compaction, and a Delta table (latest_flights.py) -> three stores (three_stores.py)

python examples/demo.py [--full] [--keep DIR] [--flights N] [--without-delta]

The log is in the working folder, or in a new folder at the address in the environment variable STORE, for example
s3://bucket/prefix (with AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) or hdfs://host:8020/path.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from flights import FLIGHTS, IN_JANUARY, WITHOUT_TAIL_NUMBER, Flights, unpack
from latest_flights import DeltaJars, delta_jars, second_act
from log_picture import LogView, Panel, draw, look_at
from steps import PROJECT, CheckFailed, Steps, environment
from three_stores import third_act

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.describe.readable import counted
from sparklog.core.errors import InvalidInput, OffsetOutOfRange, SparklogError
from sparklog.spark.jar import add_jar
from sparklog.storage.object_store import ObjectStore

TOPIC = "flights"
PARTITIONS = 6
SEGMENT_BYTES = 64 << 10  # small, so that a month has several segments in each partition
LEAST_SEGMENT_BYTES = 4 << 10
KEY = "coalesce(tailnum, concat(carrier, flight))"
SCHEDULED = 'to_utc_timestamp(make_timestamp(year, month, day, hour, minute, 0), "America/New_York")'
INDEPENDENCE_DAY = ("2013-07-04T04:00:00Z", "2013-07-05T04:00:00Z")  # midnight to midnight in New York
NOW = "2014-02-01T05:00:00Z"  # one year after the end of January 2013 in New York
FEBRUARY = "2013-02-01 05:00:00"
YEAR_MS = 365 * 24 * 3_600_000
FURTHER_ACTS = (
    "make demo-full       this act, then compaction to the latest flight of each aircraft, and a Delta table of these;",
    "                     then three stores, one of which is lost under a running job, and refilled",
    "make demo-cluster    three coordinators, three agents, scheduled jobs; the leader is killed under a writer",
)
NOISE = ("WARNING: Using incubator modules", "Using Spark's default log4j profile")


class Demo(Steps):
    """One run of the demo. Its files are in `folder`, its cluster is at `url`."""

    def __init__(self, folder: Path, url: str, started: float) -> None:
        super().__init__(started)
        self.folder = folder
        self.url = url
        self.environment = environment()

    # ---- the steps ------------------------------------------------------------------------------

    def run(self, at_most: int | None, *, full: bool, with_delta: bool) -> None:
        """Run the first act; if `full`, all three acts. Raises CheckFailed if a step gives a wrong result.

        Uses at most `at_most` flights (None: all). `with_delta`: the second act also makes a Delta table.
        """
        with delta_jars(wanted=full and with_delta) as delta:
            flights = self.unpack(at_most)
            init_cluster(self.url)
            with sparklog.connect(self.url) as cluster:
                self.say(f"new cluster at {self.url}")
                self.acts(cluster, flights, delta, full=full)

    def acts(self, cluster: Cluster, flights: Flights, delta: DeltaJars, *, full: bool) -> None:
        self.produce(flights)
        produced = look_at(cluster, TOPIC)
        self.roll(cluster, flights)
        rolled = look_at(cluster, TOPIC)
        with self.spark(delta.settings()) as spark:
            self.read_offsets(spark, cluster)
            self.read_time(spark, flights)
            self.ask(spark, flights)
            self.show_store(cluster, rolled)
            self.retention(spark, cluster, flights)
            self.picture(produced, rolled, look_at(cluster, TOPIC))
            if full:
                second_act(self, spark, cluster, TOPIC, delta)
                third_act(self, spark, flights.path)

    def unpack(self, at_most: int | None) -> Flights:
        flights = unpack(self.folder, at_most)
        if at_most is None:
            self.check("flights in the file", flights.records, FLIGHTS)
            self.check("flights without a tail number", flights.without_tail_number, WITHOUT_TAIL_NUMBER)
            self.check("flights in January", flights.in_january, IN_JANUARY)
        self.say(
            f"{flights.records:,} flights from New York in 2013 unpacked; {flights.without_tail_number:,} have no tail "
            "number, their key is carrier and flight number"
        )
        return flights

    def produce(self, flights: Flights) -> None:
        segment_bytes = max(LEAST_SEGMENT_BYTES, SEGMENT_BYTES * flights.records // FLIGHTS)
        self.say(f"produce: one commit to topic {TOPIC}, {PARTITIONS} partitions, in order of scheduled departure")
        report = self.job(
            "produce",
            *("--topic", TOPIC, "--create", "--partitions", str(PARTITIONS), "--config", "retention.ms=-1"),
            *("--config", f"segment.bytes={segment_bytes}"),
            # Roll and retention delete old objects at once: the demo has no other readers to wait for.
            *("--config", "rewrite.delete.delay.ms=0", "--config", "file.delete.delay.ms=0"),
            *("--key-expr", KEY, "--timestamp-expr", SCHEDULED, "--order-by", "month,day,hour,minute"),
            *("--option", "inferSchema=true", "--option", "nullValue=NA", str(flights.path)),
        )
        self.check("records produced", report["records"], flights.records)

    def roll(self, cluster: Cluster, flights: Flights) -> None:
        self.say("roll: rewrite the appended objects into sealed segments, each of one partition")
        report = self.job("roll", "--topic", TOPIC, "--all")
        self.check("records rolled", report["done"]["records"], flights.records)
        self.check("records in the topic", cluster.describe(TOPIC).records, flights.records)

    @contextmanager
    def spark(self, settings: Mapping[str, str]) -> Iterator[Any]:
        """Start a Spark session with these additional settings; stop it if the block succeeds. Its log is spark.log."""
        from pyspark.sql import SparkSession

        os.environ.update(self.environment)
        log = self.folder / "spark.log"
        builder = SparkSession.builder.config(map=dict(settings)).master("local[*]").appName("sparklog demo")
        with _stderr_in(log):
            session = (
                builder.config("spark.ui.enabled", "false")
                .config("spark.sql.session.timeZone", "UTC")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.sql.shuffle.partitions", "4")
                .config("spark.sql.warehouse.dir", str(self.folder / "warehouse"))
                .getOrCreate()
            )
        self.say(f"Spark {session.version} started to read; its log is {log.name}")
        try:
            add_jar(session)
        except InvalidInput as error:
            self.detail(f"reads by Python: {error.message}")
        yield session
        session.stop()

    def frame(self, spark: Any, **options: object) -> Any:
        """The topic as a DataFrame. `options` are those of the source; without `assign`, all partitions are read."""
        reader = spark.read.format("sparklog").option("cluster", self.url)
        if "assign" not in options:
            reader = reader.option("subscribe", TOPIC)
        return reader.options(**options).load()

    def _compare_readers(self, spark: Any) -> None:
        """Print how long Spark's Java reader and Python reader take for the whole topic; nothing if only one works."""
        seconds = {}
        for reader in ("columns", "rows"):
            for _ in range(2):  # the second time counts: the first one starts processes and compiles
                began = time.monotonic()
                try:
                    self.frame(spark, reader=reader).selectExpr("sum(length(key) + length(value))").collect()
                except Exception as error:
                    if "INVALID_OPTION: reader" not in str(error):
                        raise
                    return
                seconds[reader] = time.monotonic() - began
        self.detail(f"all keys and values: {seconds['columns']:.2f} s in Java, {seconds['rows']:.2f} s by Python")

    def read_offsets(self, spark: Any, cluster: Cluster) -> None:
        from sparklog.spark.write.partitioning import partitions_of

        partition = 3
        end = cluster.describe(TOPIC).partitions[partition].high_watermark
        start, stop = end // 2, end // 2 + min(1000, end // 4)
        rows = self.frame(
            spark,
            assign=json.dumps({TOPIC: [partition]}),
            startingOffsets=json.dumps({TOPIC: {str(partition): start}}),
            endingOffsets=json.dumps({TOPIC: {str(partition): stop}}),
        ).collect()
        self.check("offsets read", [row["offset"] for row in rows], list(range(start, stop)))
        keys = pa.array([bytes(row["key"]) for row in rows], pa.binary())
        routed = set(partitions_of(PARTITIONS)(keys).to_pylist())
        self.check("partitions of their keys by Kafka's hash", routed, {partition})
        self.say(f"read by offset: {TOPIC}-{partition} [{start:,}, {stop:,}): {len(rows):,} rows, none missing")

    def read_time(self, spark: Any, flights: Flights) -> None:
        start, end = INDEPENDENCE_DAY
        count = self.frame(spark, startingTimestamp=start, endingTimestamp=end).count()
        self.check("flights on 4 July", count, flights.on_independence_day)
        self.say(f"read by time: 4 July in New York, [{start}, {end}): {count:,} flights, as in the file")

    def ask(self, spark: Any, flights: Flights) -> None:
        self.frame(spark).createOrReplaceTempView("log")
        rows = spark.sql(
            """
            select flight.carrier, count(flight.dep_delay) as departures, sum(flight.dep_delay) as minutes,
                   count(*) as records, count_if(date_trunc('hour', timestamp) != flight.time_hour) as wrong_hours
            from (select timestamp, from_json(string(value), 'carrier string, dep_delay int, time_hour timestamp')
                  as flight from log)
            group by 1 order by minutes / departures desc
            """
        ).collect()
        delays = {row["carrier"]: (row["departures"], row["minutes"]) for row in rows if row["departures"]}
        self.check("delays by carrier", delays, flights.delay_minutes)
        self.check("records that SQL saw", sum(row["records"] for row in rows), flights.records)
        self.check("records whose hour differs from the file's", sum(row["wrong_hours"] for row in rows), 0)
        self._compare_readers(spark)
        self.say(f"asked in Spark SQL, over all {flights.records:,} records: who leaves late?")
        for row in [row for row in rows if row["departures"]][:5]:
            late = row["minutes"] / row["departures"]
            self.detail(f"{late:5.1f} min  {flights.airlines[row['carrier']]}, {row['departures']:,} departures")

    def show_store(self, cluster: Cluster, rolled: LogView) -> None:
        self.say("the objects in the store:")
        store = cluster.connection.follower.store
        for line in _tree(store):
            self.detail(line)
        piece = rolled.pieces[0]
        table = pa.ipc.open_file(pa.py_buffer(store.get(piece.object_key))).read_all()
        self.check("rows of one segment in plain pyarrow", table.num_rows, piece.end - piece.start)
        self.say(f"one segment in plain pyarrow, {piece.object_key}:")
        self.detail(f"pyarrow.ipc.open_file(…).read_all(): {table.num_rows:,} rows of {', '.join(table.column_names)}")

    def retention(self, spark: Any, cluster: Cluster, flights: Flights) -> None:
        cluster.alter(TOPIC, config={"retention.ms": YEAR_MS})
        self.say(f"retention.ms is now a year, and the job is to assume that it is {NOW}: January 2013 is due")
        planned = self.job("retention", "--topic", TOPIC, "--now", NOW, "--dry-run")["planned"]
        self.check("records after a dry run", cluster.describe(TOPIC).records, flights.records)
        self.say("retention: now for real")
        before = _segments(cluster)
        report = self.job("retention", "--topic", TOPIC, "--now", NOW, shown="retention:")
        gone = report["done"]["records"]
        self.check("what was done", report["done"], planned)
        self.check("objects deleted", before - _segments(cluster), report["done"]["objects"])
        left = self.frame(spark).selectExpr("count(*)", f"count_if(timestamp < timestamp '{FEBRUARY}')").first()
        self.check("records left", left[0], flights.records - gone)
        self.check("January's records left", left[1], flights.in_january - gone)
        self.say(
            f"{gone:,} of {flights.in_january:,} flights of January are gone, {left[1]:,} lie in segments that hold "
            f"February too; {left[0]:,} records are left, none of a later month was lost"
        )
        try:
            cluster.read(TOPIC, partition=0, start=0, end=1)
        except OffsetOutOfRange as error:
            self.detail(f"reading offset 0 now: {error}")
        else:
            raise CheckFailed(f"offset 0 of {TOPIC}-0: wanted OFFSET_OUT_OF_RANGE, found a record")

    def picture(self, produced: LogView, rolled: LogView, now: LogView) -> None:
        path = self.folder / "log.png"
        forgotten = [piece for piece in rolled.pieces if piece.end <= now.log_starts[piece.partition]]
        panels = [Panel("As produce left it", produced), Panel("After roll and retention", now, forgotten)]
        draw(panels, path, f"Topic {TOPIC}: a year of departures from New York as a log")
        self.say(f"a picture of the log: {path}")

    # ---- jobs -----------------------------------------------------------------------------------

    def job(
        self, name: str, *arguments: str, shown: str = "", url: str | None = None, settings: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Run jobs/NAME.py with spark-submit and return its report. Raises CheckFailed if the job fails.

        Output lines that begin with `shown` are printed at once (by default all lines), the others only if the job
        fails. `url`: address of the cluster (default: the demo's). `settings`: Spark settings, as NAME=VALUE.
        """
        url = url or self.url
        report = self.folder / f"{name}.json"
        self.detail(f"$ spark-submit jobs/{name}.py --cluster {url} {shlex.join(arguments)}")
        held: list[str] = []
        command = [
            "spark-submit",
            *(word for setting in ("spark.ui.enabled=false", *settings) for word in ("--conf", setting)),
            str(PROJECT / "jobs" / f"{name}.py"),
            *("--cluster", url, "--report", str(report), *arguments),
        ]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(shown) and line.strip() and not line.startswith(NOISE):
                    self.detail(line.rstrip())
                else:
                    held.append(line)
        if process.returncode != 0:
            print("".join(held), file=sys.stderr)
            raise CheckFailed(f"jobs/{name}.py: wanted exit code 0, found {process.returncode}")
        done: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return done


@contextmanager
def _stderr_in(path: Path) -> Iterator[None]:
    """Redirect stderr to a file inside the block. Processes started there (here the JVM) keep writing to the file."""
    own = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def _command(name: str) -> str:
    """The path of a command that is installed beside this Python."""
    path = Path(sys.executable).parent / name
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _segments(cluster: Cluster) -> int:
    return sum(stored.key.endswith(".arrow") for stored in cluster.connection.follower.store.list_keys("topics/"))


def _tree(store: ObjectStore) -> Iterator[str]:
    """Yield a line of text for each folder of the store that has files: its name, its size, and how many files."""
    for folder, listed in groupby(store.list_keys(""), key=lambda stored: stored.key.rpartition("/")[0]):
        files = list(listed)
        size_bytes = sum(file.size_bytes for file in files)
        kinds = {kind: sum(file.key.endswith(kind) for file in files) for kind in (".arrow", ".index")}
        kinds["file"] = len(files) - sum(kinds.values())
        named = ", ".join(
            counted(count, kind) if kind == "file" else f"{count} {kind}" for kind, count in kinds.items() if count
        )
        yield f"{folder + '/' if folder else '.':<32}{size_bytes / 1024:>10,.1f} KiB  {named}"


def main() -> int:
    """Run the demo and return the exit code: 0, or 1 if a check fails."""
    parser = argparse.ArgumentParser(
        prog="make demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keep", metavar="DIR", type=Path, help="work in this new folder (default: a temporary one)")
    parser.add_argument("--flights", metavar="N", type=int, help="at most N flights, spread over the year")
    parser.add_argument("--full", action="store_true", help="run the other acts too")
    parser.add_argument("--without-delta", action="store_true", help="make no Delta table, and fetch nothing for it")
    given = parser.parse_args()
    store = os.environ.get("STORE", "")
    if store not in ("", "local") and "://" not in store:
        _refuse(f"STORE={store}: wanted nothing, or an address like s3://bucket/prefix or hdfs://host:8020/path.")
    if given.keep is not None and given.keep.exists() and any(given.keep.iterdir()):
        _refuse(f"--keep {given.keep}: wanted a new or empty folder, found files in it.")
    if given.flights is not None and given.flights < 1:
        _refuse(f"--flights: wanted a number from 1 on, found {given.flights}.")
    folder = Path(tempfile.mkdtemp(prefix="sparklog-demo-")) if given.keep is None else given.keep.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"sparklog {sparklog.__version__}, demo in {folder}", flush=True)
    url = f"{store.rstrip('/')}/{folder.name}" if "://" in store else f"file://{folder / 'cluster'}"
    demo = Demo(folder, url, time.monotonic())
    try:
        demo.run(given.flights, full=given.full, with_delta=not given.without_delta)
    except (CheckFailed, SparklogError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    kept = str(folder) if url.startswith("file:") else f"{folder} and {url}"
    demo.say(f"all checks passed; everything is kept in {kept}, look at it with")
    demo.detail(f"{_command('sparklog')} segment list {TOPIC} --cluster {demo.url}")
    if not given.full:
        demo.say("further acts:")
        for line in FURTHER_ACTS:
            demo.detail(line)
    return 0


def _refuse(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    sys.exit(main())
