"""Repair of an object that several partitions share: a store may have one slice of it and lack another."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklog.maintenance.job_report import WorkOutcome
from tests.maintenance.damaged_log import DamagedLog, logs, messages

SHARED = 5  # number of the object: offsets 9 and 10 of partition 0, offsets 3 and 4 of partition 1


@pytest.fixture
def log() -> Iterator[DamagedLog]:
    for log in logs():
        values = [f"shared-{number}".ljust(4_000, ".") for number in range(4)]
        table = pa.table({"value": values, "partition": pa.array([0, 0, 1, 1], pa.int32())})
        log.world.cluster.append("t", table)
        for partition in (0, 1):
            log.model[partition] += values[2 * partition : 2 * partition + 2]
        yield log


def filled(log: DamagedLog) -> None:
    value = log.world.value(1)
    assert {store: value.log_end(store) for store in value.replicas} == dict.fromkeys("abc", 5)
    assert value.leader is not None
    log.check()


# M: F-04
@pytest.mark.parametrize("full", [False, True])
def test_a_slice_that_no_store_has_by_the_chain_is_found_beside_one_that_all_have(log: DamagedLog, full: bool) -> None:
    for store in "abc":
        log.report_loss(store, 3, 1)
    assert log.world.replicas(1) == "-: a3 b3 c3"
    report = log.recover(full=full)
    assert report.exit_code == 0, messages(report)
    filled(log)


# M: F-04
def test_a_copy_that_only_lacks_a_slice_by_the_chain_is_not_reported_as_lost(log: DamagedLog) -> None:
    """Only its other partition is behind, so the log of partition 0 stays as it is."""
    log.report_loss("c", 3, 1)
    registration = log.world.state.stores["c"].registration  # type: ignore[index]
    assert log.recover().exit_code == 0
    assert log.world.state.stores["c"].registration == registration  # type: ignore[index]
    filled(log)


# M: F-04
def test_the_only_holder_of_a_slice_is_repaired_once_others_have_it(log: DamagedLog) -> None:
    """Its copy is damaged; those of b and c are whole, though by the chain they lack the slice of partition 1."""
    for store in "bc":
        log.report_loss(store, 3, 1)
    log.damage("a", SHARED, "flipped")
    report = log.recover()
    assert {row.outcome for row in report.partitions} == {WorkOutcome.DONE}, messages(report)
    filled(log)


# M: F-04
def test_a_store_is_not_said_to_be_filled_while_it_lacks_a_slice(log: DamagedLog) -> None:
    """Partition 1 lacks an earlier object on c, too, and that one is damaged wherever it is."""
    log.damage("c", 4, "lost")
    log.report_loss("c", 2, 1)
    for store in "ab":
        log.damage(store, 4, "flipped")
    report = log.recover()
    assert report.exit_code == 1
    assert log.world.value(1).log_end("c") == 2  # type: ignore[arg-type]
    of_shared = [message for row in report.partitions for message in row.messages if log.key(SHARED) in message]
    assert not [message for message in of_shared if "was fetched" in message]
