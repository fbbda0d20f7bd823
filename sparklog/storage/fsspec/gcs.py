"""Requests to Google Cloud Storage, through gcsfs's public `call` of the JSON API.

gcsfs holds the endpoint and the connections. Its own `pipe_file(mode="create")` is not used: it repeats a request
whose answer was lost, its error for a taken key hides the status, and it marks the end of the body with a fixed line,
so a body that contains this line is cut there.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import gcsfs.core

from sparklog.host.deadline import Deadline
from sparklog.storage.fsspec.access_tokens import AccessTokens
from sparklog.storage.fsspec.bodies import WHOLE_BYTES, Body
from sparklog.storage.fsspec.clients import files_of
from sparklog.storage.fsspec.cloud import CONNECT_S, ListedObject, ObjectPart, Page
from sparklog.storage.fsspec.connections import connection_failure
from sparklog.storage.fsspec.failures import CloudFailure, CloudRequestFailed
from sparklog.storage.fsspec.settings import GcsSettings

_WRITE_ID: Final = "sparklog-write"
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+)")
_BUSY: Final = frozenset({408, 409, 425, 429})
_LIMITS: Final = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})  # 403 that passes
_ENTRY_FIELDS: Final = "items(name,size,updated),prefixes,nextPageToken"


class Gcs:
    """A bucket of Google Cloud Storage."""

    starts_listings_anywhere = True

    def __init__(self, bucket: str, settings: GcsSettings, try_s: float) -> None:
        self._bucket = bucket
        self._files = files_of((settings, try_s), lambda: _new_files(settings, try_s))
        self._uploads = self._files.base.replace("/storage/v1/", "/upload/storage/v1/")
        self.place = f"the bucket {bucket!r}"
        self.endpoint = self._files.base.removesuffix("/storage/v1/")

    def put(self, name: str, write_id: str, body: Body, timeout_s: float) -> None:
        """Write an object if the name is free, in one request."""
        metadata = json.dumps({"name": name, "metadata": {_WRITE_ID: write_id}})
        # The write id separates the parts: it is new, so no body contains it.
        begin = (
            f"--{write_id}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{metadata}\r\n"
            f"--{write_id}\r\nContent-Type: application/octet-stream\r\n\r\n"
        ).encode()
        end = f"\r\n--{write_id}--".encode()
        whole = body.size_bytes <= WHOLE_BYTES
        answer = self._call(
            timeout_s,
            "POST",
            f"{self._uploads}b/{{}}/o",
            self._bucket,
            uploadType="multipart",
            ifGenerationMatch="0",
            fields="generation",
            headers={
                "Content-Type": f"multipart/related; boundary={write_id}",
                "Content-Length": str(len(begin) + body.size_bytes + len(end)),
            },
            data=b"".join([begin, body.read(0, body.size_bytes), end]) if whole else _streamed(begin, body, end),
        )
        if "generation" not in answer:
            raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, "an answer without the generation of what was written")

    def write_id_of(self, name: str, timeout_s: float) -> str | None:
        """The write id in an object's metadata, or None if the metadata has no write id."""
        write_id = self._object(name, timeout_s).get("metadata", {}).get(_WRITE_ID)
        return None if write_id is None else str(write_id)

    def size(self, name: str, timeout_s: float) -> int:
        """Length of an object in bytes."""
        return int(self._object(name, timeout_s)["size"])

    def read(self, name: str, start: int, end: int, timeout_s: float) -> ObjectPart:
        """The bytes [start, end) of an object, or fewer if the object ends earlier."""
        deadline = Deadline(round(timeout_s * 1000))
        try:
            headers, body = self._sent(
                timeout_s,
                "GET",
                "b/{}/o/{}",
                self._bucket,
                name,
                alt="media",
                headers={"Range": f"bytes={start}-{end - 1}"},
            )
        except CloudRequestFailed as failed:
            if failed.kind is CloudFailure.NOT_THE_STORE:
                self._object(name, deadline.left_s())  # a 404 for a body proves nothing; a 404 for the metadata does
            raise
        span = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if "X-Goog-Generation" not in headers or not (span or start == 0):
            raise CloudRequestFailed(
                CloudFailure.NOT_THE_STORE, "an answer without the generation or the range of what was read"
            )
        if span and (int(span[1]) != start or len(body) != min(end, int(span[2])) - start):
            raise CloudRequestFailed(
                CloudFailure.NOT_THE_STORE, f"bytes from {span[1]} on, {len(body)} of them, instead of {start}-{end}"
            )
        # An answer without a range is the whole object: the object is empty, or a server ignored the range.
        size_bytes = int(span[2]) if span else len(body)
        return ObjectPart(body if span else body[:end], size_bytes, headers["X-Goog-Generation"])

    def list_page(
        self, prefix: str, timeout_s: float, *, token: str | None, start: str | None = None, by_folder: bool = False
    ) -> Page:
        """One page of a listing. See Cloud.list_page."""
        page = self._call(
            timeout_s,
            "GET",
            "b/{}/o",
            self._bucket,
            prefix=prefix,
            startOffset=start,
            delimiter="/" if by_folder else None,
            maxResults=None if start is None else 2,  # the caller wants the first key after another one
            pageToken=token,
            fields=_ENTRY_FIELDS,
        )
        objects = [
            ListedObject(
                entry["name"], int(entry["size"]), int(datetime.fromisoformat(entry["updated"]).timestamp() * 1000)
            )
            for entry in page.get("items", ())
        ]
        return Page(objects, page.get("prefixes", ()), page.get("nextPageToken"))

    def delete(self, name: str, timeout_s: float) -> None:
        """Remove an object. An absent one raises CloudRequestFailed."""
        self._sent(timeout_s, "DELETE", "b/{}/o/{}", self._bucket, name)

    def _object(self, name: str, timeout_s: float) -> dict[str, Any]:
        properties = self._call(timeout_s, "GET", "b/{}/o/{}", self._bucket, name, fields="size,metadata")
        if "size" not in properties:
            raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, "an answer without the size of an object")
        return properties

    def _call(self, timeout_s: float, method: str, path: str, *names: str, **named: Any) -> dict[str, Any]:
        """Send one request and return its answer, a JSON object. Arguments and errors: see `_sent`."""
        try:
            answer = json.loads(self._sent(timeout_s, method, path, *names, **named)[1])
        except ValueError as error:
            raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, "an answer that is not JSON") from error
        except CloudRequestFailed as failed:
            if failed.kind is CloudFailure.ABSENT and len(names) < 2:  # the request named no object
                raise CloudRequestFailed(CloudFailure.NO_BUCKET, failed.reason) from failed
            raise
        if not isinstance(answer, dict):
            raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, "an answer that is not Google Cloud Storage's")
        return answer

    def _sent(self, timeout_s: float, method: str, path: str, *names: str, **named: Any) -> tuple[Any, bytes]:
        """Send one request and return the headers and the body of its answer.

        `names` replace the {} in `path`, in order. `named` may have `headers` and `data`; everything else in it is a
        parameter of the query. Raises CloudRequestFailed, or StoreUnavailable without credentials.
        """
        deadline = Deadline(round(timeout_s * 1000))
        if self._files.tokens:
            named["headers"] = {**named.get("headers", {}), **self._files.tokens.headers(timeout_s)}
        try:
            headers, body = self._files.call(method, path, *names, timeout=max(0.001, deadline.left_s()), **named)
        except CloudRequestFailed:
            raise
        except (OSError, aiohttp.ClientError, ValueError) as error:
            raise connection_failure(error) from error
        return headers, body


