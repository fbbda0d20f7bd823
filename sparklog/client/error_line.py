"""Errors of commands and jobs for their caller: one line on stderr, with a traceback on request."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from sparklog.core.errors import SparklogError
from sparklog.host.standard_streams import flush, print_to

DEBUG: Final = "SPARKLOG_DEBUG"  # if set to anything, errors come with their traceback


def unforeseen(error: Exception, text: str) -> str:
    """The line for an error that is not one of sparklog's, with a hint how to see its traceback."""
    hint = "" if os.environ.get(DEBUG) else f"; {DEBUG}=1 shows where"
    return f"{SparklogError.code}: {type(error).__name__}: {text}{hint}"


def print_failure(line: str) -> None:
    """Print the line of the error that is being handled to stderr, after its traceback if SPARKLOG_DEBUG is set."""
    print_traceback_if_wanted()
    flush(sys.stdout)
    print_to(sys.stderr, one_line(line))


def print_traceback_if_wanted() -> None:
    """Print the traceback of the error that is being handled to stderr, if SPARKLOG_DEBUG is set."""
    if os.environ.get(DEBUG):
        print_to(sys.stderr, traceback.format_exc().rstrip())


def one_line(text: str) -> str:
    """The text on one line, because an error is one line."""
    return " ".join(text.split("\n")) if "\n" in text else text
