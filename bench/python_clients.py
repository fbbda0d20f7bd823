"""The Python producer and consumer, beside bare loops that do the same without a log."""

from __future__ import annotations

from pathlib import Path

from bench import consumer, producing
from bench.paired import Comparison


def python_clients(folder: Path) -> tuple[list[Comparison], list[tuple[str, str]]]:
    """Times of both, and the records a second that they come to (medians)."""
    found = [(producing.RECORDS, each) for each in producing.producing(folder)]
    found += [(consumer.RECORDS, each) for each in consumer.consumer(folder)]
    figures = [
        (
            each.what,
            f"{records / each.ours_s.median:,.0f} records/s; {each.peer}: {records / each.peer_s.median:,.0f}",
        )
        for records, each in found
    ]
    return [each for _, each in found], figures
