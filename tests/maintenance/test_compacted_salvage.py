"""What is left of a compacted segment that no store has whole keeps its offsets, and the log is compacted further."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

import pytest

from sparklog.core.errors import SparklogError
from sparklog.core.row_offsets import is_dense
from sparklog.core.types import Offset, OffsetRange, Slice
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.maintenance.verify.verify_job import run_verify
from tests.kit.silent_console import SILENT
from tests.maintenance.compacted_log import CompactedLog, FilledLog, filled_log
from tests.maintenance.damaged_log import messages
from tests.maintenance.keyed_log import Row, latest

SEEDS = 8


@pytest.fixture(scope="module")
def filled() -> FilledLog:
    return filled_log()


@pytest.fixture
def log(filled: FilledLog) -> Iterator[CompactedLog]:
    yield from filled.again()


def slices(log: CompactedLog) -> list[Slice]:
    return list(log.world.state.slices.find(log.world.key(), OffsetRange(Offset(0), Offset(1 << 40))))


def lost(log: CompactedLog) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in log.world.value().lost]


def without(rows: Collection[Row], gaps: Collection[tuple[int, int]]) -> list[Row]:
    return [row for row in rows if not any(low <= row[0] < high for low, high in gaps)]


def goes_on(log: CompactedLog, left: list[Row]) -> None:
    """The log is whole, but for what was given up; it is appended to, rolled, compacted and cleaned up as before."""
    keyed = log.keyed
    assert log.left() == left
    assert log.recover().exit_code == 0
    assert log.recover().partitions == ()
    keyed.segment("a9 e C9 n8")
    keyed.segment("n9 zz")
    after = [*left, *keyed.rows[-6:]]
    assert log.left() == after
    for _ in range(2):
        assert keyed.compact().exit_code == 0, keyed.log.said.getvalue()
    found = log.left()
    assert latest(found) == latest(after)
    assert set(found) <= set(after)
    console = SILENT
    assert run_vacuum(log.url, now_ms=2**41, console=console).exit_code == 0
    assert log.recover(full=True).exit_code == 0
    assert run_verify(log.url, console=console).differences == ()
    log.check_same()


# M: F-04 C-01
def test_different_damage_on_every_store_is_put_together_without_a_loss(log: CompactedLog) -> None:
    number, slice_, index = log.compacted
    for batches, store in zip(([2], [0, 3], [1, 4]), "abc", strict=True):
        log.flip_batches(store, number, batches, index)
    log.damage("b", number, "lost", index=True)
    cleaner = log.keyed.cleaner
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    said = f"no store had it whole, and t-0 [{slice_.start}, {slice_.end}) was put together again"
    assert said in messages(report)
    assert log.keyed.read() == log.whole
    assert log.keyed.cleaner == cleaner
    made = slices(log)[0]
    assert (made.start, made.end, made.records) == (slice_.start, slice_.end, slice_.records)
    goes_on(log, log.whole)


# M: F-04 C-01
@pytest.mark.parametrize(
    ("batches", "before", "behind"),
    [([0], True, False), ([2], False, False), ([1, 3], False, False), ([-1], False, True), ([0, -1], True, True)],
    ids=["first", "middle", "two", "last", "both"],
)
def test_a_lost_batch_is_a_gap_from_its_first_record_to_its_last(
    log: CompactedLog, batches: list[int], before: bool, behind: bool
) -> None:
    """Without a good batch on that side, the gap goes to the end of the slice: no slice is without a record."""
    number, slice_, index = log.compacted
    batches = [batch % slice_.batches for batch in batches]
    for store in "abc":
        log.flip_batches(store, number, batches, index)
    ranges = [[int(index.offsets.starts[batch]), int(index.offsets.ends[batch])] for batch in batches]
    if before:
        ranges[0][0] = slice_.start
    if behind:
        ranges[-1][1] = slice_.end
    gaps = [(low, high) for low, high in ranges]
    state = log.world.replicas()
    report = log.recover()
    assert report.exit_code == 1
    shown = ", ".join(f"[{low}, {high})" for low, high in gaps)
    assert f"records {shown} of t-0 are on no store any more" in messages(report)
    assert (log.world.replicas(), lost(log)) == (state, []), "nothing was changed"
    with pytest.raises(SparklogError, match="CORRUPT_MESSAGE"):
        log.keyed.read()
    assert log.recover(accept_loss=True).exit_code == 0
    assert lost(log) == gaps
    left = without(log.whole, gaps)
    assert len(left) == len(log.whole) - int(index.batches.records[batches].sum())
    with pytest.raises(SparklogError, match="DATA_LOSS"):
        log.keyed.read()
    goes_on(log, left)


# M: F-04 F-05
@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_batch_that_any_store_has_is_saved_at_its_offsets(log: CompactedLog, seed: int) -> None:
    """Flipped bits, cuts and lost indexes in any combination. One store keeps its index."""
    dice = random.Random(seed)
    number, slice_, index = log.compacted
    good: set[int] = set()
    for store in "abc":
        bad = set(dice.sample(range(slice_.batches), dice.randrange(1, slice_.batches)))
        log.flip_batches(store, number, sorted(bad), index)
        if dice.random() < 0.3:
            cut = dice.randrange(slice_.batches)
            log.cut_in_batch(store, number, cut, index)
            bad |= set(range(cut, slice_.batches))
        good |= set(range(slice_.batches)) - bad
    for store in dice.sample("abc", dice.randrange(3)):
        log.damage(store, number, "lost", index=True)
    report = log.recover()
    assert report.exit_code == (0 if len(good) == slice_.batches else 1), messages(report)
    report = log.recover(accept_loss=True)
    assert report.exit_code == 0, messages(report)
    saved = [
        row
        for batch in sorted(good)
        for row in log.whole
        if index.offsets.starts[batch] <= row[0] < index.offsets.ends[batch]
    ]
    left = [*saved, *(row for row in log.whole if row[0] >= slice_.end)]
    gaps = lost(log)
    assert not [row for row in left if row not in without(left, gaps)], "a gap has no record that is left"
    assert without(log.whole, gaps) == left, "and each record that is not left is in a gap"
    goes_on(log, left)


# M: F-04
@pytest.mark.parametrize("way", ["flipped", "cut", "empty", "lost", "foreign"])
@pytest.mark.parametrize("what", ["compacted", "rolled"])
def test_a_segment_that_is_gone_on_every_store_is_reported_and_never_served(
    log: CompactedLog, what: str, way: str
) -> None:
    """Without an index nobody knows which of its batches are good."""
    number = log.numbers[what]
    slice_, _ = log.slice_of(number)
    for store in "abc":
        log.spoil(store, what, way)
        log.spoil(store, what, "lost", index=True)
    for _ in range(2):
        report = log.recover()
        assert report.exit_code == 1
        assert f"{log.key(number)}: records [{slice_.start}, {slice_.end}) of t-0 are on no store" in messages(report)
        with pytest.raises(SparklogError, match=r"CORRUPT_MESSAGE|DATA_LOSS"):
            log.keyed.read()
    assert log.recover(accept_loss=True).exit_code == 0
    assert lost(log) == [(slice_.start, slice_.end)]
    goes_on(log, without(log.whole, lost(log)))


@pytest.fixture
def dense() -> Iterator[CompactedLog]:
    """Compaction has joined two segments, and dropped nothing."""
    yield from filled_log(("a1 b1 c1 d1 e1 f1", "g1 h1 i1 j1 k1 l1")).again()


# M: F-04
def test_a_compacted_segment_without_a_gap_is_put_together_with_its_offsets(dense: CompactedLog) -> None:
    """Its slice looks like one that the roll has made, but its object stores offsets."""
    log = dense
    number, slice_, index = log.compacted
    assert is_dense(slice_)
    assert index.batches.base_offset is not None
    for batch, store in enumerate("abc"):
        log.flip_batches(store, number, [batch, slice_.batches - 1], index)
    assert log.recover().exit_code == 1
    assert log.recover(accept_loss=True).exit_code == 0
    gap = (int(index.offsets.starts[-1]), slice_.end)
    assert lost(log) == [gap]
    goes_on(log, without(log.whole, [gap]))


# M: F-04 S-08
def test_what_is_left_is_cut_into_segments_of_segment_bytes(log: CompactedLog) -> None:
    number, slice_, index = log.compacted
    log.world.cluster.alter("t", config={"segment.bytes": 1_000})
    for store in "abc":
        log.flip_batches(store, number, [1], index)
    assert log.recover(accept_loss=True).exit_code == 0
    made = [each for each in slices(log) if each.end <= slice_.end]
    assert len(made) > 3
    assert all(each.length <= 1_000 for each in made)
    goes_on(log, without(log.whole, lost(log)))
