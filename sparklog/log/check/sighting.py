"""Look at an object on its stores, and describe how the copies there differ from the chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import Damaged, KeyNotFound, SparklogError, StoreUnavailable
from sparklog.core.maintenance.differences import Difference, DifferenceKind, advice_for_object
from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.types import Slice, StoreId
from sparklog.log.check.index_repair import mend_index
from sparklog.log.check.object_check import ObjectCheck, ObjectFinding, Problem, StoredPart, check_object
from sparklog.log.cluster_stores import Stores
from sparklog.log.incarnation import check_incarnation
from sparklog.log.read.object_reader import read_index
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.object_store import ObjectStore

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


class Sighting(msgspec.Struct, frozen=True, array_like=True):
    """An object as the copy on one store shows it.

    `check` says what is wrong with the copy. It is None if the store could not be read; then `error` is the reason.
    `silent`: the store did not answer, or could not be opened. `mended`: its index was missing or damaged, and was
    restored. `unmended`: why the index of a whole object could not be restored.
    """

    store: StoreId
    check: ObjectCheck | None
    error: str = ""
    silent: bool = False
    mended: bool = False
    unmended: str = ""

    def __str__(self) -> str:
        return f"store {self.store}: {self.damage}"

    @property
    def damage(self) -> str:
        """All that is wrong with the copy, as text."""
        problems = [str(finding) for finding in self.findings]
        problems += [f"it could not be restored: {self.unmended}"] if self.unmended else []
        return "; ".join(problems)

    @property
    def findings(self) -> tuple[ObjectFinding, ...]:
        """All that is wrong with the copy; () if the store could not be read."""
        return () if self.check is None else self.check.findings

    @property
    def is_whole(self) -> bool:
        """True if the object and its index are whole."""
        return self.check is not None and self.check.is_whole

    @property
    def object_is_whole(self) -> bool:
        """True if the object is whole; its index may be missing or damaged."""
        return self.check is not None and self.check.object_is_whole

    @property
    def damaged_parts(self) -> frozenset[StoredPart]:
        """The parts (object, index) that are on the store and not whole."""
        return frozenset(finding.part for finding in self.findings if finding.problem is not Problem.MISSING)


def key_of(object_: ObjectToVerify) -> str:
    """The key of an object, which is the same on every store."""
    return data_key(object_.named.object, object_.topic)


def look_at(
    object_: ObjectToVerify,
    stores: Stores,
    silent: Mapping[StoreId, str] | None = None,
    incarnations: Mapping[StoreId, str] | None = None,
) -> tuple[Sighting, ...]:
    """Look at the object on each of its stores, one after the other.

    `silent`: stores that are not asked, each with the error to report. Without `incarnations`, nothing is changed, and
    the content of each batch is compared with the index. With the registered INCARNATION of each store, the object is
    looked at in order to repair it: a damaged index of a whole object is restored, and an object that is damaged like
    its index is compared with an index from another store, to learn which of its batches are damaged.
    """
    sightings = []
    for store in object_.stores:
        if silent and store in silent:
            sightings.append(Sighting(store, None, silent[store], silent=True))
            continue
        try:
            target = stores.get(store)
        except Exception as error:  # of any kind: it says nothing about the bytes, nor about those on other stores
            sightings.append(Sighting(store, None, str(error) or repr(error), silent=True))
            continue
        try:
            incarnation = None if incarnations is None else incarnations[store]
            sightings.append(_seen(object_, store, target, stores, incarnation))
        except Exception as error:  # as above
            is_silent = isinstance(error, StoreUnavailable)
            sightings.append(Sighting(store, None, str(error) or repr(error), silent=is_silent))
    return tuple(sightings)


def _seen(
    object_: ObjectToVerify, store: StoreId, target: ObjectStore, stores: Stores, incarnation: str | None
) -> Sighting:
    key, named = key_of(object_), object_.named
    check = check_object(target, key, named, object_.slices, content=incarnation is None)
    if check.is_whole or incarnation is None:
        return Sighting(store, check)
    if check.object_is_whole:
        return _mended(object_, store, target, stores, incarnation, check)
    if object_.slices and any(finding.part is StoredPart.INDEX for finding in check.findings):
        for other in _opened(stores, store):
            with suppress(SparklogError):  # the next store may have it
                check = check_object(target, key, named, object_.slices, read_index(other, key, named))
                break
    check_incarnation(target, incarnation)  # after all reads: what is missing from an unmounted store is not lost
    return Sighting(store, check)


def _mended(
    object_: ObjectToVerify, store: StoreId, target: ObjectStore, stores: Stores, incarnation: str, check: ObjectCheck
) -> Sighting:
    """Restore the index of a whole object. If that fails, the object is still whole, and readers need no index."""
    key, named = key_of(object_), object_.named
    check_incarnation(target, incarnation)  # nothing is changed on another store than the registered one
    try:
        stores.check_owner(store)
        if not mend_index(target, key, named.object, _opened(stores, store)):
            return Sighting(store, check)
    except (KeyNotFound, Damaged):  # by now the object is not whole
        raise
    except SparklogError as error:
        return Sighting(store, check, unmended=str(error))
    check_incarnation(target, incarnation, (key,))
    return Sighting(store, msgspec.structs.replace(check, findings=()), mended=True)


def _opened(stores: Stores, but: StoreId) -> Iterator[ObjectStore]:
    for other in stores.addresses.urls:
        if other != but:
            with suppress(SparklogError):
                yield stores.get(other)


def _is_repairable(object_: ObjectToVerify, sightings: Sequence[Sighting], of: Sighting) -> bool | None:
    """True if the damage in the sighting `of` can be repaired.

    A damaged index is repaired from its object, and a damaged object from another store that has it whole. False if
    there is no such store, or if the object was written with the damage. None if no such store was found, but another
    store did not answer or was not asked.
    """
    if any(finding.problem in _WRITTEN_SO for finding in of.findings):
        return False
    others = [other for other in sightings if other.store != of.store]
    if of.object_is_whole or any(other.object_is_whole for other in others):
        return True
    return None if any(other.check is None for other in others) or len(sightings) < len(object_.all_stores) else False


def differences_of(
    object_: ObjectToVerify, sightings: Sequence[Sighting], of: Sighting, slices: Sequence[Slice]
) -> list[Difference]:
    """Return the differences to report for the sighting `of`, one of the `sightings` of an object.

    `slices`: the slices of the object in the newest state. Damaged records that are in none of them are left out.
    """
    key, findings = key_of(object_), of.findings
    repairable = _is_repairable(object_, sightings, of)
    rows: list[Difference] = []
    in_batches = any(finding.partition is not None for finding in findings)
    index_is_whole = not any(finding.part is StoredPart.INDEX for finding in findings)
    for finding in findings:
        row = Difference(
            _KINDS[finding.part, finding.problem],
            of.store,
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
                msgspec.structs.replace(row, partition=slice_.partition, start=slice_.start, end=slice_.end)
                for slice_ in slices
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


def _joined(rows: Sequence[Difference]) -> list[Difference]:
    """Join rows of the same kind whose records adjoin. Each slice that the index describes otherwise has its own."""
    joined: list[Difference] = []
    for row in rows:
        last = joined[-1] if joined else None
        if (
            last is not None
            and row.start is not None
            and (last.kind, last.partition, last.end) == (row.kind, row.partition, row.start)
            and row.kind is not DifferenceKind.SLICE
        ):
            joined[-1] = msgspec.structs.replace(last, end=row.end)
        else:
            joined.append(row)
    return joined
