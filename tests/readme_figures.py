"""The figures of the README: taken from docs/benchmarks.md, never typed by hand.

python -m tests.readme_figures        writes them between the marks in README.md
"""

from __future__ import annotations

from pathlib import Path

from bench import report
from tests.marked_part import replaced

README = Path(__file__).parents[1] / "README.md"
NO_FIGURE = "-"
CONNECTOR = "Spark's Kafka connector"

# (what the README calls it, what the page calls it, the peers there: Kafka, Delta Lake)
ROWS = (
    ("write 3,000,000 records of 108 B with keys", "keyed write 100 B", "Kafka, tuned", "Delta Lake"),
    ("read them, all columns", "read 100 B", "Kafka, tuned", ""),
    ("read their keys and values", "read 100 B, key and value", "", "Delta Lake, key and value"),
    (
        "read 1,000 from the middle, by offset",
        "read 1,000 records from the middle of 3,000,000",
        "Kafka, tuned",
        "Delta Lake",
    ),
    ("append 1,000", "append 1,000 records by one task", "Kafka", "Delta Lake"),
    (
        "first streaming query of a session",
        "first query of a session, availableNow, 1,000 records, beside Kafka",
        CONNECTOR,
        "",
    ),
    (
        "micro-batch of 1,000, topic to topic",
        "micro-batch of 1,000 records, topic to topic, beside Kafka",
        CONNECTOR,
        "",
    ),
    ("a record from topic to topic", "a record from topic to topic, until a reader sees it", CONNECTOR, ""),
)


def with_figures(readme: str) -> str:
    """The README with today's figures."""
    return replaced(readme, "<!-- figures: speed (make docs) -->", "<!-- figures: end -->", speed(page()))


def page() -> str:
    """The page of benchmarks on disk."""
    return report.path_of("").read_text(encoding="utf-8")


def speed(measured: str) -> str:
    """Seconds beside Kafka and Delta Lake, the medians of the page. Raises KeyError for a row that it lacks."""
    found = {(each.what, each.peer): each for each in report.lines_of(measured)}
    lines = ["| | sparklog | Kafka, tuned | Delta Lake |", "|---|---|---|---|"]
    for name, what, *peers in ROWS:
        compared = [found[what, peer] if peer else None for peer in peers]
        ours = next(each.ours_s for each in compared if each is not None)
        cells = [f"{ours:.2f}", *(NO_FIGURE if each is None else f"{each.peer_s:.2f}" for each in compared)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write() -> None:
    README.write_text(with_figures(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
