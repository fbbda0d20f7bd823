"""What every `jobs/NAME.py` does: read its arguments, make a session, run, write the report, give the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.starting_offsets import parse_timestamp_us
from sparklog.spark.job_report import JobReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Report(Protocol):
    """What --report writes."""

    def to_json(self) -> str:
        """The whole report."""
        ...


def main(
    name: str,
    description: str,
    run: Callable[..., JobReport],
    argv: Sequence[str] | None = None,
    *,
    flags: Mapping[str, tuple[str, str]] | None = None,
) -> int:
    """Run a job from the command line and return the exit code: 0, 1 if any part failed, or the error's own.

    `run` is called as `run_roll` is. `flags` maps further switches to the parameter of `run` that each sets, and help.
    """
    parser = argument_parser(name, description, flags or {})
    given = vars(parser.parse_args(argv))
    cluster, topics, now, report_file = (given.pop(each) for each in ("cluster", "topic", "now", "report"))
    try:
        if not cluster:
            raise InvalidInput("which cluster? give --cluster URL, or set SPARKLOG_CLUSTER")
        report = run(
            cluster,
            topics=topics,
            now_ms=None if now is None else parse_now_ms(now),
            spark=lambda: job_session(name),
            **given,
        )
        if report_file is not None:
            write_report(report, report_file)
    except SparklogError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return report.exit_code


def argument_parser(name: str, description: str, flags: Mapping[str, tuple[str, str]]) -> argparse.ArgumentParser:
    """The arguments that all maintenance jobs take, and the switches of one."""
    parser = argparse.ArgumentParser(prog=f"spark-submit jobs/{name}.py", description=description)
    parser.add_argument(
        "--cluster",
        metavar="URL",
        default=os.environ.get("SPARKLOG_CLUSTER"),
        help="where the metadata lives: a path, file:///path, s3://bucket/prefix or hdfs://host/path "
        "(default: SPARKLOG_CLUSTER)",
    )
    parser.add_argument(
        "--topic", metavar="T", action="append", help="only this topic; may be given several times (default: all)"
    )
    parser.add_argument(
        "--now",
        metavar="TIME",
        help="count ages from this time, not from now: ms since the epoch, or ISO 8601 with a zone. "
        "Delays before a deletion are always counted by the machine's clock",
    )
    for flag, (parameter, text) in flags.items():
        parser.add_argument(flag, dest=parameter, action="store_true", help=text)
    parser.add_argument("--dry-run", action="store_true", help="print the plan, change nothing")
    parser.add_argument("--report", metavar="FILE", help="write the report there, as JSON (- is stdout)")
    return parser


def parse_now_ms(text: str) -> int:
    """`--now` in milliseconds. Raises InvalidOption."""
    return parse_timestamp_us("--now", text) // 1000


def write_report(report: Report, path: str) -> None:
    """The report as JSON, into a file or to stdout."""
    if path == "-":
        print(report.to_json())
        return
    try:
        Path(path).write_text(report.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"the job ran, but its report could not be written to {path}: {error.strerror or error}"
        ) from error


def job_session(name: str) -> SparkSession:
    """The session that spark-submit configured, or a local one; executors run this process's Python if none is set."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    from sparklog.spark import register

    builder: Any = SparkSession.builder
    session: SparkSession = builder.appName(f"sparklog {name}").getOrCreate()
    register(session)
    return session
