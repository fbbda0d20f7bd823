"""Readers: they follow partitions, scan ranges again, and compare whatever they see with what was written."""

from __future__ import annotations

from sparklog.core.errors import SparklogError, UnknownTopicOrPartition
from sparklog.core.reading.plan import RangeToRead, plan_range
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from sparklog.log.read.scan import scan
from tests.sim.observer import mark_of
from tests.sim.process import Process, Steps


def reader(process: Process) -> Steps:
    """Reads on, or reads some range again. Its own visible end never goes back (check 13)."""
    ends: dict[TopicPartition, Offset] = {}
    while True:
        yield process.dice.randint(20, 250)
        try:
            state = yield from process.catch_up()
            mark = process.world.observer.marks.get(state.n)
            assert mark in (None, mark_of(state)), f"15: {process.name} has read another state at {state.n}: {state}"
            for key, end in ends.items():
                partition = state.partitions.get(key)
                assert partition is None or partition.high_watermark >= end, f"13: {key} went back from {end}"
            ends = {key: each.high_watermark for key, each in state.partitions.items()}
            if ends:
                key = process.dice.choice(sorted(ends))
                yield from read(process, state, key)
        except SparklogError as error:
            process.refused(error)


def read(process: Process, state: ClusterState, key: TopicPartition, *, everything: bool = False) -> Steps:
    """Read a range of a partition as a scan does, with time passing between its batches. Check 13."""
    partition = state.partitions[key]
    low, high = partition.log_start, partition.high_watermark
    start = low if everything or low == high else Offset(process.dice.randint(max(low, high - 30), high))
    plan = plan_range(state, state.topics[key.topic_id], key.partition, OffsetRange(start, high))
    history = process.world.history
    before = history.wanted(key, start, high)
    found: dict[int, bytes] = {}

    def replan(old: RangeToRead, at: Offset) -> RangeToRead:
        """Ask the chain again: here with what the process has read, as fresh as that may be."""
        newest = process.world.observer.head.state
        topic = newest.topics.get(key.topic_id)
        if topic is None:
            raise UnknownTopicOrPartition(f"{key} was deleted")
        now = newest.partitions[key]
        again = OffsetRange(min(max(at, now.log_start), old.end), old.end)
        return plan_range(newest, topic, key.partition, again)

    try:
        for batch in scan(plan, process.stores, ("offset", "value"), replan, fail_on_data_loss=False):  # type: ignore[arg-type]
            rows = dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
            for offset, value in rows.items():
                known = history.values[key].get(offset)
                assert value == known, f"13: {process.name} reads {value!r} at {offset} of {key}, wanted {known!r}"
                assert offset not in found, f"13: {process.name} reads {offset} of {key} twice"
            found.update(rows)
            yield process.dice.choice((0, 0, 5, 2_000))
    except SparklogError as error:
        process.world.refusals[f"read {error.code}"] += 1
        process.world.note(process.name, "read failed", error.code, error.message[:200])
        if everything:
            raise AssertionError(f"14: {process.name} can't read {key}: {error}") from error
        return
    left_out = before.keys() - found.keys()
    for offset in sorted(left_out):
        gone = before[offset] not in history.live
        assert gone, f"13: {process.name} does not see {before[offset]!r} at {offset} of {key} in [{start}, {high})"
    process.world.reads += 1
