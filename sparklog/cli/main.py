"""`sparklog NOUN VERB …`: the command line. Verbs import what they need when they run, so `--help` is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import typer
from typer.completion import shell_complete

from sparklog import __version__
from sparklog.cli import chain, cluster, consume, job, produce, segment, topic
from sparklog.cli.output import ending
from sparklog.cli.settings import settings
from sparklog.client.failures import print_failure, unforeseen
from sparklog.core.errors import SparklogError

COMPLETE = "_SPARKLOG_COMPLETE"  # set by the shell's completion: what it asks for

app = typer.Typer(
    name="sparklog",
    help="A partitioned log on object storage: Kafka's semantics, Delta's atomic commits, Arrow's open columns.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # with it, --help takes half as long again, and [a, b) is read as markup
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
for noun in (cluster, topic, segment, chain, job):
    app.add_typer(noun.app, name=noun.__name__.rpartition(".")[2])
app.command("produce", epilog=produce.EPILOG)(produce.produce)
app.command("consume", epilog=consume.EPILOG)(consume.consume)


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
        help="The cluster: a path, file:///path, s3://bucket/prefix or hdfs://host/path. Default: that of --config, "
        "SPARKLOG_CLUSTER, SPARKLOG_CONFIG.",
    ),
    config: str | None = typer.Option(
        None, metavar="FILE", help='A TOML file with cluster = "URL" and [storage.ID] tables. Default: SPARKLOG_CONFIG.'
    ),
    format: str = typer.Option(
        "table", metavar="table|json", help="For people, or one JSON document (or JSON lines) on stdout."
    ),
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_show_version, help="Print the version."),
) -> None:
    """These are declared for the help page only: `Settings.take` has taken them out, wherever they stood."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0, 1 failed, 2 usage, 3 not found, 4 conflict, 5 unhealthy.

    Errors are one line on stderr. 130 after Ctrl-C; 0 if the reader of a pipe has seen enough.
    """
    try:
        arguments = settings.take(sys.argv[1:] if argv is None else argv)
        with settings.in_force():
            code = _invoke(arguments)
        sys.stdout.flush()
        return code
    except SparklogError as error:
        return _failed(str(error), error.exit_code)
    except typer.TyperException as error:
        return _misused(getattr(error, "format_message", error.__str__)())
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        return 0
    except Exception as error:
        return _failed(unforeseen(error, str(error)), 1)


@cache
def _commands() -> Any:
    """All nouns and verbs; a click group as typer brings it along."""
    return typer.main.get_command(app)


def _invoke(arguments: list[str]) -> int:
    """Not `app()`: that answers a closed pipe by itself, with exit code 1."""
    try:
        if instruction := os.environ.get(COMPLETE):
            return shell_complete(_commands(), {}, "sparklog", COMPLETE, instruction)
        with _commands().make_context("sparklog", arguments) as context:
            _commands().invoke(context)
    except typer.Exit as exit_:
        return exit_.exit_code
    except SystemExit as exit_:  # typer ends so after --install-completion and --show-completion
        return int(exit_.code or 0)
    return 0


def _misused(usage: str) -> int:
    if usage.startswith("Usage:"):  # a noun alone: its help page
        print(usage, file=sys.stderr)
        return 2
    return _failed(f"INVALID_REQUEST: {usage} (see --help)", 2)


def _failed(line: str, exit_code: int) -> int:
    print_failure(line)
    return exit_code


def entry_point() -> None:
    """What the console script calls."""
    sys.exit(run())
