"""`sparklog job mirror`: copies topics of a Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.jobs.job_run import DRY_RUN, REPORT, run_on_spark
from sparklog.cli.output import ending
from sparklog.cli.properties_file import read_properties
from sparklog.core.errors import InvalidOption

if TYPE_CHECKING:
    from sparklog.maintenance.job_report import JobReport

EPILOG = ending(
    "sparklog job mirror --bootstrap-servers kafka:9092 --topic orders --dry-run",
    "sparklog job mirror --bootstrap-servers kafka:9092 --pattern 'sales.*' --kafka-config client.properties --follow",
)


def mirror(
    bootstrap_servers: str = typer.Option(..., metavar="HOST:PORT[,…]", help="The addresses of Kafka's brokers."),
    topic: list[str] = typer.Option([], "--topic", "-t", metavar="T", help="A topic; may be given several times."),
    pattern: str | None = typer.Option(
        None, metavar="REGEX", help="Also all topics whose whole name matches this regular expression."
    ),
    kafka_config: str | None = typer.Option(
        None,
        metavar="FILE",
        help="A file of lines key=value with settings of Kafka's Java client, such as security.protocol and "
        "sasl.jaas.config. They go to Kafka only, and are never shown.",
    ),
    follow: bool = typer.Option(
        False, "--follow", help="Also copy what Kafka gets later, until Ctrl-C, instead of ending once all is copied."
    ),
    max_records: int = typer.Option(
        5_000_000, metavar="N", min=1, help="Maximum records of a partition in one append."
    ),
    fail_on_data_loss: bool = typer.Option(
        True,
        "--fail-on-data-loss/--no-fail-on-data-loss",
        help="Fail a partition if Kafka removed records before they were copied, or leave their offsets empty.",
    ),
    verify: bool = typer.Option(
        False, "--verify", help="Copy nothing: compare what is here with Kafka, and name the first difference."
    ),
    dry_run: bool = DRY_RUN,
    report: str | None = REPORT,
) -> None:
    """Copy topics of a Kafka cluster, each record once and at its offset, even if runs are killed or overlap.

    The topics here are created, and take no other writes until sparklog topic promote. Spark needs Kafka's Java client:
    see docs/moving.md.
    """
    if verify and (follow or not fail_on_data_loss):
        raise InvalidOption(
            "wanted --verify without --follow and --no-fail-on-data-loss: it compares what both sides have"
        )
    settings = {} if kafka_config is None else read_properties("--kafka-config", kafka_config)
    kafka = {**settings, "bootstrap.servers": bootstrap_servers}

    def run(cluster_url: str, **given: Any) -> JobReport:
        from sparklog.spark.mirror.mirror_job import Source, run_mirror

        source = Source(kafka, tuple(topic), pattern, max_records, fail_on_data_loss, follow)
        if verify:
            from sparklog.spark.mirror.verify_mirror import run_verify_mirror

            return run_verify_mirror(cluster_url, source, session, **given)
        return run_mirror(cluster_url, source, session, **given)

    def session() -> Any:
        from sparklog.spark.job_session import job_session

        return job_session("mirror")

    run_on_spark(run, session, None, dry_run, report)
