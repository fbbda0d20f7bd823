"""Requests to a coordinator, with this process's token, over verified TLS. Each ends in a reply or one error.

A request is sent again at most once: with a new token, after the old one was refused. No redirect is followed.
"""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import (
    InvalidInput,
    InvalidOption,
    Landed,
    SparklogError,
    StoreUnavailable,
    TlsFailed,
    TryAgain,
)
from sparklog.wire.error_messages import ErrorReply, raised
from sparklog.wire.messages import CONTENT_TYPE
from sparklog.wire.metadata_messages import CHAIN_HEADER
from sparklog.wire.this_machine import is_this_machine

if TYPE_CHECKING:  # at run time imported with the first request: without coordinators, most processes send none
    import urllib3

T = TypeVar("T")

CONNECT_S: Final = 2.0
CONNECTIONS: Final = 1_000  # kept open per address: one for each thread that reads, commits or waits at the same time
_TOKEN: Final = re.compile(r"[!-~]+")

# OpenSSL's numbers of invalid certificates (X509_V_ERR_…), which the advice depends on.
_EXPIRED, _NOT_YET, _HOST, _ADDRESS = 10, 9, 62, 64
_UNTRUSTED: Final = (2, 18, 19, 20, 21)
# OpenSSL's reasons for a reply that is not TLS at all.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG")
# A server that is no coordinator and answers with these statuses has forwarded nothing.
_NOT_DONE: Final = (404, 405)


class NoCoordinatorAnswers(StoreUnavailable):
    """A coordinator could not be reached, or did not answer."""

    code = TryAgain.code


class NoCoordinator(InvalidInput):
    """The server at the address is not a coordinator, or its reply can't be read: it may run another version."""


class Calls:
    """Sends requests to coordinators, with this process's token. Thread-safe.

    `settings` returns this process's settings. It is called again when a token was refused, so a long-running process
    picks up a new token from its config file.
    """

    def __init__(self, settings: Callable[[], StorageSettings]) -> None:
        self._settings = settings
        self._used = settings()
        self._pools: dict[str, urllib3.PoolManager] = {}
        self._changing = threading.Lock()

    def request(
        self,
        method: str,
        address: str,
        path: str,
        *,
        read_s: float,
        body: bytes | None = None,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] = {},
    ) -> urllib3.BaseHTTPResponse:
        """Send a request, and return the answer whatever its status (see `body_of`).

        `read_s`: the longest wait for the answer, in seconds. `fields`: the parameters of the query. Raises
        NoCoordinatorAnswers or TlsFailed if no answer came; the error's `landed` says whether the request may have been
        carried out. Raises InvalidOption for an unusable token or file of certificates.
        """
        import urllib3

        used = self._used

        def send(used: StorageSettings) -> urllib3.BaseHTTPResponse:
            with_token = {**headers, **_authorization(used.token, address)}
            timeout = urllib3.Timeout(connect=CONNECT_S, read=read_s)
            try:
                return self._pool(address, used.ca).request(
                    method, address + path, body=body, fields=fields, headers=with_token, timeout=timeout
                )
            except urllib3.exceptions.HTTPError as error:
                raise _no_reply(address, error, Landed.NO if method == "GET" else Landed.UNKNOWN) from error

        answer = send(used)
        if answer.status == 401 and self._renewed(used):
            answer = send(self._used)
        return answer

    def _renewed(self, used: StorageSettings) -> bool:
        """Read this process's settings again. Return True if the token is not the one in `used`."""
        now = self._settings()
        with self._changing:
            self._used, self._pools = now, {} if now.ca != self._used.ca else self._pools
        return now.token != used.token

    def _pool(self, address: str, ca: str | None) -> urllib3.PoolManager:
        import urllib3

        scheme = address.partition(":")[0]
        with self._changing:
            pool = self._pools.get(scheme)
            if pool is None:
                context = _trusting(ca) if scheme == "https" else None  # it loads all the system's certificates
                pool = self._pools[scheme] = urllib3.PoolManager(
                    maxsize=CONNECTIONS, retries=False, ssl_context=context
                )
            return pool


