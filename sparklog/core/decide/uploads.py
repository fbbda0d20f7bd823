"""Checks uploaded objects and their slices, before they are committed.

A number that is too large for its column in the state would stop every reader of the chain forever. An object that had
two names would be read as records of two topics, and deleted while one of them still needs it.

An upload whose bytes were deleted is forgotten, so it can be named again. That harms only the topic that names it: its
readers find no bytes. If a store that was away still has them, their index names the topic they were written for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparklog.core.describe.readable import counted
from sparklog.core.errors import DuplicateResource, InvalidInput
from sparklog.core.idempotence.producers import SEQUENCES, sequence_after
from sparklog.core.state import ClusterState
from sparklog.core.types import NewObject, NewSlice, ObjectKind, ProducerSpan

_UPLOAD_ID = re.compile(r"[0-9a-f]{32}")
_INT32_END = 1 << 31
_UINT32_END = 1 << 32
_INT64_END = 1 << 63
_RECORDS_END = 1 << 48  # of one command, so that offsets stay far below 2^63


def check_uploads(
    state: ClusterState, objects: Sequence[NewObject], slices: Sequence[NewSlice], kind: ObjectKind
) -> None:
    """Check that the objects are of `kind`, that slices name all of them, and that each slice lies inside its object.

    Also check that each upload is named for the first time: the state has no such object, not even a retired one.
    Raises DuplicateResource if it has one, and InvalidInput for everything else.
    """
    for object_ in objects:
        _check_object(object_, kind)
    _check_new(state, objects)
    named = set()
    records = size_bytes = 0
    for new in slices:
        if not 0 <= new.object_index < len(objects):
            raise InvalidInput(f"a slice names object {new.object_index} of {len(objects)}")
        named.add(new.object_index)
        _check_slice(new, objects[new.object_index])
        records += new.records
        size_bytes += new.length
    for what, count in (("records", records), ("bytes", size_bytes)):
        if count >= _RECORDS_END:
            raise InvalidInput(f"one command has fewer than 2^48 {what}, found {count}")
    if len(named) != len(objects):
        raise InvalidInput(f"a command has {counted(len(objects), 'object')}, but its slices name only {len(named)}")


def _check_object(object_: NewObject, kind: ObjectKind) -> None:
    sealed = ((object_.partition, _INT32_END), (object_.base_offset, _INT64_END), (object_.leader_epoch, _INT32_END))
    parts = object_.partition is not None and all(part is not None and 0 <= part < end for part, end in sealed)
    if object_.kind is not kind or (parts if kind is ObjectKind.APPEND else not parts):
        raise InvalidInput(f"wanted an object of kind {kind.name} with the name parts of that kind, found {object_}")
    if _UPLOAD_ID.fullmatch(object_.upload_id) is None:
        raise InvalidInput(f"an upload id is 32 lower-case hex digits, found {object_.upload_id!r}")
    if not object_.holders or len({holder.store for holder in object_.holders}) != len(object_.holders):
        raise InvalidInput(f"an object needs at least one holder, each named once, found {object_}")
    fits = (
        0 <= object_.n0 < _INT64_END
        and 0 < object_.size_bytes < _INT64_END
        and 0 <= object_.crc32c < _UINT32_END
        and 0 < object_.index_size_bytes < _INT32_END
        and 0 <= object_.index_crc32c < _UINT32_END
    )
    if not fits:
        raise InvalidInput(f"an object needs a size, an index of less than 2 GiB and two CRC32C, found {object_}")


def _check_new(state: ClusterState, objects: Sequence[NewObject]) -> None:
    if len({object_.upload_id for object_ in objects}) < len(objects):
        raise DuplicateResource("a command names each upload once, found one named twice")
    for object_ in objects:
        number = state.objects.find_upload(object_)
        if number is not None:
            raise DuplicateResource(
                f"a command names new uploads, found {object_.upload_id}, begun at chain position {object_.n0}, which "
                f"is object {number} already"
            )


def _check_slice(new: NewSlice, owner: NewObject) -> None:
    inside = 0 <= new.position and 0 < new.length and new.position + new.length <= owner.size_bytes
    if owner.topic_id != new.topic_id or owner.partition not in (None, new.partition) or not inside:
        raise InvalidInput(f"a slice lies inside its object, {owner}, found {new}")
    times = -_INT64_END <= new.min_timestamp_us <= new.max_timestamp_us < _INT64_END
    batches = 0 <= new.first_batch and 0 < new.batches and new.first_batch + new.batches < _INT32_END
    if not (0 < new.records < _RECORDS_END and batches and times):
        raise InvalidInput(f"a slice has records, batches and an ascending pair of timestamps, found {new}")
    is_named = new.offsets is not None
    if is_named != (new.timestamp_source is not None) or (is_named and owner.kind is ObjectKind.SEGMENT):
        raise InvalidInput(
            f"only an append to a mirror topic names offsets, with the source of its timestamps, found {new}"
        )
    if new.producer is not None:
        _check_span(new.producer, new.records)


def _check_span(span: ProducerSpan, records: int) -> None:
    fits = (
        0 <= span.producer_id < _INT64_END
        and 0 <= span.producer_epoch < _INT32_END
        and 0 <= span.first_sequence < SEQUENCES
        and records <= SEQUENCES
    )
    if not fits or span.last_sequence != sequence_after(span.first_sequence, records - 1):
        raise InvalidInput(
            f"a producer's slice of {counted(records, 'record')} needs an id, an epoch and as many sequence "
            f"numbers, found {span}"
        )
