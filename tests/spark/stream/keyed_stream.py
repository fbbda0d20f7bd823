"""Keyed records for a query that shouts them from topic "in" into topic "out", and what must be true of its output."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from sparklog.client.cluster import Cluster
from tests.spark.stream.agreement import entries_that_agree
from tests.spark.stream.killed_driver import GROUP

PARTITIONS = 3
KEYS = tuple("abcdefgh")


@dataclass
class KeyedStream:
    """The value of a record is its key and its number for this key. `sent`: how many there are of each key."""

    cluster: Cluster
    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))

    def __post_init__(self) -> None:
        for topic in ("in", "out"):
            self.cluster.create_topic(topic, partitions=PARTITIONS)

    def send(self, each: int) -> None:
        """Append this many records of each key, in turn."""
        rows = [(key, f"{key} {self.sent[key] + number}") for number in range(each) for key in KEYS]
        keys, values = zip(*rows, strict=True)
        self.cluster.append("in", pa.table({"key": keys, "value": values}))
        for key in KEYS:
            self.sent[key] += each

    def output(self) -> dict[str, list[int]]:
        """The numbers of each key, in the order in which they are there."""
        found: dict[str, list[int]] = {key: [] for key in KEYS}
        for partition in range(PARTITIONS):
            rows = self.cluster.read("out", partition=partition, columns=["key", "value"])
            for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
                shouted, number = value.decode().split()
                assert shouted == key.decode().upper()
                found[key.decode()].append(int(number))
        return found

    @property
    def input(self) -> dict[str, list[int]]:
        """What the output is, once everything was shouted once, in order."""
        return {key: list(range(count)) for key, count in self.sent.items()}

    def check(self) -> None:
        """Each record is there once, in order per key, and each entry of the chain says what it was made from."""
        assert self.output() == self.input
        assert entries_that_agree(self.cluster, GROUP) > 1
        ends = {
            ("in", partition.partition): partition.high_watermark
            for partition in self.cluster.describe("in").partitions
        }
        consumed = {place: row.offset for place, row in self.cluster.committed(GROUP).items()}
        assert consumed == ends
