"""The outcome of one request to S3, classified by HTTP status and error code, never by the text of an error."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from typing import Any, Final

from sparklog.core.errors import (
    MAKE_ROOM,
    InvalidInput,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.storage.conditional_write import RequestFailed

_LONGEST_REASON = 200

# The server got the request but can't do it now. 409 means that another write to the key is in progress.
_BUSY: Final = frozenset({408, 409, 425, 429})
_ABSENT: Final = frozenset({"NoSuchKey", "NoSuchVersion", "NoSuchUpload"})
_KEYS_WRONG: Final = frozenset(
    {
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidToken",
        "ExpiredToken",
        "TokenRefreshRequired",
        "InvalidSecurity",
        "NotSignedUp",
        "AccountProblem",
    }
)
_FULL: Final = frozenset({"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"})


class S3RequestFailed(RequestFailed):
    """One request that did not succeed.

    `status`: the HTTP status; None without an answer. `code`: S3's name for the error, if the answer has one. `sent`:
    False if the request certainly never reached a server. `reason`: one line without secrets.
    """

    def __init__(self, reason: str, *, status: int | None = None, code: str | None = None, sent: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.code = code
        self.sent = sent
        self.not_s3 = False  # something answered, but not as S3 does
        self.hopeless = False  # a repeat would fail the same way

    @property
    def exists(self) -> bool:
        """True if a conditional write found its key taken."""
        return self.status == 412

    @property
    def absent(self) -> bool:
        """True if S3 itself says that the key, or the upload, is not there. Another server's 404 does not count."""
        return self.status == 404 and self.code in _ABSENT

    @property
    def upload_gone(self) -> bool:
        """True if S3 no longer has the upload to which the request belongs."""
        return self.code == "NoSuchUpload"

    @property
    def may_pass(self) -> bool:
        """True if the same request may succeed when it is sent again."""
        if self.hopeless:
            return False
        if self.status is None or self.not_s3 or self.status in _BUSY or self.code == "RequestTimeout":
            return True
        if self.status == 404:  # S3 itself would give one of its codes; a 404 without one comes from elsewhere
            return self.code not in _ABSENT and self.code != "NoSuchBucket"
        return self.status >= 500 and self.status not in (501, 507)

    @property
    def in_doubt(self) -> bool:
        """True if the failed write may have been carried out: it was sent, and S3 did not refuse it for good."""
        return self.sent and self.may_pass

    def error(self, wanted: str, bucket: str, endpoint: str, *, writing: bool) -> SparklogError:
        """Return the error to raise to the store's caller, for a request that wrote nothing.

        `wanted` is the request in words, such as "read a/b"; `writing` is True if it is a write.
        """
        where = f"wanted to {wanted} at {endpoint}"
        if self.code == "NoSuchBucket":
            return InvalidInput(f"{where}, found no bucket {bucket!r} there: make it first, or correct the address")
        if self.code == "RequestTimeTooSkewed":
            return InvalidInput(f"{where}, found that this machine's clock is too far from the store's: set it right")
        if self.code in _KEYS_WRONG:
            return InvalidInput(f"{where}, found that its access keys are not accepted ({self.code})")
        if self.status == 507 or self.code in _FULL:
            return StoreFull(f"{where}, found no room there ({self.reason}); {MAKE_ROOM}")
        if self.not_s3 or (self.status == 404 and not self.absent):
            return StoreUnavailable(f"{where}, found that it does not answer as S3 does: {self.reason}")
        if self.status in (401, 403):
            if writing:
                return StoreReadOnly(f"{where}, found that these access keys may not write there ({self.reason})")
            return StoreAccessDenied(
                f"{where}, found that these access keys may not read there ({self.reason}); "
                "S3 also answers this for an absent object if they may not list the bucket"
            )
        if self.status in (301, 307, 308):
            return InvalidInput(
                f"{where}, found that the bucket {bucket!r} is elsewhere: correct region or endpoint_url"
            )
        if self.hopeless or not self.may_pass:
            return InvalidInput(f"{where}, found: {self.reason}")
        return StoreUnavailable(f"{where}, found: {self.reason}")


def not_s3(reason: str, status: int | None = None) -> S3RequestFailed:
    """The failure for an answer that no S3 server gives; a proxy, for example, may have sent it."""
    failed = S3RequestFailed(reason, status=status)
    failed.not_s3 = True
    return failed


def sorted_failure(error: BaseException) -> S3RequestFailed:
    """Classify an exception of s3fs, aiobotocore, asyncio, http.client or a socket."""
    from botocore import exceptions

    if isinstance(error, S3RequestFailed):
        return error
    if isinstance(error.__cause__, exceptions.ClientError):
        error = error.__cause__  # s3fs wraps it in an OSError, which hides the status
    if isinstance(error, exceptions.ClientError):
        return _of_answer(error.response)
    if isinstance(error, TimeoutError):
        return S3RequestFailed("no answer in time")
    if isinstance(error, http.client.HTTPException) and not isinstance(error, ConnectionError):
        return not_s3("an answer that is not HTTP")
    # Even EndpointConnectionError can come from a connection that was reset after the whole request was sent.
    if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError | OSError):
        cause = error.kwargs.get("error") if isinstance(error, exceptions.BotoCoreError) else error
        return S3RequestFailed(_cause_of(cause, error), sent=not _is_unconnected(cause, error))
    # These errors are permanent: no credentials, no such profile, an illegal parameter.
    if isinstance(error, exceptions.BotoCoreError) and not _is_of_answer(error):
        failed = S3RequestFailed(_shortened(str(error)), sent=False)
        failed.hopeless = True
        return failed
    return not_s3(f"an answer that is not S3's ({type(error).__name__})")


def _of_answer(response: dict[str, Any]) -> S3RequestFailed:
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = str(response.get("Error", {}).get("Code", ""))
    message = str(response.get("Error", {}).get("Message", ""))
    failed = S3RequestFailed(_shortened(f"HTTP {status} {code}: {message}"), status=status, code=code)
    # S3 never answers with an error and a success status: botocore found no error code in the body.
    if status is not None and status < 300:
        failed.not_s3 = True
    return failed


def _is_of_answer(error: Exception) -> bool:
    from botocore import exceptions, parsers

    return isinstance(
        error,
        parsers.ResponseParserError
        | exceptions.IncompleteReadError
        | exceptions.FlexibleChecksumError
        | exceptions.ResponseStreamingError,
    )


def _is_unconnected(cause: object, error: BaseException) -> bool:
    """True if the connection failed before a byte of the request could be sent."""
    import aiohttp
    from botocore import exceptions

    return isinstance(error, exceptions.ProxyConnectionError) or isinstance(
        cause,
        # ClientConnectorError also covers TLS that fails before the request, such as a refused certificate.
        aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | socket.gaierror | ConnectionRefusedError,
    )


def _cause_of(cause: object, error: BaseException) -> str:
    """Describe a failed connection in one line, without the requested address, which may contain a signature."""
    os_error = getattr(cause, "os_error", cause)
    if not isinstance(os_error, OSError):
        os_error = getattr(os_error, "__cause__", None) or getattr(os_error, "__context__", None)
    if isinstance(os_error, OSError) and os_error.errno is not None:
        own = isinstance(os_error, socket.gaierror | ssl.SSLError)  # their numbers are not errnos
        text = os_error.strerror if own else os.strerror(os_error.errno)
        return f"{text or type(os_error).__name__} ({type(error).__name__})"
    return type(error).__name__ if cause in (None, error) else f"{type(error).__name__} ({type(cause).__name__})"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"
