"""Whoever prints is not stopped by a reader who has left."""

from __future__ import annotations

import sys

import pytest

from sparklog.host.standard_streams import flush, open_missing_streams, print_to
from tests.host.left_pipe import left_pipe


def test_a_reader_who_has_left_is_no_error_now_or_at_the_end() -> None:
    with left_pipe() as stream:
        print_to(stream, "x" * 100_000)
        print_to(stream, "more")
    with left_pipe() as stream:
        print_to(stream, "little")
        flush(stream)
        print_to(stream, "more")


def test_streams_that_were_closed_at_the_start_are_there_and_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    open_missing_streams()
    assert sys.stdin.read() == ""
    print("out", flush=True)
    print("err", file=sys.stderr, flush=True)
    for each in (sys.stdin, sys.stdout, sys.stderr):
        each.close()
