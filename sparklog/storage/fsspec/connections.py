"""Classifies the failure of a request that got no answer, or an answer that can't be read."""

from __future__ import annotations

import os

import aiohttp

from sparklog.storage.fsspec.failures import CloudFailure, CloudRequestFailed


def connection_failure(error: BaseException) -> CloudRequestFailed:
    """Classify an exception of aiohttp, asyncio or a socket, even if a library's own error wraps it."""
    cause = error
    while not isinstance(cause, aiohttp.ClientError | OSError) and cause.__cause__ is not None:
        cause = cause.__cause__
    # ClientConnectorError also covers TLS that fails before the request, such as a refused certificate.
    if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        system = cause.os_error if isinstance(cause, aiohttp.ClientConnectorError) else None
        text = os.strerror(system.errno) if system and system.errno and system.errno > 0 else str(system or "no answer")
        return CloudRequestFailed(CloudFailure.NOT_DONE, f"{text} ({type(cause).__name__})")
    if isinstance(cause, TimeoutError):
        return CloudRequestFailed(CloudFailure.NO_ANSWER, "no answer in time")
    if isinstance(cause, aiohttp.ClientError | OSError):
        return CloudRequestFailed(CloudFailure.NO_ANSWER, f"the connection broke ({type(cause).__name__})")
    return CloudRequestFailed(CloudFailure.NOT_THE_STORE, f"an answer that can't be read ({type(error).__name__})")
