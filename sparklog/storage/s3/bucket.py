"""A bucket with one store's settings: the headers of every request, and writes that must not overwrite."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from xml.sax.saxutils import escape

from sparklog.core.errors import SparklogError
from sparklog.host.deadline import Deadline
from sparklog.host.dice import new_id
from sparklog.storage.conditional_write import ConditionalWrite, RequestFailed, repeated
from sparklog.storage.s3.answers import S3RequestFailed, not_s3
from sparklog.storage.s3.client import S3Client, client_of
from sparklog.storage.s3.settings import S3Settings

if TYPE_CHECKING:
    from sparklog.storage.s3.bulk import BulkAnswer

MS_PER_MIB: Final = 1000  # on a slower link, a large PUT misses its deadline
_NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
_WRITE_ID: Final = "sparklog-write"  # in an object's metadata: the id of the put that made it

# Fields that every real answer has. A web page in place of an answer is parsed as an answer without any fields.
_ALWAYS_IN: Final = {
    "head_object": "ETag",
    "create_multipart_upload": "UploadId",
    "upload_part_copy": "CopyPartResult",
    "list_objects_v2": "IsTruncated",
    "list_multipart_uploads": "IsTruncated",
}

Result = TypeVar("Result")


def whose(write_id: str) -> dict[str, str]:
    """Return the object metadata that holds `write_id`. By it a writer recognizes its own object."""
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
        """Return the deadline of a call that begins now. `more_ms`: extra time to move its bytes.

        Builds the client first if there is none, so that the time for that does not count.
        """
        _ = self.client
        return Deadline(self.settings.timeout_ms + more_ms)

    def send_small(self, operation: str, deadline: Deadline, **parameters: object) -> dict[str, Any]:
        """Send one small request, once. Raises S3RequestFailed."""
        try:
            answer = self.client.small_requests.call(operation, deadline, Bucket=self.name, **parameters)
        except S3RequestFailed as failed:
            if operation == "head_object" and failed.status == 404:
                failed.code = "NoSuchKey"  # the answer to a HEAD has no body, so no code
            raise
        if (field := _ALWAYS_IN.get(operation)) and field not in answer:
            raise not_s3(f"an answer without {field}", 200)
        return answer

    def read(self, key: str, start: int, end: int, deadline: Deadline) -> BulkAnswer:
        """Request bytes [start, end) of an object. The caller reads them from the answer. Raises S3RequestFailed."""
        headers = {"Range": f"bytes={start}-{end - 1}", **self._always}
        return self.client.bulk("GET", self.name, key, deadline, headers=headers)

    def put_once_if_absent(self, key: str, write_id: str, body: bytes | bytearray, deadline: Deadline) -> None:
        """Send one conditional PUT of a whole object, once. Raises S3RequestFailed."""
        named = {f"x-amz-meta-{name}": value for name, value in whose(write_id).items()}
        self._sent(key, body, deadline, headers={"If-None-Match": "*", **named, **self._new_object, **self._always})

    def send_part(self, key: str, upload_id: str, number: int, body: bytes | bytearray, deadline: Deadline) -> str:
        """Send part `number` of an upload, once, and return its ETag. Raises S3RequestFailed."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        return self._sent(key, body, deadline, headers=self._always, query=query)

    def complete_once_if_absent(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], deadline: Deadline
    ) -> None:
        """Complete an upload of `parts` (number and ETag of each) under the same condition, once.

        Raises S3RequestFailed.
        """
        named = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>" for number, etag in parts
        )
        body = f'<CompleteMultipartUpload xmlns="{_NAMESPACE}">{named}</CompleteMultipartUpload>'.encode()
        headers = {"If-None-Match": "*", "Content-Type": "application/xml", **self._always}
        query = {"uploadId": upload_id}
        answer = self.client.bulk("POST", self.name, key, deadline, query=query, headers=headers, body=body)
        answer.check_completed(deadline)

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

    def repeat_small(
        self, wanted: str, operation: str, *, writing: bool = False, absent: bool = False, **parameters: object
    ) -> dict[str, Any]:
        """Send one small request until it succeeds or the deadline passes, and return its answer.

        The request must be safe to repeat. Raises the error for the store's caller. With `absent`, raises
        S3RequestFailed if the key or the upload does not exist. `wanted`: the request in words; `writing`: True for a
        write.
        """
        deadline = self.deadline()
        try:
            return self.repeated(
                wanted, lambda: self.send_small(operation, deadline, **parameters), deadline, writing=writing
            )
        except S3RequestFailed as failed:
            if absent:
                raise
            raise self.error(failed, wanted, writing=writing) from failed

    def repeated(self, wanted: str, send: Callable[[], Result], deadline: Deadline, *, writing: bool) -> Result:
        """Send a request until it succeeds, and return its answer. The request must be safe to repeat.

        Raises S3RequestFailed if the key or the upload does not exist, otherwise the error for the store's caller.
        `wanted`: the request in words; `writing`: True for a write.
        """
        try:
            return repeated(send, deadline)
        except S3RequestFailed as failed:
            if failed.absent:
                raise
            raise self.error(failed, wanted, writing=writing) from failed

    def put_whole(self, key: str, body: bytes | bytearray, *, always_looks: bool = False) -> None:
        """Send a conditional PUT, with the same bytes each time, until its outcome is known or the deadline passes.

        `always_looks`: see `write_if_absent`. Raises the errors of `ObjectStore.put_if_absent`.
        """
        write_id = new_id()
        self.write_if_absent(
            key,
            write_id,
            lambda deadline: self.put_once_if_absent(key, write_id, body, deadline),
            more_ms=len(body) * MS_PER_MIB // (1024 * 1024),
            always_looks=always_looks,
        )

    def write_if_absent(
        self,
        key: str,
        write_id: str,
        send: Callable[[Deadline], object],
        *,
        more_ms: int = 0,
        always_looks: bool = False,
    ) -> None:
        """Send a conditional write until it gets a definite answer or the deadline passes. See ConditionalWrite.

        `always_looks`: for a key that no other writer uses. The write ids are compared even if the first attempt finds
        the key taken, because a proxy may have sent the request twice.
        """
        write = ConditionalWrite(
            key,
            write_id,
            self.client.endpoint,
            send,
            lambda deadline: self._write_id_of(key, deadline),
            lambda failed, wanted: self.error(failed, wanted, writing=True),
            always_looks=always_looks,
        )
        write.run(self.deadline(more_ms))

    def _write_id_of(self, key: str, deadline: Deadline) -> str | None:
        metadata: dict[str, str] = self.send_small("head_object", deadline, Key=key).get("Metadata", {})
        return {name.lower(): value for name, value in metadata.items()}.get(_WRITE_ID)

    def error(self, failed: RequestFailed, wanted: str, *, writing: bool) -> SparklogError:
        """Return the error to raise to the store's caller after `failed`. `wanted`: the request in words."""
        assert isinstance(failed, S3RequestFailed)
        return failed.error(wanted, self.name, self.client.endpoint, writing=writing)
