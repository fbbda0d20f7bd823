"""A store under a prefix of a bucket of Google Cloud Storage, or of a container of Azure's blob storage.

put-if-absent is one request with a condition: `ifGenerationMatch=0` for Google, `If-None-Match: *` for Azure. The
service lets one writer win, and the object is durable when the service answers. The metadata of an object carries a
write id. A writer that finds its key taken reads this id, because its own request may have landed although the answer
was lost.

A body of more than 8 MiB is kept in a temporary file until it is complete. Then it is sent to Google in one request,
and to Azure in blocks that become an object under the same condition. Every call has a deadline.
conditional_write.py alone decides which requests are repeated, and when: send_once.py sends each request once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from sparklog.core.errors import InvalidInput, KeyNotFound, SparklogError
from sparklog.core.names.address_parts import parse_abfs_url, parse_gs_url
from sparklog.host.deadline import Deadline
from sparklog.host.dice import new_id
from sparklog.host.extras import Extra, needed
from sparklog.storage.cloud.bodies import Body, BufferedUpload
from sparklog.storage.cloud.cloud import Cloud, ObjectPart, Page
from sparklog.storage.cloud.failures import CloudFailure, CloudRequestFailed
from sparklog.storage.cloud.reads import read_ranges, read_whole
from sparklog.storage.cloud.settings import AzureSettings, GcsSettings, read_settings
from sparklog.storage.conditional_write import ConditionalWrite, RequestFailed, repeated
from sparklog.storage.folders import first_after
from sparklog.storage.keys import check_key, check_prefix
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey
from sparklog.storage.parallel import delete_each

_KEY_BYTES: Final = 1024  # the longest name of an object, with the prefix, in both clouds
_TRIES_PER_TIMEOUT: Final = 3  # so that a silent connection leaves time for another try
_MS_PER_MIB: Final = 1000  # on a slower link, a large body misses its deadline

Result = TypeVar("Result")


def gcs_store(url: str, settings: Mapping[str, str]) -> CloudStore:
    """Return the store at a gs:// address. Raises InvalidInput."""
    bucket, prefix = parse_gs_url(url)
    read = read_settings(GcsSettings, settings, {})

    def cloud(try_s: float) -> Cloud:
        from sparklog.storage.cloud.gcs import Gcs

        return Gcs(bucket, read, try_s)

    return CloudStore(f"gs://{bucket}", prefix, read.timeout_ms, cloud, "gcs")


def azure_store(url: str, settings: Mapping[str, str]) -> CloudStore:
    """Return the store at an abfs:// or abfss:// address. Raises InvalidInput.

    Both schemes mean the same: TLS, unless the setting `endpoint_url` begins with http://.
    """
    container, prefix, of_address = parse_abfs_url(url)
    read = read_settings(AzureSettings, settings, of_address)

    def cloud(try_s: float) -> Cloud:
        from sparklog.storage.cloud.azure import Azure

        return Azure(container, read, try_s)

    host = f"@{read.account_host.replace('.blob.', '.dfs.', 1)}" if read.account_host else ""
    return CloudStore(f"abfs://{container}{host}", prefix, read.timeout_ms, cloud, "azure")


