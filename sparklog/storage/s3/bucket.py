"""One bucket as one store reaches it: what every request carries, and writes that must not overwrite."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sparklog.core.errors import KeyExists, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.core.readable import duration
from sparklog.host.deadline import Deadline, tries
from sparklog.storage.s3.answers import Failed, not_s3
from sparklog.storage.s3.client import S3Client, client_of
from sparklog.storage.s3.settings import S3Settings

if TYPE_CHECKING:
    from sparklog.storage.s3.bulk import Answer

# Tries of a request that certainly did nothing, or that is safe to repeat. After these the caller decides.
HARMLESS_TRIES: Final = 6
_WRITE_ID: Final = "sparklog-write"  # in an object's metadata: the id of the put that made it
_CONTROL_BYTES: Final = 512 * 1024  # larger bodies are bulk

# Fields that every real answer has. A web page in place of an answer is parsed as an answer without any fields.
_ALWAYS_IN: Final = {
    "head_object": "ETag",
    "create_multipart_upload": "UploadId",
    "upload_part_copy": "CopyPartResult",
    "complete_multipart_upload": "ETag",
    "list_objects_v2": "IsTruncated",
    "list_multipart_uploads": "IsTruncated",
}

Result = TypeVar("Result")


def whose(write_id: str) -> dict[str, str]:
    """The metadata by which the writer with `write_id` recognizes its object."""
    return {_WRITE_ID: write_id}


class Bucket:
    """A bucket, and how to reach it. Safe to keep across a fork."""

    def __init__(self, name: str, settings: S3Settings) -> None:
        self.name = name
        self.settings = settings
        self._client: tuple[int, S3Client] | None = None  # with the id of the process that it belongs to
        # Headers of bulk requests; s3fs adds its own to the others.
        self._always = {"x-amz-request-payer": settings.request_payer} if settings.request_payer else {}
        encryption = {
            "x-amz-server-side-encryption": settings.encryption,
            "x-amz-server-side-encryption-aws-kms-key-id": settings.kms_key_id,
        }
        self._new_object = {name: value for name, value in encryption.items() if value is not None}

    @property
    def client(self) -> S3Client:
        """This process's client, made at the first use."""
        if self._client is None or self._client[0] != os.getpid():
            self._client = os.getpid(), client_of(self.settings)
        return self._client[1]

    def deadline(self, more_ms: int = 0) -> Deadline:
        """The deadline of a call that begins now. The time it takes to make the client does not count."""
        _ = self.client
        return Deadline(self.settings.timeout_ms + more_ms)

    def control(self, operation: str, deadline: Deadline, **parameters: object) -> dict[str, Any]:
        """One small request, sent once. Raises Failed."""
        try:
            answer = self.client.control.call(operation, deadline, Bucket=self.name, **parameters)
        except Failed as failed:
            if operation == "head_object" and failed.status == 404:
                failed.code = "NoSuchKey"  # the answer to a HEAD has no body to hold the code
            raise
        if (field := _ALWAYS_IN.get(operation)) and field not in answer:
            raise not_s3(f"an answer without {field}", 200)
        return answer

    def read(self, key: str, start: int, end: int, deadline: Deadline) -> Answer:
        """Begin to read bytes [start, end) of an object. Raises Failed."""
        headers = {"Range": f"bytes={start}-{end - 1}", **self._always}
        return self.client.bulk("GET", self.name, key, deadline, headers=headers)

    def put(self, key: str, write_id: str, body: bytes | bytearray, deadline: Deadline) -> None:
        """One conditional PUT of a whole object, sent once. Raises Failed."""
        if len(body) <= _CONTROL_BYTES:
            answer = self.client.control.put_if_absent(self.name, key, body, whose(write_id), deadline)
            if "ETag" not in answer:
                raise not_s3("an answer without the ETag of what was written", 200)
            return
        named = {f"x-amz-meta-{name}": value for name, value in whose(write_id).items()}
        self._sent(key, body, deadline, headers={"If-None-Match": "*", **named, **self._new_object, **self._always})

    def send_part(self, key: str, upload_id: str, number: int, body: bytes | bytearray, deadline: Deadline) -> str:
        """Send one part of an upload, once. Returns its ETag. Raises Failed."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        return self._sent(key, body, deadline, headers=self._always, query=query)

    def _sent(
        self,
        key: str,
        body: bytes | bytearray,
        deadline: Deadline,
        headers: dict[str, str],
        query: dict[str, str] | None = None,
    ) -> str:
        answer = self.client.bulk("PUT", self.name, key, deadline, query=query, headers=headers, body=body)
        answer.close()
        etag = answer.header("ETag")
        if not etag:
            raise not_s3("an answer without the ETag of what was written", answer.status)
        return etag

    def harmless(
        self, wanted: str, operation: str, *, writing: bool = False, absent: bool = False, **parameters: object
    ) -> dict[str, Any]:
        """One small request that is safe to repeat; it is repeated as needed. Raises the caller's error.

        With `absent`, raises Failed if the answer says that the key, or the upload, is not there.
        """
        deadline = self.deadline()
        try:
            return self.repeated(
                wanted, lambda: self.control(operation, deadline, **parameters), deadline, writing=writing
            )
        except Failed as failed:
            if absent:
                raise
            raise self.error(failed, wanted, writing=writing) from failed

    def repeated(self, wanted: str, send: Callable[[], Result], deadline: Deadline, *, writing: bool) -> Result:
        """The answer to a request that is safe to repeat. Raises Failed if the key (or the upload) is absent."""
        for number in tries(deadline):
            try:
                return send()
            except Failed as failed:
                if failed.absent:
                    raise
                last = failed
                if not failed.may_pass or number >= HARMLESS_TRIES:
                    break
        raise self.error(last, wanted, writing=writing) from last

    def write_if_absent(
        self,
        key: str,
        write_id: str,
        send: Callable[[Deadline], object],
        *,
        more_ms: int = 0,
        sole_writer: bool = False,
    ) -> None:
        """Send a conditional write until it gets a definite answer or the deadline passes.

        The same bytes are sent each time. If an earlier attempt got no answer and the key is now taken, compare
        `write_id` to learn whether the object is ours. The `sole_writer` of a key compares it after the first attempt
        too, because something in between may have sent the request twice. Raises the errors of the port's
        `put_if_absent`.
        """
        wanted = f"put {key} if absent"
        deadline = self.deadline(more_ms)
        in_doubt = False
        for number in tries(deadline):
            try:
                send(deadline)
                return
            except Failed as failed:
                last = failed
            if last.exists or (last.code == "NoSuchUpload" and in_doubt):
                looks = in_doubt or sole_writer
                if looks and self._is_own(key, write_id, deadline, taken=last.exists):
                    return
                raise KeyExists(f"wanted to {wanted}, found an object there") from last
            if last.code == "NoSuchUpload":
                raise StoreUnavailable(f"wanted to {wanted}, found that its upload was removed as abandoned") from last
            # S3 never answers a write with "no such key". If that came back, something in between said it, and the
            # write may have been done.
            if not (last.may_pass or last.absent):
                if in_doubt:
                    break
                raise self.error(last, wanted, writing=True) from last
            in_doubt = in_doubt or last.in_doubt or last.absent
            if not in_doubt and number >= HARMLESS_TRIES:
                break
        if in_doubt:
            raise OutcomeUnknown(
                f"wanted to {wanted} at {self.client.endpoint}, no definite answer came in "
                f"{duration(deadline.timeout_ms)}, the last was: {last.reason}"
            ) from last
        raise self.error(last, wanted, writing=True) from last

    def _is_own(self, key: str, write_id: str, deadline: Deadline, *, taken: bool) -> bool:
        """Whether the object under `key` comes from this write. False also if that can't be determined.

        Raises StoreUnavailable if nothing is there and nothing can arrive any more (`taken` is False).
        """
        for number in tries(deadline):
            try:
                metadata = self.control("head_object", deadline, Key=key).get("Metadata", {})
                return {name.lower(): value for name, value in metadata.items()}.get(_WRITE_ID) == write_id
            except Failed as failed:
                if failed.absent and not taken:
                    raise StoreUnavailable(
                        f"wanted to put {key} if absent, found neither it nor its upload"
                    ) from failed
                if not failed.may_pass or number >= HARMLESS_TRIES:
                    return False
        return False

    def error(self, failed: Failed, wanted: str, *, writing: bool) -> SparklogError:
        """The error for the caller of the store."""
        return failed.error(wanted, self.name, self.client.endpoint, writing=writing)
