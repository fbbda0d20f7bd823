"""The pages docs/benchmarks*.md: written from what was measured, and read back for the figures in the README."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.paired import Comparison, Spread

DOCS = Path(__file__).parents[1] / "docs"
NO_RATIO = "-"
CLIENTS = "\n## HTTP clients\n"
PEERS = "\n## Peers\n"
COPIES = "\n## Copies of the metadata\n"
MAINTENANCE = "\n## Maintenance\n"
STREAMS = "\n## Streams\n"
STREAMS_BESIDE_KAFKA = "\n## Streams beside Kafka\n"
PYTHON = "\n## Python\n"
HEAPS = "\n## Heap of a task\n"
_HEAD = ("what", "peer", "goal", "sparklog s", "peer s", "ratio", "difference ms")


@dataclass(frozen=True, slots=True)
class Line:
    """A comparison as the page has it: its medians. `ratio` is None where the peer was too quick to be measured."""

    what: str
    peer: str
    goal: str
    ours_s: float
    peer_s: float
    ratio: float | None

    @property
    def missed(self) -> bool:
        return self.goal.endswith(", missed")


def path_of(store: str) -> Path:
    """The page of a store; "" is local disk."""
    return DOCS / (f"benchmarks-{store}.md" if store else "benchmarks.md")


def page(machine: str, comparisons: Sequence[Comparison], figures: Sequence[tuple[str, str]], store: str) -> str:
    """The whole page."""
    lines = [
        f"# Benchmarks on {store.upper()}" if store else "# Benchmarks",
        "",
        f"Written by `make bench{f' STORE={store}' if store else ''}`. Ratios are peer seconds / sparklog seconds, in "
        "pairs of one run: more is better.",
        "Each cell is min / median / max; a goal is missed if the median misses it. There is no ratio to a peer that "
        "takes less than a millisecond.",
        "Absolute times hold for this machine only."
        + (" The server ran on it too: no network is in these figures." if store else ""),
        "",
        f"Machine: {machine}",
        "",
        *table_of(comparisons),
    ]
    if figures:
        lines += ["", *_figures(figures)]
    return "\n".join(lines) + "\n"


def clients_section(machine: str, lines: Sequence[str]) -> str:
    """The last section of the page about S3: HTTP clients beside each other."""
    about = [
        CLIENTS,
        "Written by `make bench STORE=s3 ARGS=clients`: one request an object, from threads. Each cell is a client's "
        "share of the speed of the best one in the same round (min / median / max; 1 is the best), its median speed "
        "and processor time per MiB. `sparklog` is its way of bulk bodies, plain connections; `forked`: in a process "
        "that was forked from one that had used the clients.",
        "",
        f"Machine: {machine}",
        "",
        *lines,
    ]
    return "\n".join(about) + "\n"


def copies_section(machine: str, comparisons: Sequence[Comparison], figures: Sequence[tuple[str, str]]) -> str:
    """A section of the page: what copies of the metadata chain cost an append, and what a restore from them costs."""
    about = (
        "Written by `make bench`, and by `make bench ARGS=copies` alone. An append has 10 records and replicas on "
        "three stores; the metadata is at a fourth place. Seconds are those of one append; S3 is a server on this "
        "machine behind a proxy that waits before each request. A restore runs in a process of its own and is given "
        "all three stores; `metadata.copies=1`. It includes the probe of the new place. Its seconds are min / median "
        "/ max, its memory is the most of all runs; on disk, requests are calls of the store."
    )
    return _section(COPIES, about, machine, comparisons, figures)


def maintenance_section(machine: str, comparisons: Sequence[Comparison], figures: Sequence[tuple[str, str]]) -> str:
    """A section of the page: the jobs of maintenance beside Spark, and beside plain reads and deletions."""
    about = (
        "Written by `make bench`, and by `make bench ARGS=maintenance` alone. Roll and compaction run in the Spark "
        "session of their peers, on a log on the local disk; the peers have the same rows as Parquet, zstd as well. "
        "sparklog syncs what it writes, Spark leaves that to the system. Recovery and verify run in one process; their "
        "peer reads the same files one after the other."
    )
    return _section(MAINTENANCE, about, machine, comparisons, figures)


def streams_section(machine: str, comparisons: Sequence[Comparison], figures: Sequence[tuple[str, str]]) -> str:
    """A section of the page: micro-batches from topic to topic beside a bare source and sink, and a record's way."""
    about = (
        "Written by `make bench`, and by `make bench ARGS=streams` alone. A micro-batch is measured by Spark's own "
        "`triggerExecution`, one after the other without a pause. The bare source reads Arrow files by memory map, "
        "the bare sink writes one with fsync; neither keeps a log, an index or a checksum. Spark's checkpoint is on "
        "the same disk for both. The first queries of a session are measured from `start` to the end, each session in "
        "a JVM of its own: what the bare source and sink take is Spark's own start of Python processes."
    )
    return _section(STREAMS, about, machine, comparisons, figures)