class CloudStore:
    """Objects in a bucket, below a prefix. Opening a store reads nothing. settings.py has its settings.

    `open_cloud` builds the access to the bucket; its argument is the timeout of one try, in seconds. `extra` is the
    optional dependency of sparklog that the store needs, as in `pip install sparklog[gcs]`.
    """

    url: str
    read_ahead: int = 4

    def __init__(
        self, bucket_url: str, prefix: str, timeout_ms: int, open_cloud: Callable[[float], Cloud], extra: Extra
    ) -> None:
        self.url = f"{bucket_url}/{prefix}".rstrip("/")
        self._prefix = prefix
        self._timeout_ms = timeout_ms
        self._try_s = timeout_ms / 1000 / _TRIES_PER_TIMEOUT
        self._open_cloud = open_cloud
        self._extra = extra
        self._opened: tuple[int, Cloud] | None = None  # with the id of the process that it belongs to
        self._uploads: weakref.WeakSet[BufferedUpload] = weakref.WeakSet()
        self._uploads_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"CloudStore({self.url!r})"

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Write a whole object, durably, if `key` is free. Errors: see ObjectStore.

        KeyExists means that the key has an object of another writer, or one whose write id could not be read.
        """
        self._put(key, Body.of(body))

    def upload(self, key: str) -> BufferedUpload:
        """Begin a put-if-absent with a streamed body. It is sent by `publish`."""
        self._full(key)
        upload = BufferedUpload(key, self._put)
        with self._uploads_lock:
            self._uploads.add(upload)
        return upload

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Always return False. See ObjectStore.

        These clouds can copy, but no emulator can be used to test that a copy never overwrites an object.
        """
        return False

    def get(self, key: str) -> memoryview:
        """The whole object. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        self._full(key)
        return read_whole(partial(self._read, key), f"{self.url}/{key}")

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        """As `get`. Does not look for `others`: the address always leads to the same bucket. See ObjectStore."""
        return self.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes [start, end) of each range, several read at the same time. See ObjectStore."""
        self._full(key)
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidInput(f"a range of bytes needs 0 <= start <= end, not [{start}, {end}) of {key}")
        return read_ranges(partial(self._read, key), f"{self.url}/{key}", ranges, partial(self.size, key))

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        name = self._full(key)
        try:
            return self._repeated(f"read the size of {key}", lambda cloud, timeout_s: cloud.size(name, timeout_s))
        except CloudRequestFailed as failed:
            raise self._absent(key) from failed

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order of key, one page in memory at a time."""
        return self._list(check_prefix(prefix))

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """Return the smallest key > `key` that begins with `prefix`, or None. `prefix` ends with '/'.

        Sends one request to Google. For Azure, lists the folders that lead to that key: for an entry of the chain, the
        folder of all blocks and then one block. If `key` was the last in its folder, lists that folder too.
        """
        if not check_prefix(prefix).endswith("/"):
            raise InvalidInput(f"first_key_after takes a prefix that ends with '/', not {prefix!r}")
        if not self._cloud.starts_listings_anywhere:
            return first_after(self._names_in, prefix, key)
        start = f"{self._prefix}{max(prefix, key)}"
        return next((stored.key for stored in self._list(prefix, start=start) if stored.key > key), None)

    def delete(self, key: str) -> None:
        """Remove one object by its exact key. An absent key is not an error. Raises StoreUnavailable, StoreReadOnly."""
        name = self._full(key)
        with suppress(CloudRequestFailed):  # the key was absent
            self._repeated(f"delete {key}", lambda cloud, timeout_s: cloud.delete(name, timeout_s), writing=True)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects by their exact keys, several at a time. Errors: see ObjectStore."""
        delete_each(self, [check_key(key) for key in keys])

    def free_bytes(self) -> int | None:
        """None: a bucket has no limit."""
        return None

    def remove_abandoned(self, before_ms: int) -> int:
        """Fail this instance's open uploads that began before `before_ms` (ms since the epoch). Return their number.

        Their `publish` raises StoreUnavailable. There is nothing else to remove: an upload sends nothing before it is
        published, and Azure itself drops blocks that have not become an object within a week.
        """
        with self._uploads_lock:
            own = list(self._uploads)
        return sum(upload.remove(before_ms) for upload in own)

    # ---- requests -------------------------------------------------------------------------------

    @property
    def _cloud(self) -> Cloud:
        """This process's access to the bucket, built at the first use."""
        if self._opened is None or self._opened[0] != os.getpid():
            try:
                with needed(self._extra, f"a store at {self.url}"):
                    self._opened = os.getpid(), self._open_cloud(self._try_s)
            except ValueError as error:  # settings contradict each other, or credentials can't be read
                raise InvalidInput(f"a client for {self.url} could not be set up: {error}") from error
        return self._opened[1]

    def _put(self, key: str, body: Body) -> None:
        name, write_id, cloud = self._full(key), new_id(), self._cloud
        more_ms = _more_ms(body.size_bytes)
        write = ConditionalWrite(
            key,
            write_id,
            cloud.endpoint,
            lambda deadline: cloud.put(name, write_id, body, self._one_s(deadline, more_ms)),
            lambda deadline: cloud.write_id_of(name, self._one_s(deadline)),
            lambda failed, wanted: self._error(failed, wanted, writing=True),
            always_looks=True,
        )
        write.run(Deadline(self._timeout_ms + more_ms))

    def _read(self, key: str, start: int, end: int) -> ObjectPart:
        """The bytes [start, end), or fewer if the object ends earlier. Raises the errors of `get`."""
        name = self._full(key)
        try:
            return self._repeated(
                f"read {key}",
                lambda cloud, timeout_s: cloud.read(name, start, end, timeout_s),
                more_ms=_more_ms(end - start),
            )
        except CloudRequestFailed as failed:
            if failed.kind is CloudFailure.PAST_END:
                return ObjectPart(b"", self.size(key), None)
            raise self._absent(key) from failed

    def _repeated(
        self, wanted: str, send: Callable[[Cloud, float], Result], *, more_ms: int = 0, writing: bool = False
    ) -> Result:
        """Send a request until it succeeds, and return its answer. The request must be safe to repeat.

        Raises the store's errors. But if the key is absent, or the object ends before the requested bytes, raises
        CloudRequestFailed. `wanted`: the request in words, for errors. `more_ms`: extra time to move the bytes.
        `writing`: True for a write.
        """
        cloud, deadline = self._cloud, Deadline(self._timeout_ms + more_ms)
        try:
            return repeated(lambda: send(cloud, self._one_s(deadline, more_ms)), deadline)
        except CloudRequestFailed as failed:
            if failed.kind in (CloudFailure.ABSENT, CloudFailure.PAST_END):
                raise
            raise self._error(failed, wanted, writing=writing) from failed

    def _one_s(self, deadline: Deadline, more_ms: int = 0) -> float:
        """Return the timeout of one try, in seconds: at most the time left. `more_ms`: extra time to move the bytes."""
        return min(deadline.left_s(), self._try_s + more_ms / 1000)

    def _error(self, failed: RequestFailed, wanted: str, *, writing: bool) -> SparklogError:
        assert isinstance(failed, CloudRequestFailed)
        return failed.error(wanted, self._cloud.place, self._cloud.endpoint, writing=writing)

    def _absent(self, key: str) -> KeyNotFound:
        return KeyNotFound(f"wanted {key}, found nothing at {self.url}/{key}")

    # ---- listing --------------------------------------------------------------------------------

    def _list(self, prefix: str, *, start: str | None = None) -> Iterator[StoredKey]:
        for page in self._pages(prefix, start=start):
            for entry in page.objects:
                yield StoredKey(entry.name[len(self._prefix) :], entry.size_bytes, entry.modified_ms)

    def _names_in(self, folder: str) -> list[str]:
        """Return the names in a folder of keys, in the order of keys. Names of folders end with '/'."""
        cut = len(self._prefix) + len(folder)
        pages = list(self._pages(folder, by_folder=True))
        names = [entry.name for page in pages for entry in page.objects]
        return sorted(name[cut:] for name in [*names, *(name for page in pages for name in page.folders)])

    def _pages(self, prefix: str, *, start: str | None = None, by_folder: bool = False) -> Iterator[Page]:
        """Yield the pages of a listing. A page may be empty although more pages follow."""
        token: str | None = None
        name, wanted = f"{self._prefix}{prefix}", f"list {prefix!r} of {self.url}"
        while True:
            ask = partial(_ask_page, name, token=token, start=start, by_folder=by_folder)
            try:
                page = self._repeated(wanted, ask)
            except CloudRequestFailed as failed:  # a store never answers a listing with "no such key"
                raise self._error(failed, wanted, writing=False) from failed
            # Consoles create objects whose names end with '/' to show a folder. No key ends with '/'.
            yield replace(page, objects=[entry for entry in page.objects if not entry.name.endswith("/")])
            if not page.token:
                return
            token = page.token

    def _full(self, key: str) -> str:
        full = f"{self._prefix}{check_key(key)}"
        if len(full) > _KEY_BYTES:
            raise InvalidInput(
                f"a key in a bucket has at most {_KEY_BYTES} bytes with its prefix, found {len(full)}: {full!r}"
            )
        return full


def _ask_page(prefix: str, cloud: Cloud, timeout_s: float, **named: Any) -> Page:
    return cloud.list_page(prefix, timeout_s, **named)


def _more_ms(moved_bytes: int) -> int:
    return moved_bytes * _MS_PER_MIB // (1024 * 1024)
