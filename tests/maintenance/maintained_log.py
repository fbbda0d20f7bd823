"""A cluster with a clock that stands still, and beside it a model of what was written: for the maintenance jobs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

import sparklog
from sparklog.chain.floor import RECENT_ENTRIES
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.reading.plan import RangeToRead, plan_range
from sparklog.core.types import Offset, OffsetRange
from sparklog.log.read.scan import scan
from sparklog.maintenance.job_report import JobReport
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.maintenance.task_runner import TaskRunner
from sparklog.storage.keys import APPENDS, TOPICS, data_key, index_key
from sparklog.storage.object_store import ObjectStore
from tests.kit.hand_clock import HandClock

DAY_MS = 86_400_000


@dataclass
class MaintainedLog:
    """Topics of one cluster. `model[topic, partition]` are the values at offsets 0, 1, …"""

    cluster: Cluster
    clock: HandClock = field(default_factory=HandClock)
    model: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    said: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.cluster.connection.committer.clock = self.clock

    @property
    def url(self) -> str:
        return self.cluster.connection.url

    @property
    def store(self) -> ObjectStore:
        return self.cluster.connection.follower.store

    def topic(self, name: str, partitions: int = 1, **config: object) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.cluster.create_topic(name, partitions=partitions, config=settings)
        self.model |= {(name, index): [] for index in range(partitions)}

    def append(self, topic: str, partition: int, count: int, size: int = 30, timestamp_ms: int | None = None) -> None:
        """`count` records with values that nobody wrote before; time: the clock's, if none is given."""
        before = self.model[topic, partition]
        values = [f"{topic}-{partition}-{len(before) + each}-".encode().ljust(size, b".") for each in range(count)]
        at_us = (self.clock.at_ms if timestamp_ms is None else timestamp_ms) * 1000
        self.cluster.append(
            topic,
            pa.table(
                {
                    "value": pa.array(values, pa.binary()),
                    "partition": pa.array([partition] * count, pa.int32()),
                    "timestamp": pa.array([at_us] * count, pa.timestamp("us", "UTC")),
                }
            ),
        )
        before += values

    # ---- jobs -----------------------------------------------------------------------------------

    def busy(self) -> None:
        """So many entries now that their time counts. They are appends to the topic `t`."""
        for _ in range(RECENT_ENTRIES):
            self.clock.at_ms += 1
            self.append("t", 0, 1)

    def roll(self, *, everything: bool = True, tasks: TaskRunner | None = None, **more: object) -> JobReport:
        return run_roll(self.url, everything=everything, tasks=tasks, **self._common(), **more)  # type: ignore[arg-type]

    def retention(self, *, tasks: TaskRunner | None = None, **more: object) -> JobReport:
        return run_retention(self.url, tasks=tasks, **self._common(), **more)  # type: ignore[arg-type]

    def vacuum(self, *, tasks: TaskRunner | None = None, **more: object) -> JobReport:
        return run_vacuum(self.url, tasks=tasks, **self._common(), **more)  # type: ignore[arg-type]

    def _common(self) -> dict[str, object]:
        return {"clock": self.clock, "console": self.said}

    # ---- what must hold -------------------------------------------------------------------------

    def check(self) -> None:
        """Every record between log start and high watermark is the one that was written there, and in one slice."""
        for (topic, partition), values in self.model.items():
            described = self.cluster.describe(topic).partitions[partition]
            table = self.cluster.read(topic, partition=partition)
            assert table["offset"].to_pylist() == list(range(described.log_start, len(values)))
            assert table["value"].to_pylist() == values[described.log_start :]
            segments = self.segments(topic, partition)
            assert all(before[1] == after[0] for before, after in pairwise(segments)), segments

    def log_start(self, topic: str, partition: int = 0) -> int:
        return self.cluster.describe(topic).partitions[partition].log_start

    def planned(self, topic: str, partition: int = 0) -> RangeToRead:
        """A plan of everything, to be read later."""
        state = self.cluster.connection.newest_state()
        found = topic_of(state, topic)
        of = partition_of(state, found, partition)
        return plan_range(state, found, partition, OffsetRange(of.log_start, of.high_watermark))

    def read_plan(self, plan: RangeToRead, *, fail_on_data_loss: bool = True) -> list[bytes]:
        connection = self.cluster.connection
        state = connection.newest_state()
        stores = connection.stores(state)
        found = scan(plan, stores, ["value"], connection.replan, fail_on_data_loss=fail_on_data_loss)
        return [value for batch in found for value in batch.column(0).to_pylist()]

    def stored(self) -> set[str]:
        """The keys of all data objects and indexes in the store."""
        return {each.key for prefix in (APPENDS, TOPICS) for each in self.store.list_keys(prefix)}

    def named(self) -> set[str]:
        """Those that the chain names: by slices, or retired."""
        return self._keys(retired=True)

    def live(self) -> set[str]:
        """Those that slices name: all of them must be stored, while of retired ones the bytes go first."""
        return self._keys(retired=False)

    def _keys(self, *, retired: bool) -> set[str]:
        state = self.cluster.connection.newest_state()
        names = {each.number: each.topic for each in state.retired}
        keys = [
            data_key(each.object, names.get(each.number) or state.topics[each.object.topic_id].name)
            for each in state.objects
            if retired or each.number not in names
        ]
        return {key for each in keys for key in (each, index_key(each))}

    def retired(self) -> int:
        state = self.cluster.connection.newest_state()
        return len(state.retired)

    def segments(self, topic: str, partition: int = 0) -> list[tuple[Offset, Offset]]:
        """Offsets of the slices that the log has now."""
        return [(each.slice.start, each.slice.end) for each in self.planned(topic, partition).slices]


def maintained(url: str, **config: object) -> Iterator[MaintainedLog]:
    """A new cluster at `url`, for a fixture."""
    init_cluster(url, config={key.replace("_", "."): value for key, value in config.items()})
    with sparklog.connect(url) as cluster:
        yield MaintainedLog(cluster)
