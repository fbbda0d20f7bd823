"""`sparklog job materialize`: a topic into a Delta table."""

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
        help="append: a row for each record. latest: a row for each key, its newest record; a tombstone deletes it.",
    ),
    schema: str | None = typer.Option(
        None,
        metavar="DDL",
        help="Columns for the fields of JSON values, such as 'id long, name string'. A value that is not one JSON "
        "object of these fields keeps its bytes in the column _bad_value. Fields that are not named are left out.",
    ),
    key_schema: str | None = typer.Option(None, metavar="DDL", help="The same for JSON keys, with _bad_key."),
    on_bad_value: str = typer.Option(
        "keep", metavar="keep|fail", help="fail: a value or key that is not of the schema stops the job."
    ),
    partition_by: str | None = typer.Option(
        None, metavar="COL[,COL]", help="Partition the table by these columns, when the job creates it."
    ),
    max_records: int = typer.Option(
        5_000_000, metavar="N", min=1, help="About how many records one commit adds at most."
    ),
    fail_on_data_loss: bool = typer.Option(
        True,
        "--fail-on-data-loss/--no-fail-on-data-loss",
        help="Stop if records went before the table got them, or go on with those that are there.",
    ),
    now: str | None = NOW,
    dry_run: bool = DRY_RUN,
    report: str | None = REPORT,
) -> None:
    """Copy a topic into a Delta table, each record once, whatever is killed or run twice.

    The table itself says how far it is. Spark needs Delta Lake: see docs/maintenance.md.
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
