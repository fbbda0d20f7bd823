"""A mirror topic on real stores, beside a model of it: what is at each offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from sparklog.client.cluster import Cluster
from sparklog.core.records import CommandResult
from sparklog.core.state_invariants import check
from sparklog.core.types import KafkaTopic

SOURCE = KafkaTopic("kafka-1", "orders", "0c5f1f4e-8a55-4b53-9d0c-6c4b2b1b7a10")


class Record(NamedTuple):
    """A record of the model. `time_us`: its timestamp; `kind`: its timestampType."""

    key: str
    value: str
    time_us: int
    kind: int = 0


def mirrored_rows(records: Mapping[int, Record], partition: int = 0) -> pa.Table:
    """Rows that keep their offsets, ascending."""
    offsets = sorted(records)
    of = [records[offset] for offset in offsets]
    return pa.table(
        {
            "key": [each.key for each in of],
            "value": [each.value for each in of],
            "partition": pa.array([partition] * len(of), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([each.time_us for each in of], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([each.kind for each in of], pa.int32()),
        }
    )


@dataclass
class MirroredTopic:
    """A topic of a cluster. `model[p]` has the records of partition p, `ends[p]` the end of its log."""

    cluster: Cluster
    model: dict[int, dict[int, Record]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    name: str = "t"

    def create(self, partitions: int = 1, **config: object) -> MirroredTopic:
        settings = {"retention.ms": -1, "retention.bytes": -1} | {
            key.replace("_", "."): value for key, value in config.items()
        }
        self.cluster.create_topic(self.name, partitions=partitions, config=settings, mirror_of=SOURCE)
        for at in range(partitions):
            self.model[at], self.ends[at], self.starts[at] = {}, 0, 0
        return self

    def append(
        self, offsets: Iterable[int], partition: int = 0, *, end: int | None = None, kinds: Iterable[int] = ()
    ) -> CommandResult:
        """Records at these offsets, of which each is unlike all others; some of their timestamps go back."""
        types = iter(kinds)
        records = {
            offset: Record(
                f"key-{offset % 7}", f"value {offset}", (1_000 + offset * 37 % 211) * 1_000_000, next(types, 0)
            )
            for offset in offsets
        }
        return self.write(records, partition, end=end)

    def write(self, records: Mapping[int, Record], partition: int = 0, *, end: int | None = None) -> CommandResult:
        ends = None if end is None else {partition: end}
        result = self.cluster.append(self.name, mirrored_rows(records, partition), keep_offsets=True, ends=ends)
        self.model[partition] |= records
        self.ends[partition] = max(records) + 1 if end is None else end
        return result

    def promote(self, ends: Mapping[int, int] | None = None) -> None:
        self.cluster.promote_topic(self.name, ends)
        self.ends |= ends or {}

    def append_after(self, values: list[str], partition: int = 0) -> None:
        """Records that get new offsets, once the topic is promoted."""
        rows = pa.table(
            {
                "key": values,
                "value": values,
                "partition": pa.array([partition] * len(values), pa.int32()),
                "timestamp": pa.array([5_000_000] * len(values), pa.timestamp("us", "UTC")),
            }
        )
        (written,) = self.cluster.append(self.name, rows).ranges
        assert written.start == self.ends[partition]
        self.model[partition] |= {
            written.start + at: Record(value, value, 5_000_000) for at, value in enumerate(values)
        }
        self.ends[partition] = written.end

    def delete_records(self, to: int, partition: int = 0) -> None:
        self.cluster.delete_records(self.name, {partition: to})
        self.starts[partition] = max(self.starts[partition], to)

    # ---- what must hold -------------------------------------------------------------------------

    def read(self, partition: int = 0, start: int | None = None, end: int | None = None) -> dict[int, Record]:
        columns = ["offset", "key", "value", "timestamp", "timestampType"]
        table = self.cluster.read(self.name, partition=partition, start=start, end=end, columns=columns)
        times = table["timestamp"].cast(pa.int64()).to_pylist()
        found = zip(
            *(table[name].to_pylist() for name in ("offset", "key", "value")),
            times,
            table["timestampType"].to_pylist(),
            strict=True,
        )
        records = [
            (offset, Record(key.decode(), value.decode(), at_us, kind)) for offset, key, value, at_us, kind in found
        ]
        assert [offset for offset, _ in records] == sorted({offset for offset, _ in records})
        return dict(records)

    def left(self, partition: int, start: int, end: int) -> dict[int, Record]:
        return {offset: record for offset, record in self.model[partition].items() if start <= offset < end}

    def bounds(self, partition: int = 0) -> list[tuple[int, int, int]]:
        """The slices: start, end, records."""
        state = self.cluster.connection.newest_state()
        return [
            (each.start, each.end, each.records) for each in state.slices.everything() if each.partition == partition
        ]

    def check(self) -> None:
        """Each partition has just the records of the model, at their offsets."""
        check(self.cluster.connection.newest_state())
        for at, described in enumerate(self.cluster.describe(self.name).partitions):
            assert (described.log_start, described.high_watermark) == (self.starts[at], self.ends[at])
            assert self.read(at) == self.left(at, self.starts[at], self.ends[at])
