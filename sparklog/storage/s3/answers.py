"""What came of one request to S3, sorted by HTTP status and error code, never by the text of an error."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from typing import Any, Final

from sparklog.core.errors import (
    InvalidInput,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_LONGEST_REASON = 200

# The server took the request and may do it at another time: 408 and 429 say so, 409 is another write at work.
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


class Failed(Exception):
    """One request that did not do what it was for.

    `status`: of the answer, None if there was none. `code`: S3's name for it, if it gave one. `sent`: False if the
    request surely never reached a server. `reason`: one line without secrets.
    """

    def __init__(self, reason: str, *, status: int | None = None, code: str | None = None, sent: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.code = code
        self.sent = sent
        self.not_s3 = False  # something answered, but not as S3 does
        self.hopeless = False  # a repeat fails the same way

    @property
    def exists(self) -> bool:
        """The key was taken when a write arrived that wanted it absent."""
        return self.status == 412

    @property
    def absent(self) -> bool:
        """Nothing is under the key, or the upload is gone: S3 itself says so, not just anybody's 404."""
        return self.status == 404 and self.code in _ABSENT

    @property
    def may_pass(self) -> bool:
        """The same request may work when it is sent again."""
        if self.hopeless:
            return False
        if self.status is None or self.not_s3 or self.status in _BUSY or self.code == "RequestTimeout":
            return True
        if self.status == 404:  # what S3 says of a write, or of a read, is NoSuchBucket or NoSuchKey
            return self.code not in _ABSENT and self.code != "NoSuchBucket"
        return self.status >= 500 and self.status not in (501, 507)

    @property
    def in_doubt(self) -> bool:
        """A write may have been done: only an answer that refuses it for good, or no connection, rules that out."""
        return self.sent and self.may_pass

    def error(self, wanted: str, bucket: str, endpoint: str, *, writing: bool) -> SparklogError:
        """The error for a caller: one sentence. Nothing was written."""
        where = f"wanted to {wanted} at {endpoint}"
        if self.code == "NoSuchBucket":
            return InvalidInput(f"{where}, found no bucket {bucket!r} there: make it first, or correct the address")
        if self.code == "RequestTimeTooSkewed":
            return InvalidInput(f"{where}, found that this machine's clock is too far from the store's: set it right")
        if self.code in _KEYS_WRONG:
            return InvalidInput(f"{where}, found that its access keys are not accepted ({self.code})")
        if self.status == 507 or self.code in _FULL:
            return StoreFull(f"{where}, found no room there ({self.reason})")
        if self.not_s3 or (self.status == 404 and not self.absent):
            return StoreUnavailable(f"{where}, found that it does not answer as S3 does: {self.reason}")
        if self.status in (401, 403):
            if writing:
                return StoreReadOnly(f"{where}, found that these access keys may not write there ({self.reason})")
            return StoreAccessDenied(
                f"{where}, found that these access keys may not read there ({self.reason}); "
                "S3 says so of an absent object, too, if they may not list the bucket"
            )
        if self.status in (301, 307, 308):
            return InvalidInput(
                f"{where}, found that the bucket {bucket!r} is elsewhere: correct region or endpoint_url"
            )
        if self.hopeless or not self.may_pass:
            return InvalidInput(f"{where}, found: {self.reason}")
        return StoreUnavailable(f"{where}, found: {self.reason}")


def not_s3(reason: str, status: int | None = None) -> Failed:
    """The answer is none that an S3 server gives; it may have come from something in between."""
    failed = Failed(reason, status=status)
    failed.not_s3 = True
    return failed


def sorted_failure(error: BaseException) -> Failed:
    """What an exception of s3fs, aiobotocore, asyncio, http.client or a socket means."""
    from botocore import exceptions

    if isinstance(error, Failed):
        return error
    if isinstance(error.__cause__, exceptions.ClientError):
        error = error.__cause__  # s3fs makes it an OSError, which hides the status
    if isinstance(error, exceptions.ClientError):
        return _of_answer(error.response)
    if isinstance(error, TimeoutError):
        return Failed("no answer in time")
    if isinstance(error, http.client.HTTPException) and not isinstance(error, ConnectionError):
        return not_s3("an answer that is not HTTP")
    # EndpointConnectionError, too, comes of a connection that was reset after the whole request was sent.
    if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError | OSError):
        cause = error.kwargs.get("error") if isinstance(error, exceptions.BotoCoreError) else error
        return Failed(_cause_of(cause, error), sent=not _is_unconnected(cause, error))
    # What fails the same way the next time: no credentials, no such profile, an illegal parameter.
    if isinstance(error, exceptions.BotoCoreError) and not _is_of_answer(error):
        failed = Failed(_shortened(str(error)), sent=False)
        failed.hopeless = True
        return failed
    return not_s3(f"an answer that is not S3's ({type(error).__name__})")


def _of_answer(response: dict[str, Any]) -> Failed:
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = str(response.get("Error", {}).get("Code", ""))
    message = str(response.get("Error", {}).get("Message", ""))
    failed = Failed(_shortened(f"HTTP {status} {code}: {message}"), status=status, code=code)
    # botocore puts the status where a body had no code that it could read.
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
    """Whether it failed before a byte of the request could be sent."""
    import aiohttp
    from botocore import exceptions

    return isinstance(error, exceptions.ProxyConnectionError) or isinstance(
        cause,
        # The first one also of TLS, if it fails before the request: a certificate that is refused.
        aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | socket.gaierror | ConnectionRefusedError,
    )


def _cause_of(cause: object, error: BaseException) -> str:
    """One line about a connection, without the address that was asked for (it may carry a signature)."""
    os_error = getattr(cause, "os_error", cause)
    if not isinstance(os_error, OSError):
        os_error = getattr(os_error, "__cause__", None) or getattr(os_error, "__context__", None)
    if isinstance(os_error, OSError) and os_error.errno is not None:
        own = isinstance(os_error, socket.gaierror | ssl.SSLError)  # numbers of their own
        text = os_error.strerror if own else os.strerror(os_error.errno)
        return f"{text or type(os_error).__name__} ({type(error).__name__})"
    return type(error).__name__ if cause in (None, error) else f"{type(error).__name__} ({type(cause).__name__})"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"
