"""Writes the changes of a Delta table to a topic: one run of produce for each version that the log lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import replace

from sparklog.client.connection import Connection
from sparklog.core.describe.readable import printable
from sparklog.core.errors import InvalidInput, InvalidOption, SparklogError
from sparklog.core.lookup import topic_of
from sparklog.host.clock import now_ms
from sparklog.host.standard_streams import print_to
from sparklog.spark.materialize.delta_table import DeltaTable, check_delta
from sparklog.spark.produce.delta_changes import changes_app_id, explained_of_feed, first_version
from sparklog.spark.produce.input_source import InputSource, checked
from sparklog.spark.produce.produce_job import Target, run_produce
from sparklog.spark.produce.produce_report import ProduceReport
from sparklog.spark.produce.rows import RowMapping, check_mapping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_changes(
    source: InputSource,
    mapping: RowMapping,
    target: Target,
    *,
    spark: Callable[[], SparkSession],
    starting_version: int | None = None,
    dry_run: bool = False,
    console: TextIO | None = None,
    plan: TextIO | None = None,
) -> ProduceReport:
    """Write the changes of a table to the topic, version by version, from the first version that the topic lacks.

    `source` names the table. `mapping` must have a key. `target` must name an existing topic, and must have no
    transaction. The chain stores the last version that was written to the topic. If no version was written yet,
    `starting_version` (default 0) is the first. With `dry_run`, the next version is shown, and nothing is written.
    Versions that were written before an error stay. The report has the totals of all versions. Raises InvalidInput and
    its subclasses (among others, if Delta no longer has the changes of a version that the topic lacks), NotFound,
    Conflict, OutcomeUnknown.
    """
    check_mapping(mapping)
    _check_key(mapping)
    checked(replace(source, version=0))
    if target.create is not None or target.transaction is not None:
        raise InvalidOption("--changes: wanted an existing topic, without --create, --txn-app-id and --txn-version")
    console = console or sys.stderr
    with closing(Connection(target.cluster)) as connection:
        state = connection.newest_state()
        topic_id = topic_of(state, target.topic, advice=": create it first").topic_id
    session = spark()
    check_delta(session)
    table = DeltaTable(session, source.path or source.table or "")
    app_id, end = changes_app_id(table.table_id(), topic_id), table.last_version() + 1
    with closing(Connection(target.cluster)) as connection:
        state = connection.newest_state()
        known, first = app_id in state.applications, first_version(state, app_id, starting_version or 0)
    if known and starting_version is not None:
        raise InvalidOption(
            f"--starting-version: wanted none, found {starting_version}: topic {target.topic} already has the versions "
            f"below {first} of {source.name}"
        )
    if first > end:
        raise InvalidInput(
            f"{source.name}: wanted version {first}, found {end - 1} as its last version: the earlier runs wrote "
            "another table"
        )
    report = _nothing(source, target, connection.url, dry_run=dry_run)
    for version in range(first, end):
        version_of, to = replace(source, version=version), replace(target, transaction=(app_id, str(version)))
        try:
            run = run_produce(version_of, mapping, to, spark=session, dry_run=dry_run, console=console, plan=plan)
        except SparklogError as error:
            raise explained_of_feed(error) from error
        report = _sum(report, run)
        if dry_run:
            break
    if first == end:
        print_to(console, printable(f"{source.name} has no version after {end - 1}"))
    return replace(report, delta_versions=(first, end))


def _nothing(source: InputSource, target: Target, cluster: str, *, dry_run: bool) -> ProduceReport:
    at_ms = now_ms()
    return ProduceReport(source.name, cluster, target.topic, dry_run, True, at_ms, at_ms, 0, 0)


def _sum(before: ProduceReport, last: ProduceReport) -> ProduceReport:
    return replace(
        last,
        started_ms=before.started_ms,
        records=before.records + last.records,
        size_bytes=before.size_bytes + last.size_bytes,
    )


def _check_key(mapping: RowMapping) -> None:
    """Raise InvalidOption if the mapping has no key: a deleted row becomes a tombstone, which must have a key."""
    if not mapping.key and mapping.key_expr is None:
        raise InvalidOption(
            "--changes: wanted --key or --key-expr, found neither: a deleted row is a tombstone of its key"
        )
