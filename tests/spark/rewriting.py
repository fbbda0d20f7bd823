"""What a roll and the deletion after it do to a partition, by hand: for reads that were planned before."""

from __future__ import annotations

import time

import msgspec

from sparklog.chain.committer import new_command_id
from sparklog.client.cluster import Cluster
from sparklog.client.write_plan import plan_write, write_rows
from sparklog.core.commands import RewrittenSlice, Swap
from sparklog.core.plan import named_object, partition_of, topic_of
from sparklog.core.slice_table import digest
from sparklog.core.types import Offset, OffsetRange, TimestampSource, TopicPartition
from sparklog.storage.keys import data_key, index_key


def rewrite(cluster: Cluster, topic: str, partition: int) -> None:
    """Copy the partition's records into one new object, swap it in, and delete the objects that held them."""
    rows = cluster.read(topic, partition=partition, include_headers=True)
    with cluster.connection.follower.current() as state:
        found_topic = topic_of(state, topic)
        found = partition_of(state, found_topic, partition)
        key = TopicPartition(found_topic.topic_id, found.partition)
        offsets = OffsetRange(found.log_start, found.high_watermark)
        slices = state.slices.find(key, offsets)
        old = {each.object_number: named_object(state, each).object for each in slices}
        plan = plan_write(
            state,
            cluster.connection.url,
            new_command_id(),
            topic=topic,
            compression=None,
            now_ms=time.time_ns() // 1_000_000,
        )
        was = digest(slices)
    written = write_rows(plan, rows.to_batches())
    start, rewritten = offsets.start, []
    for each in written.slices:
        end = Offset(start + each.records)
        rewritten.append(
            RewrittenSlice(
                msgspec.structs.replace(each, producer=None),
                start,
                end,
                0,
                TimestampSource.CREATE_TIME,
                found.leader_epoch,
            )
        )
        start = end
    cluster.submit(
        Swap(key.topic_id, key.partition, offsets.start, offsets.end, was, written.objects, tuple(rewritten))
    )
    with cluster.connection.follower.current() as state:
        store = cluster.connection.stores(state).get(next(iter(state.stores)))
        for number, named in old.items():
            if number in state.retired:
                store.delete(data_key(named, topic))
                store.delete(index_key(data_key(named, topic)))
