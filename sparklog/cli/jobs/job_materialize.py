"""`sparklog job materialize`: copies a topic into a Delta table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.jobs.job_run import DRY_RUN, NOW, REPORT, run_on_spark
from sparklog.cli.output import ending
from sparklog.core.errors import InvalidOption

if TYPE_CHECKING:
    from sparklog.maintenance.job_report import JobReport

EPILOG = ending(
    "sparklog job materialize --topic orders --table /data/orders --dry-run",
    "sparklog job materialize --topic orders --table /data/orders --mode latest --schema 'id long, amount double'",
)


def materialize(
    topic: str = typer.Option(..., "--topic", "-t", metavar="T", help="The topic."),
    table: str = typer.Option(
        ..., metavar="PATH_OR_NAME", help="The Delta table, by path (with a slash) or by name. Created if missing."
    ),
    mode: str = typer.Option(
        "append",
        metavar="append|latest",
        help="append: one row per record. latest: one row per key, with its newest record; a tombstone deletes it.",
    ),
    schema: str | None = typer.Option(
        None,
        metavar="DDL",
        help="Columns for the fields of JSON values, such as 'id long, name string'. The bytes of a value that is not "
        "one JSON object with these fields go into the column _bad_value. Other fields are left out.",
    ),
    key_schema: str | None = typer.Option(
        None, metavar="DDL", help="The same for JSON keys, with the column _bad_key."
    ),
    on_bad_value: str = typer.Option(
        "keep", metavar="keep|fail", help="fail: a value or key that does not match the schema stops the job."
    ),
    partition_by: str | None = typer.Option(
        None, metavar="COL[,COL]", help="Partition the table by these columns when the job creates it."
    ),
    max_records: int = typer.Option(
        5_000_000, metavar="N", min=1, help="The approximate maximum of records in one commit."
    ),
    fail_on_data_loss: bool = typer.Option(
        True,
        "--fail-on-data-loss/--no-fail-on-data-loss",
        help="Stop if records were removed before the table got them, or continue with the remaining records.",
    ),
    now: str | None = NOW,
    dry_run: bool = DRY_RUN,
    report: str | None = REPORT,
) -> None:
    """Copy a topic into a Delta table, each record exactly once, even if runs are killed or overlap.

    The offsets reached are stored in the table itself. Spark needs Delta Lake: see docs/maintenance.md.
    """
    from sparklog.spark.materialize.columns import Layout
    from sparklog.spark.materialize.materialize_job import Table, check_table
    from sparklog.spark.materialize.position import Mode

    if mode not in list(Mode):
        raise InvalidOption(f"--mode: wanted append or latest, found {mode!r}")
    if on_bad_value not in ("keep", "fail"):
        raise InvalidOption(f"--on-bad-value: wanted keep or fail, found {on_bad_value!r}")
    columns = tuple(name.strip() for name in (partition_by or "").split(",") if name.strip())
    layout = Layout(Mode(mode), schema, key_schema, on_bad_value == "fail")
    wanted = Table(table, layout, columns, max_records, fail_on_data_loss)
    check_table(wanted)

    def run(cluster_url: str, **given: Any) -> JobReport:
        from sparklog.spark.materialize.materialize_job import run_materialize

        return run_materialize(cluster_url, topic, wanted, session, **given)

    def session() -> Any:
        from sparklog.spark.job_session import job_session
        from sparklog.spark.materialize.delta_table import delta_settings

        return job_session("materialize", delta_settings())

    run_on_spark(run, session, now, dry_run, report)
