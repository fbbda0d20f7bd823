"""`sparklog store …`: the stores of a cluster, which hold replicas as brokers do in Kafka."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.common_options import DRY_RUN
from sparklog.cli.output import connect, done, ending, json_row, show_rows, status
from sparklog.core.describe.readable import amount, counted
from sparklog.options.key_value import store_address

if TYPE_CHECKING:
    from sparklog.core.placement.replica_plans import PartitionOutcome
    from sparklog.core.state import ClusterState
    from sparklog.storage.local.store import LocalStore

app = typer.Typer(help="Add, list, fence and remove stores.", no_args_is_help=True)

ID = typer.Argument(metavar="ID", help="The id of the store.")


@app.command(
    epilog=ending(
        "sparklog store add b@eu-west-1b=s3://logs-b/prod",
        "sparklog store add b=disk-b --dry-run",
    )
)
def add(
    store: str = typer.Argument(
        metavar="ID[@ZONE]=URL", help="The store. A relative URL is resolved against the cluster's."
    ),
    dry_run: bool = DRY_RUN,
) -> None:
    """Add a store, or bring back a fenced one.

    The store is probed, marked with a file INCARNATION, and registered. It gets replicas of new topics; "replica move"
    moves existing replicas there. A fenced store comes back with its id and its data. It keeps its zone unless you give
    @ZONE. If its INCARNATION is missing or has changed, the store was wiped: it comes back empty, and its agent fills
    it. If only some objects are missing, a warning says so, and its agent fetches them.
    """
    from sparklog.client.stores.add_store import add_store
    from sparklog.core.types import StoreId

    given = store_address(store, "ID[@ZONE]=URL")
    status(f"probing {given.url}")
    with connect() as cluster:
        known = {registered.store: registered for registered in cluster.stores()}.get(StoreId(given.store))
        added = add_store(cluster.connection, StoreId(given.store), given.url, given.zone, dry_run=dry_run)
    wiped = known is not None and known.incarnation != added.incarnation
    done(
        f"{'would register' if dry_run else 'registered'} store {added.store}{'' if known is None else ' again'} at "
        f"{added.url}{f' in zone {added.zone}' if added.zone else ''}"
        f"{': it was wiped, so it comes back empty, and its agent fills it' if wiped else ''}",
        {
            "store": added.store,
            "url": added.url,
            "zone": added.zone,
            "registration": added.registration,
            "incarnation": added.incarnation,
            "again": known is not None,
            "wiped": wiped,
            "dry_run": dry_run,
        },
    )


@app.command("list", epilog=ending("sparklog store list", "sparklog store list --format json"))
def list_stores() -> None:
    """List the stores.

    A store is "live" if its agent is up, "dead" if its agent is silent, "stopped" if its agent was stopped, "new" if it
    never had an agent, and "fenced" if it is fenced. Its size is the size of its replicas.
    """
    from sparklog.core.describe.store_rows import store_rows
    from sparklog.core.placement.counts import replica_counts
    from sparklog.storage.open_store import registered_url

    with connect() as cluster:
        state = cluster.connection.newest_state()
        rows = store_rows(state, replica_counts(state), partial(registered_url, cluster.connection.url))
    by_registration = sorted(rows, key=lambda row: row.registration)
    show_rows(map(json_row, by_registration), empty="no stores")


@app.command(epilog=ending("sparklog store fence b --dry-run", "sparklog store fence b"))
def fence(store: str = ID, dry_run: bool = DRY_RUN) -> None:
    """Exclude a store until it is added again.

    Its replicas leave every ISR. For each partition that it led, another replica is elected. --dry-run shows the effect
    on its partitions.
    """
    from sparklog.core.commands import FenceStore
    from sparklog.core.placement.replica_plans import outcomes
    from sparklog.core.types import StoreId

    with connect() as cluster:
        state, records = cluster.connection.decided(FenceStore(StoreId(store)))
        effects = _effects(state, outcomes(state, records))
        if not dry_run:
            cluster.fence_store(store)
    document: dict[str, Any] = {"store": store, "fenced": True, "dry_run": dry_run, **effects}
    if not records:
        done(f"store {store} is fenced already", document)
        return
    done(
        f"{'would fence' if dry_run else 'fenced'} store {store}: {counted(effects['replicas'], 'replica')}, "
        f"{counted(effects['leaders_elected'], 'new leader')}, {counted(effects['offline'], 'partition')} without one, "
        f"{counted(effects['under_min_isr'], 'partition')} with fewer in sync than min.insync.replicas",
        document,
    )


@app.command(epilog=ending("sparklog store remove b --dry-run", "sparklog store remove b"))
def remove(store: str = ID, dry_run: bool = DRY_RUN) -> None:
    """Remove a store without replicas (first move them: sparklog replica move --off ID). Its objects stay there."""
    from sparklog.client.stores.add_store import removal
    from sparklog.core.types import StoreId

    with connect() as cluster:
        state, _ = cluster.connection.decided(removal(cluster.connection, StoreId(store)))
        url = state.stores[StoreId(store)].url
        if not dry_run:
            cluster.remove_store(store)
    done(
        f"{'would remove' if dry_run else 'removed'} store {store} at {url}",
        {"store": store, "url": url, "dry_run": dry_run},
    )


@app.command(epilog=ending("sparklog store free"))
def free() -> None:
    """Free the space reserved on the disk of the metadata, so that a full disk accepts commits again.

    First stop the writers, because they would fill the disk at once. Then free the space, delete data that is not
    needed (sparklog topic delete-records, or a shorter retention and sparklog job retention), and reserve the space
    again with sparklog store reserve. If only the disk of another store is full, this command is not needed: writes of
    records fail, but commits still work.
    """
    disk = _disk_of_metadata()
    freed_bytes = disk.reserve.give_back()
    text = f"freed {amount(freed_bytes)}" if freed_bytes else "nothing to free"
    done(f"{text} at {disk.url}", {"url": disk.url, "freed_bytes": freed_bytes})


@app.command(epilog=ending("sparklog store reserve"))
def reserve() -> None:
    """Reserve 4 MiB on the disk of the metadata, for sparklog store free. Does nothing if they are reserved already."""
    disk = _disk_of_metadata()
    disk.reserve.make()
    kept_bytes = disk.reserve.size_bytes() or 0
    done(f"{amount(kept_bytes)} are reserved at {disk.url}", {"url": disk.url, "kept_bytes": kept_bytes})


def _disk_of_metadata() -> LocalStore:
    """Return the store on this machine's disk that has the metadata. Raises InvalidInput if it is elsewhere."""
    from sparklog.core.errors import InvalidInput
    from sparklog.storage.keys import LOG
    from sparklog.storage.local.store import LocalStore
    from sparklog.storage.open_store import open_store

    with connect() as cluster:
        store = open_store(cluster.connection.url)
    if not isinstance(store, LocalStore):
        raise InvalidInput(f"the metadata is at {store.url}: space is reserved only on a disk")
    if store.first_key_after(LOG, LOG) is None:
        raise InvalidInput(f"the metadata is at {store.url} on another machine: run this there")
    return store


def _effects(state: ClusterState, changed: list[PartitionOutcome]) -> dict[str, int]:
    from sparklog.core.placement.replica_health import is_offline, is_under_min_isr

    offline = under_min_isr = elected = 0
    for outcome in changed:
        topic = state.topic_named(outcome.topic)
        assert topic is not None
        offline += is_offline(outcome.after)
        under_min_isr += is_under_min_isr(outcome.after, state.topic_config(topic).min_insync_replicas)
        elected += outcome.after.leader is not None and outcome.after.leader != outcome.before.leader
    return {
        "replicas": len(changed),
        "leaders_elected": elected,
        "offline": offline,
        "under_min_isr": under_min_isr,
    }
