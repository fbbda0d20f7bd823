"""Clusters whose metadata is lost, quickly made: a chain of many entries, and one with very many segments.

Their stores are the folders a, b and c beside the place of the metadata, and have copies of it. Nothing is synced, and
no object of the log is there: this is about the chain.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

import sparklog
from bench.state_scale import RECORDS, THREE, large_state
from sparklog.chain.commit.committer import new_command_id
from sparklog.chain.snapshot import snapshot, snapshot_writer
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.commands import Submission
from sparklog.core.replication.replica_append import appended_everywhere
from sparklog.core.types import Holder, Offset
from sparklog.storage.local.store import LocalStore
from tests.chain.chain_kit import append

COPIES = 1  # metadata.copies


@contextmanager
def chain_of_entries(folder: Path, entries: int) -> Iterator[Callable[[int], None]]:
    """A chain of so many entries of which no snapshot was written, in `folder`.

    The block gets a function that writes a snapshot now, and so many entries after it.
    """
    with _unsynced() as patch, _cluster(folder, 4) as cluster:
        patch.setattr(snapshot_writer, "SNAPSHOT_EVERY", entries * 10)
        _write_entries(cluster, entries - cluster.connection.follower.head.n - 1)

        def snapshot_and(more: int) -> None:
            cluster.connection.committer.snapshots.write()
            _write_entries(cluster, more)

        yield snapshot_and


def chain_of_segments(folder: Path, segments: int, partitions: int, tail: int) -> None:
    """A chain whose newest snapshot has so many segments, each on all three stores, with `tail` entries after it."""
    with _unsynced() as patch:
        patch.setattr(snapshot_writer, "SNAPSHOT_EVERY", tail * 10)
        with _cluster(folder, partitions) as cluster:
            head = cluster.connection.follower.head
        large = large_state(segments, THREE, partitions=partitions)
        state = head.state.fork()
        state.slices, state.objects = large.slices, large.objects
        state.next_object_number = large.next_object_number
        end = Offset(segments // partitions * RECORDS)
        for key, of_large in large.partitions.items():
            replication = appended_everywhere(state.partitions[key].replication, end)
            state.partitions[key] = msgspec.structs.replace(of_large, replication=replication)
        place = LocalStore(str(folder / "meta"))
        snapshot.write(place, snapshot.prepare(state, head.entry_hash, {}))
        with sparklog.connect(place.url) as cluster:
            _write_entries(cluster, 1)
            cluster.connection.committer.snapshots.write()  # now the stores have it, too
            _write_entries(cluster, tail)


def linked(folder: Path, target: Path) -> None:
    """The stores once more, without the metadata, as links to the same files: no object ever changes."""
    for store in THREE:
        shutil.copytree(folder / store, target / store, copy_function=os.link)


@contextmanager
def _cluster(folder: Path, partitions: int) -> Iterator[Cluster]:
    stores = {str(store): f"../{store}" for store in THREE}
    url = str(folder / "meta")
    init_cluster(url, stores=stores, config={"metadata.copies": COPIES})
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=partitions, replication_factor=3, config={"retention.ms": -1})
        yield cluster


def _write_entries(cluster: Cluster, entries: int) -> None:
    """Commit so many appends of one record, each in an entry of its own."""
    committer = cluster.connection.committer
    state = committer.follower.state
    holders = tuple(Holder(store, registration) for store, registration in state.registrations().items())
    partitions = next(iter(state.topics.values())).partitions
    for number in range(entries):
        n0 = committer.follower.state.n0
        command = append(partition=number % partitions, n0=n0, holders=holders)
        committer.submit(Submission(new_command_id(), n0, command))


@contextmanager
def _unsynced() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield patch
