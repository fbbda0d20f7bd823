"""A driver that kills itself at a call of its Python.

    python -m tests.spark.kills.killed_driver CALL WHEN COUNT JOB ARGUMENTS

CALL is `module:Class.method`, WHEN is before or after, and COUNT says which of its calls, without those that raise: a
commit may lose its slot to another writer, and is tried again. With SINK for CALL, it is the commit of Spark's sink in
the transaction with version COUNT. With "none" the driver kills itself nowhere.

It kills its process group, and so its JVM and its executors too, as when the machine goes. It commits one command after
the other, so that calls can be counted: commands that wait at the same time may or may not share an entry.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sparklog.cli.main import run_job
from sparklog.cli.records.produce_files import main as run_produce
from sparklog.maintenance import job_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINK: Final = "sink"


def die_at(call: str, when: str, count: int) -> None:
    """Make the call kill this process group before or after its work."""
    module, _, name = call.partition(":")
    owner, _, method = name.partition(".")
    kind = getattr(import_module(module), owner)
    work, done = getattr(kind, method), 0

    def deadly(*given: Any, **named: Any) -> Any:
        nonlocal done
        if done + 1 == count and when == "before":
            os.killpg(0, signal.SIGKILL)
        result = work(*given, **named)
        done += 1
        if done == count:
            os.killpg(0, signal.SIGKILL)
        return result

    setattr(kind, method, deadly)


def die_in_the_sink(when: str, version: int) -> None:
    """Sessions of this process get a sink that dies at its commit."""
    import sparklog.spark
    from tests.spark.kills import dying_sink

    os.environ[dying_sink.DEATH] = f"{when} {version}"

    def register(session: SparkSession) -> None:
        session.dataSource.register(dying_sink.DyingSource)

    sparklog.spark.register = register


if __name__ == "__main__":
    job_frame.COMMITS_AT_ONCE = 1
    call, when, count, job, *arguments = sys.argv[1:]
    if call == SINK:
        die_in_the_sink(when, int(count))
    elif call != "none":
        die_at(call, when, int(count))
    sys.exit(run_produce(arguments) if job == "produce" else run_job(job, arguments))
