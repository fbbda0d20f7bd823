"""Starts a job as a driver of its own, in a process group of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tests.spark.conftest import PROJECT
from tests.spark.kills.deaths import wait_for_group
from tests.spark_classes import NO_FOLDER, short_lived_spark

Call = tuple[str, str, int]  # CALL, WHEN, COUNT of `killed_driver`
NOWHERE: Call = ("none", "before", 0)
EXECUTORS = "local-cluster[2,1,1024]"


@contextmanager
def running_driver(
    folder: Path,
    job: Sequence[str],
    *,
    at: Call = NOWHERE,
    master: str = "local[2]",
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a job (its name and its arguments), which may kill itself `at` a call; as `running_module`."""
    module = ("tests.spark.kills.killed_driver", *map(str, at), *job)
    with running_module(folder, module, master=master, jars=jars, settings=settings) as driver:
        yield driver


@contextmanager
def running_module(
    folder: Path,
    module: Sequence[str],
    *,
    master: str = "local[2]",
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module with its arguments, whose Spark gets this master and these settings. Its files are in `folder`.

    At the end of the block it is killed if it still runs, and nothing runs any more of what it started.
    """
    common = {
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder),
        "spark.driver.memory": "768m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.executorEnv.PYTHONPATH": str(PROJECT),
        "spark.executor.extraJavaOptions": " ".join(short_lived_spark()),
    }
    words = [f'--conf "{name}={value}"' for name, value in (common | dict(settings)).items()]
    jar_words = [f"--jars {','.join(map(str, jars))}"] if jars else []
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": " ".join([f"--master {master}", *jar_words, *words, "pyspark-shell"]),
        "SPARK_SUBMIT_OPTS": f"{' '.join(short_lived_spark())} -Dderby.system.home={folder}",
        "SPARK_CONF_DIR": str(NO_FOLDER),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(PROJECT),
        **variables,
    }
    command = [sys.executable, "-m", *module]
    with (folder / "driver.err").open("wb") as said:
        driver = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=said, process_group=0
        )
    try:
        yield driver
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        wait_for_group(driver.pid)


def how_it_ended(driver: subprocess.Popen[bytes], folder: Path) -> bool:
    """Whether it was killed; False if it came to its end. Fails if it failed."""
    code = driver.wait()
    assert code in (0, -signal.SIGKILL), (folder / "driver.err").read_text()
    return code != 0
