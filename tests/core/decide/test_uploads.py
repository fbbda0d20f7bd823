"""Uploaded objects and slices that a command names: what does not fit its column or its object is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sparklog.core.commands import Append
from sparklog.core.decide.uploads import check_uploads
from sparklog.core.errors import InvalidInput
from sparklog.core.records import AppliedCommand, At
from sparklog.core.types import CommandId, EntryNumber, Holder, ObjectKind
from tests.core.decided_log import A, DecidedLog, span
from tests.kit.apply_entry import apply_entry

LOG = DecidedLog()
OBJECT = LOG.uploaded(100)
SEALED = LOG.uploaded(100, sealed=(0, 7))
SLICE = LOG.part(4)
LAST_64 = (1 << 63) - 1


def object_with(**changes: Any) -> None:
    check_uploads([msgspec.structs.replace(OBJECT, **changes)], [SLICE], ObjectKind.APPEND)


def slice_with(**changes: Any) -> None:
    check_uploads([OBJECT], [msgspec.structs.replace(SLICE, **changes)], ObjectKind.APPEND)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n0": 0, "crc32c": 0, "index_crc32c": 0, "index_size_bytes": 1},
        {"size_bytes": LAST_64},
        {"n0": LAST_64},
        {"crc32c": 0, "index_crc32c": (1 << 32) - 1},
        {"index_size_bytes": (1 << 31) - 1},
        {"holders": (Holder(A, 0), Holder("b", 9))},
    ],
)
def test_the_smallest_and_largest_numbers_of_an_object_fit(changes: dict[str, Any]) -> None:
    object_with(**changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": ObjectKind.SEGMENT}, "of kind APPEND"),
        ({"partition": 0, "base_offset": 0, "leader_epoch": 0}, "of kind APPEND"),
        ({"upload_id": "ab"}, "32 lower-case hex digits, found 'ab'"),
        ({"upload_id": "AB" * 16}, "32 lower-case hex digits"),
        ({"upload_id": "/." * 16}, "32 lower-case hex digits"),
        ({"holders": ()}, "at least one holder"),
        ({"holders": (Holder(A, 0), Holder(A, 1))}, "each named once"),
        ({"n0": -1}, "size, an index"),
        ({"n0": 1 << 63}, "size, an index"),
        ({"size_bytes": 0}, "size, an index"),
        ({"size_bytes": 1 << 63}, "size, an index"),
        ({"crc32c": -1}, "two CRC32C"),
        ({"crc32c": 1 << 32}, "two CRC32C"),
        ({"index_crc32c": -1}, "two CRC32C"),
        ({"index_crc32c": 1 << 32}, "two CRC32C"),
        ({"index_size_bytes": 0}, "less than 2 GiB"),
        ({"index_size_bytes": 1 << 31}, "less than 2 GiB"),
    ],
)
def test_an_object_that_is_none_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        object_with(**changes)


@pytest.mark.parametrize("missing", ["partition", "base_offset", "leader_epoch"])
def test_a_segment_has_all_parts_of_its_name_and_an_append_object_none(missing: str) -> None:
    check_uploads([SEALED], [SLICE], ObjectKind.SEGMENT)
    for value in (None, -1, 1 << (63 if missing == "base_offset" else 31)):
        with pytest.raises(InvalidInput, match="of kind SEGMENT"):
            check_uploads([msgspec.structs.replace(SEALED, **{missing: value})], [SLICE], ObjectKind.SEGMENT)
    with pytest.raises(InvalidInput, match="of kind APPEND"):
        check_uploads([SEALED], [SLICE], ObjectKind.APPEND)


@pytest.mark.parametrize(
    "changes",
    [
        {"first_batch": 0, "batches": 1, "min_timestamp_us": 5, "max_timestamp_us": 5},
        {"records": 1 << 31, "producer": span(0, 0, 0, (1 << 31) - 1)},
        {"records": (1 << 48) - 1},
        {"position": 60},
        {"first_batch": 0, "batches": (1 << 31) - 1},
        {"min_timestamp_us": -(1 << 63), "max_timestamp_us": LAST_64},
        {"records": 4, "producer": span(0, 0, (1 << 31) - 1, 2)},
    ],
)
def test_the_smallest_and_largest_numbers_of_a_slice_fit(changes: dict[str, Any]) -> None:
    slice_with(**changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"object_index": 1}, "names object 1 of 1"),
        ({"object_index": -1}, "names object -1 of 1"),
        ({"topic_id": 2}, "inside its object"),
        ({"position": -1}, "inside its object"),
        ({"position": 61}, "inside its object"),
        ({"length": 0}, "inside its object"),
        ({"length": 101}, "inside its object"),
        ({"records": 0}, "has records"),
        ({"records": 1 << 48}, "has records"),
        ({"first_batch": -1}, "has records"),
        ({"batches": 0}, "has records"),
        ({"first_batch": 1, "batches": (1 << 31) - 1}, "has records"),
        ({"min_timestamp_us": 7}, "ascending pair of timestamps"),
        ({"min_timestamp_us": -(1 << 63) - 1}, "ascending pair of timestamps"),
        ({"max_timestamp_us": 1 << 63}, "ascending pair of timestamps"),
        ({"producer": span(-1, 0, 0, 3)}, "as many sequence numbers"),
        ({"producer": span(0, 0, -1, 2)}, "as many sequence numbers"),
        ({"producer": span(0, 0, 1 << 31, 3)}, "as many sequence numbers"),
        ({"producer": span(0, 0, 0, 4)}, "slice of 4 records needs"),
        ({"producer": span(0, 0, 0, 2)}, "slice of 4 records needs"),
        ({"records": (1 << 31) + 4, "producer": span(0, 0, 0, 3)}, "as many sequence numbers"),
        ({"producer": span(1 << 63, 0, 0, 3)}, "needs an id, an epoch"),
        ({"producer": span(0, 1 << 31, 0, 3)}, "needs an id, an epoch"),
        ({"producer": span(0, -1, 0, 3)}, "needs an id, an epoch"),
    ],
)
def test_a_slice_that_is_none_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        slice_with(**changes)


def test_an_object_that_no_slice_names_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a command has 2 objects, but its slices name only 1"):
        check_uploads([OBJECT, LOG.uploaded()], [SLICE], ObjectKind.APPEND)


def test_without_these_checks_a_number_too_large_would_stop_every_reader_of_the_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`apply` follows whatever the chain says: it must never meet what its columns can't hold."""
    log = DecidedLog()
    command = log.append_of(4)
    (only,) = command.slices
    broken: Append = msgspec.structs.replace(command, slices=(msgspec.structs.replace(only, batches=1 << 31),))
    with pytest.raises(InvalidInput):
        log.submit(broken)
    monkeypatch.setattr("sparklog.core.decide.append.check_uploads", lambda *arguments: None)
    at = At(EntryNumber(log.state.n + 1), 0)
    apply_entry(log.state, [AppliedCommand(CommandId("f" * 32), EntryNumber(0), log.decide(broken).records)], at)
    with pytest.raises(OverflowError):
        log.state.slices.seal()


@pytest.mark.parametrize("changes", [{"records": (1 << 48) - 1}, {"length": 1 << 47}])
def test_the_sums_of_a_command_stay_small_too(changes: dict[str, Any]) -> None:
    large = msgspec.structs.replace(OBJECT, size_bytes=LAST_64)
    part = msgspec.structs.replace(SLICE, position=0, **changes)
    check_uploads([large], [part], ObjectKind.APPEND)
    with pytest.raises(InvalidInput, match=r"one command has fewer than 2\^48 (records|bytes)"):
        check_uploads([large], [part, part], ObjectKind.APPEND)
