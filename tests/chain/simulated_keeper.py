"""The keeper of a simulated world, which reads, writes snapshots and deletes old ones; and its deleter of blocks."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from sparklog.chain import old_entries
from sparklog.chain.chain_requests import Pause, Put, Request
from sparklog.chain.follow.catch_up import caught_up
from sparklog.chain.head import Head
from sparklog.chain.old_entries import PutMark
from sparklog.chain.snapshot import snapshot
from sparklog.chain.snapshot.old_snapshots import decide_old, find
from sparklog.core.errors import KeyExists, SparklogError, StoreUnavailable
from tests.chain.driven import Driven
from tests.chain.simulated_store import URL

if TYPE_CHECKING:
    from tests.chain.simulation import World

BLOCK = 2  # entries


def keeping(world: World) -> Generator[Request, object, None]:
    """Catch up, write a snapshot if there is anything new, and delete what is old. Yields requests, takes replies."""
    keeper = world.keeper
    machine = Driven(caught_up(keeper.head, URL))
    step: Request | Head | SparklogError = machine.start()
    while isinstance(step, Request):
        step = machine.reply((yield step))
    if isinstance(step, SparklogError):
        keeper.error = None if isinstance(step, StoreUnavailable) else step
        return
    keeper.head = step
    if step.n > keeper.snapshot_n + 1 and not (yield from _written_snapshot(world, step)):
        return
    yield from _deleted(world)


def _written_snapshot(world: World, head: Head) -> Generator[Request, object, bool]:
    prepared = snapshot.prepare(head.state.fork(), head.entry_hash, dict(world.keeper.chunks))
    for key, body in snapshot.objects_of(prepared):
        if not isinstance((yield Put(key, body)), KeyExists | None):
            return False
    assert not snapshot.missing_chunks(world.store, prepared.manifest)
    world.keeper.chunks = snapshot.known_chunks(prepared.manifest)
    world.keeper.snapshot_n = prepared.manifest.n
    world.note("snapshot", prepared.manifest.n)
    return True


def _deleted(world: World) -> Generator[Request, object, None]:
    """Do what vacuum does beside deleting entries: old snapshots go, and uploads below FLOOR that no state names."""
    keeper = world.keeper
    old = decide_old(find(world.store))
    for each in old.in_order():
        world.store.bodies.pop(each.key, None)
        world.old_deleted += 1
        yield Pause(0)
    named = {each.object.upload_id for each in keeper.head.state.objects}
    for attempt in world.attempts:
        if attempt.uploaded_n0 < keeper.head.state.floor and attempt.upload_id not in named:
            world.vacuumed.add(attempt.upload_id)


def deleting(world: World) -> Generator[Request, object, None]:
    """Delete old blocks of entries as the real deleter says, one entry at a time."""
    found = find(world.store)
    yield Pause(0)
    for change in old_entries.deletion(world.store, old_entries.decide_blocks(found)):
        if isinstance(change, PutMark):
            if not isinstance((yield Put(change.key, change.body)), KeyExists | None):
                return
            world.deleted_blocks.add(change.block)
            world.note("mark", change.block)
        else:
            for stored in change.entries:
                yield Pause(0)
                world.note("deleted", stored.key)
                world.store.bodies.pop(stored.key, None)
