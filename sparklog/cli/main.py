"""`sparklog NOUN VERB …`: the command line. Each verb imports its modules only when it runs, so `--help` is quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import typer

from sparklog import __version__
from sparklog.cli.cluster import agent_verb, chain_verbs, cluster_verbs, coordinator_verbs, doctor, store_verbs
from sparklog.cli.command_line import CONTEXT, STYLE, run_command
from sparklog.cli.jobs import jar_verb, job_verbs
from sparklog.cli.output import ending
from sparklog.cli.records import consume, produce
from sparklog.cli.topics import group_verbs, replica_verbs, segment_verbs, topic_delete_records, topic_verbs

app = typer.Typer(
    name="sparklog",
    help="A partitioned log on object storage: Kafka's semantics, Delta's atomic commits, Arrow's open columns.",
    no_args_is_help=True,
    context_settings=CONTEXT,
    **STYLE,
)
app.add_typer(cluster_verbs.app, name="cluster")
app.add_typer(topic_verbs.app, name="topic")
app.add_typer(group_verbs.app, name="group")
app.add_typer(store_verbs.app, name="store")
app.add_typer(replica_verbs.app, name="replica")
app.add_typer(segment_verbs.app, name="segment")
app.add_typer(chain_verbs.app, name="chain")
app.add_typer(job_verbs.app, name="job")
app.add_typer(coordinator_verbs.app, name="coordinator")
topic_verbs.app.command("delete-records", epilog=topic_delete_records.EPILOG)(topic_delete_records.delete_records)
app.command("produce", epilog=produce.EPILOG)(produce.produce)
app.command("consume", epilog=consume.EPILOG)(consume.consume)
app.command("doctor", epilog=doctor.DOCTOR_EPILOG)(doctor.doctor)
app.command("jar", epilog=jar_verb.EPILOG)(jar_verb.jar)
app.command("agent", epilog=agent_verb.EPILOG)(agent_verb.agent)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"sparklog {__version__}")
        raise typer.Exit


@app.callback(
    epilog=ending(
        "sparklog cluster init --cluster file:///tmp/demo",
        "export SPARKLOG_CLUSTER=file:///tmp/demo",
        "sparklog topic create orders --partitions 3",
        "printf 'anna:1 tea\\nben:2 cups\\n' | sparklog produce orders --key-separator :",
        "sparklog consume orders --format json",
    )
)
def common(
    cluster: str | None = typer.Option(
        None,
        metavar="URL",
        help="The cluster: a path, or an address: s3://, gs://, abfs:// or hdfs://. Default: the one in --config, "
        "SPARKLOG_CLUSTER, SPARKLOG_CONFIG.",
    ),
    config: str | None = typer.Option(
        None, metavar="FILE", help='A TOML file with cluster = "URL" and [storage.ID] tables. Default: SPARKLOG_CONFIG.'
    ),
    format: str = typer.Option(
        "table", metavar="table|json", help="A readable table, or one JSON document (or JSON lines) on stdout."
    ),
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_show_version, help="Print the version."),
) -> None:
    """Declare the common options for the help page; `Settings.take` has already removed them from the arguments."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; see `run_command`."""
    return run_command(_commands, "sparklog", argv)


def run_job(name: str, argv: Sequence[str] | None = None) -> int:
    """Run the verb `sparklog job NAME` for jobs/NAME.py, which spark-submit started, and return its exit code."""
    return run_command(lambda: _commands().commands["job"].commands[name], f"spark-submit jobs/{name}.py", argv)


@cache
def _commands() -> Any:
    """All nouns and verbs, as the click group that typer builds."""
    return typer.main.get_command(app)


def entry_point() -> None:
    """The entry point of the console script `sparklog`: run the command line, then exit with its exit code."""
    sys.exit(run())
