"""A topic of keyed records beside a model of it, and the shuffle of a compaction as a dictionary in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from sparklog.core.commands import MoveLogStart
from sparklog.core.maintenance.cleaner import Cleaner
from sparklog.core.types import Offset, PartitionIndex, TopicPartition
from sparklog.maintenance.job_report import JobReport
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.compaction_tasks import LeftRecords, read_keys, rewrite_stretch
from tests.maintenance.maintained_log import MaintainedLog

Row = tuple[int, str | None, str | None]  # offset, key, value; no value: a tombstone


# Compacted only, a log would refuse that its start is moved.
TRIMMED: Final[dict[str, object]] = {"cleanup_policy": "compact,delete", "retention_ms": -1}


@dataclass
class DictShuffle:
    """See `compaction_tasks.KeyShuffle`. `before_rewrites` is called between the two halves."""

    before_rewrites: Callable[[], object] = lambda: None

    def run(self, reads: Sequence[bytes], rewrites: Sequence[bytes]) -> list[bytes]:
        last: dict[tuple[int, bytes], tuple[int, int]] = {}
        keyless: dict[int, list[int]] = {}
        for payload in reads:
            for batch in read_keys(payload):
                for row in batch.to_pylist():
                    if row["key"] is None:
                        assert row["log"] == -1 - row["stretch"]
                        keyless.setdefault(row["stretch"], []).append(row["mark"])
                    else:
                        key = row["log"], row["key"]
                        last[key] = max(last.get(key, (0, -1)), (row["stretch"], row["mark"]))
        self.before_rewrites()
        results = []
        for stretch, payload in enumerate(rewrites):
            marks = np.array(sorted(mark for at, mark in last.values() if at == stretch), np.int64)
            without = keyless.get(stretch, [])
            at = Offset(max(without) >> 1) if without else None
            results.append(rewrite_stretch(payload, LeftRecords(marks, len(without), at)))
        return results


@dataclass
class KeyedLog:
    """Topic "t" with one partition. `rows` is everything that was ever appended."""

    log: MaintainedLog
    rows: list[Row] = field(default_factory=list)
    start: int = 0

    def create(self, **config: object) -> KeyedLog:
        """Without delays and limits, unless `config` has some."""
        settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0, "delete_retention_ms": 0} | config
        self.log.cluster.create_topic("t", config={name.replace("_", "."): value for name, value in settings.items()})
        return self

    def append(self, *records: tuple[str | None, str | None], timestamp_ms: int | None = None) -> None:
        at_us = (self.log.clock.at_ms if timestamp_ms is None else timestamp_ms) * 1000
        keys, values = (
            pa.array([None if text is None else text.encode() for text in column], pa.binary())
            for column in zip(*records, strict=True)
        )
        timestamps = pa.array([at_us] * len(records), pa.timestamp("us", "UTC"))
        self.log.cluster.append("t", pa.table({"key": keys, "value": values, "timestamp": timestamps}))
        self.rows += [(len(self.rows) + at, *record) for at, record in enumerate(records)]

    def put(self, text: str) -> None:
        """`put("a1 b2 a")`: records a=1 and b=2, and a tombstone of a."""
        self.append(*((word[0], word[1:] or None) for word in text.split()))

    def roll(self) -> None:
        assert self.log.roll().exit_code == 0

    def segment(self, text: str) -> None:
        """Records that become a segment of their own."""
        self.put(text)
        self.roll()

    def compact(self, *, everything: bool = True, shuffle: DictShuffle | None = None, **more: object) -> JobReport:
        return run_compaction(
            self.log.url,
            shuffle=shuffle or DictShuffle(),
            everything=everything,
            **self.log._common(),  # type: ignore[arg-type]
            **more,  # type: ignore[arg-type]
        )

    def move_log_start(self, to: int) -> None:
        self.log.cluster.submit(MoveLogStart(self.key.topic_id, self.key.partition, Offset(to)))
        self.start = to

    @property
    def key(self) -> TopicPartition:
        state = self.log.cluster.connection.newest_state()
        return TopicPartition(state.topic_ids["t"], PartitionIndex(0))

    @property
    def cleaner(self) -> Cleaner | None:
        state = self.log.cluster.connection.newest_state()
        return state.cleaners.get(self.key)

    def read(self) -> list[Row]:
        """What a reader finds from the start."""
        table = self.log.cluster.read("t", partition=0).select(["offset", "key", "value"])
        return [
            (offset, text_of(key), text_of(value))
            for offset, key, value in zip(*table.to_pydict().values(), strict=True)
        ]

    def text(self) -> str:
        """What a reader finds, as for `put`, with offsets: "0:a1 2:b"."""
        return " ".join(f"{offset}:{key or '-'}{value or ''}" for offset, key, value in self.read())

    def check(self) -> None:
        """Each record is one that was written at its offset, and the last of each key is right (C-01)."""
        found = self.read()
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        assert all(self.rows[row[0]] == row and row[0] >= self.start for row in found)
        assert latest(found) == latest(self.rows[self.start :])
        described = self.log.cluster.describe("t").partitions[0]
        assert (described.log_start, described.high_watermark) == (self.start, len(self.rows))


def latest(rows: Sequence[Row]) -> dict[str, str]:
    """The last value of each key that was not deleted."""
    found = {key: value for _, key, value in rows if key is not None}
    return {key: value for key, value in found.items() if value is not None}


def text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def keyed(logs: Iterator[MaintainedLog]) -> Iterator[KeyedLog]:
    """For a fixture."""
    for log in logs:
        yield KeyedLog(log)
