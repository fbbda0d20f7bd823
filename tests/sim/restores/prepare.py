"""Puts a simulated world under the real code: its places, clocks, dice and threads, in place of the machine's."""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sparklog.chain import old_entries
from sparklog.chain.mirror import mirror, mirrors
from sparklog.chain.snapshot import old_snapshots, snapshot_writer
from sparklog.client import bootstrap
from sparklog.client.connection import Connection
from sparklog.client.restoring import restore_cluster
from sparklog.client.stores import add_store
from sparklog.core.commands import Command
from sparklog.core.errors import SparklogError
from sparklog.core.records import CommandResult
from sparklog.host import clock, dice
from sparklog.storage import keys, open_store
from sparklog.storage.keys import PROBES
from sparklog.storage.object_store import ObjectStore
from tests.sim.restores.threads import InlinePool, SimThreads

if TYPE_CHECKING:
    from tests.sim.restores.world import World

PATIENT_MS = 4_000  # for a command that must be given up some time
_running: list[World] = []
_PACKAGES = ("sparklog.chain.", "sparklog.client.", "sparklog.log.", "sparklog.storage.parallel")
_USED = (mirrors, old_entries, old_snapshots, snapshot_writer, mirror)


def running() -> World:
    """The world that the code under test is in."""
    return _running[-1]


def enter(world: World) -> None:
    """From now on the code under test is in this world."""
    _running.append(world)
    keys.ENTRIES_PER_BLOCK = world.shape.block
    mirror.NEAR = world.shape.near  # type: ignore[misc]


def leave() -> None:
    """The end of the world entered last."""
    _running.pop()


def prepare(patch: pytest.MonkeyPatch) -> None:
    """Until `patch` is undone."""
    patch.setattr(keys, "ENTRIES_PER_BLOCK", keys.ENTRIES_PER_BLOCK)
    patch.setattr(mirror, "NEAR", getattr(mirror, "NEAR", 16), raising=False)
    patch.setattr(
        clock,
        "time",
        SimpleNamespace(
            time_ns=lambda: running().scheduler.now_ms * 1_000_000 if _running else time.time_ns(),
            monotonic_ns=lambda: running().scheduler.now_ms * 1_000_000 if _running else time.monotonic_ns(),
            monotonic=lambda: running().scheduler.now_ms / 1_000 if _running else time.monotonic(),
            sleep=lambda seconds: running().scheduler.sleep(seconds * 1_000) if _running else time.sleep(seconds),
        ),
    )
    patch.setattr(dice, "os", SimpleNamespace(urandom=lambda size: running().ids.randbytes(size)))
    patch.setattr(
        dice,
        "random",
        SimpleNamespace(
            uniform=lambda low, high: running().dice.uniform(low, high),
            randrange=lambda end: running().dice.randrange(end),
            Random=random.Random,
        ),
    )
    threads = SimThreads(lambda: running().scheduler).namespace()
    for name, module in sorted(sys.modules.items()):
        if name.startswith(_PACKAGES):
            if getattr(module, "threading", None) is threading:
                patch.setattr(module, "threading", threads)
            if getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor:
                patch.setattr(module, "ThreadPoolExecutor", InlinePool)
    patch.setattr(open_store, "MemoryStore", lambda url: running().view(url))
    for module in (bootstrap, restore_cluster, add_store):
        if hasattr(module, "check_store"):
            patch.setattr(module, "check_store", _short_probe)
        if hasattr(module, "check_apart"):
            patch.setattr(module, "check_apart", lambda metadata, targets: None)
    patch.setattr(add_store, "check_beside_metadata", lambda connection, store, target: None)
    submit = Connection.submit

    def noted(self: Connection, command: Command, timeout_ms: int = PATIENT_MS) -> CommandResult:
        result = submit(self, command, timeout_ms)
        running().acknowledged(self, command, result)
        return result

    patch.setattr(Connection, "submit", noted)
    patch.setattr(logging.getLogger("sparklog"), "disabled", True)


def _short_probe(store: ObjectStore, probe_id: str, **options: Any) -> None:
    """The probe has tests of its own."""
    key = f"{PROBES}{probe_id}-short"
    try:
        store.put_if_absent(key, b"")
    except SparklogError:
        store.get(key)
    store.delete(key)
