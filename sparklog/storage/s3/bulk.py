"""Requests that are sent once, or have large bodies: over a plain connection, from or into the caller's memory.

A plain connection lets every wait have its own limit, and an answer be checked before its body is read. And of all
clients that still work in a forked process after the parent has used them, plain connections take the least processor
time per MiB (docs/benchmarks-s3.md).
"""

from __future__ import annotations

import http.client
import re
import select
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from botocore.auth import UNSIGNED_PAYLOAD, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError
from botocore.httpsession import ProxyConfiguration, get_cert_path
from botocore.utils import get_environ_proxies

from sparklog.host.deadline import Deadline
from sparklog.storage.s3.answers import S3RequestFailed, not_s3, sorted_failure

_IDLE: Final = 64  # connections kept for the next request
_CHUNK_BYTES: Final = 256 * 1024
_LONGEST_ERROR: Final = 64 * 1024
_CODE: Final = re.compile(rb"<Code>\s*([A-Za-z0-9.]+)\s*</Code>")
_MESSAGE: Final = re.compile(rb"<Message>([^<]*)</Message>")


class Bulk:
    """Signed requests to S3 servers. Thread-safe; belongs to one process."""

    def __init__(self, try_s: float, credentials: Any, ca_bundle: str | None) -> None:
        self._try_s = try_s
        self._credentials = credentials
        self._ca_bundle = ca_bundle
        self._servers: dict[str, _ServerConnections] = {}

    def send(
        self,
        method: str,
        place: Place,
        key: str,
        deadline: Deadline,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str],
        body: bytes | bytearray | None = None,
    ) -> BulkAnswer:
        """Send one request to the bucket at `place`, once. Raises S3RequestFailed, also for a status of 300 or more."""
        path = f"{place.path}{quote(key, safe='/')}"
        if query:
            path += f"?{urlencode(query, quote_via=quote, safe='')}"
        try:
            signed = self._signed(method, place, path, headers)
            server = self._servers.get(place.server) or self._server(place.server)
        except Exception as error:
            raise sorted_failure(error) from error
        connection = server.taken()
        connected = whole = False
        try:
            if connection.sock is None:
                connection.timeout = _at_most(self._try_s, deadline)
                connection.connect()
            connected = True
            # Sending a body may take until the deadline; every other wait is limited to the time of one try.
            connection.sock.settimeout(_at_most(self._try_s if body is None else None, deadline))
            with suppress(BrokenPipeError, ConnectionResetError):  # the server may refuse before the body ends
                connection.request(method, server.target(path), body=body, headers={**signed, **server.headers})
                whole = True
            connection.sock.settimeout(_at_most(self._try_s, deadline))
            response = connection.getresponse()
            response.will_close |= not whole  # do not reuse the connection after a partial request
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            failed = sorted_failure(error)
            failed.sent = connected
            raise failed from error
        answer = BulkAnswer(server, connection, response, self._try_s)
        if response.status >= 300:
            raise _refused(response, answer, deadline)
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        for server in self._servers.values():
            server.close()

    def _signed(self, method: str, place: Place, path: str, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request, with its signature."""
        if self._credentials is None:
            raise NoCredentialsError
        request = AWSRequest(method=method, url=f"{place.server}{path}", headers=headers)
        _UnsignedBodyAuth(self._credentials.get_frozen_credentials(), "s3", place.region).add_auth(request)
        return {"Accept-Encoding": "identity", **request.headers}

    def _server(self, url: str) -> _ServerConnections:
        return self._servers.setdefault(url, _ServerConnections(url, self._ca_bundle))


class _ServerConnections:
    """Connections to a server, kept for later requests. They use the proxy that the environment names, if any."""

    def __init__(self, url: str, ca_bundle: str | None) -> None:
        self._url = url
        self._tls = (
            ssl.create_default_context(cafile=get_cert_path(ca_bundle or True)) if url.startswith("https") else None
        )
        proxies = ProxyConfiguration(get_environ_proxies(url))
        self._proxy: str | None = proxies.proxy_url_for(url)
        self._proxy_headers: dict[str, str] = proxies.proxy_headers_for(self._proxy) if self._proxy else {}
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    @property
    def headers(self) -> dict[str, str]:
        """Headers for the proxy, to send with each request; {} under TLS, where the proxy can't read requests."""
        return {} if self._tls else self._proxy_headers

    def target(self, path: str) -> str:
        """The target in the request line: the whole URL if a proxy reads the requests, else `path`."""
        return f"{self._url}{path}" if self._proxy and not self._tls else path

    def taken(self) -> http.client.HTTPConnection:
        """Return an idle connection, or a new one. After use, call `give_back` or close it."""
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            if kept is None:
                break
            if not _has_ended(kept):
                return kept
            kept.close()
        there, through = urlsplit(self._url), urlsplit(self._proxy or self._url)
        if self._tls is None:
            return http.client.HTTPConnection(through.hostname or "", through.port)
        connection = http.client.HTTPSConnection(through.hostname or "", through.port, context=self._tls)
        if self._proxy:
            connection.set_tunnel(there.hostname or "", there.port or 443, self._proxy_headers)
        return connection

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection for reuse. Its last answer must have been read to the end."""
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Place:
    """The place of a bucket: its server, the path before its keys, and the region to sign for."""

    __slots__ = ("path", "region", "server")

    def __init__(self, signed_url: str) -> None:
        """Take server, path and region from `signed_url`: a URL that botocore signed for the bucket's dummy key `k`."""
        parts = urlsplit(signed_url)
        self.server = f"{parts.scheme}://{parts.netloc}"
        self.path = parts.path.removesuffix("k")
        self.region = parse_qs(parts.query)["X-Amz-Credential"][0].split("/")[-3]


class BulkAnswer:
    """An answer whose body is still to be read. Close it: the connection is kept if the body was read to the end."""

    def __init__(
        self,
        server: _ServerConnections,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        wait_s: float,
    ) -> None:
        self._server = server
        self._connection = connection
        self._response = response
        self._wait_s = wait_s  # longest wait for the next bytes
        self.status = response.status

    def header(self, name: str) -> str | None:
        """A header of the answer, or None."""
        return self._response.getheader(name)

    def read_into(self, into: memoryview, deadline: Deadline) -> int:
        """Read until the body ends or `into` is full. Return the number of bytes read. Raises S3RequestFailed."""
        at = 0
        response = self._response
        try:
            while at < len(into):
                self._wait_at_most(deadline)
                if response.length is None or response.chunked:
                    count = response.readinto(into[at : at + _CHUNK_BYTES])
                else:
                    # `readinto` would wait for the whole chunk, however slowly it arrives.
                    room = min(len(into) - at, response.length, _CHUNK_BYTES)
                    count = response.fp.readinto1(into[at : at + room]) if room else 0
                    response.length -= count
                if not count:
                    break
                at += count
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise S3RequestFailed(f"an answer cut at byte {at} of {len(into)} ({type(error).__name__})") from error
        return at

    def check_completed(self, deadline: Deadline) -> None:
        """Read and close the answer to the completion of an upload. Raises S3RequestFailed if it was not completed.

        S3 answers 200 at once, keeps the connection open by blanks, and may still end with an error.
        """
        body = bytearray(_LONGEST_ERROR)
        try:
            self.read_into(memoryview(body), deadline)
        finally:
            self.close()
        if b"<ETag>" not in body:
            if _CODE.search(body):
                raise _failure(body, 500, self._response.reason)
            raise not_s3("an answer without the ETag of what was written", self.status)

    def close(self) -> None:
        """Give the connection back, or close it if part of the body is still to come."""
        whole = self._response.length == 0 and not self._response.chunked and not self._response.will_close
        self._response.close()
        if whole:
            self._server.give_back(self._connection)
        else:
            self._connection.close()

    def _wait_at_most(self, deadline: Deadline) -> None:
        left_s = _at_most(self._wait_s, deadline)
        if left_s < self._wait_s and self._connection.sock is not None:
            self._connection.sock.settimeout(left_s)


class _UnsignedBodyAuth(S3SigV4Auth):  # type: ignore[misc]
    """Signature version 4 over the address and headers only. Hashing the body would cost more than sending it."""

    def payload(self, request: Any) -> str:
        """The placeholder for the body's hash: bodies carry their own checksums."""
        return str(UNSIGNED_PAYLOAD)


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """True if the server closed the idle `connection`. A write over it would have an unknown outcome."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _at_most(wait_s: float | None, deadline: Deadline) -> float:
    """Return the seconds to wait: until the deadline, and at most `wait_s` if it is not None.

    Raises TimeoutError if the deadline has passed.
    """
    left_s = deadline.left_s()
    if left_s == 0:
        raise TimeoutError
    return left_s if wait_s is None else min(wait_s, left_s)


def _refused(response: http.client.HTTPResponse, answer: BulkAnswer, deadline: Deadline) -> S3RequestFailed:
    body = bytearray(_LONGEST_ERROR)
    with suppress(S3RequestFailed):
        answer.read_into(memoryview(body), deadline)
    answer.close()
    region = answer.header("x-amz-bucket-region")
    more = f" (the bucket's region is {region})" if region else ""
    return _failure(body, response.status, response.reason, more)


def _failure(body: bytes | bytearray, status: int, reason: str, more: str = "") -> S3RequestFailed:
    """Return the failure that an answer's body describes. `reason`: the text if the body has none."""
    code, message = _CODE.search(body), _MESSAGE.search(body)
    name = code[1].decode() if code else str(status)
    text = message[1].decode(errors="replace") if message else reason
    return S3RequestFailed(f"HTTP {status} {name}: {text}{more}"[:300], status=status, code=name)
