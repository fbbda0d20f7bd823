"""Requests to the JSON API of Google Cloud Storage, by the library requests; google-auth authorizes them.

Google's own client library is not used: it needs more packages, and adds repeats of its own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import requests
from google.oauth2.credentials import Credentials
from google.oauth2.service_account import Credentials as ServiceAccountCredentials

from sparklog.host.deadline import Deadline
from sparklog.storage.cloud.access_tokens import SCOPE, AccessTokens
from sparklog.storage.cloud.bodies import PIECE_BYTES, Body
from sparklog.storage.cloud.cloud import ListedObject, ObjectPart, Page
from sparklog.storage.cloud.failures import CloudFailure, CloudRequestFailed
from sparklog.storage.cloud.send_once import CONNECT_S, SENT_BYTES, client_of, new_session
from sparklog.storage.cloud.settings import GcsSettings

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
        self._server = client_of(_new_server, settings, try_s)
        self.place = f"the bucket {bucket!r}"
        self.endpoint = self._server.url

    def put(self, name: str, write_id: str, body: Body, timeout_s: float) -> None:
        """Write an object if the name is free, in one request."""
        metadata = json.dumps({"name": name, "metadata": {_WRITE_ID: write_id}})
        # The write id separates the parts: it is new, so no body contains it.
        begin = (
            f"--{write_id}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{metadata}\r\n"
            f"--{write_id}\r\nContent-Type: application/octet-stream\r\n\r\n"
        ).encode()
        end = f"\r\n--{write_id}--".encode()
        size_bytes = len(begin) + body.size_bytes + len(end)
        whole = body.size_bytes <= PIECE_BYTES
        answer = self._call(
            timeout_s,
            "POST",
            "/upload/storage/v1/b/{}/o",
            self._bucket,
            uploadType="multipart",
            ifGenerationMatch="0",
            fields="generation",
            headers={"Content-Type": f"multipart/related; boundary={write_id}"},
            data=b"".join(_parts(begin, body, end)) if whole else _Stream(size_bytes, _parts(begin, body, end)),
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
                "/storage/v1/b/{}/o/{}",
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
            "/storage/v1/b/{}/o",
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
        self._sent(timeout_s, "DELETE", "/storage/v1/b/{}/o/{}", self._bucket, name)

    def _object(self, name: str, timeout_s: float) -> dict[str, Any]:
        properties = self._call(timeout_s, "GET", "/storage/v1/b/{}/o/{}", self._bucket, name, fields="size,metadata")
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
        headers = named.pop("headers", {})
        data = named.pop("data", None)
        if self._server.tokens:
            headers.update(self._server.tokens.headers(timeout_s))
        try:
            answer = self._server.session.request(
                method,
                self._server.url + path.format(*(quote(name, safe="") for name in names)),
                params=named,
                headers=headers,
                data=data,
                timeout=(CONNECT_S, deadline.left_s()),
                stream=True,  # `SendOnce` has read the body: make no copy of it
            )
        except requests.RequestException as error:  # `SendOnce` has classified those of a request that was sent
            raise CloudRequestFailed(CloudFailure.NOT_DONE, f"no request ({type(error).__name__})") from error
        content: bytes = answer.raw.getvalue()
        if answer.status_code >= 300:
            raise _failure(answer.status_code, content)
        return answer.headers, content


def _parts(begin: bytes, body: Body, end: bytes) -> Iterator[bytes]:
    yield begin
    yield from body.pieces(SENT_BYTES)
    yield end


class _Stream:
    """A body of known size, read once, from its first part to the last."""

    def __init__(self, size_bytes: int, parts: Iterator[bytes]) -> None:
        self._size_bytes = size_bytes
        self._parts = parts

    def __len__(self) -> int:
        return self._size_bytes

    def read(self, _: int) -> bytes:
        return next(self._parts, b"")


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


@dataclass(frozen=True, slots=True)
class _Server:
    """The address of a server and the means to ask it. `tokens`: None if requests need no authorization."""

    url: str
    session: requests.Session
    tokens: AccessTokens | None


def _new_server(settings: GcsSettings, try_s: float) -> _Server:
    url = (settings.endpoint_url or _url_of_environment()).rstrip("/")
    tokens = _tokens(settings.credentials_file) if url.startswith("https://") else None
    return _Server(url, new_session(try_s), tokens)


def _url_of_environment() -> str:
    emulator = os.environ.get("STORAGE_EMULATOR_HOST", "")
    if emulator in ("", "default"):
        return f"https://storage.{os.environ.get('GOOGLE_CLOUD_UNIVERSE_DOMAIN', 'googleapis.com')}"
    return emulator if emulator.startswith(("http://", "https://")) else f"http://{emulator}"


def _tokens(file: str | None) -> AccessTokens:
    if file is None:
        return AccessTokens()
    user: Any = Credentials
    service: Any = ServiceAccountCredentials
    if not Path(file).is_file():
        raise ValueError(f"there is no file {file}, which credentials_file names")
    try:
        about = json.loads(Path(file).read_text())
        if "refresh_token" in about:  # of a user: Google refuses a scope for it
            return AccessTokens(user.from_authorized_user_info(about))
        return AccessTokens(service.from_service_account_info(about, scopes=[SCOPE]))
    except (OSError, LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the credentials can't be read: {error}") from error
