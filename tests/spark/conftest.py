"""One Spark at a time in each process of pytest: the session a test asks for, small, leaving no files behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.spark.spark_versions import HAS_PYTHON_SOURCES
from tests.jar import jar
from tests.mounts import begin_own_mounts
from tests.servers.cloud_servers import ACCOUNT_KEY
from tests.servers.s3_servers import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.spark import stand_in as stand_in  # before files that need it
from tests.spark.kills.deaths import Deaths
from tests.spark_classes import NO_FOLDER, short_lived_spark

TASK_ERROR = PySparkException if HAS_PYTHON_SOURCES else Py4JJavaError  # what PySpark makes of the error of a task
PROJECT = Path(__file__).parents[2]
FORKED_WORKERS = Path(__file__).parent / "forked_workers"
TWO_HOSTS = "two hosts"  # a master: see OneSpark
OF_A_JVM = ("spark.driver.memory", "spark.driver.extraJavaOptions", "spark.driver.extraClassPath", "spark.jars")
SPECULATING = {  # settings of a session on TWO_HOSTS: a task that takes longer than most is begun a second time
    "spark__executor__memory": "512m",
    "spark__speculation": "true",
    "spark__speculation__interval": "100ms",
    "spark__speculation__quantile": "0.5",
    "spark__speculation__multiplier": "1.1",
    "spark__speculation__minTaskRuntime": "300ms",
    "spark__task__maxFailures": "3",
}


@dataclass
class OneSpark:
    """Starts the session of a master when it is asked for, and stops the one before: a JVM has one context.

    A JVM takes some settings only when it starts, and keeps JARs for good: a session with others gets another JVM.

    TWO_HOSTS is what local-cluster[2,1,1024] would be if its workers had different host names: Spark never runs a
    speculative attempt on the host of the first one, so local-cluster never speculates.
    """

    scratch: Path
    with_jar: bool = False
    current: SparkSession | None = None
    servers: list[Any] = field(default_factory=list)
    asked: tuple[str, dict[str, str]] = field(default_factory=lambda: ("", {}))
    of_jvm: dict[str, str] = field(default_factory=dict)

    def session(self, master: str, **settings: str) -> SparkSession:
        if self.current is not None and self.asked == (master, settings):
            return self.current
        self.stop()
        quiet = f"-Dlog4j2.configurationFile={self.scratch}/log4j2.properties"
        own_files = f"-Djava.io.tmpdir={self.scratch} -Dderby.system.home={self.scratch}"
        common = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            # A few rows do not repay the compilation of each query.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.memory": "768m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{quiet} {own_files}",
            "spark.executor.extraJavaOptions": " ".join([quiet, *short_lived_spark()]),
            "spark.local.dir": str(self.scratch),
            "spark.sql.warehouse.dir": str(self.scratch / "warehouse"),
            "spark.sql.session.timeZone": "Asia/Tokyo",  # not UTC: what depends on the zone shows
            "spark.executorEnv.PYTHONPATH": str(PROJECT),
        }
        if self.with_jar:
            common["spark.jars"] = str(jar())
        wanted = common | {key.replace("__", "."): value for key, value in settings.items()}
        of_jvm = {name: wanted[name] for name in OF_A_JVM if name in wanted}
        if of_jvm != self.of_jvm:
            self.end()
            self.of_jvm = of_jvm
        with _keys_of_test_servers():
            SparkContext._ensure_initialized(conf=SparkConf().setAll(of_jvm.items()))
            url = self._two_hosts() if master == TWO_HOSTS else master
            builder = SparkSession.builder.master(url).appName("sparklog tests").config(map=wanted)
            self.current, self.asked = builder.getOrCreate(), (master, settings)
        self.current.sparkContext.setLogLevel("OFF")
        return self.current

    def _two_hosts(self) -> str:
        """Start Spark's own master and two workers in the driver's JVM, as local-cluster does."""
        jvm, gateway = SparkContext._jvm, SparkContext._gateway
        assert jvm is not None
        assert gateway is not None
        deploy, conf, none = jvm.org.apache.spark.deploy, jvm.org.apache.spark.SparkConf(), jvm.scala.Option.empty()
        started = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)
        self.servers.append(started._1())
        url = f"spark://127.0.0.1:{started._1().address().port()}"
        urls = gateway.new_array(jvm.java.lang.String, 1)
        urls[0] = url
        for number, host in enumerate(("127.0.0.1", "localhost")):
            place = str(self.scratch / f"worker{number}")
            worker = deploy.worker.Worker.startRpcEnvAndEndpoint(
                host, 0, 0, 1, 1024, urls, place, jvm.scala.Option.apply(number), conf, none
            )
            self.servers.append(worker)
        return url

    def stop(self) -> None:
        if self.current is not None:
            self.current.stop()
            self.current = None
        while self.servers:
            server = self.servers.pop()
            server.shutdown()
            server.awaitTermination()

    def kill(self) -> None:
        """Kill Spark's JVM, in which a test has left jobs running. The next `session` starts another one."""
        if (gateway := SparkContext._gateway) is not None:
            gateway.proc.kill()
            gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        self.current = None
        self.servers.clear()

    def end(self) -> None:
        """Stop Spark and its JVM."""
        self.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
            SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _keys_of_test_servers() -> Iterator[None]:
    """A JVM that starts inside, and so its executors and Python workers, may use the servers of the tests."""
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY}
    keys["AZURE_STORAGE_ACCOUNT_KEY"] = ACCOUNT_KEY
    os.environ.update(keys)
    try:
        yield
    finally:
        for name in keys:
            del os.environ[name]


