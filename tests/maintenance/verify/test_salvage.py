"""Recovery of what no store has whole: put together from good batches, or reported by name, and never served."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparklog.core.errors import DataLoss, SparklogError
from sparklog.core.state_invariants import check
from sparklog.core.types import Slice
from sparklog.log.index import SliceIndex
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.verify import salvage
from tests.maintenance.damaged_log import DamagedLog, logs, messages

LAST = 4  # number of the last object of a new log
LARGE = LAST + 1


@pytest.fixture
def log() -> Iterator[DamagedLog]:
    yield from logs()


@pytest.fixture
def batches(log: DamagedLog) -> tuple[Slice, SliceIndex]:
    """The object LARGE, with at least four batches: its slice, and the index of that."""
    log.write_batches(4, 1)
    slice_, index = log.slice_of(LARGE)
    assert slice_.batches >= 4
    return slice_, index


# M: F-04
def test_different_damage_on_every_store_is_put_together_without_a_loss(
    log: DamagedLog, batches: tuple[Slice, SliceIndex]
) -> None:
    slice_, index = batches
    for batch, store in zip((2, 0, 1), "abc", strict=True):
        log.flip_batches(store, LARGE, [batch], index)
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    put_together = f"no store had it whole, and t-1 [{slice_.start}, {slice_.end}) was put together again"
    assert put_together in messages(report)
    assert log.left(1) == log.model[1]
    assert log.world.values(1) == log.model[1]
    log.recover()
    assert log.recover().partitions == ()


# M: F-04 F-05
def test_a_batch_is_saved_from_a_store_that_lost_the_index(log: DamagedLog, batches: tuple[Slice, SliceIndex]) -> None:
    """Only store a has batches 1 and 2, and only store c has the index."""
    _, index = batches
    for store, damaged in (("a", [0]), ("b", [1, 2]), ("c", [1, 2])):
        log.flip_batches(store, LARGE, damaged, index)
    for store in "ab":
        log.damage(store, LARGE, "lost", index=True)
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    assert log.world.values(1) == log.model[1]


# M: F-04 F-05
def test_the_index_may_be_on_a_store_that_has_nothing_of_the_object(
    log: DamagedLog, batches: tuple[Slice, SliceIndex]
) -> None:
    """By the chain c lacks the object, and it has just the index. On a and b the same batch is damaged."""
    slice_, index = batches
    log.report_loss("c", slice_.start, 1)
    log.damage("c", LARGE, "lost")
    for store in "ab":
        log.flip_batches(store, LARGE, [0], index)
        log.damage(store, LARGE, "lost", index=True)
    log.recover(accept_loss=True)
    assert log.lost() == [(slice_.start, int(index.offsets.ends[0]))]


# M: F-04
def test_a_torn_tail_is_cut_at_the_last_good_batch(log: DamagedLog, batches: tuple[Slice, SliceIndex]) -> None:
    """On one store it is torn earlier than on the others."""
    _, index = batches
    for batch, store in zip((1, 2, 2), "abc", strict=True):
        log.cut_in_batch(store, LARGE, batch, index)
    report = log.recover()
    assert report.exit_code == 1
    end, last = int(index.offsets.starts[2]), int(index.offsets.ends[-1])
    assert f"records [{end}, {last}) of t-1 are on no store any more" in messages(report)
    assert log.recover(accept_loss=True).exit_code == 0
    assert log.left(1) == log.model[1][:end]
    log.write(1, 1)
    assert log.left(1) == log.model[1][:end] + log.model[1][last:]
    assert log.recover().exit_code == 0
    assert log.recover().partitions == ()


# M: F-04
def test_a_damaged_middle_is_cut_out_at_its_batches(log: DamagedLog, batches: tuple[Slice, SliceIndex]) -> None:
    _, index = batches
    for store in "abc":
        log.flip_batches(store, LARGE, [1, 3], index)
    assert log.recover(accept_loss=True).exit_code == 0
    check(log.world.state)
    starts, ends = index.offsets.starts.tolist(), index.offsets.ends.tolist()
    lost = [(each.start, each.end) for each in log.world.value(1).lost]
    assert lost == [(starts[1], ends[1]), (starts[3], ends[3])]
    kept = [value for at, value in enumerate(log.model[1]) if not any(low <= at < high for low, high in lost)]
    assert log.left(1) == kept


# M: F-04
@pytest.mark.parametrize("way", ["flipped", "cut", "lost"])
def test_what_no_store_has_is_reported_by_name_and_never_served(log: DamagedLog, way: str) -> None:
    for store in "abc":
        log.damage(store, 2, way)
    before = log.world.replicas(0)
    report = log.recover()
    assert report.exit_code == 1
    assert "of t-0 are on no store any more" in messages(report)
    assert log.key(2) in messages(report)
    assert log.world.replicas(0) == before
    assert log.point("a") == 2
    with pytest.raises(SparklogError) as refused:
        log.world.values(0)
    assert refused.value.code in ("DATA_LOSS", "CORRUPT_MESSAGE")
    assert log.world.values(1) == log.model[1]


# M: F-04
@pytest.mark.parametrize("number", [0, 2, 3], ids=["first", "middle", "last"])
@pytest.mark.parametrize("way", ["cut", "lost"])
def test_an_accepted_loss_is_a_gap_and_the_log_goes_on(log: DamagedLog, way: str, number: int) -> None:
    for store in "abc":
        log.damage(store, number, way)
    report = log.recover(accept_loss=True)
    assert report.exit_code == 0, messages(report)
    assert "were given up (--accept-loss)" in messages(report)
    check(log.world.state)
    value = log.world.value(0)
    (lost,) = value.lost
    assert (value.next_offset, value.high_watermark) == (9, 9)
    with pytest.raises(DataLoss, match=rf"t-0: records \[{lost.start}, {lost.end}\) were lost"):
        log.world.values(0)
    left = log.model[0][: lost.start] + log.model[0][lost.end :]
    assert log.left(0) == left
    log.write(2)
    assert log.world.value(0).high_watermark == 11
    assert run_roll(log.url, everything=True).exit_code == 0
    assert log.recover().exit_code == 0
    assert log.recover().partitions == ()


def test_a_slice_above_a_replica_that_lags_can_be_given_up_too(log: DamagedLog) -> None:
    log.write(2, on="ab")
    for store in "ab":
        log.damage(store, LAST + 1, "lost")
    assert log.recover(accept_loss=True).exit_code == 0
    check(log.world.state)
    assert run_replication(log.url).exit_code == 0
    assert log.world.replicas(0) == "a:abc a11 b11 c11"


def test_a_slice_that_the_log_start_cuts_goes_with_delete_records(log: DamagedLog) -> None:
    """A rewrite replaces whole slices, and nothing below the log start."""
    for store in "abc":
        log.damage(store, 0, "lost")
    log.world.cluster.delete_records("t", {0: 1})
    report = log.recover(accept_loss=True)
    assert report.exit_code == 1
    assert "the log start 1 cuts t-0 [0, 3)" in messages(report)
    assert "delete the records below offset 3" in messages(report)
    log.world.cluster.delete_records("t", {0: 3})
    assert log.recover().exit_code == 0
    assert log.left(0) == log.model[0][3:]


# M: F-04
@pytest.mark.parametrize("before", ["rewrite", "submit"])
def test_what_another_recovery_has_put_together_meanwhile_is_no_failure(
    log: DamagedLog, batches: tuple[Slice, SliceIndex], monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """It deletes the old object, too, because `rewrite.delete.delay.ms` is 0."""
    for batch, store in enumerate("abc"):
        log.flip_batches(store, LARGE, [batch], batches[1])
    beside: list[int] = []

    def met(call: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*arguments: object, **named: object) -> object:
            if not beside:
                beside.append(0)
                beside[0] = log.recover().exit_code
            return call(*arguments, **named)

        return wrapper

    if before == "rewrite":
        monkeypatch.setattr(salvage, "rewrite", met(salvage.rewrite))
    else:
        monkeypatch.setattr(JobFrame, "submit_all", met(JobFrame.submit_all))
    report = log.recover()
    assert (beside, report.exit_code) == ([0], 0)
    assert WorkOutcome.OVERTAKEN in {row.outcome for row in report.partitions}
    assert log.world.values(1) == log.model[1]
