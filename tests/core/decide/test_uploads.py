"""Uploaded objects and slices that a command names: what does not fit its column or its object is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sparklog.core.apply import apply_command
from sparklog.core.commands import Append, CreateTopic, MoveLogStart
from sparklog.core.decide.command import decide
from sparklog.core.decide.uploads import check_uploads
from sparklog.core.errors import DuplicateResource, InvalidInput, Landed
from sparklog.core.records import AppliedCommand, At
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    ObjectKind,
    ObjectNumber,
    Offset,
    PartitionIndex,
)
from tests.core.decided_log import TOPIC, A, DecidedLog, span
from tests.core.state_contents import contents
from tests.kit.apply_entry import apply_entry

LOG = DecidedLog()
OBJECT = LOG.uploaded(100)
SEALED = LOG.uploaded(100, sealed=(0, 7))
SLICE = LOG.part(4)
LAST_64 = (1 << 63) - 1


def object_with(**changes: Any) -> None:
    check_uploads(LOG.state, [msgspec.structs.replace(OBJECT, **changes)], [SLICE], ObjectKind.APPEND)


def slice_with(**changes: Any) -> None:
    check_uploads(LOG.state, [OBJECT], [msgspec.structs.replace(SLICE, **changes)], ObjectKind.APPEND)


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
        ({"upload_id": OBJECT.upload_id + "0"}, "32 lower-case hex digits"),
        ({"upload_id": OBJECT.upload_id + "\n"}, "32 lower-case hex digits"),
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
    check_uploads(LOG.state, [SEALED], [SLICE], ObjectKind.SEGMENT)
    for value in (None, -1, 1 << (63 if missing == "base_offset" else 31)):
        with pytest.raises(InvalidInput, match="of kind SEGMENT"):
            check_uploads(LOG.state, [msgspec.structs.replace(SEALED, **{missing: value})], [SLICE], ObjectKind.SEGMENT)
    with pytest.raises(InvalidInput, match="of kind APPEND"):
        check_uploads(LOG.state, [SEALED], [SLICE], ObjectKind.APPEND)


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
        check_uploads(LOG.state, [OBJECT, LOG.uploaded()], [SLICE], ObjectKind.APPEND)


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
    check_uploads(LOG.state, [large], [part], ObjectKind.APPEND)
    with pytest.raises(InvalidInput, match=r"one command has fewer than 2\^48 (records|bytes)"):
        check_uploads(LOG.state, [large], [part, part], ObjectKind.APPEND)


# ---- one name for one upload ------------------------------------------------------------------------


def of_topic(log: DecidedLog, command: Append, name: str) -> Append:
    """The same command, with its objects and slices in another topic."""
    topic_id = log.state.topic_ids[name]
    return msgspec.structs.replace(
        command,
        objects=tuple(msgspec.structs.replace(each, topic_id=topic_id) for each in command.objects),
        slices=tuple(msgspec.structs.replace(each, topic_id=topic_id) for each in command.slices),
        epochs=tuple(msgspec.structs.replace(each, topic_id=topic_id) for each in command.epochs),
    )


@pytest.mark.parametrize("sealed", [False, True], ids=["in the tail", "in a block"])
@pytest.mark.parametrize("topic", ["orders", "mine"])
def test_an_upload_that_is_named_can_not_be_named_again(topic: str, sealed: bool) -> None:
    """Readers of topic `mine` would see records of `orders`, and its next roll would delete them."""
    log = DecidedLog()
    log.submit(CreateTopic("mine", assignment=((A,),)))
    command = log.append_of(4)
    log.submit(command)
    if sealed:
        log.state.objects.seal()
    before = contents(log.state)
    with pytest.raises(DuplicateResource, match="which is object 0 already: upload the records again") as refused:
        log.submit(of_topic(log, command, topic))
    assert refused.value.landed is Landed.NO
    assert contents(log.state) == before


@pytest.mark.parametrize("sealed", [False, True], ids=["in the tail", "in a block"])
def test_a_retired_upload_can_not_be_named_until_it_was_deleted(sealed: bool) -> None:
    log = DecidedLog()
    command = log.append_of(4)
    log.submit(command)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(4)))
    if sealed:
        log.state.objects.seal()
    assert len(log.state.retired) == 1
    with pytest.raises(DuplicateResource):
        log.submit(command)


def test_an_upload_can_not_be_named_twice_in_one_command() -> None:
    log = DecidedLog()
    one, two = log.append_of(4), log.part(2, 1, object_index=1)
    twice = msgspec.structs.replace(one, objects=one.objects * 2, slices=(*one.slices, two))
    with pytest.raises(DuplicateResource, match="each upload once, found one named twice"):
        log.submit(twice)


def test_a_rewrite_names_only_new_uploads() -> None:
    log = DecidedLog()
    log.append(4)
    log.append(4)
    first = log.swap_of(0, 4)
    log.submit(first)
    again = log.swap_of(4, 8)
    for taken in (*first.objects, log.state.objects.get(ObjectNumber(1))):
        assert taken is not None
        named = msgspec.structs.replace(again.objects[0], upload_id=taken.upload_id, n0=taken.n0)
        with pytest.raises(DuplicateResource):
            log.submit(msgspec.structs.replace(again, objects=(named,)))
    log.submit(again)


def test_commands_of_one_entry_can_not_name_the_same_upload() -> None:
    """They are decided one after the other, each on a draft with what the ones before it named."""
    log = DecidedLog()
    command = log.append_of(4)
    at = At(EntryNumber(log.state.n + 1), 2_000)
    records = log.decide(command).records
    apply_command(log.state, AppliedCommand(CommandId("a" * 32), log.state.n0, records), at)
    with pytest.raises(DuplicateResource):
        decide(log.state, log.begin(command), at)


def test_the_same_id_begun_elsewhere_is_another_object() -> None:
    """The key of an object has both, so these are different bytes."""
    log = DecidedLog()
    command = log.append_of(4)
    log.submit(command)
    (named,) = command.objects
    log.submit(msgspec.structs.replace(command, objects=(msgspec.structs.replace(named, n0=EntryNumber(0)),)))
    assert log.bounds() == [(0, 4), (4, 8)]
    with pytest.raises(DuplicateResource):
        log.submit(command)


def test_a_refusal_after_an_attempt_in_doubt_does_not_say_that_nothing_has_landed() -> None:
    """The upload may be named by that attempt, if an election has forgotten a part of the write with its result."""
    log = DecidedLog()
    command = log.append_of(4)
    log.submit(command)
    again = log.begin(command, in_doubt=True)
    with pytest.raises(
        DuplicateResource, match=f"look it up with 'sparklog chain write {again.command_id}'"
    ) as refused:
        log.submit_again(again)
    assert refused.value.landed is Landed.UNKNOWN
    assert "upload the records again" not in refused.value.message, "they would be in the log twice"


def test_an_upload_can_not_be_begun_in_the_future() -> None:
    """FLOOR would not pass it when it passes the others."""
    log = DecidedLog()
    command = log.append_of(4)
    end = log.state.n + 1
    for n0 in (end + 1, LAST_64):
        (named,) = command.objects
        late = msgspec.structs.replace(command, objects=(msgspec.structs.replace(named, n0=EntryNumber(n0)),))
        with pytest.raises(InvalidInput, match=f"an upload begins at a chain position up to {end}, found {n0}"):
            log.submit(late)


def test_a_sealed_object_has_only_slices_of_its_own_partition() -> None:
    check_uploads(LOG.state, [SEALED], [SLICE], ObjectKind.SEGMENT)
    of_another = msgspec.structs.replace(SLICE, partition=PartitionIndex(1))
    with pytest.raises(InvalidInput, match="a slice lies inside its object"):
        check_uploads(LOG.state, [SEALED], [of_another], ObjectKind.SEGMENT)
