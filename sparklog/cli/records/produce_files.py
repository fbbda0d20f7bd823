"""`spark-submit jobs/produce.py …`: write the rows of files or a table to a topic (`sparklog produce` reads stdin)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from sparklog.cli.command_line import CONTEXT, STYLE, run_command
from sparklog.cli.common_options import settings
from sparklog.cli.jobs.job_run import plan_stream, run_to_report
from sparklog.core.errors import InvalidOption

if TYPE_CHECKING:
    from sparklog.spark.produce.formats.bad_rows import BadRows
    from sparklog.spark.produce.produce_report import ProduceReport

OWN_SETTINGS: Final = ("--cluster",)  # here --config is the topic's and --format is the files'
_READING: Final = """\
\b
How files are read:
  CSV      as Python's csv module reads it (RFC 4180): doubled quotes, quoted values over several lines, a header. Every
           value is a string ("007" stays 007), and an empty value is an empty string (nullValue= makes it null). All
           files must have the same header. One task reads a whole file, because a value may span lines; if none does,
           --option multiLine=false lets several tasks read a large file.
  JSON     one object per line; the value of a record is the object exactly as in the file. With multiLine=true, each
           file is one object or one array of objects, and is read as a whole.
  Parquet  the columns of all files, null where a file lacks a column.
Folders named NAME=VALUE become text columns. .gz and .bz2 are unpacked.

\b
If the run fails, no record is written, and a topic created by --create is deleted again. If it is killed, that topic
stays, empty, and the next run uses it.
Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 not found, 4 conflict, 130 Ctrl-C.
"""

app = typer.Typer(context_settings=CONTEXT, add_completion=False, **STYLE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run produce from the command line and return the exit code."""
    return run_command(lambda: typer.main.get_command(app), "spark-submit jobs/produce.py", argv, OWN_SETTINGS)


