"""What must hold in a simulated world after everybody has finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklog.chain.chain_requests import GetMany, Request
from sparklog.chain.follow.catch_up import caught_up
from sparklog.chain.head import Head
from sparklog.core.errors import ChainDamaged, Landed, SparklogError
from sparklog.core.machine import run
from sparklog.core.records import CommandResult
from sparklog.core.state_invariants import check as check_invariants
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, TopicPartition, UploadId
from tests.chain.chain_kit import TOPIC
from tests.chain.driven import NOW
from tests.chain.simulated_store import URL
from tests.core.state_contents import contents

if TYPE_CHECKING:
    from tests.chain.simulation import World


def check(world: World) -> None:
    """A process that opens the chain now reads what everybody was told. Raises AssertionError."""
    reader = _read_now(world, Head() if world.seed % 4 == 0 else world.start[1])
    if world.seed % 4 == 0:
        check_invariants(reader.state)
    wanted = contents(reader.state)
    old = world.readers if world.wiped_at is not None else []
    for process in old:
        assert process.head.n <= world.wiped_at, f"{process.name} follows another chain than its own"  # type: ignore[operator]
    writer, *_ = world.dice.sample(world.writers, len(world.writers))
    reader_too, *_ = world.dice.sample(world.readers, len(world.readers))
    for process in (writer, reader_too) if not old else (writer,):
        assert process.error is None, f"{process.name}: {process.error}"
        head = process.commits.head if process.commits is not None else process.head
        assert contents(_read_now(world, head).state) == wanted, f"{process.name} reads another log"
    starts: dict[UploadId, int] = {}
    for partition in (PartitionIndex(0), PartitionIndex(1)):
        key = TopicPartition(TOPIC, partition)
        end = reader.state.partitions[key].next_offset
        for each in reader.state.slices.find(key, OffsetRange(Offset(0), end)):
            named = reader.state.objects.get(each.object_number)
            assert named is not None
            assert named.upload_id not in starts, f"{named.upload_id} is there twice"
            assert named.upload_id not in world.vacuumed, f"{named.upload_id} is named, and its bytes were vacuumed"
            starts[named.upload_id] = each.start
    for attempt in world.attempts:
        told = attempt.told
        assert not isinstance(told, ChainDamaged), f"{attempt.upload_id}: {told}"
        if isinstance(told, CommandResult):
            start = told.ranges[0].start
            assert starts.get(attempt.upload_id) == start, f"{attempt.upload_id} was acknowledged at {start}"
        elif isinstance(told, SparklogError) and told.landed is Landed.NO and attempt.tries == 1:
            assert attempt.upload_id not in starts, f"{attempt.upload_id} landed, its author was told {told}"


def _read_now(world: World, head: Head) -> Head:
    """What a process with this head reads when nothing goes wrong."""

    def perform(request: Request) -> object:
        if isinstance(request, GetMany):
            return world.lies(request, [world.store.bodies.get(key) for key in request.keys])
        return world.lies(request, world.store.perform(request))

    try:
        return run(caught_up(head, URL), lambda request: (perform(request), NOW))
    except SparklogError as error:
        raise AssertionError(f"a process that comes now can't read: {error}") from error
