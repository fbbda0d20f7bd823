"""Endpoints that read the metadata, for clients that have only the address of a coordinator.

Requests are answered from the metadata store, so a reply is never out of date. Only entries of the chain and the bodies
of large commands are kept in memory: they never change, and every client that follows the chain reads the newest ones.
The absence of a key is not remembered: the next request for the key asks the store again.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from functools import partial
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from sparklog.coordinator.http.endpoint import CHAIN, Endpoint, Parameter
from sparklog.coordinator.leading.reader_threads import ReaderThreads
from sparklog.core.access import Need, Verb
from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    KeyNotFound,
    OffsetOutOfRange,
    StoreAccessDenied,
)
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import COMMANDS, LOG, check_key, check_prefix
from sparklog.storage.object_store import ObjectStore, StoredKey
from sparklog.wire.metadata_messages import METADATA, MOST_KEYS, MetadataKey, MetadataKeys

KEPT_BYTES = 32 << 20
_ROOT = METADATA.rpartition("/")[2] + "/"
_KEPT = (LOG, COMMANDS)
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})")
_OCTETS = "application/octet-stream"
_PREFIX = Parameter("prefix", "query", f"The prefix of the keys; it begins with {_ROOT} itself", default=_ROOT)
_AFTER = Parameter("after", "query", "Only greater keys.", default="")
_LIMIT = Parameter("limit", "query", "Maximum number of keys.", MOST_KEYS, 1, MOST_KEYS)
_BYTES = Parameter("range", "header", "bytes=FIRST-LAST: only these bytes.")
_NAME = Parameter("key", "path", f"The key, without the prefix {_ROOT}.")


class KeptObjects:
    """Reads objects of a store, and keeps up to `most_bytes` of entries and large commands in memory. Thread-safe."""

    def __init__(self, store: ObjectStore, most_bytes: int = KEPT_BYTES) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def kept(self, key: str) -> bytes | None:
        """The object if it is in memory, else None."""
        with self._lock:
            body = self._bodies.get(key)
            if body is not None:
                self._bodies.move_to_end(key)
            return body

    def get(self, key: str) -> bytes:
        """Read the object from the store, and keep entries and bodies of large commands in memory.

        Raises what `ObjectStore.get` raises.
        """
        body = bytes(self._store.get(key))
        if key.startswith(_KEPT):
            self._keep(key, body)
        return body

    def _keep(self, key: str, body: bytes) -> None:
        with self._lock:
            if key in self._bodies or len(body) > self._most_bytes:
                return
            self._bodies[key] = body
            self._size_bytes += len(body)
            while self._size_bytes > self._most_bytes:
                _, oldest = self._bodies.popitem(last=False)
                self._size_bytes -= len(oldest)


def metadata_routes(reading: ReaderThreads) -> list[Endpoint]:
    """Endpoints that read the metadata store of the coordinator."""
    store = reading.follower.store
    objects = KeptObjects(store)

    async def stored_object(request: Request) -> Response:
        reading.check_chain(request)
        key = _key_of(request)
        body = objects.kept(key)
        if body is None:
            body = await reading.run(partial(objects.get, key))
        wanted = request.headers.get("range")
        if wanted is None:
            return Response(body, 200, reading.headers(), _OCTETS)
        first, last = _range(wanted, key, len(body))
        headers = reading.headers() | {"content-range": f"bytes {first}-{last}/{len(body)}"}
        return Response(body[first : last + 1], 206, headers, _OCTETS)

    async def listed(request: Request) -> MetadataKeys:
        reading.check_chain(request)
        prefix, after, limit = _page_of(request)
        page, more = await reading.run(partial(page_of, store, prefix, after, limit))
        state = reading.follower.state
        keys = tuple(MetadataKey(stored.key, stored.size_bytes, stored.modified_ms) for stored in page)
        return MetadataKeys(state.chain_id, EntryNumber(state.n), keys, more)

    of_store = (InconsistentClusterId, StoreAccessDenied)
    return [
        Endpoint(
            "GET",
            METADATA,
            listed,
            "Keys of the metadata, ascending",
            needs=Need(Verb.DESCRIBE),
            gives=MetadataKeys,
            parameters=(_PREFIX, _AFTER, _LIMIT, CHAIN),
            errors=of_store,
        ),
        Endpoint(
            "GET",
            f"{METADATA}/{{key:path}}",
            stored_object,
            "An object of the metadata: entries, snapshots and what they name",
            needs=Need(Verb.DESCRIBE),
            parameters=(_NAME, _BYTES, CHAIN),
            errors=(*of_store, KeyNotFound, OffsetOutOfRange),
        ),
    ]


def page_of(store: ObjectStore, prefix: str, after: str, limit: int) -> tuple[list[StoredKey], bool]:
    """The first `limit` objects whose keys begin with `prefix` and come after `after`; True if more may follow them."""
    if limit == 1 and prefix.endswith("/"):
        key = store.first_key_after(prefix, after)
        while key is not None:
            first = next(iter(store.list_keys(key)), None)
            if first is not None and first.key == key:
                return [first], True
            key = store.first_key_after(prefix, key)  # it was deleted meanwhile
        return [], False
    following = (stored for stored in store.list_keys(prefix) if stored.key > after)
    page = list(islice(following, limit + 1))
    return page[:limit], len(page) > limit


def _key_of(request: Request) -> str:
    """The metadata key in the path of the request. Raises InvalidInput if it is not valid, or has percent signs."""
    if b"%" in request.scope.get("raw_path", b""):
        raise InvalidInput("a key needs no percent signs, found one: only plain keys of the metadata are served")
    return check_key(_ROOT + str(request.path_params["key"]))


def _page_of(request: Request) -> tuple[str, str, int]:
    prefix = check_prefix(request.query_params.get("prefix", _ROOT))
    if not prefix.startswith(_ROOT):
        raise InvalidInput(f"prefix: only keys that begin with {_ROOT} are served, found {prefix!r}")
    return prefix, check_prefix(request.query_params.get("after", "")), _LIMIT.number(request)


def _range(wanted: str, key: str, size_bytes: int) -> tuple[int, int]:
    """The positions of the first and the last byte, both inclusive, that the header Range (`wanted`) asks for.

    `size_bytes`: the size of the object `key`. Raises InvalidInput if the header is malformed, and OffsetOutOfRange if
    the object lacks one of these bytes, or the last one comes before the first.
    """
    match = _RANGE.fullmatch(wanted)
    if match is None:
        raise InvalidInput(f"range: wanted bytes=FIRST-LAST, found {wanted[:60]!r}")
    first, last = int(match[1]), int(match[2])
    if first > last or last >= size_bytes:
        raise OffsetOutOfRange(f"range: wanted bytes {first} to {last} of {key}, which has {size_bytes}")
    return first, last