@app.command(epilog=_READING)
def produce(
    path: str | None = typer.Argument(None, metavar="SOURCE", help="A file, a directory or a glob, local or not."),
    # ---- target
    cluster: str | None = typer.Option(
        None,
        metavar="URL",
        help="The place of the metadata: a path, or an address: s3://, gs://, abfs:// or hdfs://. Default: "
        "SPARKLOG_CLUSTER, SPARKLOG_CONFIG.",
    ),
    topic: str = typer.Option(..., "--topic", metavar="T", help="The topic to write to."),
    create: bool = typer.Option(False, "--create", help="Create the topic if it does not exist."),
    partitions: int | None = typer.Option(None, metavar="N", help="With --create: the number of partitions."),
    config: list[str] = typer.Option([], metavar="KEY=VALUE", help="With --create: a config key of the topic."),
    compression: str | None = typer.Option(
        None, metavar="zstd|lz4|none", help="The codec, unless the topic's compression.type names one. Default: zstd."
    ),
    on_bad_row: str = typer.Option(
        "fail",
        metavar="fail|skip|dead-letter",
        help="How to treat an unreadable row of CSV or JSON (too many or too few columns, a misplaced quote, broken "
        "JSON, bytes that the encoding does not allow): fail names its file and line and writes nothing; skip leaves "
        "the row out and counts it; dead-letter writes its text to --dead-letter-topic.",
    ),
    dead_letter_topic: str | None = typer.Option(
        None,
        metavar="T",
        help="With --on-bad-row dead-letter: the topic for bad rows. They are written in the same commit, with the "
        "headers file, row and reason (--create creates this topic too, with one partition).",
    ),
    txn_app_id: str | None = typer.Option(
        None, metavar="ID", help="With --txn-version: a version that was already written is not written again."
    ),
    txn_version: str | None = typer.Option(None, metavar="N", help="A number that increases with each run."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Count the rows, and show the first records as they would be written."
    ),
    report: str | None = typer.Option(
        None, metavar="FILE", help="Write the report to this file, as JSON (- is stdout)."
    ),
    # ---- reading
    table: str | None = typer.Option(None, metavar="NAME", help="Read this table instead of a SOURCE."),
    format: str | None = typer.Option(
        None, metavar="csv|json|parquet", help="The format of the files. Default: by their suffix."
    ),
    option: list[str] = typer.Option(
        [],
        metavar="KEY=VALUE",
        help="A reading option: Spark's options for CSV (header, sep, quote, escape, encoding, comment, nullValue, "
        "inferSchema, multiLine, ignoreLeadingWhiteSpace), JSON (multiLine, encoding, …) and Parquet; for example "
        "inferSchema=true or nullValue=NA.",
    ),
    changes: bool = typer.Option(
        False,
        "--changes",
        help="SOURCE or --table is a Delta table: write its changes since the last run, one commit for each of its "
        "versions, each once. Deleted rows become tombstones; needs --key and delta.enableChangeDataFeed=true.",
    ),
    starting_version: int | None = typer.Option(
        None, metavar="N", min=0, help="With --changes: the first version, if the topic has none yet. Default: 0."
    ),
    where: str | None = typer.Option(None, metavar="SQL", help="Only the rows for which this is true."),
    order_by: str | None = typer.Option(
        None, metavar="COL[,COL]", help="Sort the rows by these columns first, so that offsets follow this order."
    ),
    # ---- from rows to records
    key: str | None = typer.Option(
        None, metavar="COL[,COL]", help="The key: one column as text, or several as a JSON object. Default: no key."
    ),
    key_expr: str | None = typer.Option(None, metavar="SQL", help="The key, as an expression over the row."),
    partition_column: str | None = typer.Option(None, metavar="COL", help="The partition. Default: by key."),
    timestamp: str | None = typer.Option(
        None, metavar="COL", help="The timestamp: a time (UTC if without zone) or ms. Default: the time of writing."
    ),
    timestamp_expr: str | None = typer.Option(
        None, metavar="SQL", help="The timestamp, as an expression over the row."
    ),
    value_columns: str | None = typer.Option(
        None, metavar="COL[,COL]", help="The value: these columns as a JSON object. Default: the whole row."
    ),
    value_expr: str | None = typer.Option(None, metavar="SQL", help="The value, as an expression over the row."),
) -> None:
    """Write the rows of a file, a directory or a table to a topic, in one commit: all or nothing.

    With --changes, there is one commit for each version of the Delta table.
    """
    from sparklog.options.key_value import key_values
    from sparklog.spark.produce.input_source import InputSource
    from sparklog.spark.produce.paths import FORMATS
    from sparklog.spark.produce.produce_job import Target
    from sparklog.spark.produce.rows import RowMapping
    from sparklog.spark.produce.target_topics import NewTopic

    if format is not None:
        _check_choice("--format", format, FORMATS)
    if not create and (partitions is not None or config):
        raise InvalidOption("--partitions and --config apply only to a new topic: add --create")
    if (txn_app_id is None) != (txn_version is None):
        raise InvalidOption("wanted --txn-app-id and --txn-version together, found only one")
    if starting_version is not None and not changes:
        raise InvalidOption("--starting-version applies only to changes of a Delta table: add --changes")
    source = InputSource(path, table, format, key_values(option, "--option"), where, _names("--order-by", order_by))
    mapping = RowMapping(
        key=_names("--key", key),
        key_expr=key_expr,
        partition=partition_column,
        timestamp=timestamp,
        timestamp_expr=timestamp_expr,
        value_columns=_names("--value-columns", value_columns),
        value_expr=value_expr,
    )
    target = Target(
        settings.cluster(),
        topic,
        create=NewTopic(partitions, key_values(config, "--config")) if create else None,
        transaction=None if txn_app_id is None or txn_version is None else (txn_app_id, txn_version),
        compression=compression,
        bad_rows=_bad_rows(on_bad_row, dead_letter_topic),
    )

    def run() -> ProduceReport:
        from sparklog.maintenance.job_report_file import check_report_is_no_source
        from sparklog.spark.job_session import job_session, start_if_yarn_waits
        from sparklog.spark.produce.produce_job import run_produce

        check_report_is_no_source(report, path)
        if changes:
            from sparklog.spark.materialize.delta_table import delta_settings
            from sparklog.spark.produce.change_runs import run_changes

            start_if_yarn_waits(lambda: job_session("produce", delta_settings()))
            return run_changes(
                source,
                mapping,
                target,
                spark=lambda: job_session("produce", delta_settings()),
                starting_version=starting_version,
                dry_run=dry_run,
                plan=plan_stream(dry_run=dry_run, report_file=report),
            )
        start_if_yarn_waits(lambda: job_session("produce"))
        return run_produce(
            source,
            mapping,
            target,
            spark=lambda: job_session("produce"),
            dry_run=dry_run,
            plan=plan_stream(dry_run=dry_run, report_file=report),
        )

    run_to_report(run, report)


def _bad_rows(then: str, topic: str | None) -> BadRows:
    from sparklog.spark.produce.formats.bad_rows import BadRows, OnBadRow

    _check_choice("--on-bad-row", then, list(OnBadRow))
    return BadRows(OnBadRow(then), topic)


def _check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InvalidOption(f"{option}: wanted {', '.join(choices)}, found {value!r}")


def _names(option: str, text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text is not None else ()
    if not all(names):
        raise InvalidOption(f"{option}: wanted names separated by commas, found {text!r}")
    return names
