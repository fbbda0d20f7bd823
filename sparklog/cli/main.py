"""`sparklog NOUN VERB …`: the command line. Verbs import what they need when they run, so `--help` is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from sparklog.cli import chain, cluster, job, output, records, segment, topic
from sparklog.core.errors import SparklogError

GLOBAL_OPTIONS = ("--cluster", "--config", "--format")
EPILOG = "Before or after the verb: --cluster URL, --config FILE, --format table|json. Errors go to stderr."

app = typer.Typer(
    name="sparklog",
    help="A partitioned log on object storage: Kafka's semantics, Delta's atomic commits, Arrow's open columns.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cluster.app, name="cluster")
app.add_typer(topic.app, name="topic")
app.add_typer(segment.app, name="segment")
app.add_typer(chain.app, name="chain")
app.add_typer(job.app, name="job")
app.command("produce", epilog=EPILOG)(records.produce)
app.command("consume", epilog=EPILOG)(records.consume)


@app.callback()
def common(
    cluster: str = typer.Option(
        "", metavar="URL", help="The cluster: file:///path or a bare path. Default: SPARKLOG_CLUSTER, then --config."
    ),
    config: str = typer.Option("", metavar="FILE", help="A TOML file with 'cluster'. Default: SPARKLOG_CONFIG."),
    format: str = typer.Option("table", metavar="table|json", help="How results are shown."),
) -> None:
    """Options of every verb; `run` has taken them out of the arguments, wherever they stood."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0, 1 failed, 2 usage, 3 not found, 4 conflict, 5 unhealthy."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        rest = output.settings.take(arguments)
        code = app(rest, prog_name="sparklog", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SparklogError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except typer.TyperException as error:
        usage = getattr(error, "format_message", error.__str__)()
        if usage:  # empty where a noun alone showed its help
            print(f"INVALID_REQUEST: {usage} (see --help)", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def entry_point() -> None:
    """What the console script calls."""
    sys.exit(run())
