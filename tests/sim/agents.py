"""A simple agent of a store: looks whether the store has what the chain says, fetches what it lacks, and reports."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import google_crc32c
import msgspec

from sparklog.core.commands import AgentUp, HeldEnd, ReplicaReport, ReportLoss, ReportReplicas
from sparklog.core.errors import KeyNotFound, SparklogError
from sparklog.core.held_slices import Holding
from sparklog.core.replication.isr import may_join
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import NewObject, Offset, OffsetRange, Slice, StoreId, TopicPartition
from sparklog.storage.keys import INCARNATION, data_key, index_key
from tests.sim.process import Process, Steps
from tests.sim.stores import Call
from tests.sim.uploads import incarnation_in

SAMPLES = 2
FETCHED_AT_ONCE = 8  # slices of a partition


@dataclass(frozen=True)
class Held:
    """An object that the store holds, or is to hold, for a slice."""

    slice: Slice
    named: NewObject
    key: str


def agent(process: Process, store: StoreId) -> Steps:
    """One round after the other."""
    world = process.world
    rounds = 0
    while True:
        yield process.dice.randint(30, 300)
        try:
            state = yield from process.catch_up()
            own = state.stores.get(store)
            if own is None or own.fenced:
                continue
            lost = yield from _lost(process, state, store, full=world.is_ending or rounds % 16 == 0)
            rounds += 1
            if lost is not None:
                yield process.begin_at(state, lost)
                continue
            if own.agent_up is not True:
                yield from process.submit(AgentUp(store, own.registration))
            yield from _fetch(process, state, store)
        except SparklogError as error:
            process.refused(error)


# ---- what is there ----------------------------------------------------------------------------------


def _lost(process: Process, state: ClusterState, store: StoreId, *, full: bool) -> Steps:
    """The loss to report, or None: rules F2 and S1."""
    own = state.stores[store]
    incarnation = yield from _incarnation(process, state, store)
    if incarnation is None:
        return None
    if incarnation != own.incarnation:
        return ReportLoss(store, own.registration, incarnation)
    ends = []
    for key, partition in state.partitions.items():
        if store in partition.replication.replicas:
            held = held_slices(state, key, store)
            sample = held if full else [*held[-1:], *process.dice.sample(held, min(SAMPLES, len(held)))]
            missing = yield from _missing(store, sample)
            if missing is not None:
                first = yield from _missing(store, held)
                ends.append(HeldEnd(key.topic_id, key.partition, (first or missing).slice.start))
                process.world.note(process.name, "misses", (first or missing).key, f"{key} {partition.log_start}")
    return ReportLoss(store, own.registration, incarnation, tuple(ends)) if ends else None


def _incarnation(process: Process, state: ClusterState, store: StoreId) -> Steps:
    """The INCARNATION of the store; a new one if it is gone; None if the store does not answer."""
    try:
        return incarnation_in((yield Call(store, "get", INCARNATION)))
    except KeyNotFound:
        body = {"incarnation": process.new_id(), "chain_id": state.chain_id}
        yield Call(store, "put", INCARNATION, msgspec.json.encode(body))
    except SparklogError:
        pass
    return None


def held_slices(state: ClusterState, key: TopicPartition, store: StoreId) -> list[Held]:
    """The slices below the LEO of the replica on this store, ascending."""
    partition = state.partitions[key]
    end = partition.replication.log_end(store)
    return [_held(state, key, each) for each in state.slices.find(key, OffsetRange(partition.log_start, end))]


def _held(state: ClusterState, key: TopicPartition, each: Slice) -> Held:
    named = state.objects.get(each.object_number)
    assert named is not None
    return Held(each, named, data_key(named, state.topics[key.topic_id].name))


def _missing(store: StoreId, held: list[Held]) -> Steps:
    """The first of them whose object or index is not there in its full length, or None."""
    calls = [Call(store, "size", key) for each in held for key in (each.key, index_key(each.key))]
    sizes = [size for each in held for size in (each.named.size_bytes, each.named.index_size_bytes)]
    replies = yield calls
    for number, (reply, wanted) in enumerate(zip(replies, sizes, strict=True)):
        if isinstance(reply, KeyNotFound) or (isinstance(reply, int) and reply != wanted):
            return held[number // 2]
        if isinstance(reply, SparklogError):
            raise reply
    return None


# ---- fetching ---------------------------------------------------------------------------------------


def _fetch(process: Process, state: ClusterState, store: StoreId) -> Steps:
    """Copy what lies beyond the LEOs, read INCARNATION, and report."""
    reports = []
    for key, partition in state.partitions.items():
        value = partition.replication
        if store not in value.replicas:
            continue
        end = yield from _fetched(process, state, key, partition, store)
        if end > value.log_end(store) or may_join(value, store):
            reports.append(ReplicaReport(key.topic_id, key.partition, value.leader_epoch, value.version, end))
    if not reports:
        return
    own = state.stores[store]
    if (yield from _incarnation(process, state, store)) == own.incarnation:
        yield process.begin_at(state, ReportReplicas(store, own.registration, tuple(reports)))


def _fetched(
    process: Process, state: ClusterState, key: TopicPartition, partition: Partition, store: StoreId
) -> Generator[Any, Any, Offset]:
    """Copy the next slices. Returns the log end that the store has then."""
    value = partition.replication
    end = value.log_end(store)
    holding = Holding(state, partition)
    for each in list(state.slices.find(key, OffsetRange(end, partition.next_offset)))[:FETCHED_AT_ONCE]:
        held = _held(state, key, each)
        sources = [other for other in holding.of(each.end, held.named.holders) if other != store]
        if not (yield from _copied(store, held, sources)):
            return end
        end = each.end
    behind = state.slices.find(key, OffsetRange(end, partition.next_offset))
    return end if len(behind) else partition.next_offset


def _copied(store: StoreId, held: Held, sources: list[StoreId]) -> Steps:
    """Whether the store has the object and its index, after a copy from the first source that can give them."""
    parts = ((held.key, held.named.crc32c), (index_key(held.key), held.named.index_crc32c))
    sizes = (held.named.size_bytes, held.named.index_size_bytes)
    replies = yield [Call(store, "size", key) for key, _ in parts]
    for (key, crc), size_bytes, reply in zip(parts, sizes, replies, strict=True):
        if reply == size_bytes:
            continue
        if not isinstance(reply, KeyNotFound):
            return False
        for source in sources:
            (body,) = yield [Call(source, "get", key)]
            if isinstance(body, bytes) and google_crc32c.value(body) == crc:
                (put,) = yield [Call(store, "put", key, body)]
                if put is not None:
                    return False
                break
        else:
            return False
    return True
