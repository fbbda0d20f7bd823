"""The section of docs/benchmarks.md about Apache Kafka and Delta Lake: written from what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from bench import report
from bench.peers import KAFKA, PeerResults, Used

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


def section(machine: str, results: PeerResults) -> str:
    """Return the text of the section. `machine` describes the machine of the run."""
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
    return "\n".join(lines) + "\n"


def _whole_runs(what: str, sides: Mapping[str, Sequence[Used]], records: int) -> list[str]:
    lines = [f"| {what} | {' | '.join(_HEADINGS)} |", "|---" * (len(_HEADINGS) + 1) + "|"]
    for side, rounds in sides.items():
        cells = [f"{statistics.median(used.wall_s for used in rounds):.2f}"]
        cells += [f"{part:.0f}" for part in (*_parts_ns(sides, side, records), _all_ns(sides, side, records))]
        lines.append(f"| {side} | {' | '.join(cells)} |")
    return lines


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
