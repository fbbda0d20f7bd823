"""A put-if-absent with a streamed body: one conditional PUT if it is small, else parts and a conditional completion."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final

from sparklog.core.cost.request_costs import PART_BYTES
from sparklog.core.describe.readable import amount
from sparklog.core.errors import InvalidInput, KeyNotFound, SparklogError, StoreUnavailable
from sparklog.host.clock import now_ms
from sparklog.host.dice import new_id
from sparklog.storage.object_store import Bytes
from sparklog.storage.s3.answers import S3RequestFailed, not_s3
from sparklog.storage.s3.bucket import MS_PER_MIB, Bucket, whose

PARTS_AT_ONCE: Final = 4
COPIED_BYTES: Final = 16 * 1024 * 1024  # size of a part that S3 copies itself, so that it fits into one try
# Answers of servers that don't know the request or may not read the source (another region, keys without permission).
_CAN_NOT_COPY: Final = frozenset({301, 307, 308, 400, 403, 405, 501})
_MOST_PARTS: Final = 10_000


class S3Upload:
    """An object being written. One thread at a time.

    Holds at most 5 parts of 8 MiB: one being filled and four being sent. `publish` sends an object of at most one part
    in one request.
    """

    def __init__(self, bucket: Bucket, key: str) -> None:
        self.began_ms = now_ms()
        self._bucket = bucket
        self._key = key
        self._part = bytearray()
        self._upload_id: str | None = None
        self._write_id = new_id()
        self._sending: deque[Future[tuple[int, str]]] = deque()
        self._sent: list[tuple[int, str]] = []
        self._ended = False
        self._removed = False

    def write(self, body: Bytes) -> None:
        """Append bytes. Raises StoreFull, StoreReadOnly, StoreUnavailable; after an error only `abort` is legal."""
        self._check_open()
        rest = memoryview(body).cast("B")
        try:
            while rest:
                if len(self._part) == PART_BYTES:
                    self._send_part()
                room = PART_BYTES - len(self._part)
                self._part += rest[:room]
                rest = rest[room:]
        except BaseException:
            self.abort()
            raise

    def copy(self, bucket: str, full_key: str, size_bytes: int) -> bool:
        """Let S3 copy an object into this upload, in place of `write`. Return False if the server can't copy.

        The source is the object `full_key` in `bucket`; it has `size_bytes`, at least 1. Raises KeyNotFound, and the
        errors of `write`.
        """
        self._check_open()
        source = {"CopySource": {"Bucket": bucket, "Key": full_key}}
        try:
            self._upload_id = upload_id = self._begin()
            for number, start in enumerate(range(0, size_bytes, COPIED_BYTES), start=1):
                end = min(start + COPIED_BYTES, size_bytes)
                ranged = {"CopySourceRange": f"bytes={start}-{end - 1}"} if size_bytes > COPIED_BYTES else {}
                parameters = {"Key": self._key, "UploadId": upload_id, "PartNumber": number, **source, **ranged}
                while len(self._sending) >= PARTS_AT_ONCE:
                    self._await_part()
                self._sending.append(self._bucket.client.in_thread(partial(self._copy_part, number, parameters)))
            while self._sending:
                self._await_part()
        except BaseException as error:
            self.abort()
            cause = error.__cause__
            if isinstance(cause, S3RequestFailed) and cause.status in _CAN_NOT_COPY and not cause.may_pass:
                return False
            if isinstance(cause, S3RequestFailed) and cause.code == "NoSuchKey":
                raise KeyNotFound(f"wanted to copy {full_key}, found nothing in bucket {bucket}") from cause
            raise
        return True

    def publish(self) -> None:
        """Make the whole object durable and visible under its key, if the key is free. Errors: see ObjectStore."""
        self._check_open()
        try:
            if self._removed:
                raise StoreUnavailable(f"wanted to publish {self._key}, found that it was removed as abandoned")
            if self._upload_id is None:
                self._bucket.put_whole(self._key, self._part, always_looks=True)
                return
            if self._part:
                self._send_part()
            while self._sending:
                self._await_part()
            complete = partial(self._bucket.complete_once_if_absent, self._key, self._upload_id, self._sent)
            self._bucket.write_if_absent(self._key, self._write_id, complete, always_looks=True)
            self._upload_id = None
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard the written bytes. Legal at any time and more than once; does nothing after `publish`."""
        self._ended = True
        self._part = bytearray()
        upload_id, self._upload_id = self._upload_id, None
        for part in self._sending:
            part.cancel()
        while self._sending:  # S3 would keep, and bill, a part that arrives after the abort
            with suppress(Exception):
                self._sending.popleft().exception()
        if upload_id is not None:
            # `remove_abandoned` removes later what can't be removed now.
            with suppress(SparklogError):
                self._bucket.repeat_small(
                    f"abort the upload of {self._key}",
                    "abort_multipart_upload",
                    writing=True,
                    Key=self._key,
                    UploadId=upload_id,
                )

    def remove(self, before_ms: int) -> bool:
        """Mark the upload as abandoned if it is open, began before `before_ms` and has sent nothing.

        Its `publish` then raises StoreUnavailable. Return True if this call marked the upload.
        """
        if self._ended or self._removed or self._upload_id is not None or self.began_ms >= before_ms:
            return False
        self._removed = True
        return True

    def __enter__(self) -> S3Upload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidInput(f"the upload of {self._key} has ended or failed: begin another one")

    def _send_part(self) -> None:
        """Wait until fewer than PARTS_AT_ONCE parts are being sent, then let a thread send the filled part."""
        if self._upload_id is None:
            self._upload_id = self._begin()
        while len(self._sending) >= PARTS_AT_ONCE:
            self._await_part()
        number = len(self._sent) + len(self._sending) + 1
        if number > _MOST_PARTS:
            raise InvalidInput(
                f"an object in S3 has at most {_MOST_PARTS} parts of {amount(PART_BYTES)}, found more for {self._key}"
            )
        body, self._part = self._part, bytearray()
        upload_id = self._upload_id
        self._sending.append(self._bucket.client.in_thread(lambda: self._put_part(upload_id, number, body)))

    def _begin(self) -> str:
        answer = self._bucket.repeat_small(
            f"begin the upload of {self._key}",
            "create_multipart_upload",
            writing=True,
            Key=self._key,
            Metadata=whose(self._write_id),
        )
        return str(answer["UploadId"])

    def _put_part(self, upload_id: str, number: int, body: bytearray) -> tuple[int, str]:
        deadline = self._bucket.deadline(more_ms=len(body) * MS_PER_MIB // (1024 * 1024))
        etag = self._bucket.repeated(
            f"send part {number} of {self._key}",
            lambda: self._bucket.send_part(self._key, upload_id, number, body, deadline),
            deadline,
            writing=True,
        )
        return number, etag

    def _copy_part(self, number: int, parameters: dict[str, Any]) -> tuple[int, str]:
        deadline = self._bucket.deadline(more_ms=COPIED_BYTES * MS_PER_MIB // (1024 * 1024))

        def copy() -> str:
            answer = self._bucket.send_small("upload_part_copy", deadline, **parameters)
            copied: dict[str, str] = answer["CopyPartResult"]
            if "ETag" not in copied:
                raise not_s3("an answer without the ETag of what was copied", 200)
            return copied["ETag"]

        etag = self._bucket.repeated(f"copy part {number} of {self._key}", copy, deadline, writing=True)
        return number, etag

    def _await_part(self) -> None:
        try:
            self._sent.append(self._sending.popleft().result())
        except S3RequestFailed as failed:
            raise StoreUnavailable(
                f"wanted to write {self._key}, found that its upload was removed as abandoned"
            ) from failed
