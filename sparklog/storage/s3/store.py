"""A store under a prefix of an S3 bucket, or of a server that speaks S3's protocol.

put-if-absent is one PUT with `If-None-Match: *`; large bodies are sent in parts and completed under that condition. S3
answers 200 to one writer and 412 to the others, and the object is durable when S3 answers. Nothing else is needed: no
lock, no versioning and no rename; listings need only be in the order of keys. The metadata of an object carries a write
id, by which a writer whose answer was lost recognizes its own object: bucket.py sends the conditional writes, and
storage/conditional_write.py decides what follows from a lost answer.

Reads and writes of objects go over plain connections (bulk.py says why), the other requests through s3fs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sparklog.core.cost.request_costs import PART_BYTES
from sparklog.core.describe.readable import counted
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.names.address_parts import parse_s3_url
from sparklog.storage.keys import check_key, check_prefix
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey
from sparklog.storage.parallel import delete_each, in_parallel
from sparklog.storage.s3.answers import S3RequestFailed
from sparklog.storage.s3.bucket import Bucket
from sparklog.storage.s3.reads import read_ranges, read_size, read_whole
from sparklog.storage.s3.settings import read_s3_settings
from sparklog.storage.s3.upload import S3Upload

_DELETED_AT_ONCE = 1_000  # the most keys that S3 takes in one request
_KEY_BYTES = 1024  # the longest key of S3, with the prefix


class S3Store:
    """Objects in a bucket, below a prefix. Opening a store reads nothing. settings.py has its settings."""

    url: str
    read_ahead: int = 4

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        bucket, self._prefix = parse_s3_url(url)
        self._bucket = Bucket(bucket, read_s3_settings(settings))
        self.url = f"s3://{bucket}/{self._prefix}".rstrip("/")
        self._uploads: weakref.WeakSet[S3Upload] = weakref.WeakSet()
        self._uploads_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"S3Store({self.url!r})"

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Write a whole object, durably, if `key` is free. Errors: see ObjectStore.

        KeyExists means that the object is another writer's, with one exception: if an answer was lost, and the object's
        write id can't be read either, the object may come from this call.
        """
        if memoryview(body).nbytes > PART_BYTES:
            with self.upload(key) as upload:
                upload.write(body)
                upload.publish()
            return
        whole = body if isinstance(body, bytes) else bytes(body)
        self._bucket.put_whole(self._full(key), whole)

    def upload(self, key: str) -> S3Upload:
        """Begin a put-if-absent with a streamed body. A body of up to 8 MiB is sent only by `publish`."""
        upload = S3Upload(self._bucket, self._full(key))
        with self._uploads_lock:
            self._uploads.add(upload)
        return upload

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Let S3 copy an object to `key`, in parts, if `key` is free. See ObjectStore.

        Return False if `source` is not an S3 store with the same settings, the object is empty, or the server can't
        copy.
        """
        if not isinstance(source, S3Store) or source._bucket.client is not self._bucket.client:
            return False
        size_bytes = source.size(source_key)
        if size_bytes == 0:
            return False
        with self.upload(key) as upload:
            if not upload.copy(source._bucket.name, source._full(source_key), size_bytes):
                return False
            upload.publish()
        return True

    def get(self, key: str) -> memoryview:
        """The whole object, read-only. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        return read_whole(self._bucket, self._full(key), key)

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        """As `get`. Does not look for `others`: the address always leads to the same bucket. See ObjectStore."""
        return self.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes [start, end) of each range. Ranges close together share a request and its memory.

        See ObjectStore.
        """
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidInput(f"a range of bytes needs 0 <= start <= end, not [{start}, {end}) of {key}")
        return read_ranges(self._bucket, self._full(key), key, ranges)

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        return read_size(self._bucket, self._full(key), key)

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order of key, 1,000 per request."""
        check_prefix(prefix)
        return self._list(prefix)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """Return the smallest key > `key` that begins with `prefix`, or None. `prefix` ends with '/'.

        Sends one request, which asks for one key.
        """
        if not check_prefix(prefix).endswith("/"):
            raise InvalidInput(f"first_key_after takes a prefix that ends with '/', not {prefix!r}")
        # Some servers ignore a StartAfter that sorts before the prefix, others refuse it.
        after = {"StartAfter": f"{self._prefix}{key}"} if key > prefix else {}
        return next((stored.key for stored in self._list(prefix, MaxKeys=1, **after)), None)

    def delete(self, key: str) -> None:
        """Remove one object by its exact key. An absent key is not an error. Raises StoreUnavailable, StoreReadOnly."""
        try:
            self._bucket.repeat_small(f"delete {key}", "delete_object", writing=True, absent=True, Key=self._full(key))
        except S3RequestFailed:
            return  # the key was absent: some servers say so, S3 itself does not

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects by their exact keys, 1,000 per request. Errors: see ObjectStore.

        Keys that the answer does not report as deleted are deleted with one request each. So this is slow on a server
        without bulk deletion.
        """
        keys = [check_key(key) for key in keys]
        batches = [keys[at : at + _DELETED_AT_ONCE] for at in range(0, len(keys), _DELETED_AT_ONCE)]
        in_parallel(self._delete_batch, batches)

    def _delete_batch(self, keys: Sequence[str]) -> None:
        wanted = [{"Key": self._full(key)} for key in keys]
        deleted: set[str] = set()
        with suppress(SparklogError):
            answer = self._bucket.repeat_small(
                f"delete {counted(len(keys), 'object')}",
                "delete_objects",
                writing=True,
                Delete={"Objects": wanted, "Quiet": False},
            )
            deleted = {str(entry["Key"]) for entry in answer.get("Deleted", ())}
        delete_each(self, [key for key in keys if self._full(key) not in deleted])

    def free_bytes(self) -> int | None:
        """None: a bucket has no limit."""
        return None

    def remove_abandoned(self, before_ms: int) -> int:
        """Abort the uploads below the prefix that began before `before_ms` (ms since the epoch). Return their number.

        If an upload is still open, its `publish` raises StoreUnavailable. An upload that has sent nothing yet is found
        only by the instance that began it.
        """
        with self._uploads_lock:
            own = list(self._uploads)
        removed = sum(upload.remove(before_ms) for upload in own)
        marker: dict[str, Any] = {}
        while True:
            page = self._bucket.repeat_small(
                f"list the open uploads of {self.url}", "list_multipart_uploads", Prefix=self._prefix, **marker
            )
            for upload in page.get("Uploads", []):
                if upload["Initiated"].timestamp() * 1000 < before_ms and upload["Key"].startswith(self._prefix):
                    removed += self._abort(upload["Key"], upload["UploadId"])
            if not page.get("IsTruncated"):
                return removed
            marker = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def _abort(self, full_key: str, upload_id: str) -> int:
        try:
            self._bucket.repeat_small(
                f"abort the upload of {full_key}",
                "abort_multipart_upload",
                writing=True,
                absent=True,
                Key=full_key,
                UploadId=upload_id,
            )
        except S3RequestFailed:
            return 0  # it is gone already
        return 1

    def _list(self, prefix: str, **parameters: Any) -> Iterator[StoredKey]:
        """Yield the objects of all pages of a listing. A page may be empty although more pages follow."""
        token: dict[str, str] = {}
        while True:
            page = self._page(prefix, **parameters, **token)
            for entry in page.get("Contents", []):
                key = str(entry["Key"])[len(self._prefix) :]
                yield StoredKey(key, int(entry["Size"]), int(entry["LastModified"].timestamp() * 1000))
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _page(self, prefix: str, **parameters: Any) -> dict[str, Any]:
        wanted = f"list {prefix!r} of {self.url}"
        try:
            return self._bucket.repeat_small(wanted, "list_objects_v2", Prefix=f"{self._prefix}{prefix}", **parameters)
        except S3RequestFailed as failed:  # S3 never answers a listing with "no such key"
            raise self._bucket.error(failed, wanted, writing=False) from failed

    def _full(self, key: str) -> str:
        full = f"{self._prefix}{check_key(key)}"
        if len(full) > _KEY_BYTES:
            raise InvalidInput(
                f"a key of S3 has at most {_KEY_BYTES} bytes with its prefix, found {len(full)}: {full!r}"
            )
        return full
