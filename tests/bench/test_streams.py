"""The benchmark of streams: what it makes of measured micro-batches."""

from __future__ import annotations

from bench import report, streams
from bench.paired import Comparison, Spread

ONE = Spread.of([1.0])


def test_percentiles_are_of_all_micro_batches() -> None:
    assert streams._percentiles([0.1, 0.3, 0.2]) == "p50 200 ms, p99 300 ms (3)"


def test_the_section_is_one_of_the_page() -> None:
    found = Comparison("micro-batch", "bare", ">= 0.8", ONE, ONE, ONE, ONE)
    section = report.streams_section("a machine", [found], [("a record", "1 s")])
    page = report.with_section(report.page("a machine", [], [], ""), section)
    assert page.count(report.STREAMS) == 1
    assert [line.what for line in report.lines_of(page)] == ["micro-batch"]
