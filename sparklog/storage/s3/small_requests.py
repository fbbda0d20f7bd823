"""Small requests that may be sent again, through s3fs's public calls: listings, deletes, the beginning of uploads.

s3fs's own errors do not say enough about the outcome, so this module looks at their cause, the error of botocore.
s3fs's `cat_file` and `find` are not used to read and list objects, because they mistake a web page for an answer of S3
(docs/stores.md).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import fsspec.asyn
import s3fs

from sparklog.host.deadline import Deadline
from sparklog.storage.s3.answers import sorted_failure
from sparklog.storage.s3.aws_session import addressing, new_async_session, region_of
from sparklog.storage.s3.settings import S3Settings

_CONNECT_TIMEOUT_S: Final = 5.0
_CONNECTIONS: Final = 32
_CLOSE_S: Final = 1.0


class SmallRequests:
    """s3fs for one set of settings. Thread-safe; belongs to one process."""

    def __init__(self, settings: S3Settings, try_s: float) -> None:
        session = new_async_session(settings.profile)
        encryption = {"ServerSideEncryption": settings.encryption, "SSEKMSKeyId": settings.kms_key_id}
        self._try_s = try_s
        self._files = _S3Files(
            skip_instance_cache=True,
            use_listings_cache=False,
            endpoint_url=settings.endpoint_url,
            key=settings.access_key_id,
            secret=settings.secret_access_key,
            token=settings.session_token,
            requester_pays=settings.request_payer is not None,
            s3_additional_kwargs={name: value for name, value in encryption.items() if value is not None},
            client_kwargs=region_of(settings),
            config_kwargs={
                "connect_timeout": min(_CONNECT_TIMEOUT_S, try_s),
                "read_timeout": try_s,
                "retries": {"mode": "standard", "total_max_attempts": 1},
                "max_pool_connections": _CONNECTIONS,
                "signature_version": "s3v4",
                # Bodies carry their own checksums, and older servers refuse a second one.
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
                "s3": addressing(session, settings),
            },
            session=session,
        )
        self._files.connect()
        self.endpoint = str(self._files.s3.meta.endpoint_url)

    def call(self, operation: str, deadline: Deadline, **parameters: object) -> dict[str, Any]:
        """Send a request for `operation`, a method of botocore's S3 client, and return the answer.

        Raises S3RequestFailed, at the latest at the deadline.
        """
        return self._sent(self._files.call_s3, deadline, operation, **parameters)

    def signed_url(self, bucket: str) -> str:
        """Return a signed URL of the dummy key `k`: it shows the bucket's server, path and region.

        Raises S3RequestFailed.
        """
        try:
            return str(self._files.url(f"{bucket}/k"))
        except Exception as error:
            raise sorted_failure(error) from error

    def close(self) -> None:
        """Close the connections."""
        with suppress(Exception):
            fsspec.asyn.sync(self._files.loop, self._files.s3.close, timeout=_CLOSE_S)

    def _sent(self, call: Any, deadline: Deadline, *given: object, **named: object) -> dict[str, Any]:
        try:
            # A timeout of 0 would mean no limit at all.
            answer = call(*given, timeout=max(0.001, min(deadline.left_s(), self._try_s)), **named)
        except Exception as error:
            raise sorted_failure(error) from error
        return answer or {}  # None: the request was cancelled


class _S3Files(s3fs.S3FileSystem):  # type: ignore[misc]
    """s3fs that leaves repeats to us, and at exit does not close the connections of a parent process."""

    retries = 1

    @staticmethod
    def close_session(loop: Any, s3: Any) -> None:
        """Close the connections at process exit, as s3fs does, but not those of a parent process.

        The parent's event loop does not run here. Both processes share the descriptor through which that loop watches
        its sockets, so closing a socket here would break the parent's connection.
        """
        if loop is fsspec.asyn.loop[0]:
            s3fs.S3FileSystem.close_session(loop, s3)