def access_to(cluster: Cluster) -> dict[str, str]:
    """The options that say how the stores of the cluster are reached, but for secrets."""
    state = cluster.connection.newest_state()
    plain = cluster.connection.addresses(state).settings.plain
    return {f"storage.{name}": value for name, value in plain.items()}


@pytest.fixture(scope="session")
def one_spark(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[OneSpark]:
    begin_own_mounts()  # before its JVM starts, which then sees what a test mounts
    scratch = tmp_path_factory.mktemp("spark")
    (scratch / "log4j2.properties").write_text("rootLogger.level = off\n")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_CONF_DIR"] = str(NO_FOLDER)
    os.environ["PYTHONPATH"] = f"{FORKED_WORKERS}{os.pathsep}{PROJECT}"
    spark = OneSpark(scratch, with_jar=request.config.getoption("--columns") or not HAS_PYTHON_SOURCES)
    yield spark
    spark.end()


@pytest.fixture(scope="session")
def deaths(one_spark: OneSpark) -> Deaths:
    """Kills executors of sessions with its settings."""
    return Deaths(one_spark.scratch / "deaths")


@pytest.fixture
def spark(one_spark: OneSpark) -> SparkSession:
    """local[2], as a user starts it."""
    return one_spark.session("local[2]")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A new cluster on local disk."""
    url = str(tmp_path / "cluster")
    init_cluster(url)
    with sparklog.connect(url) as made:
        yield made


Read = Callable[..., DataFrame]
Write = Callable[..., None]


@pytest.fixture
def read(spark: SparkSession, cluster: Cluster) -> Read:
    """read(topic, option=value, …) -> the DataFrame; `topic` None: by options only."""

    def dataframe(topic: str | None = None, **options: object) -> DataFrame:
        reader = spark.read.format("sparklog").option("cluster", cluster.connection.url).options(**access_to(cluster))
        if topic is not None:
            reader = reader.option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    return dataframe


@pytest.fixture
def write(cluster: Cluster) -> Write:
    """write(df, topic, option=value, …)."""

    def save(df: DataFrame, topic: str | None = None, *, source: str = "sparklog", **options: object) -> None:
        writer = df.write.format(source).mode("append").option("cluster", cluster.connection.url)
        writer = writer.options(**access_to(cluster))
        if topic is not None:
            writer = writer.option("topic", topic)
        for name, value in options.items():
            writer = writer.option(name, str(value))
        writer.save()

    return save