async def _streamed(begin: bytes, body: Body, end: bytes) -> AsyncIterator[bytes]:
    yield begin
    for piece in body.pieces():
        yield piece
    yield end


class _SendOnceGcsFiles(gcsfs.core.GCSFileSystem):  # type: ignore[misc]
    """gcsfs that sends each request once, and whose errors give the HTTP status.

    `tokens`: None if requests need no authorization.
    """

    tokens: AccessTokens | None = None

    async def _request(
        self, method: str, path: str, *args: str, headers: Any = None, json: Any = None, data: Any = None, **named: Any
    ) -> tuple[int, Any, Any, bytes]:
        await self._set_session()
        async with self.session.request(
            method,
            self._format_path(path, args),
            params=self._get_params(named),
            headers=self._get_headers(headers),
            json=json,
            data=data,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=self.requests_timeout),
        ) as answer:
            body = await answer.read()
            if answer.status >= 300:
                raise _failure(answer.status, body)
            return answer.status, answer.headers, answer.request_info, body


def _failure(status: int, body: bytes) -> CloudRequestFailed:
    try:
        error = json.loads(body)["error"]
        message, reasons = str(error.get("message", "")), {cause.get("reason") for cause in error.get("errors", ())}
        known = True
    except (ValueError, KeyError, TypeError, AttributeError):
        message, reasons = body[:200].decode(errors="replace"), set()
        known = message.startswith(("No such object", "The specified bucket"))
    reason = f"HTTP {status}: {message}"
    if status == 412:
        return CloudRequestFailed(CloudFailure.EXISTS, reason)
    if status == 404 and known:
        no_bucket = "bucket does not exist" in message
        return CloudRequestFailed(CloudFailure.NO_BUCKET if no_bucket else CloudFailure.ABSENT, reason)
    if status == 416:
        return CloudRequestFailed(CloudFailure.PAST_END, reason)
    if status in _BUSY or status >= 500 or (status == 403 and reasons & _LIMITS):
        return CloudRequestFailed(CloudFailure.BUSY, reason)
    if status in (401, 403):
        return CloudRequestFailed(CloudFailure.DENIED, reason)
    return CloudRequestFailed(CloudFailure.REFUSED if known else CloudFailure.NOT_THE_STORE, reason)


def _new_files(settings: GcsSettings, try_s: float) -> _SendOnceGcsFiles:
    files = _SendOnceGcsFiles(
        skip_instance_cache=True,
        use_listings_cache=False,
        endpoint_url=settings.endpoint_url,
        token="anon",  # AccessTokens authorizes: gcsfs would refresh tokens on the loop
        requests_timeout=try_s,
    )
    if files.base.startswith("https://"):
        files.tokens = _tokens(settings.credentials_file)
    return files


def _tokens(file: str | None) -> AccessTokens:
    if file is None:
        return AccessTokens()
    if not Path(file).is_file():  # gcsfs would take the name for a token and send it to Google
        raise ValueError(f"there is no file {file}, which credentials_file names")
    try:
        return AccessTokens(gcsfs.core.GoogleCredentials(None, "full_control", file).credentials)
    except (OSError, LookupError, TypeError, AttributeError) as error:  # fields are missing in the file
        raise ValueError(f"the credentials can't be read: {error!r}") from error
