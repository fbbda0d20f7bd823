"""Compare the copies of an object on all its stores with the chain."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.core.maintenance.differences import Difference, DifferenceKind, advice_for_object
from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.types import Slice, StoreId
from sparklog.log.check.object_check import ObjectCheck, ObjectFinding, Problem, StoredPart, check_object
from sparklog.log.cluster_stores import Stores
from sparklog.storage.keys import data_key, index_key

_KINDS = {
    (StoredPart.OBJECT, Problem.MISSING): DifferenceKind.OBJECT_MISSING,
    (StoredPart.OBJECT, Problem.SHORT): DifferenceKind.OBJECT_SIZE,
    (StoredPart.OBJECT, Problem.LONG): DifferenceKind.OBJECT_SIZE,
    (StoredPart.OBJECT, Problem.CRC): DifferenceKind.OBJECT_CHECKSUM,
    (StoredPart.OBJECT, Problem.BATCH): DifferenceKind.BATCH_CHECKSUM,
    (StoredPart.OBJECT, Problem.CONTENT): DifferenceKind.BATCH_CONTENT,
    (StoredPart.INDEX, Problem.MISSING): DifferenceKind.INDEX_MISSING,
    (StoredPart.INDEX, Problem.SHORT): DifferenceKind.INDEX_SIZE,
    (StoredPart.INDEX, Problem.LONG): DifferenceKind.INDEX_SIZE,
    (StoredPart.INDEX, Problem.CRC): DifferenceKind.INDEX_CHECKSUM,
    (StoredPart.INDEX, Problem.CONTENT): DifferenceKind.SLICE,
    (StoredPart.INDEX, Problem.SLICE): DifferenceKind.SLICE,
}
_WRITTEN_SO = (Problem.CONTENT, Problem.SLICE)  # the same on every store


class ReplicaCheck(msgspec.Struct, frozen=True, array_like=True):
    """The check of an object on one store. If the check was not possible, `check` is None and `error` is the reason.

    `error` is empty if the store was skipped, because it had not answered before.
    """

    store: StoreId
    check: ObjectCheck | None
    error: str = ""


def check_replicas(object_: ObjectToVerify, stores: Stores, silent: Collection[StoreId] = ()) -> list[ReplicaCheck]:
    """Check the object on each of its stores, one after the other. A `silent` store is skipped: it gets no `check`."""
    key = data_key(object_.named.object, object_.topic)
    checks = []
    for store in object_.stores:
        if store in silent:
            checks.append(ReplicaCheck(store, None))
            continue
        try:
            checks.append(
                ReplicaCheck(store, check_object(stores.get(store), key, object_.named, object_.slices, content=True))
            )
        except SparklogError as error:  # this says nothing about the bytes
            checks.append(ReplicaCheck(store, None, str(error)))
    return checks


def is_repairable(object_: ObjectToVerify, checks: Sequence[ReplicaCheck], of: ReplicaCheck) -> bool | None:
    """True if the damage that the check `of` found can be repaired.

    A damaged index is repaired from its object, and a damaged object from another store that has it whole. False if
    there is no such store, if the object was written with the damage, or if `of.check` is None. None if no such store
    was found, but another store did not answer or was not asked.
    """
    if of.check is None or any(finding.problem in _WRITTEN_SO for finding in of.check.findings):
        return False
    if of.check.object_is_whole:
        return True  # the index is built again from the object
    others = [other.check for other in checks if other.store != of.store]
    if any(check is not None and check.object_is_whole for check in others):
        return True
    return None if None in others or len(checks) < len(object_.all_stores) else False


def differences_of(
    object_: ObjectToVerify,
    store: StoreId,
    findings: Sequence[ObjectFinding],
    slices: Sequence[Slice],
    repairable: bool | None,
) -> list[Difference]:
    """Return the differences to report for the findings about an object on a store.

    `slices`: the slices of the object in the newest state. Damaged records that are in none of them are left out.
    """
    key = data_key(object_.named.object, object_.topic)
    rows: list[Difference] = []
    in_batches = any(finding.partition is not None for finding in findings)
    index_is_whole = not any(finding.part is StoredPart.INDEX for finding in findings)
    for finding in findings:
        row = Difference(
            _KINDS[finding.part, finding.problem],
            store,
            index_key(key) if finding.part is StoredPart.INDEX and finding.problem is not Problem.SLICE else key,
            finding.wanted,
            finding.actual,
            object_.topic,
            object_.named.object.partition,
            repairable=repairable,
        )
        if finding.partition is not None:
            if any(_overlaps(finding, slice_) for slice_ in slices):
                rows.append(
                    msgspec.structs.replace(row, partition=finding.partition, start=finding.start, end=finding.end)
                )
        elif finding.part is StoredPart.INDEX or (
            finding.problem is not Problem.MISSING and (in_batches or index_is_whole)
        ):
            # Damaged batches have rows of their own; without any, the damage is outside of all records.
            rows.append(row)
        else:
            rows += [
                msgspec.structs.replace(row, partition=at, start=low, end=high) for at, low, high in _ranges(slices)
            ]
    return [msgspec.structs.replace(row, advice=advice_for_object(row)) for row in _joined(rows)]


def unreadable(store: StoreId, topic: str, objects: int, error: str) -> Difference:
    """Return the difference to report if some objects of a topic can't be read on a store. `objects`: their number."""
    wanted = f"{counted(objects, 'object')} to verify"
    row = Difference(DifferenceKind.UNREADABLE, store, None, wanted, error, topic)
    return msgspec.structs.replace(row, advice=advice_for_object(row))


def _overlaps(finding: ObjectFinding, slice_: Slice) -> bool:
    if finding.start is None or finding.end is None:
        return False
    return finding.partition == slice_.partition and finding.start < slice_.end and finding.end > slice_.start


def _ranges(slices: Sequence[Slice]) -> list[tuple[int, int, int]]:
    """The offsets of the slices as (partition, start, end). Adjoining slices become one range."""
    ranges: list[tuple[int, int, int]] = []
    for slice_ in slices:
        if ranges and ranges[-1][0] == slice_.partition and ranges[-1][2] == slice_.start:
            ranges[-1] = (slice_.partition, ranges[-1][1], slice_.end)
        else:
            ranges.append((slice_.partition, slice_.start, slice_.end))
    return ranges


def _joined(rows: Sequence[Difference]) -> list[Difference]:
    """Join the rows of adjoining batches with the same kind of difference."""
    joined: list[Difference] = []
    for row in rows:
        last = joined[-1] if joined else None
        if (
            last is not None
            and row.start is not None
            and (last.kind, last.partition, last.end) == (row.kind, row.partition, row.start)
            and row.kind in (DifferenceKind.BATCH_CHECKSUM, DifferenceKind.BATCH_CONTENT)
        ):
            joined[-1] = msgspec.structs.replace(last, end=row.end)
        else:
            joined.append(row)
    return joined
