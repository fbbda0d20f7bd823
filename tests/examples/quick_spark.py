"""Runs examples/demo.py with one Spark for all that it does: python -m tests.examples.quick_spark ARGUMENTS …

ARGUMENTS may be those of several demos, with NEXT between them. They run one after the other, on the same Spark, and
END_OF_DEMO with the exit code is the last line of each.

Its jobs run in this process, on the session that it reads with, instead of by spark-submit, which starts a Spark for
each. Spark takes the archive of classes and a SPARK_HOME without its own copy of pyspark: see tests/spark_classes.py
and tests/spark_home.py. A folder of settings would keep it from the archive, so the one that matters comes as an
option.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sparklog.cli.main import run_job
from sparklog.cli.records import produce_files
from tests.spark_classes import NO_FOLDER, short_lived_spark
from tests.spark_home import spark_home

EXAMPLES = Path(__file__).parents[2] / "examples"
NEXT = "+"
END_OF_DEMO = "end of demo: "


def main(*arguments: str) -> int:
    """Returns the exit code of the only demo; 0 if there are several."""
    sys.path.insert(0, str(EXAMPLES))
    demo: Any = importlib.import_module("demo")
    theirs = demo.environment
    demo.environment = lambda: _quick(theirs())
    demo.Demo.job = _job
    of_each = [list(given) for is_next, given in groupby(arguments, NEXT.__eq__) if not is_next] or [[]]
    *others, last = of_each
    if not others:
        return _run(demo, last)
    from pyspark.sql import SparkSession

    with patch.object(SparkSession, "stop"):  # the next demo goes on with it
        for given in others:
            print(f"{END_OF_DEMO}{_run(demo, given)}", flush=True)
    print(f"{END_OF_DEMO}{_run(demo, last)}", flush=True)
    return 0


def _run(demo: Any, arguments: Sequence[str]) -> int:
    sys.argv = ["demo.py", *arguments]
    return demo.main()  # type: ignore[no-any-return]


def _quick(variables: dict[str, str]) -> dict[str, str]:
    log4j = Path(variables["SPARK_CONF_DIR"], "log4j2.properties")
    return variables | {
        "SPARK_CONF_DIR": str(NO_FOLDER),
        "SPARK_HOME": str(spark_home()),
        "SPARK_SUBMIT_OPTS": " ".join([*short_lived_spark(), f"-Dlog4j2.configurationFile={log4j}"]),
    }


def _job(
    demo: Any, name: str, *arguments: str, shown: str = "", url: str | None = None, settings: Sequence[str] = ()
) -> dict[str, Any]:
    """What Demo.job does, in this process."""
    report = demo.folder / f"{name}.json"
    argv = ["--cluster", url or demo.url, "--report", str(report), *arguments]
    with _session(demo, settings), redirect_stdout(io.StringIO()) as said, redirect_stderr(said):
        code = produce_files.main(argv) if name == "produce" else run_job(name, argv)
    for line in said.getvalue().splitlines():
        if line.startswith(shown) and line.strip():
            demo.detail(line.rstrip())
    demo.check(f"exit code of {name}, which said {said.getvalue()}", code, 0)
    done: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return done


@contextmanager
def _session(demo: Any, settings: Sequence[str]) -> Iterator[None]:
    """The session that a job finds, with these settings meanwhile. The demo's own is the same one."""
    from pyspark.sql import SparkSession

    os.environ.update(demo.environment)
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(demo.folder / "warehouse"),
    }
    session = SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
    given = dict(setting.split("=", 1) for setting in settings)
    for key, value in given.items():
        session.conf.set(key, value)
    yield
    for key in given:
        session.conf.unset(key)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
