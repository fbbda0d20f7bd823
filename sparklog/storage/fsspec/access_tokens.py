"""Google's access tokens, fetched in a thread of their own.

Google's libraries may block for a minute, which would stall an event loop.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Final

import google.auth
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from google.auth.transport.requests import Request

from sparklog.core.errors import StoreUnavailable
from sparklog.host.daemon import in_daemon
from sparklog.storage.fsspec.failures import CloudFailure, CloudRequestFailed

_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.full_control"
_REQUEST_S: Final = 10.0  # Google's libraries would wait for two minutes


class AccessTokens:
    """The access tokens of one set of credentials. Thread-safe.

    `credentials`: None to use Google's application default credentials.
    """

    def __init__(self, credentials: Any = None) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self._refresh: Future[None] | None = None

    def headers(self, timeout_s: float) -> dict[str, str]:
        """Return the headers that authorize a request. Waits at most `timeout_s` if a token must be fetched.

        A slower fetch continues in the background, for the next call. Raises StoreUnavailable if there are no
        credentials, and CloudRequestFailed if the token does not come in time or can't be fetched.
        """
        with self._lock:
            refresh = None if self._credentials and self._credentials.valid else self._begun()
        if refresh is not None:
            wait((refresh,), timeout_s)
            if not refresh.done():
                raise CloudRequestFailed(CloudFailure.NOT_DONE, "no access token in time")
            if error := refresh.exception():
                raise _no_token(error) from error
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return headers

    def _begun(self) -> Future[None]:
        """Return the token refresh in progress, or start one."""
        if self._refresh is None or self._refresh.done():
            self._refresh = in_daemon(self._renew, "sparklog-token")
        return self._refresh

    def _renew(self) -> None:
        request: Any = partial(Request(), timeout=_REQUEST_S)
        credentials = self._credentials or google.auth.default(scopes=[_SCOPE], request=request)[0]
        if not credentials.valid:
            credentials.refresh(request)
        self._credentials = credentials


def _no_token(error: BaseException) -> CloudRequestFailed | StoreUnavailable:
    """The error for a request that was not sent, because fetching its access token failed with `error`."""
    reason = next(iter(error.args), error)
    if isinstance(error, DefaultCredentialsError):
        # A metadata server may begin to answer later, so this error is not permanent.
        return StoreUnavailable(
            "wanted credentials for Google Cloud Storage, found none: set credentials_file or "
            f"GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login ({reason})"
        )
    refused = isinstance(error, RefreshError) and not error.retryable and not isinstance(reason, TransportError)
    return CloudRequestFailed(CloudFailure.DENIED if refused else CloudFailure.NOT_DONE, f"no access token: {reason}")
