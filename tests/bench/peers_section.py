"""The section of docs/benchmarks.md about Apache Kafka and Delta Lake: written from what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from tests.bench import report
from tests.bench.peers import KAFKA, PeerResults, Used

_LEFT = "plan, commit, and what was not seen by itself"
_HEADINGS = ("seconds", "Spark's JVM", "Python", "Kafka's broker", "all")

_ABOUT = (
    "Written by `make bench PEERS=1`: Apache Kafka (KRaft, one broker on this machine, its defaults) through "
    "Spark's connector, and Delta Lake. Each of {rounds} rounds runs all sides once, each time beginning with "
    "another one. All get the same {records:,} rows, 8 B keys and half compressible values, and 4 partitions; "
    "sparklog and Kafka wait for all replicas (`acks=all`; there is one). Unless a side says otherwise its "
    "compression is its default: zstd (sparklog), none (Kafka), snappy (Delta Lake). Kafka is tuned by `batch.size`"
    " 256 KiB and `linger.ms` 20; for reads by `max.poll.records` 50,000, fetches of 32 MiB, `fetch.max.wait.ms` 10"
    " and `minPartitions` 4. Delta Lake has `spark.databricks.delta.snapshotPartitions` 2. sparklog syncs its files"
    " to the disk before it answers; Kafka and Delta Lake leave that to the system."
)

Steps = Mapping[str, Mapping[str, float]]


def section(machine: str, results: PeerResults, steps: Steps) -> str:
    """`steps`: codec -> step -> ns a record, as `record_cost` finds them."""
    lines = [
        report.PEERS,
        _ABOUT.format(records=results.records, rounds=results.rounds),
        "",
        f"Machine: {machine}",
        "",
        *report.table_of(results.comparisons),
    ]
    lines += [f"\nSkipped: {name}: {reason}" for name, reason in results.skipped.items()]
    lines += [
        "",
        "### Processor time",
        "",
        "Of whole runs, by the process that spent it: nanoseconds a record, the medians of the rounds. Python is the "
        "driver's and the workers'. A run of few records takes milliseconds: its times are in the table above.",
    ]
    for what in (results.bulk_write, results.bulk_read):
        lines += ["", *_whole_runs(what, results.costs[what], results.records)]
    writes = results.costs[results.bulk_write]
    lines += [
        "",
        "One record on its way through a keyed write, in nanoseconds of processor time. What Spark does is the "
        "difference between runs that go that far; sparklog's steps are those of one task, measured alone.",
        "",
        *_way_of_sparklog(writes, steps, results.records),
    ]
    if KAFKA not in results.skipped:
        lines += ["", *_way_of_kafka(writes, results.records)]
    return "\n".join(lines) + "\n"


def _whole_runs(what: str, sides: Mapping[str, Sequence[Used]], records: int) -> list[str]:
    lines = [f"| {what} | {' | '.join(_HEADINGS)} |", "|---" * (len(_HEADINGS) + 1) + "|"]
    for side, rounds in sides.items():
        cells = [f"{statistics.median(used.wall_s for used in rounds):.2f}"]
        cells += [f"{part:.0f}" for part in (*_parts_ns(sides, side, records), _all_ns(sides, side, records))]
        lines.append(f"| {side} | {' | '.join(cells)} |")
    return lines


def _way_of_sparklog(sides: Mapping[str, Sequence[Used]], steps: Steps, records: int) -> list[str]:
    """Columns are codecs. The last line is measured over the whole run; the line above it is the remainder."""
    runs = {"zstd": "sparklog", "lz4": "sparklog, lz4", "none": "sparklog, not compressed"}
    cache_ns = _all_ns(sides, "rows only", records)
    arrow_jvm_ns = _parts_ns(sides, "rows to Python", records)[0] - cache_ns
    arrow_python_ns = _parts_ns(sides, "rows to Python", records)[1]
    rows: list[tuple[str, list[float]]] = [
        ("rows out of Spark's cache", [cache_ns] * len(runs)),
        ("rows to Arrow, into the socket (JVM)", [arrow_jvm_ns] * len(runs)),
        ("out of the socket (Python)", [arrow_python_ns] * len(runs)),
    ]
    rows += [(step, [steps[codec][step] for codec in runs]) for step in steps["zstd"]]
    whole = [_all_ns(sides, side, records) for side in runs.values()]
    left = [all_ns - sum(row[at] for _, row in rows) for at, all_ns in enumerate(whole)]
    rows += [(_LEFT, left), ("all", whole)]
    ours = [sum(steps[codec].values()) for codec in runs]
    rows.append(("of it sparklog's steps", ours))
    return _table(("sparklog", *runs), rows)


def _way_of_kafka(sides: Mapping[str, Sequence[Used]], records: int) -> list[str]:
    runs = {"defaults": KAFKA, "tuned": f"{KAFKA}, tuned", "tuned, lz4": f"{KAFKA}, tuned, lz4"}
    cache_ns = _all_ns(sides, "rows only", records)
    parts = [_parts_ns(sides, side, records) for side in runs.values()]
    rows = [
        ("rows out of Spark's cache", [cache_ns] * len(runs)),
        ("connector and client (JVM)", [jvm - cache_ns for jvm, _, _ in parts]),
        ("broker", [broker for _, _, broker in parts]),
        ("all", [_all_ns(sides, side, records) for side in runs.values()]),
    ]
    return _table((KAFKA, *runs), rows)


def _table(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return lines + [f"| {name} | {' | '.join(f'{each:.0f}' for each in figures)} |" for name, figures in rows]


def _parts_ns(sides: Mapping[str, Sequence[Used]], side: str, records: int) -> tuple[float, float, float]:
    """The medians of the JVM, Python and the broker, in nanoseconds a record.

    What the broker does while others run is not theirs: it may still be busy with what Kafka's side gave it.
    """
    parts = ([used.jvm_s, used.python_s, used.broker_s] for used in sides[side])
    jvm, python, broker = (statistics.median(each) * 1e9 / records for each in zip(*parts, strict=True))
    return jvm, python, broker if side.startswith(KAFKA) else 0.0


def _all_ns(sides: Mapping[str, Sequence[Used]], side: str, records: int) -> float:
    """The sum of the medians, so that a table adds up."""
    return sum(_parts_ns(sides, side, records))
