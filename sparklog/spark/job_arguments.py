"""What every `jobs/NAME.py` does: read its arguments, make a session, run, write the report, give the exit code.

stdout is for the plan of --dry-run, or for the report if that is sent there; messages and progress go to stderr.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from sparklog.client.failures import print_failure, unforeseen
from sparklog.core.errors import InvalidInput, Landed, SparklogError
from sparklog.maintenance.output import plan_console
from sparklog.maintenance.report import JobReport
from sparklog.options.starting_offsets import parse_timestamp_us
from sparklog.spark.spark_errors import brief
from sparklog.spark.tasks import SparkTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERRUPTED = "interrupted: what was committed stays, the rest was not done; it can be run again"


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

    def run_and_report() -> int:
        url = cluster_of(cluster)
        check_report_file(report_file)
        report = run(
            url,
            topics=topics,
            now_ms=None if now is None else parse_now_ms(now),
            tasks=SparkTasks(lambda: job_session(name), url),
            console=plan_console(dry_run=given["dry_run"], stdout_taken=report_file == "-"),
            **given,
        )
        write_report(report, report_file)
        return report.exit_code

    return exit_code_of(run_and_report)


def exit_code_of(run: Callable[[], int]) -> int:
    """What `run` returns; an error becomes one line on stderr and its exit code, Ctrl-C one line and 130."""
    try:
        return run()
    except SparklogError as error:
        line, code = str(error), error.exit_code
    except KeyboardInterrupt:
        line, code = INTERRUPTED, 130
    except Exception as error:
        line, code = unforeseen(error, brief(error)), 1
    print_failure(line)
    return code


def argument_parser(name: str, description: str, flags: Mapping[str, tuple[str, str]]) -> argparse.ArgumentParser:
    """The arguments that all maintenance jobs take, and the switches of one."""
    parser = argparse.ArgumentParser(prog=f"spark-submit jobs/{name}.py", description=description)
    add_cluster(parser)
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


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """--cluster, which every job takes."""
    parser.add_argument(
        "--cluster",
        metavar="URL",
        default=os.environ.get("SPARKLOG_CLUSTER"),
        help="where the metadata lives: a path, file:///path, s3://bucket/prefix or hdfs://host/path "
        "(default: SPARKLOG_CLUSTER)",
    )


def cluster_of(given: str | None) -> str:
    """The address that --cluster or SPARKLOG_CLUSTER gave. Raises InvalidInput if neither did."""
    if not given:
        raise InvalidInput("which cluster? give --cluster URL, or set SPARKLOG_CLUSTER")
    return given


def parse_now_ms(text: str) -> int:
    """`--now` in milliseconds. Raises InvalidOption."""
    return parse_timestamp_us("--now", text) // 1000


def check_report_file(path: str | None) -> None:
    """Raise InvalidInput, before anything is begun, if a report can't be written there. Leaves no file behind."""
    if path is None or path == "-":
        return
    file = Path(path)
    try:
        if file.is_dir():
            raise InvalidInput(f"--report: wanted a file, found the directory {path}; nothing was begun")
        if file.is_symlink() and not file.exists():
            raise InvalidInput(
                f"--report: wanted a file, found the symbolic link {path} to {file.readlink()}, where nothing is; "
                "nothing was begun"
            )
        if file.exists() and not file.is_file():  # opening a pipe waits until somebody reads it
            raise InvalidInput(
                f"--report: wanted a file, found {path}, which is a pipe, a socket or a device (- is stdout); nothing "
                "was begun"
            )
        if file.exists():
            with file.open("ab"):
                pass
        else:
            with tempfile.TemporaryFile(dir=file.parent):
                pass
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInput(f"--report: {path} can't be written ({reason}); nothing was begun") from error


def write_report(report: Report, path: str | None) -> None:
    """The report as JSON, into a file or to stdout; None: nowhere."""
    if path is None:
        return
    if path == "-":
        print(report.to_json())
        return
    try:
        Path(path).write_text(report.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise SparklogError(
            f"the job ran, and what it did stays; its report could not be written to {path}: {error.strerror or error}",
            landed=Landed.YES,
        ) from error


def job_session(name: str, settings: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """The session that spark-submit configured, or a local one; executors run this process's Python if none is set.

    Spark itself says nothing unless it is told a spark.log.level: what fails is told by the job, in a line. Sinks and
    sources log in Python, so their warnings are seen all the same.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger().addFilter(_is_no_interrupt)
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from sparklog.spark import register

    builder: Any = SparkSession.builder.appName(f"sparklog {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    conf = SparkConf()
    if not conf.contains("spark.ui.showConsoleProgress"):
        builder = builder.config("spark.ui.showConsoleProgress", "false")  # jobs tell how far they are
    if not conf.contains("spark.log.level"):
        builder = builder.config("spark.log.level", "OFF")
        for each in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # Spark's errors, as JSON
            logging.getLogger(each).setLevel(logging.CRITICAL)
    session: SparkSession = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupted)  # in the place of Spark's, which calls into the call that it breaks
    register(session)
    return session


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a log line is about anything but Ctrl-C, of which py4j logs a traceback from the call that it broke."""
    return record.exc_info is None or not isinstance(record.exc_info[1], KeyboardInterrupt)


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Ctrl-C: what the broken call into Spark logs is no news."""
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt
