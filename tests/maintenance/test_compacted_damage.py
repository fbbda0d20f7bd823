"""Verify and recovery of a compacted topic: each kind of damage is named, and repaired from another store."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from sparklog.core.maintenance.differences import DifferenceKind
from sparklog.core.row_offsets import is_dense
from sparklog.log.check import index_repair
from sparklog.maintenance.verify.verify_job import VerifyReport, run_verify
from sparklog.storage.keys import index_key
from sparklog.storage.memory import MemoryStore
from tests.kit.silent_console import SILENT
from tests.maintenance.compacted_log import CompactedLog, FilledLog, filled_log
from tests.maintenance.damaged_log import WAYS, messages
from tests.maintenance.damager import KINDS, OBJECT_DAMAGE, Damager

SEGMENTS = ("compacted", "rolled")


@pytest.fixture(scope="module")
def filled() -> FilledLog:
    return filled_log()


@pytest.fixture
def log(filled: FilledLog) -> Iterator[CompactedLog]:
    yield from filled.again()


def verified(log: CompactedLog) -> VerifyReport:
    return run_verify(log.url, topics=["t"], console=SILENT)


# ---- nothing is wrong -----------------------------------------------------------------------------------


# M: F-03 F-04 C-01
def test_a_whole_compacted_log_is_read_and_has_no_differences(log: CompactedLog) -> None:
    _, slice_, index = log.compacted
    assert not is_dense(slice_)
    assert index.offsets.starts[0] > slice_.start, "it lacks offsets before its first batch"
    assert index.offsets.ends[-1] < slice_.end, "and behind its last one"
    assert (index.offsets.starts[1:] > index.offsets.ends[:-1]).any(), "and between two"
    assert slice_.batches >= 5
    report = log.recover()
    assert (report.exit_code, report.done.objects, report.done.records) == (0, 9, 0)
    assert report.planned.records == 3 * len(log.whole)
    again = verified(log)
    assert (again.exit_code, again.differences) == (0, ())
    assert again.done.records == 3 * len(log.whole)
    assert log.recover().partitions == ()
    log.check()


# ---- on one store, and on two ---------------------------------------------------------------------------


# M: F-04 C-01
@pytest.mark.parametrize("way", [*sorted(WAYS), "foreign"])
@pytest.mark.parametrize("stores", ["a", "c", "ab"], ids=["leader", "follower", "two"])
@pytest.mark.parametrize("what", SEGMENTS)
def test_an_object_is_repaired_from_another_store(log: CompactedLog, what: str, stores: str, way: str) -> None:
    for store in stores:
        log.spoil(store, what, way)
    assert log.left() == log.whole, "readers ask the next store"
    report = log.recover()
    assert (report.exit_code, report.failed) == (0, 0), messages(report)
    assert f"{log.key(log.numbers[what])}: it was damaged, and was fetched again" in messages(report)
    log.check()
    assert log.world.value().isr == ("a", "b", "c")
    assert verified(log).differences == ()
    assert log.recover().partitions == ()


# M: F-05
@pytest.mark.parametrize("way", [*sorted(WAYS), "foreign"])
@pytest.mark.parametrize("stores", ["b", "abc"], ids=["one", "all"])
@pytest.mark.parametrize("what", SEGMENTS)
def test_an_index_is_put_again(log: CompactedLog, what: str, stores: str, way: str) -> None:
    """Also on all stores: it is rebuilt, with the offsets of each batch. A foreign index is one of another format."""
    for store in stores:
        log.spoil(store, what, way, index=True)
    kinds = {row.kind for row in verified(log).differences}
    assert kinds <= {DifferenceKind.INDEX_MISSING, DifferenceKind.INDEX_SIZE, DifferenceKind.INDEX_CHECKSUM}
    assert kinds
    assert log.left() == log.whole
    registrations = log.world.state.registrations()
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    assert "its index was damaged, and was restored" in messages(report)
    log.check()
    assert log.world.state.registrations() == registrations, "nothing was lost"
    assert verified(log).differences == ()


# M: F-05
def test_an_index_that_this_arrow_writes_in_another_way_is_copied(
    log: CompactedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_repair, "rebuilt_index", lambda *of: None)
    log.damage("b", log.numbers["compacted"], "lost", index=True)
    assert log.recover().exit_code == 0
    log.check()


# M: F-04 F-05
def test_object_and_index_are_damaged_on_one_store_and_the_index_on_another(log: CompactedLog) -> None:
    number, _, index = log.compacted
    log.flip_batches("a", number, [1], index)
    log.damage("a", number, "cut", index=True)
    log.damage("b", number, "lost", index=True)
    assert log.recover().exit_code == 0
    log.check()


# M: F-04
def test_readers_get_right_records_at_every_step_of_a_repair(
    log: CompactedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, _, index = log.compacted
    log.flip_batches("a", number, [1, 3], index)
    log.flip_batches("b", number, [0, 4], index)
    log.damage("b", number, "lost", index=True)
    reads = []

    def reading(call: object) -> object:
        def wrapper(*arguments: object) -> object:
            assert log.keyed.read() == log.whole
            reads.append(1)
            return call(*arguments)  # type: ignore[operator]

        return wrapper

    with monkeypatch.context() as patch:
        for name in ("delete", "put_if_absent"):
            patch.setattr(MemoryStore, name, reading(getattr(MemoryStore, name)))
        assert log.recover().exit_code == 0
    assert len(reads) >= 4
    log.check()


# ---- what verify says -----------------------------------------------------------------------------------


# M: F-04 F-05
@pytest.mark.parametrize("seed", range(6))
def test_the_reported_objects_are_exactly_the_damaged_ones(log: CompactedLog, seed: int) -> None:
    dice = random.Random(seed)
    keys = [log.key(number) for number in log.numbers.values()]
    wanted: dict[tuple[str, str], DifferenceKind | None] = {}
    for name in "abc":
        damager = Damager(log.world.store(name), dice)
        for key in dice.sample(keys, dice.randrange(1, len(keys))):
            how = dice.choice(OBJECT_DAMAGE)
            damager.damage(how, key, dice.choice([other for other in keys if other != key]))
            wanted[name, index_key(key) if how.endswith("index") else key] = KINDS.get(how)
    report = verified(log)
    assert {(row.store, row.object) for row in report.differences} == set(wanted)
    for place, kind in wanted.items():
        kinds = {row.kind for row in report.differences if (row.store, row.object) == place}
        assert kind is None or kind in kinds


# M: F-04
def test_a_damaged_batch_is_named_by_the_offsets_of_its_records(log: CompactedLog) -> None:
    number, _, index = log.compacted
    log.flip_batches("c", number, [2], index)
    (row,) = (row for row in verified(log).differences if row.kind is DifferenceKind.BATCH_CHECKSUM)
    assert (row.store, row.start, row.end) == ("c", index.offsets.starts[2], index.offsets.ends[2])
    assert row.repairable is True
