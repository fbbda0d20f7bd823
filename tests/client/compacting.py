"""Compacts a partition of a cluster by hand: rewrites its slices with some of the records, and commits the swap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sparklog.client.cluster import Cluster
from sparklog.core.commands import Swap
from sparklog.core.lookup import topic_of
from sparklog.core.reading.plan import slices_to_read
from sparklog.core.tables.slice_table import digest
from sparklog.core.types import EntryNumber, Holder, Offset, OffsetRange, PartitionIndex, TopicPartition, UploadId
from sparklog.host.dice import new_id
from sparklog.log.rewrite.segment_compaction import compact
from sparklog.log.write.segments_writer import SegmentTarget
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.maintenance.rewrite.roll_job import run_roll
from tests.kit.silent_console import SILENT


def compact_range(
    cluster: Cluster, topic: str, partition: int, offsets: tuple[int, int], kept: Callable[[int], bool]
) -> None:
    """Swap the slices that make up exactly these offsets for segments with the records that `kept` chooses."""
    connection = cluster.connection
    state = connection.newest_state()
    described = topic_of(state, topic)
    key = TopicPartition(described.topic_id, PartitionIndex(partition))
    of_partition = state.partitions[key]
    replaced = state.slices.find(key, OffsetRange(Offset(offsets[0]), Offset(offsets[1])))
    parts = slices_to_read(state, of_partition, replaced)
    stores = connection.stores(state)
    isr = of_partition.replication.isr
    incarnations = {store.store: store.incarnation for store in state.stores.values()}
    target = SegmentTarget(
        key.topic_id,
        topic,
        key.partition,
        EntryNumber(state.n),
        tuple(Holder(store, state.stores[store].registration) for store in isr),
        state.topic_config(described).segment_bytes,
        "zstd",
    )
    records = cluster.read(topic, partition=partition, start=offsets[0], end=offsets[1], columns=["offset"])
    chosen = [offset for offset in records["offset"].to_pylist() if kept(offset)]
    lanes = StoreLanes(stores, incarnations, 30_000)
    made = compact(parts, np.array(chosen, np.int64), target, stores, lanes, lambda: UploadId(new_id()))
    start, end = Offset(offsets[0]), Offset(offsets[1])
    policy = described.config.get("cleanup.policy")
    cluster.alter(topic, config={"cleanup.policy": "compact"})
    cluster.submit(Swap(key.topic_id, key.partition, start, end, digest(replaced), made.objects, made.slices))
    cluster.alter(topic, config={"cleanup.policy": policy})


TIMES_US = [1_000_000 * (60 - at) for at in range(60)]
KEPT = [*range(2, 20, 3), 23, 37, *range(40, 60)]  # the offsets of `mixed_log` that have a record


def mixed_log(cluster: Cluster) -> None:
    """Topic t of one partition: compacted slices [0, 20) and [20, 40), a rolled one [40, 50), and one of an append.

    The value of offset N is "vN", and its timestamp `TIMES_US[N]`. The first two offsets have no record, nor have the
    last two of each compacted slice.
    """
    cluster.create_topic("t")
    for start in range(0, 60, 10):
        if start == 40:
            compact_range(cluster, "t", 0, (0, 20), KEPT.__contains__)
            compact_range(cluster, "t", 0, (20, 40), KEPT.__contains__)
        if start == 50:
            run_roll(cluster.connection.url, everything=True, console=SILENT)
        numbers = range(start, start + 10)
        stamps = pa.array([TIMES_US[at] for at in numbers], pa.timestamp("us", "UTC"))
        cluster.append("t", pa.table({"value": [f"v{at}" for at in numbers], "timestamp": stamps}))
