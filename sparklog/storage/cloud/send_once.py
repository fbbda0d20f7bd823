"""HTTP requests to clouds: each is sent at most once, and ends by its own deadline.

The SDKs of Google and Azure send through sessions of the package `requests`. These sessions use `SendOnce`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from http.client import HTTPException
from typing import Any, Final, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, NewConnectionError

from sparklog.host.deadline import Deadline
from sparklog.storage.cloud.failures import CloudFailure, CloudRequestFailed

CONNECT_S: Final = 5.0
TOKEN_S: Final = 10.0  # the longest wait of a request for an access token
_IDLE: Final = 64  # connections kept for the next request
SENT_BYTES: Final = 64 * 1024  # of a body, in one call of the socket: that call lasts at most CONNECT_S
_READ_BYTES: Final = 256 * 1024
# Environment variables where the clouds' libraries look for accounts, credentials and addresses.
_VARIABLES: Final = ("GOOGLE_", "STORAGE_EMULATOR_HOST", "AZURE_", "IDENTITY_", "MSI_")

Client = TypeVar("Client")


def client_of(make: Callable[..., Client], *settings: object) -> Client:
    """Return this process's client for `settings` and the current environment variables.

    The first call for them gets it from `make`, and it is kept until the process ends, or until `forget_clients`. The
    `settings` must be hashable. A forked process makes its own clients, because connections can't be shared.
    """
    here = tuple(sorted(variable for variable in os.environ.items() if variable[0].startswith(_VARIABLES)))
    client: Client = _client(make, settings, os.getpid(), here)
    return client


@cache
def _client(make: Callable[..., Any], settings: tuple[object, ...], process: int, variables: object) -> Any:
    return make(*settings)


def forget_clients() -> None:
    """Drop this process's clients. A store first used later gets a new one; a store in use keeps its own."""
    _client.cache_clear()


def new_session(try_s: float) -> requests.Session:
    """Return a session that sends each request once. `try_s`: the longest wait for the next bytes of an answer.

    Thread-safe. The read timeout of each request must be given: it limits the whole request.
    """
    session = requests.Session()
    session.auth = _as_signed
    session.headers["Accept-Encoding"] = "identity"
    for scheme in ("https://", "http://"):
        session.mount(scheme, SendOnce(try_s))
    return session


def _as_signed(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Leave the request as it is: without this function, requests would replace its signature by one from ~/.netrc."""
    return request


class SendOnce(HTTPAdapter):
    """Sends each request once and reads its whole answer.

    Raises CloudRequestFailed if there is no whole answer, or a redirect. No library above sends another request then.
    """

    def __init__(self, try_s: float) -> None:
        super().__init__(pool_maxsize=_IDLE, max_retries=0)
        self._try_s = try_s

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Send a request. `timeout` is a pair; its second value limits the whole request, in seconds."""
        handled = sys.exception()  # of a caller: no cause of what fails here
        total_s = max(0.001, timeout[1])
        deadline = Deadline(round(total_s * 1000))
        body = _SentBody(request.body, deadline) if request.body else None
        request.body = body  # type: ignore[assignment]
        limits: Any = urllib3.Timeout(total=total_s, connect=CONNECT_S, read=self._try_s)
        try:
            answer = super().send(request, stream=True, timeout=limits, verify=verify, cert=cert, proxies=proxies)
        except (OSError, HTTPError, HTTPException) as error:
            raise _failed(error, handled, sent=body.begun if body else not _is_unconnected(error)) from error
        try:
            answer.raw = _Content(b"".join(_parts(answer.raw, self._try_s, deadline)))
        except (OSError, HTTPError, HTTPException) as error:
            answer.close()
            raise _failed(error, handled, sent=True) from error
        if answer.is_redirect:
            raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, f"HTTP {answer.status_code}: a redirect")
        return answer


class _SentBody:
    """A request's body, sent in small pieces: a slow connection has until the deadline, but a stalled one fails early.

    `begun`: True once a connection asked for the first bytes.
    """

    def __init__(self, body: Any, deadline: Deadline) -> None:
        text = body.encode() if isinstance(body, str) else body
        self._body = io.BytesIO(text) if isinstance(text, bytes) else text
        self._deadline = deadline
        self.begun = False

    def read(self, _: int) -> bytes:
        """The next bytes; b"" at the end. Raises TimeoutError after the deadline."""
        self.begun = True
        if self._deadline.passed():
            raise TimeoutError
        return bytes(self._body.read(SENT_BYTES))


class _Content(io.BytesIO):
    """The body of an answer. It accepts the attributes that the libraries set on an open connection's answer."""


def _parts(raw: Any, try_s: float, deadline: Deadline) -> Iterator[bytes]:
    """Yield the body of an answer as it arrives. Raises TimeoutError at the deadline."""
    while True:
        left_s = deadline.left_s()
        if left_s == 0:
            raise TimeoutError
        if raw.connection is not None and raw.connection.sock is not None:
            raw.connection.sock.settimeout(min(try_s, left_s))
        part = raw.read1(_READ_BYTES)
        if not part:
            return
        yield part


def _is_unconnected(error: BaseException) -> bool:
    """True if `error` of requests says that there was no connection."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, NewConnectionError)


def _failed(error: BaseException, handled: BaseException | None, *, sent: bool) -> CloudRequestFailed:
    """Classify the failure of a request without a whole answer. `sent`: the server may have got all of it."""
    kind = CloudFailure.NO_ANSWER if sent else CloudFailure.NOT_DONE
    causes = list(_causes(error, handled))
    system = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), None)
    if system is None and any(isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError) for cause in causes):
        return CloudRequestFailed(kind, "no answer in time")
    return CloudRequestFailed(kind, f"{system or 'the connection broke'} ({type(causes[-1]).__name__})")


def _causes(error: BaseException | None, handled: BaseException | None) -> Iterator[BaseException]:
    while error is not None and error is not handled:
        yield error
        error = error.__cause__ or error.__context__
