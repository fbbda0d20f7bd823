"""The operator: fences stores and takes them back, moves replicas, elects, drops replicas that lag, adds a store."""

from __future__ import annotations

import msgspec

from sparklog.core.commands import (
    AgentDown,
    AlterTopic,
    DropLagging,
    Election,
    ElectLeaders,
    FenceStore,
    LaggingReplicas,
    Move,
    MoveReplicas,
    NewStore,
    RegisterStore,
    ReportLoss,
)
from sparklog.core.errors import KeyNotFound, SparklogError
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId, TopicPartition
from sparklog.storage.keys import INCARNATION
from tests.sim.process import Process, Steps
from tests.sim.stores import Call
from tests.sim.uploads import incarnation_in

RF = 3


def operator(process: Process) -> Steps:
    """Does one thing after the other."""
    actions = {
        _fence: 2,
        _take_back: 4,
        _move: 3,
        _elect: 4,
        _elect_store: 3,
        _drop_lagging: 5,
        _agent_down: 3,
        _add_store: 1,
        _alter: 1,
    }
    while True:
        yield process.dice.randint(100, 1_200)
        (action,) = process.dice.choices(list(actions), list(actions.values()))
        try:
            state = yield from process.catch_up()
            if state.partitions:
                yield from action(process, state)
        except SparklogError as error:
            process.refused(error)


def _fence(process: Process, state: ClusterState) -> Steps:
    if not any(each.fenced for each in state.stores.values()) and not process.world.is_ending:
        yield from process.submit(FenceStore(_some_store(process, state)))


def _some_store(process: Process, state: ClusterState) -> StoreId:
    """A store, mostly one that leads."""
    leader = state.partitions[_some(process, state)].replication.leader
    if leader is not None and process.dice.random() < 0.6:
        return leader
    return process.dice.choice(list(state.stores))


def _take_back(process: Process, state: ClusterState) -> Steps:
    """Register fenced stores again, with the INCARNATION that they have now."""
    yield from take_back(process, state)


def take_back(process: Process, state: ClusterState) -> Steps:
    """Register fenced stores again."""
    for store in state.stores.values():
        if store.fenced:
            (reply,) = yield [Call(store.store, "get", INCARNATION)]
            if isinstance(reply, KeyNotFound):
                body = msgspec.json.encode({"incarnation": process.new_id(), "chain_id": state.chain_id})
                yield Call(store.store, "put", INCARNATION, body)
                continue
            incarnation = incarnation_in(reply)
            if incarnation == store.incarnation:
                yield from process.submit(RegisterStore(NewStore(store.store, store.url, incarnation)))
            elif incarnation is not None:
                yield from process.submit(ReportLoss(store.store, store.registration, incarnation))


def lead(process: Process, state: ClusterState) -> Steps:
    """Elect where nobody leads. Where nobody is in sync, a person decides: the longest log that has all below HW."""
    for key, partition in state.partitions.items():
        value = partition.replication
        if value.leader is not None:
            continue
        able = [store for store in value.replicas if value.log_end(store) >= value.high_watermark]
        unclean = process.world.shape.unclean or (not value.isr and not value.elr and bool(able))
        yield from process.submit(ElectLeaders((Election(key.topic_id, key.partition),), unclean))


def _move(process: Process, state: ClusterState) -> Steps:
    key = _some(process, state)
    usable = list(state.registrations())
    if len(usable) >= RF and not process.world.is_ending:
        to = tuple(process.dice.sample(usable, RF))
        yield from process.submit(MoveReplicas((Move(key.topic_id, key.partition, to),)))


def _elect(process: Process, state: ClusterState) -> Steps:
    """Where nobody leads, or the leader can't be reached."""
    unclean = process.world.shape.unclean and process.dice.random() < 0.3
    elections = tuple(Election(key.topic_id, key.partition) for key in state.partitions)
    yield from process.submit(ElectLeaders(elections, unclean))


def _elect_store(process: Process, state: ClusterState) -> Steps:
    """The preferred leader, or another one."""
    key = _some(process, state)
    replicas = state.partitions[key].replication.replicas
    store = process.dice.choice((replicas[0], *replicas))
    unclean = process.world.shape.unclean and process.dice.random() < 0.2
    yield from process.submit(ElectLeaders((Election(key.topic_id, key.partition, store),), unclean))


def _drop_lagging(process: Process, state: ClusterState) -> Steps:
    """As a coordinator does with who lags for long; here with anybody who lags now."""
    lagging = []
    for key, partition in state.partitions.items():
        value = partition.replication
        stores = tuple(store for store in value.isr if value.log_end(store) < value.next_offset)
        if stores:
            lagging.append(LaggingReplicas(key.topic_id, key.partition, value.leader_epoch, value.version, stores))
    if lagging:
        yield process.dice.choice((0, 50, 1_000))
        yield from process.submit(DropLagging(tuple(lagging)))


def _agent_down(process: Process, state: ClusterState) -> Steps:
    """Whoever watches the agents takes one for silent; it may be wrong."""
    store = state.stores[_some_store(process, state)]
    if not store.fenced:
        yield from process.submit(AgentDown(store.store, store.registration))


def _add_store(process: Process, state: ClusterState) -> Steps:
    store = StoreId("e")
    if store not in state.stores and not process.world.is_ending:
        incarnation = process.world.add_store(store, state.chain_id)
        yield from process.submit(RegisterStore(NewStore(store, f"memory://{store}", incarnation)))


def _alter(process: Process, state: ClusterState) -> Steps:
    """min.insync.replicas of a topic, up and down again where nothing is lost by that."""
    if not process.world.shape.may_lose:
        topic = process.dice.choice(list(state.topics))
        value = str(process.dice.choice((1, 2, 2, 3)))
        yield from process.submit(AlterTopic(topic, {"min.insync.replicas": value}))


def _some(process: Process, state: ClusterState) -> TopicPartition:
    return process.dice.choice(sorted(state.partitions))
