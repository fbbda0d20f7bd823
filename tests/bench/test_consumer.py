"""The benchmark of the consumer runs, on a small scale."""

from __future__ import annotations

from pathlib import Path

from bench import consumer


def test_the_consumer_is_measured_beside_bare_loops(tmp_path: Path) -> None:
    found = consumer.consumer(tmp_path, records=1_000, rounds=1)
    assert [each.what.rpartition(": ")[2] for each in found] == [
        "Arrow tables (poll_table)",
        "records, 500 a call (poll)",
        "records one by one (for record in consumer)",
    ]
