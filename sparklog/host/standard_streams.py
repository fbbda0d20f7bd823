"""Handles standard streams that can't be used: a pipe whose reader has left, or a stream closed before the start."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def open_missing_streams() -> None:
    """Open /dev/null in place of each standard stream that this process was started without (`>&-`)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open to the end of the process


def print_to(stream: TextIO, text: str) -> None:
    """Print the text and a line break. If the stream's reader has left, discard the text, without an error."""
    try:
        print(text, file=stream)
    except BrokenPipeError:
        discard(stream)


def flush(stream: TextIO) -> None:
    """Flush the stream. If the stream's reader has left, discard its text, without an error."""
    try:
        stream.flush()
    except BrokenPipeError:
        discard(stream)


def discard(stream: TextIO) -> None:
    """Discard everything written to the stream from now on, without an error.

    That includes text in the stream's buffer: the interpreter flushes the stream once more at its end.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