def streams_beside_kafka_section(
    machine: str, comparisons: Sequence[Comparison], figures: Sequence[tuple[str, str]]
) -> str:
    """A section of the page: queries that read and write a log beside those that read and write Kafka."""
    about = (
        "Written by `make bench PEERS=1 ARGS=streams`: one broker on this machine and Spark's Kafka connector. Each "
        "query reads a topic and writes another. Micro-batches and first queries are measured as in the section above."
    )
    return _section(STREAMS_BESIDE_KAFKA, about, machine, comparisons, figures)


def python_section(machine: str, comparisons: Sequence[Comparison], figures: Sequence[tuple[str, str]]) -> str:
    """A section of the page: the Python producer and consumer beside bare loops."""
    about = (
        "Written by `make bench`, and by `make bench ARGS=python` alone, on the local disk. The producer waits for "
        "all of its futures; the bare loop gathers a list and writes it as a synced Arrow file at each linger. The "
        "consumer is the only member of a group that commits by itself; the bare loops read the same files by memory "
        "map, without a plan, checksums or positions."
    )
    return _section(PYTHON, about, machine, comparisons, figures)


def heaps_section(machine: str, comparisons: Sequence[Comparison], figures: Sequence[tuple[str, str]]) -> str:
    """A section of the page: the smallest heap in which a task writes and reads. There are no comparisons."""
    about = (
        "Written by `make bench`, and by `make bench ARGS=heaps` alone: the smallest heap (`-Xmx`) of a Spark JVM, "
        "driver and executor in one, in which one task at a time succeeds. Spark's own part is in each figure: compare "
        "with the rows alone. 640,000 records of 500 B, not compressed; the keys of neighbours have different "
        "partitions."
    )
    return "\n".join([HEAPS, about, "", f"Machine: {machine}", "", *_figures(figures)]) + "\n"


def _section(
    heading: str, about: str, machine: str, comparisons: Sequence[Comparison], figures: Sequence[tuple[str, str]]
) -> str:
    lines = [heading, about, "", f"Machine: {machine}", "", *table_of(comparisons)]
    if figures:
        lines += ["", *_figures(figures)]
    return "\n".join(lines) + "\n"


def _figures(figures: Sequence[tuple[str, str]]) -> list[str]:
    return ["| what | figure |", "|---|---|", *(f"| {what} | {figure} |" for what, figure in figures)]


def sections_of(text: str) -> str:
    """The sections after a page's own tables, which separate runs write; "" if there are none."""
    return text[at:] if (at := text.find("\n## ")) >= 0 else ""


def with_section(text: str, section: str) -> str:
    """The page with this section in place of the one with the same heading, or at the end."""
    heading = section[: section.index("\n", 1) + 1]
    before, found, rest = text.partition(heading)
    after = sections_of(rest) if found else ""
    return before + section + after


def table_of(comparisons: Sequence[Comparison]) -> list[str]:
    """Lines of Markdown."""
    rows = [f"| {' | '.join(_cells(each))} |" for each in comparisons]
    return [f"| {' | '.join(_HEAD)} |", "|" + "---|" * len(_HEAD), *rows]


def lines_of(text: str) -> list[Line]:
    """The comparisons of a page."""
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in text.splitlines() if row.startswith("| ")]
    return [
        Line(what, peer, goal, _median(ours), _median(peers), None if ratio == NO_RATIO else _median(ratio))
        for what, peer, goal, ours, peers, ratio, _ in (row for row in rows if len(row) == len(_HEAD))
        if what != _HEAD[0]
    ]


def _cells(found: Comparison) -> tuple[str, ...]:
    return (
        found.what,
        found.peer,
        f"{found.goal}, missed" if is_missed(found.goal, found.ratio, found.difference_ms) else found.goal,
        found.ours_s.shown(3),
        found.peer_s.shown(3),
        found.ratio.shown() if found.ratio else NO_RATIO,
        found.difference_ms.shown(0),
    )


def is_missed(goal: str, ratio: Spread | None, difference_ms: Spread) -> bool:
    """Whether the medians miss the goal, which is "", ">= RATIO" or "<= peer + N ms"."""
    if least := re.fullmatch(r">= ([\d.]+)", goal):
        return ratio is None or ratio.median < float(least[1])
    if most := re.fullmatch(r"<= peer \+ (\d+) ms", goal):
        return difference_ms.median > float(most[1])
    if goal:
        raise ValueError(f"a goal is '>= RATIO' or '<= peer + N ms', found {goal!r}")
    return False


def _median(cell: str) -> float:
    return float(cell.split(" / ")[1])
