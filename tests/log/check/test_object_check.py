"""What `check_object` finds: every flipped bit, every cut, every lost or foreign file, and nothing in what is whole."""

from __future__ import annotations

import pyarrow as pa
import pytest
from msgspec.structs import replace

from sparklog.core.errors import StoreUnavailable
from sparklog.core.types import Offset
from sparklog.log.check.object_check import ObjectCheck, Problem, StoredPart, check_object
from sparklog.log.write.task_memory import WriterLimits
from sparklog.storage.keys import index_key
from tests.log.written_log import WrittenLog, empty_store, write

LIMITS = WriterLimits(full_batch_bytes=400, smallest_full_batch_bytes=1, object_bytes=100_000, gather_rows=8)


@pytest.fixture
def log() -> WrittenLog:
    """One object with several batches of two partitions."""
    values = [f"record {number}".encode() * 5 for number in range(60)]
    rows = pa.record_batch({"value": values, "partition": pa.array([number % 2 for number in range(60)], pa.int32())})
    log = write(empty_store(), [rows], 2, limits=LIMITS)
    assert len(log.objects) == 1
    assert all(slice_.batches > 2 for slice_ in log.slices)
    return log


def checked(log: WrittenLog) -> ObjectCheck:
    return check_object(log.store, log.key(log.slices[0]), log.objects[0], log.slices)


def changed(log: WrittenLog, body: bytes | None, *, index: bool = False) -> ObjectCheck:
    """The check with another body in place of the object, or of its index."""
    key = log.key(log.slices[0])
    key = index_key(key) if index else key
    before = bytes(log.store.get(key))
    log.store.delete(key)
    if body is not None:
        log.store.put_if_absent(key, body)
    found = checked(log)
    log.store.delete(key)
    log.store.put_if_absent(key, before)
    return found


def body_of(log: WrittenLog, *, index: bool = False) -> bytes:
    key = log.key(log.slices[0])
    return bytes(log.store.get(index_key(key) if index else key))


def flipped(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def test_a_whole_object_has_no_findings_and_is_read_once(log: WrittenLog) -> None:
    found = checked(log)
    assert found.is_whole
    assert found.object_is_whole
    assert found.read_bytes == len(body_of(log)) + len(body_of(log, index=True))
    assert found.requests == 3


# M: F-04
def test_a_flipped_bit_anywhere_in_the_object_is_found_and_its_batch_named(log: WrittenLog) -> None:
    body = body_of(log)
    for at in range(0, len(body), 7):
        found = changed(log, flipped(body, at))
        assert not found.object_is_whole
        assert found.findings[0].problem is Problem.CRC
        inside = [slice_ for slice_ in log.slices if slice_.position <= at < slice_.position + slice_.length]
        batches = [finding for finding in found.findings if finding.problem is Problem.BATCH]
        assert len(batches) == len(inside), "a bit is in one batch, or in what is around them"
        for finding, slice_ in zip(batches, inside, strict=True):
            assert finding.position is not None
            assert finding.start is not None
            assert finding.end is not None
            assert finding.position <= at
            assert finding.partition == slice_.partition
            assert slice_.start <= finding.start < finding.end <= slice_.end


# M: F-04
def test_a_cut_anywhere_is_found_with_the_batches_behind_it(log: WrittenLog) -> None:
    body = body_of(log)
    for length in range(0, len(body), 13):
        found = changed(log, body[:length])
        assert [finding.problem for finding in found.findings][:1] == [Problem.SHORT]
        lost = sum(f.end - f.start for f in found.findings if f.start is not None and f.end is not None)
        if length <= log.slices[0].position:
            assert lost == 60
        assert (lost > 0) == (length < log.slices[-1].position + log.slices[-1].length)


def test_what_is_too_long_or_gone_is_found(log: WrittenLog) -> None:
    assert [f.problem for f in changed(log, body_of(log) + b"x").findings] == [Problem.LONG]
    assert [f.problem for f in changed(log, None).findings] == [Problem.MISSING]


# M: F-05
@pytest.mark.parametrize("how", ["missing", "short", "long", "crc"])
def test_a_damaged_index_is_told_from_a_damaged_object(log: WrittenLog, how: str) -> None:
    index = body_of(log, index=True)
    body = {"missing": None, "short": index[:-1], "long": index + b"x", "crc": flipped(index, len(index) // 2)}[how]
    found = changed(log, body, index=True)
    assert [(finding.part, finding.problem) for finding in found.findings] == [(StoredPart.INDEX, Problem(how))]
    assert found.object_is_whole
    assert not found.is_whole


def test_both_can_be_damaged(log: WrittenLog) -> None:
    index = index_key(log.key(log.slices[0]))
    before = bytes(log.store.get(index))
    log.store.delete(index)
    found = changed(log, flipped(body_of(log), 200))
    log.store.put_if_absent(index, before)
    assert {(finding.part, finding.problem) for finding in found.findings} == {
        (StoredPart.INDEX, Problem.MISSING),
        (StoredPart.OBJECT, Problem.CRC),
    }


@pytest.mark.parametrize("field", ["records", "position", "first_batch", "batches", "min_timestamp_us", "partition"])
def test_a_slice_that_the_index_does_not_have_is_found(log: WrittenLog, field: str) -> None:
    slice_ = log.slices[0]
    other = replace(slice_, **{field: getattr(slice_, field) + 1})
    if field == "records":
        other = replace(other, end=Offset(other.end + 1))
    found = check_object(log.store, log.key(slice_), log.objects[0], [other, *log.slices[1:]])
    assert [(finding.part, finding.problem) for finding in found.findings] == [(StoredPart.INDEX, Problem.SLICE)]
    assert str(found.findings[0]).startswith("index slice: wanted")


@pytest.mark.parametrize("field", ["topic_id", "partition"])
def test_a_slice_of_another_topic_or_partition_is_found(log: WrittenLog, field: str) -> None:
    """The chain says of the slice what its author claimed; the index says what was written."""
    log.slices[1] = replace(log.slices[1], **{field: 9})
    (finding,) = checked(log).findings
    assert (finding.part, finding.problem) == (StoredPart.INDEX, Problem.SLICE)
    claimed = {"topic_id": "partition 1 of topic id 9", "partition": "partition 9 of topic id 5"}[field]
    assert claimed in finding.wanted
    assert "partition 1 of topic id 5" in finding.actual


def test_large_objects_are_read_piece_by_piece(log: WrittenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparklog.log.check import object_check
    from sparklog.log.read import ranged_reads

    for module in (object_check, ranged_reads):
        monkeypatch.setattr(module, "RANGED_READ_BYTES", 1_000)
    found = checked(log)
    assert found.is_whole
    assert found.requests > 4
    body = body_of(log)
    for at in range(0, len(body), 101):
        assert not changed(log, flipped(body, at)).object_is_whole


def test_a_store_that_does_not_answer_is_an_error_and_no_finding(
    log: WrittenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("get", "get_ranges", "size"):
        with monkeypatch.context() as patch:

            def silent(*args: object) -> None:
                raise StoreUnavailable("down")

            patch.setattr(type(log.store), name, silent)
            with pytest.raises(StoreUnavailable):
                checked(log)
