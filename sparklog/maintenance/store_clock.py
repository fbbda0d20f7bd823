"""Compares this machine's clock with that of the store that has the metadata."""

from __future__ import annotations

from contextlib import suppress

from sparklog.client.connection import Connection
from sparklog.core.errors import SparklogError
from sparklog.core.maintenance.job_clock import check_clock_of_store, is_days_ahead
from sparklog.host.dice import new_id
from sparklog.storage.keys import PROBES, entry_key
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import has_timeout


def check_clock_beside_store(connection: Connection, now_ms: int, *, dry_run: bool) -> None:
    """Raise InvalidInput if `now_ms` is more than a day ahead of the store's clock.

    A store on a server says by its own clock when it got an object, such as the newest entry. If that entry is old, and
    no coordinator is in force, an object is put for the purpose and deleted (not in a dry run). A folder has only the
    clock of its machine, so there is nothing to compare.
    """
    if not has_timeout(connection.url):
        return
    state, store = connection.follower.state, connection.follower.store
    put_ms = _put_ms(store, entry_key(state.n))
    if is_days_ahead(now_ms, put_ms) and not state.coordinator.in_force:
        if dry_run:
            return
        key = f"{PROBES}{new_id()}-clock"
        store.put_if_absent(key, b"clock")
        put_ms = _put_ms(store, key)
        with suppress(SparklogError):  # it only takes room
            store.delete(key)
    check_clock_of_store(connection.url, put_ms, now_ms)


def _put_ms(store: ObjectStore, key: str) -> int:
    """Return the time at which an object was put, by the store's clock; 0 if it is not listed."""
    return next((stored.modified_ms for stored in store.list_keys(key)), 0)
