"""The processes that use a cluster, or look after it: writers, an operator, a writer of snapshots, vacuum."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.old_entries import decide_blocks, delete_blocks
from sparklog.chain.owner import check_owner
from sparklog.chain.snapshot.old_snapshots import decide_old, delete_old, find
from sparklog.client.connection import Connection
from sparklog.client.stores.add_store import add_store
from sparklog.core.commands import (
    AllocateProducer,
    AlterCluster,
    Command,
    FenceStore,
    RaiseFloor,
    RemoveStore,
    ReportJob,
    ReportLoss,
)
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.coordination import Author
from sparklog.core.errors import InconsistentClusterId, SparklogError
from sparklog.core.state import Store
from sparklog.core.types import EntryNumber, StoreId
from sparklog.log.incarnation import begin_incarnation, read_incarnation
from sparklog.storage.object_store import ObjectStore
from tests.sim.restores.scheduler import Process

if TYPE_CHECKING:
    from tests.sim.restores.world import World

WRITE_MS = 3_000


def writer(world: World, process: Process, url: str, writes: int) -> None:
    """Write to the cluster at `url`, as a process that does not give up."""
    connection = None
    for number in range(writes):
        try:
            connection = connection or _connect(process, url)
            submit(connection, _command(world, process, number))
        except InconsistentClusterId as error:
            world.count("turned-away")
            world.note(process.name, "is turned away", error.message[:90])
        except SparklogError as error:
            world.refused(process, error)
        world.scheduler.sleep(world.dice.choice((1, 30, 300, 2_000)))


def submit(connection: Connection, command: Command) -> None:
    """Commit a command. The world notes the acknowledgement (`prepare.py`)."""
    connection.submit(command, WRITE_MS)


def _command(world: World, process: Process, number: int) -> Command:
    if world.dice.random() < 0.5:
        return AllocateProducer()
    return ReportJob(
        world.dice.choice(("roll", "vacuum", "verify")), number, number, 0, json.dumps({"by": process.name})
    )


def _connect(process: Process, url: str) -> Connection:
    return Connection(url, Author("client", process.name))


# ---- the operator -----------------------------------------------------------------------------------


def operator(world: World, process: Process, url: str, moves: int) -> None:
    """Change which stores there are, and look after them."""
    connection: Connection | None = None
    for _ in range(moves):
        world.scheduler.sleep(world.dice.choice((50, 500, 3_000)))
        name, move = world.dice.choice(_MOVES)
        if world.shape.lowers and world.dice.random() < 0.3:
            name, move = "lower-copies", lower_copies
        try:
            connection = connection or _connect(process, url)
            connection.follower.catch_up()
            world.note(process.name, name)
            move(world, process, connection)
            world.count(f"operator-{name}")
        except SparklogError as error:
            world.refused(process, error)


def add(world: World, process: Process, connection: Connection) -> None:
    """Add a new store: its id sorts first, last, or in between. Or one that was fenced is back."""
    state = connection.follower.state
    fenced = [store for store in state.stores.values() if store.fenced and not world.stores[store.url].is_gone]
    if fenced and world.dice.random() < 0.7:
        again = world.dice.choice(fenced)
        _added(world, process, connection, again.store, again.url)
    elif sum(not store.fenced for store in state.stores.values()) < world.shape.most_stores:
        name = world.new_store()
        _added(world, process, connection, StoreId(name), world.address(name))


def _added(world: World, process: Process, connection: Connection, store: StoreId, url: str) -> None:
    chain = connection.follower.state.chain_id
    add_store(connection, store, url)
    n = connection.follower.head.n
    world.note(process.name, "has added", store, f"to {chain[:8]} by {n}")
    if chain == world.history.current:
        for generation in world.history.generations:
            generation.added.add(url)


def fence(world: World, process: Process, connection: Connection) -> None:
    """Fence a store, if enough others stay."""
    live = [store for store in connection.follower.state.stores.values() if not store.fenced]
    if len(live) > world.shape.copies + world.dice.randrange(2):
        submit(connection, FenceStore(world.dice.choice(live).store))


def remove(world: World, process: Process, connection: Connection) -> None:
    """Remove a store, and sometimes use its place for something else."""
    stores = list(connection.follower.state.stores.values())
    live = sum(not store.fenced for store in stores)
    store = world.dice.choice(stores)
    if live - (not store.fenced) < max(world.shape.copies, 1):
        return
    others = {
        other: number for other, number in connection.follower.state.registrations().items() if other != store.store
    }
    submit(connection, RemoveStore(store.store, others))
    if world.dice.random() < 0.5 and connection.follower.state.chain_id == world.history.current:
        world.stores[store.url].wipe()


def report_loss(world: World, process: Process, connection: Connection) -> None:
    """Report what a fault took from a store."""
    for store in list(connection.follower.state.stores.values()):
        place = world.stores[store.url]
        if place.hurt_at > place.reported_at and not store.fenced:
            at = place.hurt_at
            _report(connection, store)
            place.reported_at = at
            world.count("loss-reported")


def _report(connection: Connection, store: Store) -> None:
    target = connection.open_store(store.store, store.url)
    mark = read_incarnation(target)
    if mark is None:
        mark, _ = begin_incarnation(target, store.store, connection.follower.state.chain_id)
    submit(connection, ReportLoss(store.store, store.registration, mark.incarnation))


def snapshot(world: World, process: Process, connection: Connection) -> None:
    """Write a snapshot, and its copies."""
    connection.committer.snapshots.write()


def raise_floor(world: World, process: Process, connection: Connection) -> None:
    """Raise FLOOR, so that old entries may go."""
    n = connection.follower.head.n
    submit(connection, RaiseFloor(EntryNumber(max(connection.follower.state.floor, n - 3))))


def vacuum(world: World, process: Process, connection: Connection) -> None:
    """Delete old snapshots and entries, of the chain and of its copies, as the job does (`old_metadata.py`)."""
    follower = connection.follower
    _delete_old(world, follower.store, lambda: None)
    state = follower.catch_up().state
    stores = connection.stores(state)
    for name in sorted(state.registrations()):

        def check(name: StoreId = name) -> None:
            check_owner(stores.get(name), len(state.ancestors))

        _delete_old(world, MirrorPlace(stores.get(name), state.chain_id), check)


def lower_copies(world: World, process: Process, connection: Connection) -> None:
    """Lower metadata.copies, by one or to 0; or raise it again."""
    copies = effective_cluster(connection.follower.state.config).metadata_copies
    wanted = world.shape.copies
    if copies == wanted:
        wanted = world.dice.choice((0, copies - 1))
    submit(connection, AlterCluster({"metadata.copies": str(wanted)}))
    world.count("raised" if wanted > copies else "lowered")


def _delete_old(world: World, place: ObjectStore, check: Callable[[], None]) -> None:
    found = find(place)
    check()
    deleted = delete_old(place, found, decide_old(found))
    world.counts["vacuumed"] += deleted.objects
    for block in delete_blocks(place, decide_blocks(found), check):
        world.counts["vacuumed"] += len(block.entries)


_MOVES: list[tuple[str, Callable[[World, Process, Connection], None]]] = [
    ("add", add),
    ("add", add),
    ("fence", fence),
    ("remove", remove),
    ("report-loss", report_loss),
    ("snapshot", snapshot),
    ("snapshot", snapshot),
    ("raise-floor", raise_floor),
    ("vacuum", vacuum),
]
