"""SIGKILL for the driver of a compaction, Python and JVM: the log stays right, and the next run does the rest."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.maintenance.keyed_log import KeyedLog
from tests.spark.kills.compacted_log import filled_log, settle, use_while
from tests.spark.kills.deaths import Deaths, Victim
from tests.spark.kills.running_driver import EXECUTORS, NOWHERE, Call, how_it_ended, running_driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PUT: Final = "sparklog.storage.local.upload:LocalUpload.publish"  # in a driver: an entry of the chain
DELETE: Final = "sparklog.storage.local.store:LocalStore.delete_many"
SHUFFLE: Final = "sparklog.spark.maintain.key_shuffle:SparkKeyShuffle.run"


def was_killed(
    keyed: KeyedLog,
    folder: Path,
    at: Call = NOWHERE,
    master: str = "local[2]",
    settings: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Run a compaction beside writes and reads. Whether its driver was killed."""
    job = ["compaction", "--cluster", keyed.log.url, "--topic", "t", "--all"]
    folder.mkdir()
    with running_driver(folder, job, at=at, master=master, settings=settings) as driver:
        use_while(keyed, lambda: _runs(driver))
        return how_it_ended(driver, folder)


def _runs(driver: subprocess.Popen[bytes]) -> bool:
    return driver.poll() is None


@pytest.mark.campaign
def test_a_driver_killed_between_two_swaps_leaves_a_log_that_the_next_run_completes(
    spark: SparkSession, tmp_path: Path
) -> None:
    with filled_log((tmp_path / "cluster").as_uri()) as keyed:
        before, cleaner = keyed.log.live(), keyed.cleaner
        frame = spark.read.format("sparklog").options(cluster=keyed.log.url, subscribe="t").load()
        assert was_killed(keyed, tmp_path / "driver", (PUT, "before", 2))
        named = keyed.log.live()
        assert len(named & before) == len(before) - 2, "one swap has landed: an object and its index went"
        assert keyed.cleaner == cleaner, "and the cleaner's position has not moved"
        found = {(row.offset, bytes(row.key).decode()) for row in frame.collect()}
        assert found <= {(offset, key) for offset, key, _ in keyed.rows}
        assert keyed.log.live() <= keyed.log.stored()
        settle(keyed, spark)


@pytest.mark.campaign
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize(("call", "every"), [(SHUFFLE, 1), (PUT, 2), (DELETE, 1)], ids=["shuffle", "put", "delete"])
def test_a_driver_killed_at_any_change_leaves_a_log_that_the_next_run_completes(
    tmp_path: Path, call: str, every: int
) -> None:
    for count in itertools.count(1, every):
        with filled_log((tmp_path / f"cluster{count}").as_uri()) as keyed:
            killed = was_killed(keyed, tmp_path / f"driver{count}", (call, "before", count))
            assert keyed.log.live() <= keyed.log.stored()
            settle(keyed)
        if not killed:
            break
    assert count > 1
    print(f"killed before {(count - 1) // every} calls of {call.rpartition(':')[2]}")


@pytest.mark.campaign
@pytest.mark.timeout(3_000)
def test_a_driver_killed_while_its_executors_write_leaves_orphans_and_no_more(tmp_path: Path) -> None:
    """Its executors go on until they notice, and what they upload is named by nothing."""
    orphans = 0
    for step in itertools.count(0, 2):
        deaths = Deaths(tmp_path / f"deaths{step}")
        with filled_log((tmp_path / f"cluster{step}").as_uri()) as keyed:
            before = keyed.log.live()
            with deaths.planned(Victim.DRIVER, step) as death:
                killed = was_killed(keyed, tmp_path / f"driver{step}", master=EXECUTORS, settings=deaths.settings())
            assert killed == death.came()
            if killed:
                assert before <= keyed.log.live(), "nothing was swapped"
                orphans += len(keyed.log.stored() - keyed.log.named())
            assert keyed.log.live() <= keyed.log.stored()
            settle(keyed)
        if not killed:
            break
    assert step > 3
    assert orphans, "no driver died behind an upload"
    print(f"killed before {step // 2} changes of an executor, which left {orphans} orphans")
