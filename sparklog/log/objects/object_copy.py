"""Copy a data object and its index from store to store: the object before its index, each whole or not at all.

    the target has the object ................... check its length and CRC32C
    else, if the stores can copy by themselves .. let them, then check the length
    else ........................................ read ranges, and publish the upload if its CRC32C is the chain's

The index is always put. If the target has it already, that put fails, but makes the names in its folder durable.
Otherwise a power loss could remove the name of a copy made by another process. If no source has the index, it is
rebuilt from the copied object.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import google_crc32c
import msgspec
import pyarrow as pa

from sparklog.core.describe.readable import exact_amount
from sparklog.core.errors import Damaged, KeyExists, KeyNotFound, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.core.placement.replica_fetch import ObjectToFetch
from sparklog.core.types import NewObject, StoreId
from sparklog.log.check.index_repair import rebuilt_index
from sparklog.log.cluster_stores import Stores
from sparklog.log.incarnation import check_incarnation
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")

READ_BYTES: Final = 8 << 20  # of one ranged read, and so the memory of a streamed copy


class SourceFailed(StoreUnavailable):
    """The source of a copy does not answer, or its object is missing or damaged. Another holder may have the object."""


class SourceFailure(msgspec.Struct, frozen=True):
    """The reason why a source could not provide an object.

    `lacks_it`: the object there is missing or damaged. False if the source did not answer.
    """

    source: StoreId
    lacks_it: bool
    error: str


class FetchResult(msgspec.Struct, frozen=True):
    """The store that provided a copy; None if no source could. `failures` are in the order of asking."""

    source: StoreId | None
    failures: tuple[SourceFailure, ...] = ()


def fetch_object(wanted: ObjectToFetch, store: StoreId, stores: Stores) -> FetchResult:
    """Copy an object and its index to `store`, from the first of the object's sources that can provide both.

    If none can, but `store` has the object itself, its index is rebuilt there; then `store` is the source in the
    result. If the object has no sources, only check that `store` has it.

    Raises the errors of `store` itself, and Damaged if it has other bytes under the object's name.
    """
    target, key = stores.get(store), data_key(wanted.object, wanted.topic)
    failures: list[SourceFailure] = []
    if not wanted.sources:
        if _is_there(target, key, wanted.object.size_bytes):
            return FetchResult(store)
        lacks = f"{key} is not at {target.url}, and the chain knows no other holder"
        return FetchResult(None, (SourceFailure(store, True, lacks),))
    for source_id in wanted.sources:
        try:
            source = stores.get(source_id)
        except KeyError:
            failures.append(SourceFailure(source_id, True, f"store {source_id} is not in the cluster any more"))
            continue
        except SparklogError as error:
            failures.append(SourceFailure(source_id, False, str(error)))
            continue
        try:
            copy_object(source, target, key, wanted.object)
        except SourceFailed as failed:
            lacks_it = isinstance(failed.__cause__, KeyNotFound | Damaged)
            failures.append(SourceFailure(source_id, lacks_it, failed.message))
        else:
            return FetchResult(source_id, tuple(failures))
    return FetchResult(store if _index_is_rebuilt(target, key, wanted.object) else None, tuple(failures))


def fetch_in_life(wanted: ObjectToFetch, store: StoreId, stores: Stores, incarnation: str) -> FetchResult:
    """Call `fetch_object`, then check that the copy is on the registered store, whose INCARNATION is `incarnation`.

    Report the copy to the chain only if this returns. A disk may be mounted over the folder with the copy, and hide it.
    A check of INCARNATION alone would not notice, so the copy must be beside it. Raises AnotherIncarnation, and what
    `fetch_object` raises.
    """
    fetched = fetch_object(wanted, store, stores)
    objects = () if fetched.source is None else (data_key(wanted.object, wanted.topic),)
    check_incarnation(stores.get(store), incarnation, objects)
    return fetched


def copy_object(source: ObjectStore, target: ObjectStore, key: str, named: NewObject) -> None:
    """Copy the object under `key` and its index to `target`, durably, unless they are already there.

    Raises SourceFailed if another source may help, Damaged if `target` has other bytes under the name of the object or
    index, and the errors of `put_if_absent` of `target`, except KeyExists.
    """
    if not (_is_there(target, key, named.size_bytes) and _is_whole(target, key, named)):
        _certainly(lambda: _copy(source, target, key, named.size_bytes, named.crc32c), target, key, named.size_bytes)
    index = index_key(key)
    body = _read_whole(source, index, named.index_size_bytes, named.index_crc32c)
    _certainly(lambda: target.put_if_absent(index, body), target, index, named.index_size_bytes)


def _index_is_rebuilt(target: ObjectStore, key: str, named: NewObject) -> bool:
    """Rebuild the index on `target` from the object there. Return True if the index is there then.

    False if the object is missing or damaged, or if the rebuilt index differs from the chain's.
    """
    if not _is_there(target, key, named.size_bytes):
        return False
    try:
        body = rebuilt_index(target, key, named)
    except Damaged:
        return False
    if body is None:
        return False
    index = index_key(key)
    _certainly(lambda: target.put_if_absent(index, body), target, index, named.index_size_bytes)
    return True


def _is_there(target: ObjectStore, key: str, size_bytes: int) -> bool:
    """True if `target` has the key. Raises Damaged if that object has another length: it must not be overwritten."""
    try:
        existing_bytes = target.size(key)
    except KeyNotFound:
        return False
    if existing_bytes != size_bytes:
        raise Damaged(
            f"wanted to copy {key} ({exact_amount(size_bytes)}), found {exact_amount(existing_bytes)} there at "
            f"{target.url}: if nothing else needs it, remove it"
        )
    return True


def _is_whole(target: ObjectStore, key: str, named: NewObject) -> bool:
    """True if the object at `target` has the CRC32C of the chain, False if a repair has deleted it meanwhile.

    Raises Damaged if it has another CRC32C. Such an object may come from a killed process, or from a writer whose
    commit did not name this store as a holder. Or its damage was already reported as a loss, and the repair has not
    deleted the object yet.
    """
    actual = 0
    try:
        for start in range(0, named.size_bytes, READ_BYTES):
            (piece,) = target.get_ranges(key, [(start, min(start + READ_BYTES, named.size_bytes))])
            actual = google_crc32c.extend(actual, pa.py_buffer(piece))
    except KeyNotFound:
        return False
    if actual != named.crc32c:
        raise Damaged(
            f"wanted to copy {key}, found it at {target.url} with CRC32C {actual:08x}, wanted {named.crc32c:08x}: "
            "'sparklog job recovery' deletes and copies it"
        )
    return True


def _certainly(put: Callable[[], object], target: ObjectStore, key: str, size_bytes: int) -> None:
    """Call `put`, and call it again if the outcome is unknown. After that, the object is there, and durable.

    An object that is already there counts as success. Raises Damaged if it has another length than `size_bytes`,
    OutcomeUnknown if the outcome of the second call is unknown too, and the other errors of `put`.
    """
    with suppress(OutcomeUnknown):
        return _put(put, target, key, size_bytes)
    return _put(put, target, key, size_bytes)


def _put(put: Callable[[], object], target: ObjectStore, key: str, size_bytes: int) -> None:
    try:
        put()
    except KeyExists:
        if not _is_there(target, key, size_bytes):
            raise StoreUnavailable(f"wanted {key} at {target.url}, found it there and then gone") from None


def _copy(source: ObjectStore, target: ObjectStore, key: str, size_bytes: int, crc32c: int) -> None:
    if size_bytes <= READ_BYTES and not _same_kind(source, target):
        target.put_if_absent(key, _read_whole(source, key, size_bytes, crc32c))
    elif not _copied_by_the_stores(source, target, key, size_bytes):
        _stream(source, target, key, size_bytes, crc32c)


def _same_kind(source: ObjectStore, target: ObjectStore) -> bool:
    """True if the stores are of the same kind. Only such stores may be able to copy without this process."""
    return type(source) is type(target)


def _copied_by_the_stores(source: ObjectStore, target: ObjectStore, key: str, size_bytes: int) -> bool:
    """Let the stores copy, so that the bytes do not pass through this process. Return False if they can't.

    The length of the source is checked first, because a copy that is too short could not be overwritten. Raises
    SourceFailed if the length is wrong or the source does not answer, and the errors of the target.
    """
    if not _same_kind(source, target):
        return False
    source_bytes = _asked(source, key, lambda: source.size(key))
    if source_bytes != size_bytes:
        raise _failed(source, key, Damaged(f"it has {exact_amount(source_bytes)}, wanted {exact_amount(size_bytes)}"))
    try:
        if not target.copy_from(source, key, key):
            return False
    except (KeyExists, OutcomeUnknown):
        raise
    except SparklogError:
        _asked(source, key, lambda: source.size(key))  # raises if it was the source that failed
        raise
    return _is_there(target, key, size_bytes)


def _stream(source: ObjectStore, target: ObjectStore, key: str, size_bytes: int, crc32c: int) -> None:
    seen = 0
    with target.upload(key) as upload:
        for start in range(0, size_bytes, READ_BYTES):
            piece = _read(source, key, start, min(start + READ_BYTES, size_bytes))
            seen = google_crc32c.extend(seen, pa.py_buffer(piece))
            upload.write(piece)
        _check_crc(source, key, crc32c, seen)
        upload.publish()


def _read_whole(source: ObjectStore, key: str, size_bytes: int, crc32c: int) -> memoryview:
    body = _read(source, key, 0, size_bytes)
    _check_crc(source, key, crc32c, google_crc32c.value(pa.py_buffer(body)))
    return body


def _read(source: ObjectStore, key: str, start: int, end: int) -> memoryview:
    (body,) = _asked(source, key, lambda: source.get_ranges(key, [(start, end)]))
    return body


def _check_crc(source: ObjectStore, key: str, wanted: int, actual: int) -> None:
    if actual != wanted:
        raise _failed(source, key, Damaged(f"it has CRC32C {actual:08x}, wanted {wanted:08x}"))


def _asked(source: ObjectStore, key: str, ask: Callable[[], T]) -> T:
    """Return the result of `ask`, a read from `source`. Its errors become SourceFailed."""
    try:
        return ask()
    except SparklogError as error:
        raise _failed(source, key, error) from error


def _failed(source: ObjectStore, key: str, error: SparklogError) -> SourceFailed:
    failed = SourceFailed(f"wanted to copy {key} from {source.url}: {error}")
    failed.__cause__ = error
    return failed
