"""Bulk bodies over urllib3: one request, sent once, from and into the caller's memory, with a deadline.

benchmarks-s3.md has it beside other clients. What decided: connections of urllib3 can be left behind by a fork, every
wait has an end of its own, and an answer is judged before its body is read.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import urllib3
from botocore.auth import UNSIGNED_PAYLOAD, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError
from botocore.httpsession import ProxyConfiguration, get_cert_path
from botocore.utils import get_environ_proxies
from urllib3.exceptions import HTTPError

from sparklog.storage.deadline import Deadline
from sparklog.storage.s3.answers import Failed, sorted_failure

_IDLE: Final = 64  # connections kept for the next request
_PIECE_BYTES: Final = 256 * 1024  # of a body: how much may be sent or received in one wait
_LONGEST_ERROR: Final = 64 * 1024
_CODE: Final = re.compile(rb"<Code>\s*([A-Za-z0-9.]+)\s*</Code>")
_MESSAGE: Final = re.compile(rb"<Message>([^<]*)</Message>")


class Bulk:
    """Connections to S3 servers. Safe for threads; belongs to one process."""

    def __init__(self, try_s: float, credentials: Any, ca_bundle: str | None) -> None:
        self._try_s = try_s
        self._credentials = credentials
        self._ca_bundle = ca_bundle
        self._pools: dict[str, urllib3.HTTPConnectionPool] = {}

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
    ) -> Answer:
        """One request; its answer is below 300. Raises Failed."""
        path = f"{place.path}{quote(key, safe='/')}"
        if query:
            path += f"?{urlencode(query, quote_via=quote, safe='')}"
        wait_s = min(self._try_s, deadline.left_s())
        try:
            pool = self._pool(place.server)
            response = pool.urlopen(
                method,
                f"{place.server}{path}" if pool.proxy is not None and pool.scheme == "http" else path,
                body=None if body is None else _pieces(body, deadline),  # type: ignore[arg-type]
                headers=self._signed(method, place, path, headers, body),
                timeout=urllib3.Timeout(connect=wait_s, read=wait_s),
                retries=False,
                assert_same_host=False,
                preload_content=False,
            )
        except Exception as error:
            raise sorted_failure(error) from error
        answer = Answer(response, wait_s)
        if response.status >= 300:
            raise _refused(response, answer, deadline)
        return answer

    def close(self) -> None:
        """End the connections that nobody uses."""
        for each in self._pools.values():
            each.close()

    def _signed(
        self, method: str, place: Place, path: str, headers: Mapping[str, str], body: bytes | bytearray | None
    ) -> dict[str, str]:
        """All headers of a request."""
        if self._credentials is None:
            raise NoCredentialsError
        request = AWSRequest(method=method, url=f"{place.server}{path}", headers=headers)
        _UnsignedBodyAuth(self._credentials.get_frozen_credentials(), "s3", place.region).add_auth(request)
        signed = dict(request.headers.items())
        return signed if body is None else {**signed, "Content-Length": str(len(body))}

    def _pool(self, server: str) -> urllib3.HTTPConnectionPool:
        """The connections to a server, by way of the proxy that the environment names."""
        pool = self._pools.get(server)
        if pool is None:
            options: dict[str, Any] = {
                "maxsize": _IDLE,
                "cert_reqs": "CERT_REQUIRED",
                "ca_certs": get_cert_path(self._ca_bundle or True),
            }
            proxies = ProxyConfiguration(get_environ_proxies(server))
            proxy = proxies.proxy_url_for(server)
            manager = (
                urllib3.ProxyManager(proxy, proxy_headers=proxies.proxy_headers_for(proxy), **options)
                if proxy
                else urllib3.PoolManager(**options)
            )
            pool = self._pools.setdefault(server, manager.connection_from_url(server))
        return pool


class Place:
    """Where a bucket is: its server, what the paths of its keys begin with, and the region to sign for."""

    __slots__ = ("path", "region", "server")

    def __init__(self, signed_url: str) -> None:
        """`signed_url`: of the key `k`, as botocore's rules make it."""
        parts = urlsplit(signed_url)
        self.server = f"{parts.scheme}://{parts.netloc}"
        self.path = parts.path.removesuffix("k")
        self.region = parse_qs(parts.query)["X-Amz-Credential"][0].split("/")[-3]


class Answer:
    """An answer whose body is still to be read. Close it; the connection is kept if the body was read to its end."""

    def __init__(self, response: urllib3.BaseHTTPResponse, wait_s: float) -> None:
        self._response = response
        self._wait_s = wait_s
        self.status = response.status

    def header(self, name: str) -> str | None:
        """A header of the answer."""
        return self._response.headers.get(name)

    def read_into(self, into: memoryview, deadline: Deadline) -> int:
        """Fill `into`, or as much of it as the body has; how much. Raises Failed."""
        at = 0
        try:
            while at < len(into):
                self._wait_no_longer_than(deadline)
                piece = self._response.read1(min(len(into) - at, _PIECE_BYTES), decode_content=False)
                if not piece:
                    break
                into[at : at + len(piece)] = piece
                at += len(piece)
        except (HTTPError, OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(f"an answer cut at byte {at} of {len(into)} ({type(error).__name__})") from error
        return at

    def close(self) -> None:
        """Give the connection back, or end it if a part of the body is still to come."""
        if self._response.length_remaining == 0:
            self._response.release_conn()  # nothing, if the reading of the last byte did it
        else:
            self._response.close()

    def _wait_no_longer_than(self, deadline: Deadline) -> None:
        left_s = deadline.left_s()
        if left_s == 0:
            raise TimeoutError
        socket = getattr(self._response.connection, "sock", None)
        if left_s < self._wait_s and socket is not None:
            socket.settimeout(left_s)


class _UnsignedBodyAuth(S3SigV4Auth):  # type: ignore[misc]
    """Signature version 4 over address and headers. Hashing the body too would cost more than sending it."""

    def payload(self, request: Any) -> str:
        """What stands for the body's hash: the bodies bear checksums of their own."""
        return str(UNSIGNED_PAYLOAD)


def _pieces(body: bytes | bytearray, deadline: Deadline) -> Iterator[memoryview]:
    """A body in pieces: each may take one wait, all may take until the deadline."""
    view = memoryview(body)
    for at in range(0, len(view), _PIECE_BYTES):
        if deadline.passed():
            raise TimeoutError
        yield view[at : at + _PIECE_BYTES]


def _refused(response: urllib3.BaseHTTPResponse, answer: Answer, deadline: Deadline) -> Failed:
    body = bytearray(_LONGEST_ERROR)
    with suppress(Failed):
        answer.read_into(memoryview(body), deadline)
    answer.close()
    code, message = _CODE.search(body), _MESSAGE.search(body)
    found = code[1].decode() if code else str(response.status)
    text = message[1].decode(errors="replace") if message else (response.reason or "")
    if region := answer.header("x-amz-bucket-region"):
        text = f"{text} (the bucket's region is {region})"
    return Failed(f"HTTP {response.status} {found}: {text}"[:300], status=response.status, code=found)
