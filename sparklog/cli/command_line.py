"""Runs one command line, from its arguments to its exit code. An error is one line on stderr."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import typer
from typer.completion import shell_complete

from sparklog.cli.common_options import NAMES, settings
from sparklog.client.error_line import print_failure, unforeseen
from sparklog.core.errors import SparklogError
from sparklog.host.standard_streams import discard, open_missing_streams, print_to

COMPLETE: Final = "_SPARKLOG_COMPLETE"  # environment variable through which the shell asks for completions
STYLE: Final[dict[str, Any]] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,  # rich makes --help 50 % slower and takes [a, b) for markup
}
CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def run_command(
    command: Callable[[], Any], program: str, argv: Sequence[str] | None, settings_taken: Sequence[str] = NAMES
) -> int:
    """Run a command line and return its exit code: 0, 1 failed, 2 usage, 3 not found, 4 conflict, 5 unhealthy.

    Ctrl-C gives 130. An error is printed as one line on stderr. If the reader of stdout closes the pipe early, that is
    no error. `command` builds the click command; `program` is its name on help pages. `argv`: the arguments; None for
    those of this process. `settings_taken`: the common options that are accepted anywhere on the command line.
    """
    code = 0
    open_missing_streams()
    try:
        arguments = settings.take(sys.argv[1:] if argv is None else argv, settings_taken)
        with settings.in_force():
            code = _invoke(command(), program, arguments)
        sys.stdout.flush()
        return code
    except SparklogError as error:
        return _failed(str(error), error.exit_code)
    except typer.TyperException as error:
        return _misused(getattr(error, "format_message", error.__str__)())
    except (KeyboardInterrupt, typer.Abort):
        logging.disable()  # the process ends now: Py4J would log that Ctrl-C broke its connection
        return 130
    except BrokenPipeError:
        discard(sys.stdout)
        return code
    except Exception as error:
        if (
            isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None
        ):  # not an error of a store, which is StoreFull
            discard(sys.stdout)
            return _failed(
                f"{SparklogError.code}: stdout can't be written: {error.strerror}; the output is incomplete", 1
            )
        return _failed(unforeseen(error, _text(error)), 1)


def _invoke(command: Any, program: str, arguments: list[str]) -> int:
    """Run the click command and return its exit code. If the reader of stdout has left, raises BrokenPipeError.

    A plain call of `command` would end this process with exit code 1 instead.
    """
    try:
        if instruction := os.environ.get(COMPLETE):
            return shell_complete(command, {}, program, COMPLETE, instruction)
        with command.make_context(program, arguments, **CONTEXT) as context:
            command.invoke(context)
    except typer.Exit as exit_:
        return exit_.exit_code
    except SystemExit as exit_:  # typer raises it after --install-completion and --show-completion
        return int(exit_.code or 0)
    return 0


def _misused(usage: str) -> int:
    if usage.startswith("Usage:"):  # a noun without a verb: print its help page
        print_to(sys.stderr, usage)
        return 2
    return _failed(f"INVALID_REQUEST: {usage} (see --help)", 2)


def _failed(line: str, exit_code: int) -> int:
    print_failure(line)
    return exit_code


def _text(error: Exception) -> str:
    """The text of an error; for Spark's errors, without the embedded stack traces."""
    if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        return str(error)
    from sparklog.spark.spark_errors import brief

    return brief(error)
