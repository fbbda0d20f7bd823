"""The arguments of `jobs/produce.py`, and its run from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from sparklog.core.errors import InvalidOption
from sparklog.maintenance.output import plan_console
from sparklog.options.key_value import key_values
from sparklog.spark.job_arguments import (
    add_cluster,
    check_report_file,
    cluster_of,
    exit_code_of,
    job_session,
    write_report,
)
from sparklog.spark.produce.bad_rows import BadRows, OnBadRow
from sparklog.spark.produce.job import Target, run_produce
from sparklog.spark.produce.report_file import check_report_is_no_source
from sparklog.spark.produce.rows import RowMapping
from sparklog.spark.produce.source import FORMATS, Source
from sparklog.spark.produce.topics import NewTopic

_READING = """\
how files are read:
  CSV      as Python's csv module reads it (RFC 4180): quotes doubled, values in quotes over several lines, a header,
           every value a string ("007" stays 007), an empty value an empty string (nullValue= makes it null). All files
           have the same header. A file is read by one task, because a value may span lines; if none does,
           --option multiLine=false lets several tasks read a large file.
  JSON     one object a line; the value of a record is the object as it stands in the file. multiLine=true: one object
           or one array of objects in a file, which is read as a whole.
  Parquet  the columns of all files, null where a file has not one of them.
Folders named NAME=VALUE are columns of text. .gz and .bz2 are unpacked.

if it fails: no record is written, and a topic that --create made is deleted again. Killed, it leaves that topic, empty;
the next run goes on with it. Exit code 0 done, 1 failed, 2 usage or bad input, 3 not found, 4 conflict, 130 Ctrl-C.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run produce from the command line and return the exit code: 0, or that of the error."""
    given = argument_parser().parse_args(argv)

    def run_and_report() -> int:
        source, mapping, target = _source(given), _mapping(given), _target(given)
        check_report_file(given.report)
        check_report_is_no_source(given.report, given.source)
        report = run_produce(
            source,
            mapping,
            target,
            spark=lambda: job_session("produce"),
            dry_run=given.dry_run,
            plan=plan_console(dry_run=given.dry_run, stdout_taken=given.report == "-"),
        )
        write_report(report, given.report)
        return report.exit_code

    return exit_code_of(run_and_report)


def argument_parser() -> argparse.ArgumentParser:
    """All arguments, in groups."""
    parser = argparse.ArgumentParser(
        prog="spark-submit jobs/produce.py",
        description="Write the rows of a file, a directory or a table to a topic, in one commit: all or nothing.",
        epilog=_READING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SOURCE", nargs="?", help="a file, a directory or a glob, local or not")
    _add_target(parser)
    _add_reading(parser.add_argument_group("reading"))
    _add_mapping(parser.add_argument_group("from rows to records"))
    return parser


def _add_target(parser: argparse.ArgumentParser) -> None:
    add_cluster(parser)
    add = parser.add_argument
    add("--topic", metavar="T", required=True, help="the topic to write to")
    add("--create", action="store_true", help="create the topic if it is not there")
    add("--partitions", metavar="N", type=int, help="with --create: how many partitions")
    add("--config", metavar="KEY=VALUE", action="append", default=[], help="with --create: a config of the topic")
    add("--compression", metavar="C", help="zstd, lz4 or none (default: the topic's compression.type)")
    add(
        "--on-bad-row",
        choices=[each.value for each in OnBadRow],
        default=OnBadRow.FAIL.value,
        help="a row of CSV or JSON that can't be read (too many or too few columns, a quote out of place, broken JSON, "
        "other bytes than the encoding's): fail names its file and line and writes nothing (default); skip leaves it "
        "out and counts it; dead-letter writes its text to --dead-letter-topic",
    )
    add(
        "--dead-letter-topic",
        metavar="T",
        help="with --on-bad-row dead-letter: the topic for bad rows, in the same commit, with the headers file, row "
        "and reason (--create creates it too, with one partition)",
    )
    add("--txn-app-id", metavar="ID", help="with --txn-version: a version that was written before is not written again")
    add("--txn-version", metavar="N", help="a number that rises from run to run")
    add("--dry-run", action="store_true", help="count, and show the first rows as they would be written")
    add("--report", metavar="FILE", help="write the report there, as JSON (- is stdout)")


def _add_reading(group: Any) -> None:
    add = group.add_argument
    add("--table", metavar="NAME", help="read this table instead of a SOURCE")
    add("--format", choices=FORMATS, help="of the files (default: by their suffix)")
    add(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="how to read: Spark's names for CSV (header, sep, quote, escape, encoding, comment, nullValue, "
        "inferSchema, multiLine, ignoreLeadingWhiteSpace), JSON (multiLine, encoding, …) and Parquet; for instance "
        "inferSchema=true or nullValue=NA",
    )
    add("--where", metavar="SQL", help="only the rows for which this holds")
    add("--order-by", metavar="COL[,COL]", help="sort the rows first: offsets then follow these columns")


def _add_mapping(group: Any) -> None:
    add = group.add_argument
    add("--key", metavar="COL[,COL]", help="the key: a column as text, or several as a JSON object (default: none)")
    add("--key-expr", metavar="SQL", help="the key, as an expression over the row")
    add("--partition-column", metavar="COL", help="the partition, instead of the key's")
    add(
        "--timestamp", metavar="COL", help="a time (without a zone: UTC), or milliseconds (default: when it is written)"
    )
    add("--timestamp-expr", metavar="SQL", help="the timestamp, as an expression over the row")
    add("--value-columns", metavar="COL[,COL]", help="these columns as a JSON object (default: the whole row)")
    add("--value-expr", metavar="SQL", help="the value, as an expression over the row")


def _source(given: argparse.Namespace) -> Source:
    options = key_values(given.option, "--option")
    return Source(given.source, given.table, given.format, options, given.where, _names("--order-by", given.order_by))


def _mapping(given: argparse.Namespace) -> RowMapping:
    return RowMapping(
        key=_names("--key", given.key),
        key_expr=given.key_expr,
        partition=given.partition_column,
        timestamp=given.timestamp,
        timestamp_expr=given.timestamp_expr,
        value_columns=_names("--value-columns", given.value_columns),
        value_expr=given.value_expr,
    )


def _target(given: argparse.Namespace) -> Target:
    cluster = cluster_of(given.cluster)
    if not given.create and (given.partitions is not None or given.config):
        raise InvalidOption("--partitions and --config apply only to a topic that is created: add --create")
    if (given.txn_app_id is None) != (given.txn_version is None):
        raise InvalidOption("wanted --txn-app-id and --txn-version together, found only one")
    create = NewTopic(given.partitions, key_values(given.config, "--config")) if given.create else None
    transaction = None if given.txn_app_id is None else (given.txn_app_id, given.txn_version)
    bad_rows = BadRows(OnBadRow(given.on_bad_row), given.dead_letter_topic)
    return Target(cluster, given.topic, create, transaction, given.compression, bad_rows)


def _names(option: str, text: str | None) -> tuple[str, ...]:
    names = tuple(each.strip() for each in text.split(",")) if text is not None else ()
    if not all(names):
        raise InvalidOption(f"{option}: wanted names separated by commas, found {text!r}")
    return names
