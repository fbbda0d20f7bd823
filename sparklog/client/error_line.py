"""Prints the errors of CLI commands and jobs: one line on stderr, after a traceback if SPARKLOG_DEBUG is set."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from sparklog.core.describe.readable import printable
from sparklog.core.errors import SparklogError
from sparklog.host.standard_streams import flush, print_to

DEBUG: Final = "SPARKLOG_DEBUG"  # if set to anything, errors come with their traceback


def unforeseen(error: Exception, text: str) -> str:
    """The error line for an exception that is not a SparklogError: its type, `text`, and how to see the traceback."""
    hint = "" if os.environ.get(DEBUG) else f"; {DEBUG}=1 shows where"
    return f"{SparklogError.code}: {type(error).__name__}: {text}{hint}"


def print_failure(line: str) -> None:
    """Print `line`, the text of a failure, to stderr as one line.

    If SPARKLOG_DEBUG is set, prints the traceback of the exception that is being handled first.
    """
    print_traceback_if_wanted()
    flush(sys.stdout)
    print_to(sys.stderr, one_line(line))


def print_traceback_if_wanted() -> None:
    """Print to stderr the traceback of the exception that is being handled, but only if SPARKLOG_DEBUG is set."""
    if os.environ.get(DEBUG):
        print_to(sys.stderr, traceback.format_exc().rstrip())


def one_line(text: str) -> str:
    """The text as one printable line: each line break is replaced by a space, because an error is one line."""
    return printable(" ".join(text.split("\n")))
