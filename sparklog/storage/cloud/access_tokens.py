"""Google's access tokens."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Final

import google.auth
import requests
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from google.auth.transport.requests import Request

from sparklog.core.errors import StoreUnavailable
from sparklog.storage.cloud.failures import CloudFailure, CloudRequestFailed
from sparklog.storage.cloud.send_once import CONNECT_S, TOKEN_S

SCOPE: Final = "https://www.googleapis.com/auth/devstorage.full_control"


class AccessTokens:
    """The access tokens of one set of credentials. Thread-safe.

    `credentials`: None to use Google's application default credentials.
    """

    def __init__(self, credentials: Any = None) -> None:
        self._credentials = credentials
        self._renewing = threading.Lock()

    def headers(self, timeout_s: float) -> dict[str, str]:
        """Return the headers that authorize a request.

        If a token must be fetched, one caller does that, and the others wait at most `timeout_s`. Each request for a
        token ends within `timeout_s` too, but a first search for credentials may send several. Raises StoreUnavailable
        if there are no credentials, and CloudRequestFailed if the token does not come in time or can't be fetched.
        """
        if not (self._credentials and self._credentials.valid):
            if not self._renewing.acquire(timeout=timeout_s):
                raise CloudRequestFailed(CloudFailure.NOT_DONE, "no access token in time")
            try:
                self._renew(timeout_s)
            except Exception as error:  # Google's libraries also raise what an odd answer leads to, such as TypeError
                raise _no_token(error) from error
            finally:
                self._renewing.release()
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return headers

    def _renew(self, timeout_s: float) -> None:
        request: Any = partial(Request(), timeout=(CONNECT_S, min(timeout_s, TOKEN_S)))
        credentials = self._credentials or google.auth.default(scopes=[SCOPE], request=request)[0]
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
    if isinstance(reason, requests.Timeout):
        return CloudRequestFailed(CloudFailure.NOT_DONE, "no access token in time")
    refused = isinstance(error, RefreshError) and not error.retryable and not isinstance(reason, TransportError)
    return CloudRequestFailed(CloudFailure.DENIED if refused else CloudFailure.NOT_DONE, f"no access token: {reason}")
