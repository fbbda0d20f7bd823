"""Verify on real stores: what is damaged on a disk, in a bucket or on HDFS is named there, and nothing else is."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.maintenance.differences import DifferenceKind
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.storage.keys import CHUNKS, TOPICS, entry_key
from sparklog.storage.open_store import open_store
from tests.faults.crash_places import Place
from tests.kit.silent_console import SILENT
from tests.maintenance.damager import KINDS, OBJECT_DAMAGE, Damager

SOME = ("flip", "cut", "lose", "flip index")  # a server is slow, and it is the same code


# M: F-04 F-05
@pytest.mark.parametrize("place", ["disk", "s3", pytest.param("hdfs", marks=pytest.mark.campaign)], indirect=True)
def test_every_kind_of_damage_is_named(place: Place) -> None:
    url = place.new_url()
    init_cluster(url)
    kinds_of_damage = OBJECT_DAMAGE if place.name == "disk" else SOME
    partitions = len(kinds_of_damage) + 1
    console = SILENT
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=partitions)
        numbers = pa.array([at % partitions for at in range(3 * partitions)], pa.int32())
        values = [f"value {at}" for at in range(3 * partitions)]
        cluster.append("t", pa.table({"value": values, "partition": numbers}))
        assert run_roll(url, everything=True, console=console).exit_code == 0
        cluster.connection.committer.snapshots.write()
    assert run_verify(url, console=console).differences == ()
    store = open_store(url)
    damager = Damager(store, random.Random(1))
    keys = sorted(stored.key for stored in store.list_keys(TOPICS) if stored.key.endswith(".arrow"))
    *damaged, whole = keys
    wanted: dict[str, DifferenceKind | None] = {}
    for how, key in zip(kinds_of_damage, damaged, strict=True):
        damager.damage(how, key, whole)
        wanted[key.replace(".arrow", ".index") if how.endswith("index") else key] = KINDS.get(how)
    entry = bytes(store.get(entry_key(1)))
    damager.put(entry_key(1), entry[:-1] + b"|")
    wanted[entry_key(1)] = DifferenceKind.ENTRY_DAMAGED
    report = run_verify(url, console=console)
    assert report.exit_code == 1
    assert {difference.object for difference in report.differences} == set(wanted)
    for key, kind in wanted.items():
        assert kind in {None, *(row.kind for row in report.differences if row.object == key)}
    damager.put(entry_key(1), entry)  # without it, and without the snapshot, the chain can't be opened
    chunk = next(stored.key for stored in store.list_keys(CHUNKS))
    body = bytes(store.get(chunk))
    damager.put(chunk, body[:-1] + bytes([body[-1] ^ 1]))
    kinds = {row.kind for row in run_verify(url, console=console).differences if row.object == chunk}
    assert kinds == {DifferenceKind.SNAPSHOT_DAMAGED}
