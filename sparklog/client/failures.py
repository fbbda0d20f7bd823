"""How an error reaches the people who started a command or a job: one line on stderr, its traceback if asked for."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from sparklog.core.errors import SparklogError

DEBUG: Final = "SPARKLOG_DEBUG"  # set to anything: errors come with their traceback


def unforeseen(error: Exception, text: str) -> str:
    """The line for an error that is none of sparklog's, and how to see where it came from."""
    hint = "" if os.environ.get(DEBUG) else f"; {DEBUG}=1 shows where"
    return f"{SparklogError.code}: {type(error).__name__}: {text}{hint}"


def print_failure(line: str) -> None:
    """The line for the error that is being handled, on stderr, after its traceback if SPARKLOG_DEBUG is set."""
    print_traceback_if_wanted()
    sys.stdout.flush()
    print(one_line(line), file=sys.stderr)


def print_traceback_if_wanted() -> None:
    """Where the error that is being handled came from, on stderr, if SPARKLOG_DEBUG is set."""
    if os.environ.get(DEBUG):
        traceback.print_exc()


def one_line(text: str) -> str:
    """The text without line breaks: an error is one line."""
    return " ".join(text.split("\n")) if "\n" in text else text