def body_of(reply: urllib3.BaseHTTPResponse, address: str, path: str) -> bytes:
    """Return the body of a coordinator's reply, or raise the error that the reply holds.

    Raises NoCoordinator if something other than a coordinator answered. The `landed` of this error says whether that
    server may have passed the request on to a coordinator.
    """
    kind = reply.headers.get("content-type")
    if reply.status in (200, 206) and (kind == CONTENT_TYPE or CHAIN_HEADER in reply.headers):
        return reply.data
    if reply.status < 400 or kind != CONTENT_TYPE:
        raise NoCoordinator(
            f"wanted a coordinator at {address}, found a server that answers {reply.status} to {path}: "
            "correct the address, or start 'sparklog coordinator' there",
            landed=Landed.NO if reply.status in _NOT_DONE else Landed.UNKNOWN,
        )
    raise raised(decoded(reply.data, ErrorReply, address))


def decoded(body: bytes, kind: type[T], address: str) -> T:
    """Decode a reply of type `kind`. If that is impossible, raises NoCoordinator, whose `landed` is UNKNOWN."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise NoCoordinator(
            f"the reply of {address} can't be read, maybe it runs another version: {error}", landed=Landed.UNKNOWN
        ) from error


def _authorization(token: str | None, address: str) -> dict[str, str]:
    """Return the header with the token; {} without a token.

    Raises TlsFailed if `address` is an http:// address of another machine: a token is sent there only over TLS. Raises
    InvalidOption for an illegal token.
    """
    if token is None:
        return {}
    if _TOKEN.fullmatch(token) is None:  # checked here, because a library's error would show the token
        raise InvalidOption("cluster.token (SPARKLOG_TOKEN): wanted one line of ASCII without spaces, found another")
    from urllib3.util import parse_url

    if not address.startswith("https://") and not is_this_machine(parse_url(address).host or ""):
        raise TlsFailed(f"a token is sent over TLS or to this machine only, found {address}: use its https:// address")
    return {"authorization": f"Bearer {token}"}


def _trusting(ca: str | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates in the file `ca`, or the system's if `ca` is None.

    Each certificate in the file is trusted as it is, even if it is not a CA's: a coordinator gives its jobs its own.
    Raises InvalidOption if the file can't be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
        if ca is not None:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    except OSError as error:  # no file, or no certificates in it
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise InvalidOption(
            f"cluster.ca (SPARKLOG_CA): wanted a file of certificates in PEM, found {ca}: {reason}"
        ) from error


def _no_reply(address: str, error: urllib3.exceptions.HTTPError, landed: Landed) -> SparklogError:
    """Return the error for a request that got no reply.

    The error gets the given `landed`, or NO if no connection was made.
    """
    import urllib3

    if isinstance(error, urllib3.exceptions.SSLError):
        return _tls_failed(address, error, landed)
    if isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
        return NoCoordinatorAnswers(
            f"no coordinator answers at {address}: {_plain(error)}; start one there with 'sparklog coordinator', or "
            "correct the address"
        )
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        hint = "; if its process hangs, kill it and start it again"
    else:
        hint = "" if address.startswith("https") else f"; if it speaks TLS, its address is https://{address[7:]}"
    return NoCoordinatorAnswers(f"{address} did not answer: {_plain(error)}{hint}", landed=landed)


def _plain(error: Exception) -> str:
    """Return the reason for `error` as text, without the library's names of classes and objects."""
    reason = error.__cause__ or error
    return (getattr(reason, "strerror", None) or str(reason)).strip()


def _tls_failed(address: str, error: urllib3.exceptions.SSLError, landed: Landed) -> TlsFailed:
    cause = error.args[0] if error.args else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TlsFailed(
            f"{address}: its certificate is not valid here: {cause.verify_message.rstrip('.')}; {_advice(cause)}"
        )
    if getattr(cause, "reason", None) in _NOT_TLS:
        return TlsFailed(
            f"{address} does not speak TLS: if a coordinator is there, its address is "
            f"http://{address.partition('://')[2]}"
        )
    return TlsFailed(f"{address}: the TLS connection failed: {cause}", landed=landed)


def _advice(cause: ssl.SSLCertVerificationError) -> str:
    if cause.verify_code == _EXPIRED:
        return "renew it there, which needs no restart"
    if cause.verify_code == _NOT_YET:
        return "compare the clocks of both machines"
    if cause.verify_code in (_HOST, _ADDRESS):
        return "use a host name that is in it, also for --advertise"
    if cause.verify_code in _UNTRUSTED:
        return "set SPARKLOG_CA (cluster.ca) to the certificate of its CA"
    return "see the coordinator's --tls-certificate"
