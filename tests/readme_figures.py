"""The figures of the README: taken from docs/benchmarks*.md and from the marks of the tests, never typed by hand.

python -m tests.readme_figures        writes them between the marks in README.md
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

from tests import mechanisms
from tests.bench import report
from tests.marked_part import replaced

README = Path(__file__).parents[1] / "README.md"

# As in the pages: (where it is, the store of the page, the peer of writes, the peer of reads).
SIDES = (
    ("a bare Arrow file of the same codec, on disk", "", "bare Arrow writer", "bare Arrow reader"),
    ("Parquet, on disk", "", "parquet", "parquet"),
    ("Parquet by S3A, on an S3 server on the same machine", "s3", "parquet by S3A", "parquet by S3A"),
    ("Parquet, on an HDFS on the same machine", "hdfs", "parquet on the same HDFS", "parquet on the same HDFS"),
)


def with_figures(readme: str) -> str:
    """The README with today's figures."""
    for name, block in BLOCKS.items():
        readme = replaced(readme, f"<!-- figures: {name} (make docs) -->", "<!-- figures: end -->", block())
    return readme


def speed() -> str:
    """How long a Spark job takes beside its peers: from the smallest to the largest median of the pages."""
    lines = ["| Spark, beside | a write takes | a read takes |", "|---|---|---|"]
    for where, store, writer, reader in SIDES:
        found = report.lines_of(report.path_of(store).read_text(encoding="utf-8"))
        lines.append(f"| {where} | {longer(found, 'write ', writer)} | {longer(found, 'read ', reader)} |")
    disk = report.lines_of(report.path_of("").read_text(encoding="utf-8"))
    read = next(each for each in disk if each.what == "read 1,000 records from the middle of 3 million")
    append = next(each for each in disk if each.what == "append 1,000 records by one task")
    with_goals = [each for each in disk if each.goal]
    met = sum(not each.missed for each in with_goals)
    return "\n".join(
        [
            *lines,
            "",
            f"A read of 1,000 records from the middle of 3 million takes {read.ours_s:.2f} s (a bare reader of those "
            f"1,000: {read.peer_s:.2f} s),",
            f"an append of 1,000 records {append.ours_s:.2f} s (a bare writer: {append.peer_s:.2f} s). Of "
            f"{len(with_goals)} goals on disk {met} are met.",
        ]
    )


def proven() -> str:
    """How many mechanisms the tests prove."""
    return textwrap.fill(mechanisms.summary(mechanisms.booked()), 120)


BLOCKS: dict[str, Callable[[], str]] = {"speed": speed, "mechanisms": proven}


def longer(lines: list[report.Line], what: str, peer: str) -> str:
    """By how much the slowest and the fastest kind of it differ from the peer, from the medians of the ratios."""
    found = [
        1 / each.ratio
        for each in lines
        if each.what.removeprefix("Spark ").startswith(what) and each.peer == peer and each.ratio is not None
    ]
    least, most = f"{min(found):.1f}", f"{max(found):.1f}"
    return f"{least if least == most else f'{least} to {most}'} times as long"


def write() -> None:
    README.write_text(with_figures(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
